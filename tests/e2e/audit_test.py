"""hearth audit on logs that are sound, and on twenty that are not: exit codes, and the fault's name.
hearth ledger policy."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest

import swarm

TOOL = os.environ["HEARTH_LOG_TOOL"]
SEED, OTHER, WITNESS = "01" * 32, "02" * 32, "03" * 32


def make(folder, sizes, seed=SEED):
    subprocess.run([TOOL, "write", folder, seed, sizes, WITNESS], check=True)


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


class Audit(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.log = self.folder / "ledger"
        make(self.log, "256,44,10")

    def audit(self, *words):
        return swarm.hearth("audit", str(self.folder), *words)

    def test_a_sound_log(self):
        code, out, err = self.audit()
        self.assertEqual(code, 0, err)
        self.assertIn("is sound", out)
        self.assertIn("310, each hashed and compared", out)
        self.assertIn("taken from the log itself", out)
        code, out, _ = self.audit("--json")
        found = json.loads(out)
        self.assertEqual((code, found["sound"], found["entries"]), (0, True, 310))
        self.assertEqual(len(found["cosignatures"]), 1)
        code, out, _ = self.audit("--key", found["key"])
        self.assertEqual(code, 0)
        self.assertNotIn("taken from the log", out)
        code, _, _ = swarm.hearth("audit", str(self.log))
        self.assertEqual(code, 0, "the log's own folder is as good")

    def test_twenty_tampered_logs(self):
        log = self.log
        cases = {
            "an entry": (lambda: flip(log / "tile/entries/000", 3), "tile/entries/000: entry "),
            "the last entry": (lambda: flip(log / "tile/entries/001.p/54", -1),
                               "tile/entries/001.p/54: entry 309 at byte "),
            "a length": (lambda: flip(log / "tile/entries/000", 0), "tile/entries/000: its entry "),
            "a hash": (lambda: flip(log / "tile/0/000", 32 * 7), "entry 7 at byte "),
            "a hash above": (lambda: flip(log / "tile/1/000.p/1", 3), "tile/1/000.p/1: the hash"),
            "an older tile": (lambda: flip(log / "tile/0/001.p/44", 5), "tile/0/001.p/44: byte 5"),
            "an older bundle": (lambda: flip(log / "tile/entries/001.p/44", 5),
                                "tile/entries/001.p/44: byte 5"),
            "no bundle": (lambda: (log / "tile/entries/000").unlink(),
                          "tile/entries/000: it is missing"),
            "no tile": (lambda: (log / "tile/0/000").unlink(), "tile/0/000: it is missing"),
            "no tile above": (lambda: (log / "tile/1/000.p/1").unlink(), "tile/1/000.p/1: it is"),
            "no tiles": (lambda: shutil.rmtree(log / "tile"), "it is missing; it begins at entry 0"),
            "no checkpoint": (lambda: (log / "checkpoint").unlink(), "checkpoint: it is missing"),
            "a cut bundle": (lambda: os.truncate(log / "tile/entries/000", 1000), "tile/entries/000"),
            "a cut tile": (lambda: os.truncate(log / "tile/0/000", 8000), "8000 bytes"),
            "an empty tile": (lambda: os.truncate(log / "tile/0/000", 0), "0 bytes"),
            "a cut checkpoint": (lambda: os.truncate(log / "checkpoint", 100), "checkpoint: "),
            "the origin": (lambda: flip(log / "checkpoint", 20), "checkpoint: "),
            "the signature": (lambda: flip(log / "checkpoint", 320), "checkpoint: "),
            "the cosignature": (lambda: flip(log / "checkpoint", -10), "checkpoint: "),
            "two bundles exchanged": (lambda: shutil.copy(log / "tile/entries/001.p/54",
                                                          log / "tile/entries/000"),
                                      "tile/entries/000: "),
            "a folder as a tile": (lambda: ((log / "tile/0/000").unlink(),
                                            (log / "tile/0/000").mkdir()), "tile/0/000"),
        }
        self.assertGreaterEqual(len(cases), 20)
        kept = self.folder / "kept"
        shutil.copytree(log, kept)
        for what, (tamper, named) in cases.items():
            tamper()
            code, out, err = self.audit()
            self.assertEqual((code, out), (6, ""), f"{what}: {err}")
            self.assertIn(named, err, what)
            self.assertIn("evidence", err.splitlines()[-1])
            code, out, _ = self.audit("--json")
            self.assertEqual(code, 6)
            self.assertIn(named, json.loads(out)["fault"])
            shutil.rmtree(log)
            shutil.copytree(kept, log)
        self.assertEqual(self.audit()[0], 0)

    def test_what_is_no_plain_file_is_a_fault(self):
        log = self.log
        kept = self.folder / "kept"
        shutil.copytree(log, kept)
        for name in ("checkpoint", "tile/entries/000", "tile/0/000", "tile/1/000.p/1", "tile"):
            for what in ("loop", "/dev/zero", "a socket", "a file"):
                path = log / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                if what == "a socket":
                    with socket.socket(socket.AF_UNIX) as bound:
                        bound.bind(os.path.relpath(path))
                elif what == "a file":
                    path.write_bytes(b"")
                else:
                    path.symlink_to(path if what == "loop" else what)
                code, out, err = self.audit()
                self.assertEqual((code, out), (6, ""), f"{what} as {name}: {err}")
                shutil.rmtree(log)
                shutil.copytree(kept, log)

    def test_what_a_log_says_does_not_steer_the_terminal(self):
        path = self.log / "checkpoint"
        lines = path.read_bytes().split(b"\n")
        for said in (b"\x1b[2J", b"\xc2\x9b2J", b"\x9b2J\xff"):
            path.write_bytes(b"\n".join([said + lines[0], *lines[1:]]))
            for words in ((), ("--json",)):
                done = subprocess.run([os.environ["HEARTH_BINARY"], "audit", self.folder, *words],
                                      capture_output=True, timeout=swarm.PATIENCE_S)
                self.assertEqual(done.returncode, 6)
                for stream in (done.stdout, done.stderr):
                    text = stream.decode()  # and is UTF-8
                    self.assertFalse([c for c in text if c != "\n" and not c.isprintable()], text)

    def test_another_key_and_another_history(self):
        other = self.folder / "other"
        make(other, "310", OTHER)
        key = json.loads(swarm.hearth("audit", str(other), "--json")[1])["key"]
        code, _, err = self.audit("--key", key)
        self.assertEqual(code, 6)
        self.assertIn("another log", err)
        kept = self.folder / "kept"
        shutil.copy(self.log / "checkpoint", kept)
        self.assertEqual(self.audit("--earlier", str(kept))[0], 0)
        shorter = self.folder / "shorter"
        make(shorter, "300")
        code, _, err = swarm.hearth("audit", str(shorter), "--earlier", str(kept))
        self.assertEqual(code, 6)
        self.assertIn("taken away", err)

    def test_the_books_are_folded(self):
        good, wrong = self.folder / "good", self.folder / "wrong"
        subprocess.run([TOOL, "ledger", good, SEED, ""], check=True)
        code, out, err = swarm.hearth("audit", str(good))
        self.assertEqual(code, 0, err)
        self.assertIn("members: 1; credits in circulation: 5000; open disputes: 0", out)
        books = json.loads(swarm.hearth("audit", str(good), "--json")[1])["books"]
        self.assertEqual((books["members"], books["in_circulation"]), (1, 5000))
        self.assertIn("no ledger entries", self.audit()[1])
        # Signed and hashed as it should be, and yet against the rules.
        for extra, why in (("63" + "00" * 8, "unknown"),
                           ("03" + (1).to_bytes(8, "little").hex() + "01" + "00" * 31, "kind 3|time|key"),
                           ("ff", "too short")):
            shutil.rmtree(wrong, ignore_errors=True)
            subprocess.run([TOOL, "ledger", wrong, SEED, extra], check=True)
            code, out, err = swarm.hearth("audit", str(wrong))
            self.assertEqual((code, out), (6, ""), err)
            self.assertIn("tile/entries/000.p/5: entry 4 at byte ", err)
            self.assertRegex(err, why)

    def test_a_ledger_without_its_rules_is_no_sound_log(self):
        grant = "04" + bytes(8).hex() + "d75a980182b10ab7d54bfed3c964073a" \
            "0ee172f3daa62325af021a68f707511a" + (5).to_bytes(8, "little").hex()
        other = b"of something else".hex()
        for entries, fault in (([grant, grant], 0), ([other, grant], 1), ([other, other, grant], 2),
                               ([other, other], None), ([], None)):
            log = self.folder / "raw"
            shutil.rmtree(log, ignore_errors=True)
            subprocess.run([TOOL, "raw", log, SEED, *entries], check=True)
            code, out, err = swarm.hearth("audit", str(log))
            if fault is None:
                self.assertEqual(code, 0, err)
                self.assertIn("no ledger entries", out)
            else:
                self.assertEqual((code, out), (6, ""), entries)
                self.assertIn(f"entry {fault} at byte ", err)
                self.assertIn("rules", err)

    def test_standings_are_read_from_the_files(self):
        good = self.folder / "standings"
        subprocess.run([TOOL, "ledger", good, SEED, ""], check=True)
        code, out, err = swarm.hearth("ledger", "--folder", str(good))
        self.assertEqual(code, 0, err)
        head, line = out.splitlines()
        self.assertEqual(head.split()[:2], ["NODE", "STANDING"])
        self.assertEqual(line.split(), [line.split()[0], "probation", "0", "0", "0", "100.0", "%",
                                        "0", "5000"])
        everybody = json.loads(swarm.hearth("ledger", "--folder", str(good), "--json")[1])
        [node] = everybody["nodes"]
        self.assertEqual((everybody["entries"], everybody["in_circulation"], node["standing"]),
                         (4, 5000, "probation"))
        top = json.loads(swarm.hearth("ledger", "top", "-n", "1", "--folder", str(good),
                                      "--json")[1])
        self.assertEqual(top["nodes"], [node])
        # By the first digits of its key, as it has no name here.
        code, out, err = swarm.hearth("ledger", node["key"][:8], "--folder", str(good))
        self.assertEqual(code, 0, err)
        for words in (node["key"], "standing  probation", "balance   5000 credits",
                      "joined, vouched for by the cluster", "received a grant (+5000 credits)",
                      "reconnected with another driver"):
            self.assertIn(words, out)
        one = json.loads(swarm.hearth("ledger", node["key"], "--folder", str(good), "--json")[1])
        self.assertEqual([e["event"] for e in one["history"]], ["vouched", "granted", "changed"])
        for unknown in ("stranger", node["key"][:7], "0" * 64):
            code, out, err = swarm.hearth("ledger", unknown, "--folder", str(good))
            self.assertEqual((code, out), (1, ""), err)
            self.assertIn("has no node", err)
        # A bit of it is another one.
        entries = next((good / "tile/entries").glob("000*"))
        entries = next(entries.iterdir()) if entries.is_dir() else entries
        bytes_of = bytearray(entries.read_bytes())
        bytes_of[-1] ^= 1
        entries.write_bytes(bytes_of)
        code, out, err = swarm.hearth("ledger", "--folder", str(good))
        self.assertEqual((code, out), (6, ""), err)
        self.assertIn("not sound", err)

    def test_old_bundles_are_archived_and_the_log_verifies(self):
        log, to, moved = (self.folder / name for name in ("days", "archive", "moved"))
        subprocess.run([TOOL, "ledger", log, SEED, "", "700"], check=True)
        standings = swarm.hearth("ledger", "--folder", log, "--json")
        books = json.loads(swarm.hearth("audit", log, "--json")[1])["books"]
        code, out, err = swarm.hearth("ledger", "archive", log / "in", "--folder", log)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("in the log's own folder", err)
        code, out, err = swarm.hearth("ledger", "archive", to, "--folder", log, "--older-than", "500")
        self.assertEqual(code, 0, err)
        self.assertIn("nothing to move", out)
        self.assertIn("500 days", out)
        code, out, err = swarm.hearth("ledger", "archive", to, "--folder", log)
        self.assertEqual(code, 0, err)
        self.assertIn("moved 2 bundles of 256 entries", out)
        self.assertIn("archived: entries 0 to 511", out)
        self.assertFalse((log / "tile/entries/000").exists())

        code, out, err = swarm.hearth("audit", log)
        self.assertEqual(code, 0, err)
        self.assertIn("704, each hashed and compared", out)
        self.assertIn(f"0 to 511 in the archive {to}", out)
        self.assertEqual(json.loads(swarm.hearth("audit", log, "--json")[1])["books"], books)
        self.assertEqual(swarm.hearth("ledger", "--folder", log, "--json"), standings)

        to.rename(moved)
        for words in (("audit", log), ("ledger", "--folder", log)):
            code, out, err = swarm.hearth(*words)
            self.assertNotIn(code, (0, 6), "the log may be sound")
            self.assertEqual(out, "")
            self.assertIn(f"entries 0 to 255 are archived in {to}", err)
            self.assertIn("--archive", err)
        code, out, err = swarm.hearth("audit", log, "--without-archive")
        self.assertEqual(code, 0, err)
        self.assertIn("0 to 511 are archived, and only their hashes were compared", out)
        self.assertIn("not replayed", out)
        found = json.loads(swarm.hearth("audit", log, "--without-archive", "--json")[1])
        self.assertEqual((found["archived"]["entries"], found["archived"]["read"]), (512, False))
        self.assertIsNone(found["books"])
        self.assertEqual(swarm.hearth("audit", log, "--archive", moved)[0], 0)
        self.assertEqual(swarm.hearth("ledger", "--folder", log, "--archive", moved, "--json"),
                         standings)
        flip(moved / "tile/entries/001", 5)
        code, _, err = swarm.hearth("audit", log, "--archive", moved)
        self.assertEqual(code, 6)
        self.assertIn("tile/entries/001: entry 256 at byte 0", err)
        self.assertEqual(swarm.hearth("ledger", "archive", moved, "--folder", log)[0], 1)
        flip(moved / "tile/entries/001", 5)
        code, out, err = swarm.hearth("ledger", "archive", moved, "--folder", log)
        self.assertEqual(code, 0, err)
        self.assertEqual(swarm.hearth("audit", log)[0], 0, "it is found there from now on")
        # What was archived may come back.
        shutil.copytree(moved / "tile", log / "tile", dirs_exist_ok=True)
        (log / "archive").unlink()
        shutil.rmtree(moved)
        self.assertEqual(swarm.hearth("audit", log)[0], 0)

    def test_what_is_no_log(self):
        for folder in (self.folder / "nowhere", tempfile.mkdtemp(dir=self.folder)):
            code, out, err = swarm.hearth("audit", str(folder))
            self.assertEqual((code, out), (1, ""), err)
        code, _, err = self.audit("--key", "abc")
        self.assertEqual(code, 1)
        self.assertIn("64 hexadecimal digits", err)
        self.assertEqual(swarm.hearth("audit")[0], 2)

    def test_the_rules_and_their_margin(self):
        code, out, _ = swarm.hearth("ledger", "policy")
        self.assertEqual(code, 0)
        for word in ("veteran_rate", "30000", "MARGIN", "veteran "):
            self.assertIn(word, out)
        rules = json.loads(swarm.hearth("ledger", "policy", "--json")[1])
        self.assertEqual({row["name"] for row in rules["policy"]} & {"assumed_gain", "price_fee"},
                         {"assumed_gain", "price_fee"})
        values = {row["name"]: row["value"] for row in rules["policy"]}
        for row in rules["deterrence"]:
            p, g, q = (row["audit_rate_ppm"] / 1e6, values["assumed_gain"] / 1e6,
                       values["assumed_collusion"] / 1e6)
            self.assertAlmostEqual(row["required_windows"], g / (p * (1 - q)) - 1, 9)
            self.assertGreater(row["margin"], 1)
            self.assertAlmostEqual(row["margin"], row["at_stake_windows"] / row["required_windows"], 9)
            self.assertAlmostEqual(row["required_fault_windows"], row["required_windows"] + 1, 9)
            self.assertGreater(row["fault_windows"], row["required_fault_windows"])
        self.assertEqual(rules["assumed"], {"g": values["assumed_gain"] / 1e6, "d": 1.0,
                                            "q": values["assumed_collusion"] / 1e6,
                                            "rate_of_a_tenth_of_escrow_ppm": 229850})
        self.assertEqual([row["level"] for row in rules["deterrence"]],
                         ["probation", "regular", "veteran"])


if __name__ == "__main__":
    unittest.main()
