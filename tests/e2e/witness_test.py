"""Witnesses of a real cluster: nodes cosign the ledger in folders of their own, so that a server
that is set back to an older copy of its folder is found out by them and by a client that kept a
checkpoint; and a node that comes back as another build is one that changed."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

import cluster
import swarm
from receipts_test import ask, body

LATER = os.environ.get("HEARTH_LATER", "build/tests/e2e/hearth-later")
PROMPTS = ["Say hello.", "List three colours.", "1 2 3 4 5", "Name a fruit."]


class Witnesses(cluster.Cluster):
    def setUp(self):
        super().setUp()
        self.init()
        self.ledger = pathlib.Path(self.home) / "ledger"
        self.kept = os.path.join(self.root.name, "kept")

    def serve(self):
        s = swarm.Swarm(0, "--stages", "2", data_dir=self.home, ready=False)
        self.addCleanup(s.stop)
        return s

    def work(self, name, *words, program=None):
        if not os.path.exists(self.folder(name)):
            self.enrol(name, self.token())
        log = pathlib.Path(self.folder(name) + ".log")
        with open(log, "ab") as out:
            self.processes.append(subprocess.Popen(
                [program or swarm.HEARTH, "worker", "--model", swarm.MODEL, "--data-dir",
                 self.folder(name), "--threads", "1", *words], stdout=out, stderr=out))
        return self.processes[-1]

    def ask(self, s, prompt):
        """Until its receipts are in the log."""
        s.wait_ready()
        _, name = ask(s.api, body(s.model, prompt))
        swarm.wait_until(lambda: swarm.hearth("verify", name, self.home)[0] == 0, "receipts")
        return name

    def audit(self, *words):
        code, out, err = swarm.hearth("audit", self.home, "--json", *words)
        return code, json.loads(out) if out else {}, err

    def cosigned(self, least, witnesses=2):
        """What an audit finds, once so many have cosigned so many entries."""
        def there():
            code, found, err = self.audit()
            self.assertEqual(code, 0, err)
            far = [one for one in found["witnesses"] if one["entries"] >= least]
            return found if len(far) >= witnesses else None
        return swarm.wait_until(there, f"{witnesses} witnesses of {least} entries")

    def worker_log(self, name):
        return pathlib.Path(self.folder(name) + ".log").read_text(errors="replace")

    def test_a_server_that_is_set_back_is_found_out_by_its_witnesses(self):
        s = self.serve()
        for name in ("desk", "attic"):
            self.work(name)
        self.ask(s, PROMPTS[0])
        entries = self.audit()[1]["entries"]
        self.cosigned(entries)
        code, out, err = swarm.hearth("ledger", "--folder", self.home, "--json")
        self.assertEqual(code, 0, err)
        cosigned = {one["name"]: one["cosigned"] for one in json.loads(out)["nodes"]}
        self.assertEqual(set(cosigned), {"desk", "attic"})
        self.assertGreaterEqual(min(cosigned.values()), entries)
        self.assertEqual(self.audit("--keep", self.kept)[0], 0)
        first = pathlib.Path(self.kept).read_text()
        self.assertGreaterEqual(int(first.splitlines()[1]), entries)
        older = pathlib.Path(self.root.name) / "older"
        self.ask(s, PROMPTS[1])
        entries = self.audit()[1]["entries"]
        self.cosigned(entries)
        self.assertEqual(self.audit("--keep", self.kept)[0], 0, "it has grown, and goes on")
        s.stop()
        last = pathlib.Path(self.kept).read_text()
        self.assertNotEqual(last, first)
        shutil.copytree(self.ledger, older)
        s = self.serve()
        for prompt in PROMPTS[2:]:
            self.ask(s, prompt)
        self.cosigned(self.audit()[1]["entries"])
        self.assertEqual(self.audit("--keep", self.kept)[0], 0)
        s.stop()
        last = pathlib.Path(self.kept).read_text()
        # Back to the older copy: sound by itself.
        shutil.rmtree(self.ledger)
        shutil.copytree(older, self.ledger)
        self.assertEqual(self.audit()[0], 0)
        code, found, err = self.audit("--keep", self.kept)
        self.assertEqual((code, found["sound"]), (6, False))
        self.assertIn("entries were taken away", err)
        self.assertEqual(pathlib.Path(self.kept).read_text(), last, "it keeps what it knew")
        s = self.serve()
        s.wait_ready()
        swarm.wait_until(lambda: "holds a checkpoint of this ledger" in s.read_log(),
                         "the server hears of it")
        refusing = [name for name in ("desk", "attic")
                    if "does not cosign the ledger: the log was cut back" in self.worker_log(name)]
        self.assertTrue(refusing, "a witness refuses")
        # Answers go on; nothing is logged under a history that contradicts the first.
        before = self.audit()[1]["entries"]
        answer, _ = ask(s.api, body(s.model, PROMPTS[0]))
        self.assertTrue(answer["choices"][0]["message"]["content"])
        s.stop()
        self.assertEqual(self.audit()[1]["entries"], before)
        self.assertEqual(self.audit("--keep", self.kept)[0], 6)

    def test_a_second_history_is_proved_by_a_file(self):
        s = self.serve()
        for name in ("desk", "attic"):
            self.work(name)
        s.wait_ready()
        older = pathlib.Path(self.root.name) / "older"
        self.ask(s, PROMPTS[0])
        entries = self.audit()[1]["entries"]
        self.cosigned(entries)
        s.stop()
        shutil.copytree(self.ledger, older)
        entries = self.audit()[1]["entries"]
        s = self.serve()
        self.ask(s, PROMPTS[1])
        self.cosigned(entries + 1)
        s.stop()
        for process in self.processes:  # while no witness sees what the server does
            process.kill()
            process.wait()
        witnesses = {}
        for name in ("desk", "attic"):
            witnesses[name], = pathlib.Path(self.folder(name)).glob("witness.*")
        aside = {name: path.read_bytes() for name, path in witnesses.items()}
        shutil.rmtree(self.ledger)
        shutil.copytree(older, self.ledger)
        for path in witnesses.values():
            path.unlink()
        s = self.serve()
        for name in ("desk", "attic"):
            self.work(name)
        for prompt in PROMPTS[1:]:
            self.ask(s, prompt)
        # Then they remember: what they cosigned first is not where this log comes from.
        for process in self.processes:
            process.kill()
            process.wait()
        for name, path in witnesses.items():
            path.write_bytes(aside[name])
        for name in ("desk", "attic"):
            self.work(name)
        s.wait_ready()
        swarm.wait_until(lambda: list(pathlib.Path(self.folder("desk")).glob("witness.*.fork")) or
                         list(pathlib.Path(self.folder("attic")).glob("witness.*.fork")),
                         "a proof")
        forks = [path for name in ("desk", "attic")
                 for path in pathlib.Path(self.folder(name)).glob("witness.*.fork")]
        code, out, err = swarm.hearth("audit", "--fork", forks[0], "--json")
        self.assertEqual(code, 6, err)
        self.assertIn("the log has two histories", err)
        found = json.loads(out)
        self.assertNotEqual(found["signed"][0]["root"], found["root_of_the_first_in_the_second"])
        bent = forks[0].read_text().replace("proof ", "proof A", 1).replace("root ", "root A", 1)
        wrong = pathlib.Path(self.root.name) / "bent"
        wrong.write_text(bent)
        self.assertEqual(swarm.hearth("audit", "--fork", wrong)[0], 1)
        s.stop()

    def events(self, name):
        code, out, err = swarm.hearth("ledger", name, "--folder", self.home, "--json")
        self.assertEqual(code, 0, err)
        return {event["event"]: event["count"] for event in json.loads(out)["history"]}

    def changed_by(self, *words, program=None):
        """A swarm whose desk comes back like that, after both processes were gone."""
        s = self.serve()
        desk = self.work("desk")
        self.work("attic")
        self.ask(s, PROMPTS[0])
        self.assertNotIn("changed", self.events("desk"))
        s.stop()
        desk.terminate()
        desk.wait(swarm.PATIENCE_S)
        s = self.serve()
        self.work("desk", *words, program=program)
        swarm.wait_until(lambda: "changed" in self.events("desk"), "a change of desk")
        return s

    def test_another_address_is_a_change_also_over_a_restart(self):
        s = self.changed_by("--listen", "127.0.0.2:0")
        self.ask(s, PROMPTS[1])
        self.assertEqual(self.events("desk")["changed"], 1)
        self.assertNotIn("changed", self.events("attic"), "it is where it was")
        s.stop()

    def test_another_build_is_a_change(self):
        self.changed_by(program=LATER).stop()


if __name__ == "__main__":
    swarm.main()
