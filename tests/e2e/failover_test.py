"""Workers that vanish or freeze under a stream, as real processes over TLS: the stream goes on with
the tokens of the fault-free run, none twice and none left out.
"""

import os
import re
import signal
import threading
import time
import unittest

import swarm

STALL_CRASH_S = 3.0
STALL_FREEZE_S = 5.0
SLACK = 10  # times what an undisturbed answer takes: what a busy machine may add to these
TOKENS = 90
LONG_PROMPT = "The quick brown fox jumps over the lazy dog. " * 45


# Prompts are computed each time, so that a loss finds one under way; prefix_cache_test has the others.
def request(model, seed, prompt="Tell me a long story about the sea.", tokens=TOKENS):
    return {"model": model, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True,
            "temperature": 0.9, "top_p": 0.95, "presence_penalty": 0.4, "seed": seed,
            "return_token_ids": True, "stream_options": {"include_usage": True},
            "cache_prompt": False}


class Stream(threading.Thread):
    """One stream, read in the background: token ids and when each came."""

    def __init__(self, api, body):
        super().__init__(daemon=True)
        self.api, self.body = api, body
        self.ids, self.times, self.text = [], [], ""
        self.began = time.monotonic()
        self.finish, self.usage, self.error, self.done = None, None, None, False
        self.start()

    def run(self):
        try:
            for at, event in swarm.stream(self.api + "/v1/completions", self.body):
                self.take(at, event)
        except Exception as failure:  # a broken connection fails the comparison
            self.error = repr(failure)

    def take(self, at, event):
        if event == "[DONE]":
            self.done = True
            return
        self.error = self.error or event.get("error")
        self.usage = swarm.uncached(event.get("usage")) or self.usage
        for choice in event.get("choices", []):
            self.text += choice.get("text", "")
            self.finish = choice.get("finish_reason") or self.finish
            fresh = choice.get("token_ids") or []
            self.ids += fresh
            self.times += [at] * len(fresh)

    def answer(self):
        return self.error, self.done, self.ids, self.text, self.finish, self.usage

    def first_after(self):
        return self.times[0] - self.began

    def longest_gap(self, since):
        times = [since] + [at for at in self.times if at > since]
        return max((b - a for a, b in zip(times, times[1:])), default=0.0)


def stage_pid(s, stage):
    """Process and name of the worker that serves a stage."""
    node = next(n for n in s.state()["nodes"] if n["state"] == "serving" and n["stage"] == stage)
    return node["process_id"], node["name"]


def sockets(pid):
    held = 0
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            held += os.readlink(f"/proc/{pid}/fd/{descriptor}").startswith("socket:")
        except FileNotFoundError:
            pass
    return held


def all_here(s, count):
    nodes = s.state()["nodes"]
    return sum(n["state"] in ("serving", "free") for n in nodes) == count and s._ready()


