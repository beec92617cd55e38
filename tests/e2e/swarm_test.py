"""The swarm against the one-process reference: same tokens, same hashes, however it is used."""

import concurrent.futures
import json
import pathlib
import tempfile
import unittest

import swarm

PROMPTS = [
    "What is the capital of France?",
    "Write a haiku about rain.",
    "def fibonacci(n):",
    "Explain gravity to a child in two sentences.",
    "List three colours.",
    "Übersetze ins Englische: Guten Morgen!",
    "1 2 3 4 5",
    "Tell me a story about a dragon who was afraid of fire and what happened to him one day.",
]


def local(prompt, *flags):
    code, out, err = swarm.hearth("run", "--local", swarm.MODEL, prompt, "--token-ids", *flags)
    assert code == 0, err
    return [int(word) for word in out.split()]


class SwarmEqualsLocal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.swarm = swarm.Swarm(3)

    @classmethod
    def tearDownClass(cls):
        cls.swarm.stop()

    def run_swarm(self, prompt, *flags):
        code, out, err = swarm.hearth("run", self.swarm.model, prompt, "--token-ids", "--host",
                                      self.swarm.api, *flags)
        self.assertEqual(code, 0, err)
        return [int(word) for word in out.split()]

    def test_same_tokens_and_hashes(self):
        for flags in (["--temp", "0"], ["--temp", "0.9", "--seed", "7", "--top-k", "0"]):
            with self.subTest(flags=flags), tempfile.TemporaryDirectory() as folder:
                one, other = pathlib.Path(folder, "a.jsonl"), pathlib.Path(folder, "b.jsonl")
                flags = [*flags, "-n", "24"]
                expected = local(PROMPTS[0], *flags, "--stages", "3", "--hashes", one)
                found = self.run_swarm(PROMPTS[0], *flags, "--hashes", other)
                self.assertEqual(expected, found)
                self.assertGreater(len(one.read_text()), 1000)
                self.assertEqual(one.read_text(), other.read_text())

    def test_hashes_of_one_stage_meet_those_of_three(self):
        with tempfile.TemporaryDirectory() as folder:
            one, three = pathlib.Path(folder, "1"), pathlib.Path(folder, "3")
            local(PROMPTS[1], "--temp", "0", "-n", "8", "--hashes", one)
            local(PROMPTS[1], "--temp", "0", "-n", "8", "--hashes", three, "--stages", "3")
            whole = [json.loads(line) for line in one.read_text().splitlines()]
            parts = [json.loads(line) for line in three.read_text().splitlines()]
            self.assertEqual([w["in"] for w in whole],
                             [p["in"] for p in parts if p["stage"] == 0])
            self.assertEqual([w["out"] for w in whole],
                             [p["out"] for p in parts if p["stage"] == 2])
            for left, right in zip(parts, parts[1:]):
                if right["stage"] > 0:
                    self.assertEqual(left["out"], right["in"])

    def test_sixteen_concurrent_streams_interleave_and_equal_local(self):
        jobs = [(PROMPTS[i % len(PROMPTS)], 12 + 5 * (i % 7), i) for i in range(16)]
        expected = {}
        for prompt, length, seed in jobs:
            expected[seed] = local(prompt, "-n", length, "--seed", seed, "--temp", "0.8",
                                   "--ignore-eos")
        model = self.swarm.model

        def ask(job):
            prompt, length, seed = job
            body = {"model": model, "messages": [{"role": "user", "content": prompt}],
                    "max_tokens": length, "seed": seed, "temperature": 0.8, "top_k": 40,
                    "top_p": 0.95, "ignore_eos": True, "return_token_ids": True}
            ids, times = [], []
            for when, event in swarm.stream(self.swarm.api + "/v1/chat/completions", body):
                if event == "[DONE]":
                    return seed, ids, times
                self.assertNotIn("error", event)
                for choice in event["choices"]:
                    if choice.get("token_ids"):
                        ids += choice["token_ids"]
                        times.append(when)
            self.fail("the stream broke off")

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(ask, jobs))
        for seed, ids, _ in answers:
            self.assertEqual(ids, expected[seed])
        # Interleaved: everybody's first token comes before the longest answer's last one.
        last_end = max(times[-1] for _, _, times in answers)
        self.assertTrue(all(times[0] < last_end for _, _, times in answers))
        ends = sorted(times[-1] for _, _, times in answers)
        starts = sorted(times[0] for _, _, times in answers)
        self.assertLess(starts[8], ends[0] + (ends[-1] - ends[0]) / 2)

    def test_hashes_of_a_long_prompt_arrive_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            one, other = pathlib.Path(folder, "a"), pathlib.Path(folder, "b")
            prompt, flags = "word soup " * 1200, ["--raw", "-n", "4", "--seed", "7"]
            local(prompt, *flags, "--stages", "3", "--hashes", one)
            self.run_swarm(prompt, *flags, "--hashes", other)
            self.assertGreater(one.stat().st_size, 1 << 20)
            self.assertEqual(one.read_text(), other.read_text())

    def test_hashes_of_an_answer_that_a_stop_string_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, one, other = (pathlib.Path(folder, name) for name in "wab")
            flags = ["--temp", "0", "-n", "40", "--ignore-eos"]
            code, text, err = swarm.hearth("run", "--local", swarm.MODEL, PROMPTS[3], *flags,
                                           "--stages", "3", "--hashes", whole)
            self.assertEqual(code, 0, err)
            flags += ["--stop", text.split()[12]]
            expected = local(PROMPTS[3], *flags, "--stages", "3", "--hashes", one)
            self.assertEqual(expected, self.run_swarm(PROMPTS[3], *flags, "--hashes", other))
            rows = one.read_text().splitlines()
            self.assertTrue(3 < len(rows) < len(whole.read_text().splitlines()))
            self.assertEqual(rows, other.read_text().splitlines())
            self.assertTrue(set(rows) <= set(whole.read_text().splitlines()))

    def test_state_shows_three_stages_of_ten_layers(self):
        nodes = [n for n in self.swarm.state()["nodes"] if n["state"] == "serving"]
        self.assertEqual(sorted(n["layers"] for n in nodes), [[0, 10], [10, 20], [20, 30]])

    def test_kv_is_returned(self):
        self.run_swarm("Hello", "-n", "4", "--temp", "0")
        swarm.wait_until(lambda: all(p["kv_pages_reserved"] == 0
                                     for p in self.swarm.state()["pipelines"]),
                         "all KV pages free")

    def test_abort_frees_the_sequence(self):
        body = {"model": self.swarm.model, "max_tokens": 4000, "ignore_eos": True,
                "messages": [{"role": "user", "content": "Count."}]}
        events = swarm.stream(self.swarm.api + "/v1/chat/completions", body)
        for _ in range(4):
            next(events)
        events.close()
        swarm.wait_until(lambda: self.swarm.state()["running"] == 0, "no running sequence")


if __name__ == "__main__":
    swarm.main()
