"""Emulated GPUs with the shape of a model: the swarm serves, everything says EMULATED, nothing is
signed, and workers with models and workers with shapes never meet.
"""

import os
import tempfile
import unittest
from unittest import mock

import swarm

SHAPE = "llama2-7b"
GPU = ("--emulate", "rtx4090")


class Emulation(unittest.TestCase):
    def setUp(self):
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        patch = mock.patch.dict(os.environ, {"HEARTH_CACHE_DIR": cache.name})
        patch.start()
        self.addCleanup(patch.stop)

    def ask(self, s, **more):
        return s.post("/v1/completions", {"model": s.model, "prompt": "Hello", "max_tokens": 40,
                                          "ignore_eos": True, "temperature": 0, **more})

    def test_says_what_it_is_and_signs_nothing(self):
        with swarm.Swarm(2, *GPU, shape=SHAPE) as s:
            self.assertEqual(s.model, f"EMULATED-{SHAPE}-q4_k_m")
            status, answer = self.ask(s)
            self.assertEqual(status, 200, answer)
            self.assertIn("EMULATED EMULATED", answer["choices"][0]["text"])
            self.assertEqual(answer["usage"]["completion_tokens"], 40)
            self.assertNotIn("draft_n", answer["timings"])
            status, answer = self.ask(s, hearth={"verify": "one"})
            self.assertGreaterEqual(status, 400, answer)
            self.assertFalse((s.data_dir / "ledger").exists())
            for node in s.state()["nodes"]:
                self.assertEqual(node["device"], "EMULATED NVIDIA GeForce RTX 4090")
            # KV has what the weights leave of 24 GiB: 20 GB, of which a position takes 139 KB.
            pipeline, = s.state()["pipelines"]
            self.assertGreater(pipeline["kv_pages"] * pipeline["kv_page_tokens"], 120_000)
            code, out, err = swarm.hearth("status", "--host", s.api)
            self.assertEqual(code, 0, err)
            self.assertIn("EMULATED", out)
            for line in s.read_log().split("\n")[:-1]:  # the last may be half written
                self.assertRegex(line, r" EMULATED ", line)
            self.keep_apart(s)

    def keep_apart(self, s):
        def worker(*words):
            return swarm.hearth("worker", "--coordinator", s.info["control"], "--data-dir",
                                s.data_dir, "--name", "other", "--no-log-file", *words)
        code, _, err = worker("--model", swarm.MODEL)
        self.assertNotEqual(code, 0)
        self.assertIn("models differ", err)
        code, _, err = worker("--shape", "llama2-13b", *GPU)
        self.assertNotEqual(code, 0)
        self.assertIn("models differ", err)
        for words, why in ((("--model", swarm.MODEL, *GPU), "pass --shape"),
                           (("--shape", SHAPE), "only an emulated GPU runs it"),
                           (GPU, "no model given: pass --shape"),
                           (("--shape", "llama-70b", *GPU), "is not in the catalogue")):
            code, _, err = worker(*words)
            self.assertNotEqual(code, 0, words)
            self.assertIn(why, err)

    def test_a_server_is_an_emulation_or_none(self):
        for words, why in ((("--shape", SHAPE), "--emulate rtx4090"),
                           (("--model", swarm.MODEL, *GPU), "pass --shape")):
            with tempfile.TemporaryDirectory() as folder:
                code, _, err = swarm.hearth("serve", *words, "--data-dir", folder, "--port", 0)
                self.assertNotEqual(code, 0)
                self.assertIn(why, err)


if __name__ == "__main__":
    swarm.main()
