"""Audits of a real swarm: answers are computed again by another pipeline, and a stage that lies in
one activation of one position in sixteen, by its last bit, is found and named."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import tempfile

import swarm
from receipts_test import ask, body

LIAR = os.environ.get("HEARTH_LIAR", "")
ONE_UNIT_OFF, ONE_UNIT_ONCE, ONE_UNIT_CONTESTED = "15", "16", "17"  # tests/defects/liar.patch
PROMPTS = ["What is the capital of France?", "List three colours.", "1 2 3 4 5", "Say hello.",
           "Why is the sky blue?", "Name a fruit."]


class Audits(swarm.InOneFolder):
    def start(self, mode, liar=None, defect=ONE_UNIT_OFF, flags=(), liars=(), model=None):
        """Four workers, which become two pipelines of the same cut."""
        s = swarm.Swarm(0, "--stages", "2", "--audit", mode, *flags, data_dir=self.folder,
                        ready=False, model=model)
        self.addCleanup(s.stop)
        for name in ("w0", "w1", "w2", "w3"):
            lies = name == liar or name in liars
            self.work(s, name, LIAR if lies else swarm.HEARTH, defect if lies else "0")
            if name == "w0":  # who comes first is the first stage
                swarm.wait_until(lambda: s.state()["nodes"], "the first worker")
        swarm.wait_until(lambda: len(self.serving(s)) == 2, "both pipelines")
        return s

    @staticmethod
    def serving(s):
        return [p for p in s.state()["pipelines"] if p["state"] == "serving"]

    def audited(self, s, windows):
        """The state once so many windows have come to an end."""
        def over():
            audits = s.state()["audits"]
            ended = audits["agreed"] + audits["disputed"] + audits["missed"]
            quiet = audits["waiting"] == 0 and audits["running"] == 0
            return audits if ended >= windows and quiet else None
        return swarm.wait_until(over, f"{windows} windows audited")

    def audit(self):
        code, out, err = swarm.hearth("audit", self.folder, "--json")
        self.assertEqual(code, 0, err)
        return json.loads(out)["books"]

    def history(self, node):
        code, out, err = swarm.hearth("ledger", node, "--folder", self.folder, "--json")
        self.assertEqual(code, 0, err)
        return {event["event"]: event["count"] for event in json.loads(out)["history"]}

    def test_honest_nodes_agree(self):
        s = self.start("full")
        answers = []
        for i, prompt in enumerate(PROMPTS):
            answer, _ = ask(s.api, body(s.model, prompt, temperature=1, seed=i))
            answers.append(answer["choices"][0]["message"]["content"])
        ask(s.api, body(s.model, "word " * 400))
        windows = 2 * (len(PROMPTS) + 1)
        found = self.audited(s, windows)
        self.assertEqual((found["agreed"], found["disputed"], found["missed"]), (windows, 0, 0))
        books = self.audit()
        self.assertEqual(books["disputes"], [])
        self.assertEqual(books["in_circulation"], 0)
        self.assertEqual(books["audits"]["agreed"], windows)
        self.assertGreaterEqual(books["audits"]["draws"], 1)
        self.assertGreaterEqual(books["audits"]["selected"], windows)
        events = [self.history(name) for name in ("w0", "w1", "w2", "w3")]
        self.assertTrue(all("disagreed" not in one and "was_doubted" not in one for one in events))
        _, metrics = s.get("/metrics")
        self.assertIn(f"hearth_audits_agreed_total {windows}", metrics)

    def books_when(self, what, condition):
        """The books once they say so; the log is read while the server appends."""
        def read():
            code, out, err = swarm.hearth("audit", self.folder, "--json")
            self.assertEqual(code, 0, err)
            books = json.loads(out)["books"]
            return books if books and condition(books) else None
        return swarm.wait_until(read, what)

    def standing(self, node):
        code, out, err = swarm.hearth("ledger", node, "--folder", self.folder, "--json")
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def judged(self, defect):
        """A swarm whose w0 lies, once its verdict is in the log; and who its pipelines were."""
        s = self.start("full", liar="w0", defect=defect)
        pipelines = [p["nodes"] for p in self.serving(s)]
        # Every prompt here has a position that it lies about, so one window is enough.
        _, self.lied = ask(s.api, body(s.model, PROMPTS[0]))
        self.books_when("a verdict", lambda books: books["verdicts"] == 1)
        return s, pipelines

    def test_a_stage_that_is_one_unit_off_is_found_a_fraud(self):
        s, pipelines = self.judged(ONE_UNIT_OFF)
        own = next(p for p in pipelines if "w0" in p)
        other = next(p for p in pipelines if "w0" not in p)[own.index("w0")]
        books = self.audit()
        self.assertEqual(books["disputes"], [], "the dispute has an end")
        # The one whom the other one contradicts, on one side or the other; no other.
        events = {name: self.history(name) for name in (*own, other)}
        named = {name for name, one in events.items() if "disagreed" in one or "was_doubted" in one}
        self.assertEqual(named, {"w0", other})
        self.assertEqual({name for name, one in events.items() if "fraud" in one}, {"w0"})
        self.assertEqual(self.standing("w0")["standing"], "ended")
        log = s.read_log()
        self.assertRegex(log, rf"in dispute: entry \d+, .*, stage 1 \(layers 0-2\): "
                              rf"node (w0 and its auditor {other}|{other} and its auditor w0)")
        self.assertRegex(log, r"fraud of node w0: it concedes; its weights are whole, its kernels "
                              r"pass their test; its recomputation gave the same result")
        # It is given no work any more, and is told so; the swarm goes on without it.
        def without():
            nodes = [node for p in self.serving(s) for node in p["nodes"]]
            return nodes and "w0" not in nodes
        swarm.wait_until(without, "a pipeline without w0")
        swarm.wait_until(lambda: "this node gets no more work" in s.read_log(),
                         "w0 hears of it")
        ask(s.api, body(s.model, PROMPTS[1]))
        spare = next(n for n in s.state()["nodes"] if n["name"] == "w0")["spare"]
        self.assertIn("a fraud", spare)
        # The client hears that a stage of the answer was false: when it was w0's own window that
        # was audited, and not its audit of the other's.
        code, out, err = swarm.hearth("verify", self.lied, self.folder)
        if "was_doubted" in events["w0"]:
            self.assertEqual(code, 6, out)
            self.assertRegex(err, r"entry \d+: .*false")
        else:
            self.assertEqual(code, 0, err)
        # Its evidence is beside the log, and is part of what an audit checks.
        evidence = self.evidence()
        self.refused(evidence, lambda b: b.replace(b"verdict fraud", b"verdict fault"),
                     "hash is not the one in")
        self.proves(evidence, "auditor" if "w0" in self.auditors(s) else "worker")
        stranger = self.folder / "ledger" / "disputes" / "notes"
        stranger.write_text("of somebody\n")
        code, out, err = swarm.hearth("audit", self.folder)
        self.assertEqual(code, 0, err)
        self.assertIn("named by no verdict: disputes/notes", out)
        self.assertNotIn(evidence.name, out)
        s.stop()
        self.audit()

    def evidence(self):
        """The file that the verdict names."""
        folder = self.folder / "ledger" / "disputes"
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        file, = folder.iterdir()
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        return file

    def refused(self, file, change, fault):
        whole = file.read_bytes()
        file.write_bytes(change(whole))
        code, _, err = swarm.hearth("audit", self.folder)
        file.write_bytes(whole)
        self.assertEqual(code, 6)
        self.assertIn(fault, err)

    @staticmethod
    def auditors(s):
        """Whether the liar audited, or was audited."""
        found = re.search(r"in dispute: entry .*: node (\w+) and its auditor (\w+)", s.read_log())
        return {found.group(2)}

    def proves(self, evidence, side):
        """The file and the model, far from the log, come to the same verdict; a changed file to
        none."""
        with tempfile.TemporaryDirectory() as elsewhere:
            copy = pathlib.Path(elsewhere) / "evidence"
            shutil.copy(evidence, copy)
            again = ("verify", copy, "--re-execute", "--model", swarm.MODEL, "--json")
            code, out, err = swarm.hearth(*again)
            self.assertEqual(code, 0, err)
            found = json.loads(out)
            self.assertEqual((found["computed_again"], found["side"], found["guilty"],
                              found["stage"], found["verdict"]),
                             (True, side, self.standing("w0")["key"], 0, "fraud"))
            self.assertGreater(found["positions"], 9)
            code, out, err = swarm.hearth("verify", copy)
            self.assertEqual(code, 0, err)
            self.assertIn("not computed", out)
            whole = copy.read_bytes()
            other = self.standing("w1")["key"].encode()
            for change in (lambda b: b.replace(found["guilty"].encode(), other),
                           lambda b: b.replace(b"\nprompt ", b"\nprompt 1 "),
                           lambda b: b.replace(b"verdict fraud", b"verdict fault"),
                           lambda b: b[:-2]):
                copy.write_bytes(change(whole))
                code, out, err = swarm.hearth(*again)
                self.assertEqual(code, 6, f"{out} {err}")

    def test_who_denies_exact_arithmetic_is_a_fraud(self):
        s, _ = self.judged(ONE_UNIT_CONTESTED)
        self.assertIn("fraud", self.history("w0"))
        self.assertRegex(s.read_log(), r"fraud of node w0: it contests; .* gave another result")

    def test_a_bit_that_flipped_once_is_a_fault_and_the_node_comes_back(self):
        s, _ = self.judged(ONE_UNIT_ONCE)
        events = self.history("w0")
        self.assertIn("fault", events)
        self.assertNotIn("fraud", events)
        self.assertEqual(self.standing("w0")["standing"], "probation")
        swarm.wait_until(lambda: "the self-check of node w0 passed" in s.read_log(),
                         "w0's look at itself")
        swarm.wait_until(lambda: len(self.serving(s)) == 2, "two pipelines again")
        ask(s.api, body(s.model, PROMPTS[1]))
        self.assertEqual(self.audit()["disputes"], [])

    def verdict_of(self, s):
        """Who is ended, once the log says so of somebody, and that nothing is in dispute."""
        books = self.books_when("a verdict", lambda books: books["verdicts"] == 1)
        self.assertEqual(books["disputes"], [])
        ended = [n["name"] for n in s.state()["nodes"]
                 if "fraud" in self.history(n["name"])]
        self.assertEqual(len(ended), 1)
        return ended[0]

    def test_a_majority_that_colludes_is_found_by_the_servers_own_referee(self):
        # All holders of every range lie alike, so their audits agree with each other.
        everybody = ("w0", "w1", "w2", "w3")
        s = self.start("spot", liars=everybody, flags=("--referee-rate", "1"))
        ask(s.api, body(s.model, PROMPTS[0]))
        ended = self.verdict_of(s)
        swarm.wait_until(lambda: s.state()["audits"]["ended_disputes"] == 1, "its count")
        self.assertEqual(s.state()["audits"]["referee"]["selected"], 2)
        self.assertRegex(s.read_log(), rf"in dispute: entry \d+, .*, stage 1 .*: node {ended} and "
                                       r"its auditor \(this server's referee\)")
        # The log says who has audited it: the holder of the log's key.
        cluster = json.loads(swarm.hearth("audit", self.folder, "--json")[1])["key"]
        self.assertIn("disagreed", self.history(cluster))
        code, shown, err = swarm.hearth("status", "--host", s.api)
        self.assertEqual(code, 0, err)
        self.assertRegex(shown, rf"barred  {ended}: the ledger shows a fraud by it")
        self.assertIn(f"hearth nodes rm {ended}", shown)
        self.assertIn("disputes in the ledger: 0 open, 1 ended by a verdict", shown)

    def test_honest_nodes_are_right_by_the_servers_own_referee(self):
        s = swarm.Swarm(2, "--referee-rate", "1", data_dir=self.folder)
        self.addCleanup(s.stop)
        ask(s.api, body(s.model, PROMPTS[0], temperature=1, seed=3))
        ask(s.api, body(s.model, "word " * 400))
        found = self.audited(s, 4)
        self.assertEqual((found["agreed"], found["disputed"], found["missed"]), (4, 0, 0))
        self.assertEqual(found["referee"]["missed"], 0)
        self.assertEqual(self.audit()["disputes"], [])

    def left_open(self):
        """(dispute, key of the liar, key that it contradicts): the server's model file is gone when
        its referee wants it, so the dispute stays open, and the server is killed."""
        with tempfile.TemporaryDirectory() as elsewhere:
            model = shutil.copy(swarm.MODEL, elsewhere)
            s = self.start("full", liar="w0", model=model)
        ask(s.api, body(s.model, PROMPTS[0]))
        books = self.books_when("a dispute", lambda books: books["disputes"])
        own, other = sorted((p["nodes"] for p in self.serving(s)), key=lambda p: "w0" not in p)
        keys = [self.standing(name)["key"] for name in ("w0", other[own.index("w0")])]
        swarm.wait_until(lambda: "stays open: no referee" in s.read_log(), "the referee's word")
        s.kill()
        return books["disputes"][0], *keys

    def again(self):
        s = swarm.Swarm(0, "--stages", "2", data_dir=self.folder, ready=False)
        self.addCleanup(s.stop)
        books = self.books_when("the end of the dispute", lambda books: not books["disputes"])
        return s, books

    def test_what_is_in_dispute_when_the_server_is_killed_ends_unjudged(self):
        _, *keys = self.left_open()
        s, books = self.again()
        self.assertEqual((books["verdicts"], books["unjudged"]), (0, 1))
        for key in keys:
            one = self.standing(key)
            self.assertEqual((one["unjudged"], one["faults"], one["standing"]), (1, 0, "probation"))
            self.assertEqual(self.history(key)["unjudged"], 1)
        shown = swarm.hearth("ledger", "--folder", self.folder)[1]
        self.assertIn("disputes: 0 open, 1 ended without a verdict", shown)
        swarm.wait_until(lambda: s.state()["audits"]["unjudged_disputes"] == 1, "its count")
        shown = swarm.hearth("status", "--host", s.api)[1]
        self.assertIn("0 open, 0 ended by a verdict, 1 ended without one", shown)
        # It ends once, and why is part of what an audit checks.
        s.stop()
        s, again = self.again()
        self.assertEqual((again["unjudged"], again["hash"]), (1, books["hash"]))
        why, = (self.folder / "ledger" / "disputes").iterdir()
        self.refused(why, lambda b: b.replace(b"unjudged", b"fraud"), "hash is not the one in")

    def test_a_verdict_whose_evidence_was_kept_is_logged_by_the_next_process(self):
        entry, liar, _ = self.left_open()
        cluster = json.loads(swarm.hearth("audit", self.folder, "--json")[1])["key"]
        lines = [b"hearth verdict evidence v1"] + [line.encode() for line in (
            f"cluster {cluster}", f"entry {entry}", f"receipt {self.receipt_at(entry).hex()}",
            f"guilty {liar}", "verdict fraud", "")]
        evidence = b"\n".join(lines)
        # As it lies there when a server ends before the verdict is in the log.
        disputes = self.folder / "ledger" / "disputes"
        disputes.mkdir(mode=0o700)
        file = disputes / hashlib.blake2b(evidence, digest_size=32).hexdigest()
        file.touch(mode=0o600)
        file.write_bytes(evidence)
        _, books = self.again()
        self.assertEqual((books["verdicts"], books["unjudged"]), (1, 0))
        self.assertEqual(self.standing(liar)["standing"], "ended")

    def receipt_at(self, entry):
        """Of a log of less than a tile. 4 bytes behind the receipt say what was cached of it."""
        parts = (self.folder / "ledger" / "tile" / "entries" / "000.p").iterdir()
        bundle = max(parts, key=lambda part: int(part.name)).read_bytes()
        for _ in range(entry):
            bundle = bundle[2 + int.from_bytes(bundle[:2], "big"):]
        return bundle[2:2 + int.from_bytes(bundle[:2], "big")][-452:-4]

    def test_what_nobody_else_holds_is_said(self):
        s = swarm.Swarm(2, data_dir=self.folder)
        self.addCleanup(s.stop)
        ask(s.api, body(s.model, PROMPTS[0]))

        def waiting():
            audits = s.state()["audits"]
            return audits if audits["waiting"] == 2 else None
        found = swarm.wait_until(waiting, "two windows that wait")
        self.assertEqual(found["mode"], "spot")
        self.assertIn("no other pipeline", found["why_waiting"])

    def test_off(self):
        s = swarm.Swarm(2, "--audit", "off", data_dir=self.folder)
        self.addCleanup(s.stop)
        _, name = ask(s.api, body(s.model, PROMPTS[0]))
        swarm.wait_until(lambda: swarm.hearth("verify", name, self.folder)[0] == 0, "receipts")
        s.stop()
        self.assertEqual(self.audit()["audits"]["draws"], 0)


if __name__ == "__main__":
    swarm.main(layers=6)