class Failover(unittest.TestCase):
    """Each test has a swarm with spares of its own."""

    alone_s = 0.0  # the longest that an undisturbed answer took

    def reference(self, s, body):
        began = time.monotonic()
        stream = Stream(s.api, body)
        stream.join(swarm.PATIENCE_S)
        self.assertTrue(stream.done and stream.error is None, stream.answer())
        self.alone_s = max(self.alone_s, time.monotonic() - began)
        return stream.answer()

    def settle(self, s, count, base):
        swarm.wait_until(lambda: all_here(s, count), "every worker's return")
        def nothing_runs():
            state = s.state()
            return (state["running"] + state["waiting"] == 0 and
                    all(p["kv_pages_reserved"] == 0 for p in state["pipelines"]))
        swarm.wait_until(nothing_runs, "the release of what ran")
        swarm.wait_until(lambda: all(n["kv_tokens_used"] == 0 for n in s.state()["nodes"]),
                         "empty KV caches")
        self.assertEqual(s.state()["totals"]["finished_error"], 0)
        swarm.wait_until(lambda: sockets(s.process.pid) <= base, "sockets back to baseline")

    def strike(self, s, victims, number):
        """Signals the workers of these stages; what undoes it."""
        pids = [stage_pid(s, stage)[0] for stage in victims]
        for pid in pids:
            os.kill(pid, number)
        if number != signal.SIGSTOP:
            return lambda: None
        return lambda: [os.kill(pid, signal.SIGCONT) for pid in pids if swarm.alive(pid)]

    def fault(self, s, bodies, expected, victims, number, after):
        """Runs the bodies, strikes when the first has `after` tokens, compares all."""
        streams = [Stream(s.api, body) for body in bodies]
        if after > 0:
            swarm.wait_until(lambda: len(streams[0].ids) >= after, "the first tokens")
        else:
            time.sleep(0.3 * self.prompt_s)
        struck = time.monotonic()
        undo = self.strike(s, victims, number)
        try:
            for stream, answer in zip(streams, expected):
                stream.join(swarm.PATIENCE_S)
                self.assertFalse(stream.is_alive(), "the stream hangs")
                self.assertEqual(stream.answer(), answer)
        finally:
            undo()
        gap = max(stream.longest_gap(struck) for stream in streams)
        undisturbed = "" if after > 0 else f", of which its prompt takes {self.prompt_s:.2f} s"
        print(f"stages {victims} signal {number.name} after {after} tokens: "
              f"longest gap {gap:.2f} s{undisturbed}", flush=True)
        if after > 0:  # two losses may be noticed one after the other
            stall = STALL_FREEZE_S if number == signal.SIGSTOP else STALL_CRASH_S
            self.assertLess(gap, stall * len(victims) + SLACK * self.alone_s)

    def test_each_stage_killed_and_frozen_in_decode(self):
        with swarm.Swarm(4, "--stages", "3") as s:
            bodies = [request(s.model, seed) for seed in (11, 12)]
            expected = [self.reference(s, body) for body in bodies]
            base = sockets(s.process.pid)
            for number in (signal.SIGKILL, signal.SIGSTOP):
                for stage in range(3):
                    with self.subTest(stage=stage, signal=number.name):
                        self.fault(s, bodies, expected, [stage], number, 20)
                        self.settle(s, 4, base)
            self.assertGreaterEqual(s.state()["totals"]["resumed"], 6)
            self.assertGreater(sum(node["replayed_rows_total"] for node in s.state()["nodes"]), 100,
                               "survivors say again what they said")

    def test_prefill_and_two_losses(self):
        with swarm.Swarm(5, "--stages", "3") as s:
            short = [request(s.model, 21)]
            long = [request(s.model, 22, LONG_PROMPT, 12)]
            expected_short = [self.reference(s, body) for body in short]
            expected_long = [self.reference(s, body) for body in long]
            alone = Stream(s.api, long[0])
            alone.join(swarm.PATIENCE_S)
            self.prompt_s = alone.first_after()
            base = sockets(s.process.pid)
            self.fault(s, long, expected_long, [1], signal.SIGKILL, 0)
            self.settle(s, 5, base)
            self.fault(s, long, expected_long, [0], signal.SIGSTOP, 0)
            self.settle(s, 5, base)
            self.fault(s, short, expected_short, [0, 2], signal.SIGKILL, 15)
            self.settle(s, 5, base)

    def test_survivors_of_a_freeze_are_not_lost_too(self):
        """Several streams keep every stage busy with steps of one row: it must give signs of life."""
        with swarm.Swarm(3, "--stages", "2") as s:
            bodies = [request(s.model, seed, tokens=150) for seed in (41, 42, 43)]
            undisturbed = [Stream(s.api, body) for body in bodies]
            for one in undisturbed:
                one.join(swarm.PATIENCE_S)
                self.assertTrue(one.done and one.error is None, one.answer())
            expected = [one.answer() for one in undisturbed]
            for stage in (0, 1, 0):
                swarm.wait_until(lambda: s._ready() and len(s.state()["nodes"]) == 3 and all(
                    n["state"] in ("serving", "free") for n in s.state()["nodes"]), "everybody")
                streams = [Stream(s.api, body) for body in bodies]
                swarm.wait_until(lambda: all(len(one.ids) >= 30 for one in streams), "tokens")
                before = len(s.read_log())
                pid, name = stage_pid(s, stage)
                os.kill(pid, signal.SIGSTOP)
                try:
                    for one, known in zip(streams, expected):
                        one.join(swarm.PATIENCE_S)
                        self.assertEqual(one.answer(), known)
                    said = s.read_log()[before:]
                    self.assertLessEqual(set(re.findall(r"worker (\S+) lost: ", said)), {name}, said)
                finally:
                    os.kill(pid, signal.SIGCONT)

    def test_a_loss_during_recovery(self):
        with swarm.Swarm(5, "--stages", "3") as s:
            body = request(s.model, 31)
            expected = self.reference(s, body)
            base = sockets(s.process.pid)
            stream = Stream(s.api, body)
            swarm.wait_until(lambda: len(stream.ids) >= 15, "the first tokens")
            first, second = stage_pid(s, 1)[0], stage_pid(s, 2)[0]
            os.kill(first, signal.SIGKILL)
            time.sleep(0.1)
            os.kill(second, signal.SIGKILL)
            stream.join(swarm.PATIENCE_S)
            self.assertEqual(stream.answer(), expected)
            self.settle(s, 5, base)

    def test_a_second_pipeline_takes_over(self):
        with swarm.Swarm(4, "--stages", "2") as s:
            swarm.wait_until(lambda: sum(p["state"] == "serving"
                                         for p in s.state()["pipelines"]) == 2,
                             "two pipelines")
            bodies = [request(s.model, seed) for seed in (41, 42)]
            expected = [self.reference(s, body) for body in bodies]
            base = sockets(s.process.pid)
            streams = [Stream(s.api, body) for body in bodies]
            swarm.wait_until(lambda: all(len(one.ids) >= 10 for one in streams), "tokens")
            victim = s.state()["pipelines"][0]["nodes"][1]
            os.kill(s.worker_pids()[victim], signal.SIGKILL)
            for stream, answer in zip(streams, expected):
                stream.join(swarm.PATIENCE_S)
                self.assertEqual(stream.answer(), answer)
            self.settle(s, 4, base)

    def test_a_worker_that_its_supervisor_starts_again(self):
        with swarm.Swarm(3) as s:
            body = request(s.model, 51)
            expected = self.reference(s, body)
            base = sockets(s.process.pid)
            self.fault(s, [body], [expected], [1], signal.SIGKILL, 20)
            self.settle(s, 3, base)


if __name__ == "__main__":
    swarm.main(layers=6)
