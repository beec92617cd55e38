"""Attacks that need real processes on real sockets (CATALOGUE.md): what a server does with its log
behind everybody's back, and what of a prompt is in it."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import swarm  # noqa: E402
from receipts_test import ask, body  # noqa: E402

SECRET = "The word is abracadabra."


class Attacks(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.log = self.folder / "ledger"

    def serve(self):
        s = swarm.Swarm(2, data_dir=self.folder)
        self.addCleanup(s.stop)
        return s

    def ask(self, s, prompt):
        """Until its receipts are in the log."""
        _, name = ask(s.api, body(s.model, prompt))
        swarm.wait_until(lambda: swarm.hearth("verify", name, self.folder)[0] == 0, "receipts")
        return name

    def audit(self, *words):
        code, out, err = swarm.hearth("audit", self.folder, "--json", *words)
        return code, json.loads(out), err

    def test_k02_n06_a_server_that_is_set_back_is_found_out(self):
        s = self.serve()
        self.ask(s, "Say hello.")
        s.stop()  # while it runs, it renames files in the folder
        older = self.folder / "older"
        shutil.copytree(self.log, older)
        s = self.serve()
        lost = self.ask(s, "List three colours.")
        s.stop()
        kept = self.folder / "kept"
        shutil.copy(self.log / "checkpoint", kept)
        self.assertEqual(self.audit("--earlier", kept)[0], 0)
        shutil.rmtree(self.log)
        shutil.copytree(older, self.log)
        code, found, err = self.audit("--earlier", kept)
        self.assertEqual(code, 6, err)
        self.assertIn("taken away", found["fault"])
        self.assertEqual(self.audit()[0], 0, "who kept nothing reads a log like any other")
        # Its workers forget what they cosigned, as those of its own machine can be made to. It goes on
        # from there, and has two histories: each is signed, and they exclude each other.
        for path in self.folder.glob("witness.*"):
            path.unlink()
        s = self.serve()
        for prompt in ("Name a fruit.", "1 2 3 4 5", "Why is the sky blue?"):
            self.ask(s, prompt)
        s.stop()
        code, found, _ = self.audit("--earlier", kept)
        self.assertEqual((code, found["sound"]), (6, False))
        self.assertNotEqual(swarm.hearth("verify", lost, self.folder)[0], 0,
                            "the client whose receipt is gone hears of it")

    def test_u04_nothing_of_a_prompt_is_in_the_log(self):
        s = self.serve()
        self.ask(s, SECRET)
        self.ask(s, SECRET)
        tokens = s.post("/tokenize", {"content": SECRET})[1]["tokens"]
        s.stop()
        written = b"".join(path.read_bytes() for path in sorted(self.log.rglob("*"))
                           if path.is_file())
        self.assertGreater(len(written), 1_000)
        self.assertNotIn(b"abracadabra", written)
        self.assertNotIn(b"".join(t.to_bytes(4, "little") for t in tokens[:3]), written)

    def test_k03_what_was_not_audited_is_counted_for_everybody(self):
        s = self.serve()  # one pipeline: no other node may audit it
        self.ask(s, "Say hello.")
        drawn = swarm.wait_until(lambda: s.state()["audits"]["waiting"], "a draw")
        s.stop()
        code, found, err = self.audit()
        self.assertEqual(code, 0, err)
        audits = found["books"]["audits"]
        self.assertEqual((audits["selected"], audits["agreed"]), (drawn, 0))


if __name__ == "__main__":
    swarm.main()
