"""Answers that their clients want verified: a stream that ends when others have computed all of it
again, what is in dispute, what no node can verify, and prompts that stay with nodes of a level."""

import json
import unittest

import audits_test
import swarm
from receipts_test import body

PROMPT = audits_test.PROMPTS[0]


class Verified(swarm.InOneFolder):
    start = audits_test.Audits.start
    serving = staticmethod(audits_test.Audits.serving)

    def run_it(self, s, *words, **more):
        return swarm.hearth("run", s.model, PROMPT, "--host", s.api, "--temperature", 0, "-n", 12,
                            *words, **more)

    def chat(self, s, **wish):
        return {**body(s.model, PROMPT), "hearth": wish}

    def test_all_windows_are_computed_again(self):
        s = self.start("spot")
        events = [event for _, event in
                  swarm.stream(s.api + "/v1/chat/completions", self.chat(s, verify="full"))]
        self.assertEqual(events[-1], "[DONE]")
        ends = [i for i, event in enumerate(events[:-1])
                if any(c["finish_reason"] for c in event["choices"])]
        self.assertEqual(len(ends), 1)
        self.assertEqual(events[ends[0]]["hearth"]["verified"]["state"], "verifying")
        told = events[ends[0] + 1]
        self.assertEqual(told["choices"], [])
        verified = told["hearth"]["verified"]
        self.assertEqual(verified["state"], "verified", verified)
        self.assertEqual({(w["stage"], w["window"], w["others"]) for w in verified["windows"]},
                         {(0, 0, 1), (1, 0, 1)})
        # One that is no stream carries the report, and the text is the same.
        status, whole = s.post("/v1/chat/completions", self.chat(s, verify="full"))
        self.assertEqual((status, whole["hearth"]["verified"]["state"]), (200, "verified"))
        text = "".join(c.get("delta", {}).get("content", "")
                       for event in events[:-1] for c in event["choices"])
        self.assertEqual(whole["choices"][0]["message"]["content"], text)
        code, out, err = self.run_it(s, "--verify", "full")
        self.assertEqual((code, out), (0, text + "\n"), err)
        self.assertIn("verified: all 2 windows were recomputed, each by at least 1 other", err)
        # A stop string ends it before its sampling does, and all stages can be compared all the same.
        stopped = {**self.chat(s, verify="full"), "stop": [text.split()[1]]}
        status, whole = s.post("/v1/chat/completions", stopped)
        self.assertEqual((status, whole["choices"][0]["finish_reason"]), (200, "stop"))
        self.assertEqual(whole["hearth"]["verified"]["state"], "verified", whole["hearth"])
        code, out, err = self.run_it(s, "--json", env={"HEARTH_VERIFY": "full"})
        self.assertEqual((code, json.loads(out)["verified"]["state"]), (0, "verified"), err)
        # Standing beside each node, once the log names them.
        def named():
            nodes = s.state()["nodes"]
            return nodes if all("standing" in node for node in nodes) else None
        nodes = swarm.wait_until(named, "standings")
        self.assertEqual({node["standing"]["level"] for node in nodes}, {"probation"})
        self.assertGreaterEqual(sum(node["standing"]["audited_right"] for node in nodes), 2)
        code, out, err = swarm.hearth("status", "--host", s.api)
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"STANDING\n")
        self.assertRegex(out, r"w0 .*  probation, \d+ right\n")
        # A private prompt reaches no node below its level, and is refused where no node has it.
        status, whole = s.post("/v1/chat/completions",
                               self.chat(s, verify="full", min_level="probation"))
        self.assertEqual((status, whole["hearth"]["verified"]["state"]), (200, "verified"))
        status, refused = s.post("/v1/chat/completions", self.chat(s, min_level="veteran"))
        self.assertEqual((status, refused["error"]["code"]), (403, "below_min_level"))
        self.assertRegex(refused["error"]["message"], "min_level is veteran.*at level probation")
        self.assertEqual(self.run_it(s, "--min-level", "regular")[0], 5)

    def test_what_others_contradict_is_said(self):
        s = self.start("spot", liar="w0")
        code, out, err = self.run_it(s, "--verify", "full")
        # Which of the two pipelines served, the scheduler decided: w0 lied as the one or the other.
        ruling = "the referee's result differs from that of node w0"
        if "there is no verdict yet" in err:  # a stream waits for a minute, and no longer
            self.assertEqual(code, 6, err)
            swarm.wait_until(lambda: ruling in s.read_log(), "the ruling")
        elif "the referee's result differs from that of node w0, which served it" in s.read_log():
            self.assertEqual(code, 6, err)
            self.assertRegex(err, r"retracted.*: stage 1, window 0 \(entry \d+ of the ledger\)")
        else:
            self.assertIn("the referee's result differs from that of node w0, which audited it",
                          s.read_log())
            self.assertEqual(code, 0, err)
            self.assertIn("verified: all 2 windows", err)
        self.assertTrue(out.endswith("\n") and len(out) > 1)
        self.assertEqual(self.run_it(s)[0], 0)

    def test_what_nobody_can_verify_is_said_at_once(self):
        s = swarm.Swarm(2, "--verify", "full", data_dir=self.folder)
        self.addCleanup(s.stop)
        swarm.wait_until(lambda: self.serving(s)[0]["level"] == "probation", "standings")
        events = [e for _, e in swarm.stream(s.api + "/v1/chat/completions", body(s.model, PROMPT))]
        first = events[0]["hearth"]["verified"]
        self.assertEqual((first["asked"], first["state"]), ("full", "unverified"))
        self.assertIn("no second pipeline can recompute it", first["why"])
        self.assertEqual(events[-1], "[DONE]")
        code, out, err = self.run_it(s)
        self.assertEqual(code, 0, err)
        self.assertIn("not verified: no second pipeline can recompute it", err)


if __name__ == "__main__":
    swarm.main()
