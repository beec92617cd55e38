"""Groups of workers that compute each stage together, as real processes over TLS: the tokens, hashes
and receipts of one worker, whatever the ranks and their parts; and through the loss of a rank.
"""

import json
import os
import pathlib
import re
import signal
import unittest

import swarm
from failover_test import Stream, all_here, request
from prefix_cache_test import cached, chat, told, turns
from receipts_test import ask, verify

TEXT = (pathlib.Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()
REPEATS = "The cat sat on the mat, and the dog sat on the cat. " * 6
SMALL = ("--threads", "1")


def completion(s, **more):
    body = {"model": s.model, "prompt": "Tell me a story about the sea.", "max_tokens": 16, "seed": 3,
            "ignore_eos": True, "return_token_ids": True, "logprobs": 2, "temperature": 0, **more}
    status, answer = s.post("/v1/completions", body)
    assert status == 200, answer
    return answer


def conversation(s):
    messages = [{"role": "system", "content": TEXT[:1500]}]
    return turns(s, messages, 2)


def answers(s):
    """What must be equal on any number of ranks: texts, token ids, log-probabilities."""
    drafted = completion(s, prompt=REPEATS, max_tokens=32)
    return {
        "greedy": completion(s)["choices"],
        "sampled": completion(s, temperature=0.9, top_p=0.95, presence_penalty=0.4)["choices"],
        "hashes of one stage": [row["in"] for row in completion(
            s, return_hashes=True)["hearth"]["hashes"] if row["stage"] == 0],
        "drafted": drafted["choices"],
        "two turns": told(conversation(s)),
    }


def ranks_of(s):
    """{(stage, rank): node} of the workers that serve, and the number of ranks of each stage."""
    nodes = [n for n in s.state()["nodes"] if n["state"] == "serving"]
    return {(n["stage"], n.get("rank", 0)): n for n in nodes}, {n.get("ranks", 1) for n in nodes}


class Ranks(swarm.InOneFolder):
    @classmethod
    def setUpClass(cls):
        with swarm.Swarm(1, *SMALL) as alone:
            cls.alone = answers(alone)
            cls.long = cls.stream_of(alone)

    @staticmethod
    def stream_of(s):
        stream = Stream(s.api, request(s.model, 5, tokens=40))
        stream.join(swarm.PATIENCE_S)
        return stream.answer()

    def same(self, s, what=""):
        for name, answer in answers(s).items():
            self.assertEqual(answer, self.alone[name], f"{name} {what}")

    def audited(self, s):
        """The referee has computed every window of the swarm again, and found what it was told."""
        def is_over(audits):
            referee = audits["referee"]
            quiet = referee["waiting"] == 0 and audits["waiting"] == 0 and audits["running"] == 0
            return referee["selected"] > 0 and quiet
        # It has the least priority, so beside other programs each request may take a minute.
        audits = s.state()["audits"]
        while not is_over(audits):
            before = audits

            def changed():
                now = s.state()["audits"]
                return now if now != before else None
            audits = swarm.wait_until(changed, "the referee's next request")
        self.assertEqual(audits["disputed"], 0, audits)
        self.assertEqual(audits["referee"]["missed"], 0, audits)
        code, out, err = swarm.hearth("audit", s.data_dir, "--json")
        self.assertEqual(code, 0, err + out)

    def test_two_ranks_say_what_one_worker_says(self):
        with swarm.Swarm(2, "--tensor-parallel", "2", "--referee-rate", "1", *SMALL,
                         data_dir=self.folder, plain=True) as s:
            self.same(s, "of two ranks")
            found, ranks = ranks_of(s)
            self.assertEqual((set(found), ranks), ({(0, 0), (0, 1)}, {2}))
            weights = [node["weight_bytes"] for node in found.values()]
            self.assertLess(max(weights), 0.8 * sum(weights), "each rank has its share alone")
            for node in found.values():
                self.assertGreater(node["rows_total"], 0)
            code, shown, err = swarm.hearth("status", "--host", s.api)
            self.assertEqual(code, 0, err)
            self.assertIn("1, rank 1 of 2", shown)
            self.assertIn("1, rank 2 of 2", shown)
            answer, receipt = ask(s.api, {"model": s.model, "max_tokens": 12, "temperature": 0,
                                          "messages": [{"role": "user", "content": "Hello"}]})
            def one():
                code, what, _ = verify(receipt, self.folder)
                return what if code == 0 and len(what["receipts"]) == 1 else None
            swarm.wait_until(one, "the group's one receipt")
            self.audited(s)

    def test_another_group_verifies_an_answer(self):
        with swarm.Swarm(4, "--tensor-parallel", "2", "--stages", "1", *SMALL) as s:
            def two():
                return [p["state"] for p in s.state()["pipelines"]] == ["serving"] * 2
            swarm.wait_until(two, "a second group")
            code, out, err = swarm.hearth("run", s.model, "Hello", "--host", s.api, "--verify",
                                          "full", "-n", "12")
            self.assertEqual(code, 0, err)
            self.assertIn("recomputed by at least 1 other node", err)

    def test_four_ranks_of_unequal_workers(self):
        # Of three KV heads, so that a rank has none; the workers differ in their threads.
        s = swarm.Swarm(0, "--tensor-parallel", "4", "--stages", "1", data_dir=self.folder,
                        ready=False)
        self.addCleanup(s.stop)
        for number, threads in enumerate((2, 1, 1, 3)):
            self.work_with(s, f"w{number}", threads)
        s.wait_ready()
        self.same(s, "of four ranks")
        found, ranks = ranks_of(s)
        self.assertEqual((len(found), ranks), (4, {4}))

    def work_with(self, s, name, threads):
        import subprocess
        words = [swarm.HEARTH, "worker", "--model", swarm.MODEL, "--coordinator", s.info["control"],
                 "--data-dir", str(self.folder), "--name", name, "--threads", str(threads)]
        self.processes.append(subprocess.Popen(list(map(str, words)), stdout=s.log, stderr=s.log))

    def test_a_pipeline_of_two_groups(self):
        with swarm.Swarm(4, "--tensor-parallel", "2", "--stages", "2", "--referee-rate", "1", *SMALL,
                         data_dir=self.folder) as s:
            found, ranks = ranks_of(s)
            self.assertEqual((set(found), ranks), ({(0, 0), (0, 1), (1, 0), (1, 1)}, {2}))
            self.same(s, "of two groups")
            # The second turn begins with what every rank of both groups has kept.
            first, second = conversation(s)
            self.assertGreater(cached(second), 0)
            self.audited(s)

    def test_a_lost_rank_changes_no_token(self):
        with swarm.Swarm(3, "--tensor-parallel", "2", "--stages", "1", *SMALL) as s:
            self.assertEqual(self.stream_of(s), self.long)
            for rank, number in ((1, signal.SIGKILL), (0, signal.SIGKILL), (1, signal.SIGSTOP)):
                swarm.wait_until(lambda: all_here(s, 3), "all workers")
                stream = Stream(s.api, request(s.model, 5, tokens=40))
                swarm.wait_until(lambda: len(stream.ids) >= 5 or stream.done, "the first tokens")
                pid = ranks_of(s)[0][0, rank]["process_id"]
                os.kill(pid, number)
                try:
                    stream.join(swarm.PATIENCE_S)
                finally:
                    if number == signal.SIGSTOP:
                        os.kill(pid, signal.SIGCONT)
                self.assertEqual(stream.answer(), self.long, f"rank {rank}, signal {number}")
            self.assertEqual(s.state()["totals"]["finished_error"], 0)

    def test_a_lost_rank_of_one_group_of_two(self):
        with swarm.Swarm(5, "--tensor-parallel", "2", "--stages", "2", *SMALL) as s:
            for stage, rank in ((1, 1), (0, 0)):
                swarm.wait_until(lambda: all_here(s, 5), "all workers")
                stream = Stream(s.api, request(s.model, 5, tokens=40))
                swarm.wait_until(lambda: len(stream.ids) >= 5 or stream.done, "the first tokens")
                os.kill(ranks_of(s)[0][stage, rank]["process_id"], signal.SIGKILL)
                stream.join(swarm.PATIENCE_S)
                self.assertEqual(stream.answer(), self.long, f"rank {rank} of stage {stage}")

    def test_what_is_refused(self):
        for flags, wanted, said in (
                (("--tensor-parallel", "1"), 2, "2 to 8"),
                (("--tensor-parallel", "9"), 2, "2 to 8"),
                (("--tensor-parallel", "2", "--place", "a:0-29"), 2, "--place"),
                (("--tensor-parallel", "auto", "--stages", "2"), 1, "add --optimise auto")):
            code, out, err = swarm.hearth("serve", "--model", swarm.MODEL, "--data-dir", self.folder,
                                          "--port", "0", *flags)
            self.assertEqual(code, wanted, (flags, out, err))
            self.assertIn(said, err, flags)


class Chosen(swarm.InOneFolder):
    """--tensor-parallel auto, on emulated GPUs: their declared figures decide, whatever this machine's
    speed. A layer takes 60 ms on the slow one and some nanoseconds on the fast one, so exchanges of any
    real links are worth it on the one and not on the other."""

    SLOW, FAST = 2.0, 1e9  # GB/s
    MODEL = ("--family", "qwen2", "--shape", "8b", "--layers", "4", "--vocabulary", "2000", "--type", "Q4_0",
             "--shape-only")

    def swarm(self, workers, rate, mode="auto"):
        shape, card = self.folder / "shape.gguf", self.folder / f"{rate}.json"
        if not shape.exists():
            swarm.make_model(shape, *self.MODEL)
        card.write_text(json.dumps({"memory_gb": 64, "memory_gb_per_second": rate, "fp16_tflops": 1e6,
                                    "int8_tops": 1e6}))
        s = swarm.Swarm(workers, "--emulate", card, "--tensor-parallel", mode, model=shape, plain=True)
        self.addCleanup(s.stop)
        return s

    @staticmethod
    def answer_of(s, **more):
        body = {"model": s.model, "prompt": "Hello", "max_tokens": 12, "ignore_eos": True,
                "return_token_ids": True, "temperature": 0, **more}
        stream = Stream(s.api, {**body, "stream_options": {"include_usage": True}})
        stream.join(swarm.PATIENCE_S)
        return stream.answer()

    def test_slow_nodes_with_near_links_form_a_group_and_fast_ones_do_not(self):
        alone = self.swarm(1, self.SLOW, "off")
        said = self.answer_of(alone)
        s = self.swarm(2, self.SLOW)
        swarm.wait_until(lambda: ranks_of(s)[1] == {2}, "a group of both")
        self.assertEqual(self.answer_of(s), said)
        code, plan, err = swarm.hearth("plan", self.folder / "shape.gguf", "--host", s.api)
        self.assertEqual(code, 0, err)
        self.assertRegex(plan, r"1 +\S+\+\S+ +0-3")
        fast = self.swarm(2, self.FAST)
        def measured():
            return len(fast.state().get("measured", {}).get("links", [])) == 2
        swarm.wait_until(measured, "the links")
        self.assertEqual(ranks_of(fast)[1], {1})
        self.assertEqual(self.answer_of(fast), said)
        code, plan, err = swarm.hearth("plan", self.folder / "shape.gguf", "--host", fast.api)
        self.assertEqual(code, 0, err)
        self.assertNotRegex(plan, r"\S+\+\S+")

    def test_a_lost_rank_of_a_chosen_group_changes_no_token(self):
        s = self.swarm(3, self.SLOW)
        swarm.wait_until(lambda: max(ranks_of(s)[1], default=1) > 1, "a group")
        said = self.answer_of(s, max_tokens=30)
        stream = Stream(s.api, {"model": s.model, "prompt": "Hello", "max_tokens": 30, "ignore_eos": True,
                                "return_token_ids": True, "temperature": 0,
                                "stream_options": {"include_usage": True}})
        swarm.wait_until(lambda: len(stream.ids) >= 3 or stream.done, "the first tokens")
        os.kill(ranks_of(s)[0][0, 1]["process_id"], signal.SIGKILL)
        stream.join(swarm.PATIENCE_S)
        self.assertEqual(stream.answer(), said)
        swarm.wait_until(lambda: all_here(s, 3), "all workers")


if __name__ == "__main__":
    swarm.main()
