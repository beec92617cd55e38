"""Newcomers of a real swarm: two workers serve; two machines that no member vouches for check what
the server asks itself and what its owners share, and nothing else; one that lies is found out."""

import concurrent.futures
import json
import os
import pathlib
import subprocess

import cluster
import swarm
from receipts_test import ask, body

LIAR = os.environ.get("HEARTH_LIAR", "")
ONE_UNIT_OFF = "15"  # tests/defects/liar.patch
PROMPTS = ["What is the capital of France?", "List three colours.", "1 2 3 4 5", "Say hello."]
SHARED = {"hearth": {"share": True}}


class Newcomers(cluster.Cluster):
    def setUp(self):
        super().setUp()
        self.init()
        self.server = swarm.Swarm(2, "--stages", "2", data_dir=self.home)
        self.addCleanup(self.server.stop)
        self.model = self.server.model

    def newcomer(self, name, token, binary=swarm.HEARTH, defect="0"):
        """Joins, and is there when it returns: who comes first is a first stage."""
        folder = self.folder(name)
        with open(folder + ".log", "ab") as log:
            self.processes.append(subprocess.Popen(
                [binary, "join", token, "--model", swarm.MODEL, "--name", name, "--threads", "1",
                 "--data-dir", folder], stdout=log, stderr=log,
                env={**os.environ, "HEARTH_DEFECT": defect}))
        swarm.wait_until(lambda: name in self.nodes(), name)

    def nodes(self):
        return {node["name"]: node for node in self.server.state()["nodes"]}

    def pipelines(self, state):
        return [p["nodes"] for p in self.server.state()["pipelines"] if p["state"] == state]

    def checking(self, name="n0", **more):
        token = self.token("--newcomer", "--uses", "2")
        self.newcomer(name, token, **more)
        self.newcomer("n1", token)
        return swarm.wait_until(lambda: self.pipelines("checking"), "a checking pipeline")

    def ledger(self, node):
        return json.loads(swarm.hearth("ledger", node, "--folder", self.home, "--json")[1])

    def history(self, node):
        return {event["event"]: event["count"] for event in self.ledger(node)["history"]}

    def settled(self, shared):
        """The state once newcomers have checked both stages of so many requests, and of all that the
        server made itself."""
        def over():
            state = self.server.state()
            audits = state["audits"]
            done = audits["checked_by_newcomers"] == 2 * (shared + audits["canaries"])
            return state if done and audits["running"] == 0 and audits["canaries"] > 0 else None
        return swarm.wait_until(over, f"the checks of {shared} requests")

    def test_they_check_what_is_shared_and_nothing_else(self):
        pipelines = self.checking()
        self.assertEqual([sorted(p) for p in pipelines], [["n0", "n1"]])
        self.assertEqual([sorted(p) for p in self.pipelines("serving")], [["local-1", "local-2"]])
        self.assertIn("newcomer", self.good(self.home, "token", "list"))
        self.settled(0)  # with what the server asks itself, at once

        # What is private reaches only the nodes that serve.
        before = self.settled(0)
        for i in range(3):
            ask(self.server.api, body(self.model, f"{i} " + "word " * 300))
        swarm.wait_until(lambda: self.server.state()["audits"]["waiting"] >= 6,
                         "windows that are drawn, and that no node may audit")
        after = self.settled(0)
        rows = [{n["name"]: n["rows_total"] for n in one["nodes"]} for one in (before, after)]
        made = [one["audits"]["canaries"] for one in (before, after)]
        for name in ("n0", "n1"):
            # One that the server makes may be as long as these, and holds none of their words.
            self.assertLess(rows[1][name] - rows[0][name], 300 + 400 * (made[1] - made[0]))

        for prompt in PROMPTS:
            ask(self.server.api, body(self.model, prompt, **SHARED))
        code, _, err = swarm.hearth("run", self.model, "Name a fruit.", "--share", "-n", "8",
                                    "--host", self.server.api.removeprefix("http://"))
        self.assertEqual(code, 0, err)
        state = self.settled(len(PROMPTS) + 1)
        checks = len(PROMPTS) + 1 + state["audits"]["canaries"]
        self.assertEqual(state["audits"]["disputed"], 0)
        for name in ("n0", "n1"):
            self.assertEqual(self.history(name), {"joined": 1, "checked": checks})
            one = self.ledger(name)
            self.assertEqual((one["standing"], one["checks"], one["windows_served"]),
                             ("newcomer", checks, 0))
        for name in ("local-1", "local-2"):
            self.assertEqual(self.ledger(name)["audited_right"], 0, "a newcomer moves no standing")
        _, text, _ = swarm.hearth("status", "--host", self.server.api.removeprefix("http://"))
        self.assertIn(f"n0 is a newcomer: checks others' results, {checks} of 100 windows, on 1 of 3 "
                      "days", text)
        code, out, err = swarm.hearth("audit", self.home, "--json")
        self.assertEqual(code, 0, err)
        books = json.loads(out)["books"]
        self.assertEqual((books["disputes"], books["audits"]["agreed"]), ([], 2 * checks))

        # The nodes that serve are gone: no other node serves.
        self.server.stop()
        self.server = swarm.Swarm(0, "--stages", "2", data_dir=self.home, ready=False)
        self.addCleanup(self.server.stop)
        swarm.wait_until(lambda: {"n0", "n1"} <= {n for n, one in self.nodes().items()
                                                  if one["state"] == "free"}, "both again")
        self.assertFalse(self.server.state()["ready"])
        self.assertEqual(self.server.state()["pipelines"], [])
        code, reply = self.server.post("/v1/chat/completions", body(self.model, "Hello", **SHARED))
        self.assertEqual(code, 503, reply)

    def test_what_its_owner_shares_is_shared_by_the_next_process_too(self):
        self.checking()
        self.settled(0)
        asked = {**body(self.model, PROMPTS[0], **SHARED), "max_tokens": 600, "ignore_eos": True}

        def ask_for_it():
            try:
                return swarm.http("POST", self.server.api + "/v1/chat/completions", asked, 120,
                                  {"Idempotency-Key": "one"})[0]
            except OSError:  # the server is killed
                return None
        with concurrent.futures.ThreadPoolExecutor() as threads:
            first = threads.submit(ask_for_it)
            swarm.wait_until(lambda: self.server.state()["totals"]["generation_tokens"] > 200,
                             "tokens")
            self.server.kill()
            self.assertIsNone(first.result())
            self.server = swarm.Swarm(2, "--stages", "2", data_dir=self.home, ready=False)
            self.addCleanup(self.server.stop)
            again = threads.submit(ask_for_it)
            swarm.wait_until(lambda: self.pipelines("checking"), "a checking pipeline")
            swarm.wait_until(lambda: self.server.state()["totals"]["resumed"] == 1, "it goes on")
            self.assertFalse(again.done(), "it is to end while there is somebody to check it")
            self.assertEqual(again.result(), 200)
        self.settled(1)

    def test_one_that_lies_is_found_guilty_and_who_served_is_not_touched(self):
        pipelines = self.checking(binary=LIAR, defect=ONE_UNIT_OFF)
        self.assertEqual(pipelines, [["n0", "n1"]])
        ask(self.server.api, body(self.model, PROMPTS[0], **SHARED))

        def judged():
            code, out, err = swarm.hearth("audit", self.home, "--json")
            self.assertEqual(code, 0, err)
            books = json.loads(out)["books"]
            return books and books["verdicts"] >= 1 and not books["disputes"]
        swarm.wait_until(judged, "a verdict")
        self.assertEqual(self.ledger("n0")["standing"], "ended")
        self.assertIn("fraud", self.history("n0"))
        disputes = pathlib.Path(self.home) / "ledger" / "disputes"
        self.assertTrue(list(disputes.iterdir()), "the evidence of the verdict is kept")
        for name in ("local-1", "local-2"):
            events = self.history(name)
            self.assertNotIn("fraud", events)
            self.assertNotIn("fault", events)
        swarm.wait_until(lambda: not self.pipelines("checking"), "the end of its pipeline")
        self.assertEqual([sorted(p) for p in self.pipelines("serving")], [["local-1", "local-2"]])
        self.assertIn("waits: no free node has room for layers", self.nodes()["n1"]["newcomer"])
        ask(self.server.api, body(self.model, PROMPTS[1]))


if __name__ == "__main__":
    swarm.main(layers=6)
