"""What processes do with a card: the same answers as the processor's, and what happens to a worker
whose card fails or is too small. The card is emulated; the program, its processes and their sockets
are real."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import tempfile
import time
import unittest

import swarm

DEVICE = "cuda:0 emulated card"


class ProcessesOnACard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        swarm.MODEL = str(pathlib.Path(cls.folder.name, "tiny.gguf"))
        swarm.make_model(swarm.MODEL, "--shape", "tiny", "--layers", "2")
        cls.swarm = swarm.Swarm(1, "--device", "cuda", "--kv-budget", "1MB", "--log-level",
                                "debug")

    @classmethod
    def tearDownClass(cls):
        cls.swarm.stop()
        cls.folder.cleanup()

    def answer(self, *where, prompt="Hi", tokens=6):
        """Tokens and hashes of one prompt."""
        with tempfile.NamedTemporaryFile("r", dir=self.folder.name) as hashes:
            code, out, err = swarm.hearth("run", *where, prompt, "--token-ids", "-n", str(tokens),
                                          "--temp", "0.8", "--seed", "3", "--hashes", hashes.name)
            self.assertEqual(code, 0, err)
            return out, pathlib.Path(hashes.name).read_text()

    def of_the_swarm(self):
        return self.answer(self.swarm.model, "--host", self.swarm.api)

    def worker(self):
        return self.swarm.worker_pids().get("local-1")

    def expect_restart(self, pid, *said):
        """Another process serves, and the log says why the first one ended."""
        swarm.wait_until(lambda: self.worker() not in (None, pid), "a new worker")
        self.swarm.wait_ready()
        log = self.swarm.read_log()
        for words in said:
            self.assertIn(words, log)

    def test_a_card_answers_as_the_processor_does(self):
        expected = self.answer("--local", swarm.MODEL, "--device", "cpu")
        self.assertGreater(len(expected[1]), 1000)
        self.assertEqual(self.of_the_swarm(), expected)

    def test_several_at_once_get_the_answers_that_each_gets_alone(self):
        """Steps of two cohorts, of which one is computed while the other comes and goes."""
        prompts = ["Hi", "Good morning", "One, two, three", "A house by the sea"]
        expected = [self.answer("--local", swarm.MODEL, "--device", "cpu", prompt=prompt,
                                tokens=16) for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            found = list(pool.map(lambda prompt: self.answer(
                self.swarm.model, "--host", self.swarm.api, prompt=prompt, tokens=16), prompts))
        self.assertEqual(found, expected)

    def test_the_state_names_the_card(self):
        self.assertEqual(self.swarm.state()["nodes"][0]["device"], DEVICE)
        code, out, err = swarm.hearth("status", "--host", self.swarm.api)
        self.assertEqual(code, 0, err)
        self.assertRegex(out, rf"(?m)^local-1 +{DEVICE} +-$")

    def test_a_worker_that_loses_its_card_is_started_again(self):
        expected = self.of_the_swarm()
        pid = self.worker()
        os.kill(pid, signal.SIGUSR2)
        # The new process is there in time for its stream to go on, or one error says that it is not.
        code, _, err = swarm.hearth("run", self.swarm.model, "Hi", "--host", self.swarm.api)
        if code != 0:
            self.assertIn("no worker holds the lost layers", err)
        self.expect_restart(pid, "cuda:0: ", "its GPU failed", "code 7")
        self.assertEqual(self.of_the_swarm(), expected)

    def test_weights_are_checked_when_asked(self):
        os.kill(self.worker(), signal.SIGUSR1)
        swarm.wait_until(lambda: "weights have not changed since loading" in self.swarm.read_log())

    def test_a_changed_weight_ends_its_worker(self):
        expected = self.of_the_swarm()
        pid = self.worker()
        os.kill(pid, signal.SIGRTMIN)

        # Again and again: the order of two signals is not defined.
        def ended():
            if self.worker() != pid:
                return True
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)
            time.sleep(0.5)
            return False

        swarm.wait_until(ended, "the worker's end")
        self.expect_restart(pid, "GPU's memory of tensor token_embd.weight has changed", "code 7")
        self.assertEqual(self.of_the_swarm(), expected)

    def test_a_card_that_is_too_small_is_refused_with_the_figures(self):
        code, _, err = swarm.hearth("worker", "--model", swarm.MODEL, "--coordinator",
                                    "127.0.0.1:1", "--device", "cuda",
                                    env={"HEARTH_EMULATED_MEMORY": str((1 << 30) + (2 << 20))})
        self.assertEqual(code, 4, err)
        for words in ("weights", "KV of one sequence", "buffers", "may take 2.0 MiB"):
            self.assertIn(words, err)

    def test_auto_leaves_a_model_that_a_card_cannot_hold_to_the_processor(self):
        small = {"HEARTH_EMULATED_MEMORY": str((1 << 30) + (64 << 10))}
        command = ("run", "--local", swarm.MODEL, "Hi", "--token-ids", "-n", "4", "--temp", "0")
        expected = swarm.hearth(*command, "--device", "cpu")
        self.assertEqual(expected[0], 0, expected[2])
        code, out, err = swarm.hearth(*command, "--device", "auto", env=small)
        self.assertEqual((code, out), (0, expected[1]), err)
        figures = r"needs [0-9.]+ MiB: weights [0-9.]+ MiB, .*; may take 0\.1 MiB: "
        self.assertRegex(err, figures + ".*the CPU computes instead")
        needs = re.search(r"needs [0-9.]+ MiB", err).group()
        code, _, err = swarm.hearth(*command, "--device", "cuda", env=small)
        self.assertEqual(code, 4, err)
        self.assertRegex(err, figures)
        self.assertIn(needs, err)
        self.assertNotIn("self-test", err)

    def test_auto_passes_by_a_card_that_there_is_no_code_for(self):
        unknown = {"HEARTH_EMULATED_CAPABILITY": "10"}
        command = ("run", "--local", swarm.MODEL, "Hi", "--token-ids", "-n", "4", "--temp", "0")
        code, _, err = swarm.hearth(*command, "--device", "auto", env=unknown)
        self.assertEqual(code, 0, err)
        self.assertIn("compute capability 10.0", err)
        code, _, err = swarm.hearth(*command, "--device", "cuda", env=unknown)
        self.assertEqual(code, 1, err)
        self.assertIn("compute capability 10.0", err)

    def test_auto_says_that_a_driver_is_too_old(self):
        old = {"HEARTH_EMULATED_DRIVER_FAULT": "the NVIDIA driver serves CUDA 12.4"}
        command = ("run", "--local", swarm.MODEL, "Hi", "--token-ids", "-n", "4", "--temp", "0")
        code, _, err = swarm.hearth(*command, "--device", "auto", env=old)
        self.assertEqual(code, 0, err)
        self.assertEqual(err.count("CUDA 12.4; the CPU computes instead"), 1, err)
        code, _, err = swarm.hearth(*command, "--device", "cpu", env=old)
        self.assertEqual(code, 0, err)
        self.assertNotIn("CUDA", err)
        code, _, err = swarm.hearth(*command, "--device", "cuda", env=old)
        self.assertEqual(code, 3, err)
        self.assertIn("CUDA 12.4", err)

    def test_cuda_is_refused_where_there_is_no_card(self):
        code, _, err = swarm.hearth("run", "--local", swarm.MODEL, "Hi", "--device", "cuda",
                                    env={"HEARTH_EMULATED_CARDS": "0"})
        self.assertEqual(code, 3, err)
        self.assertIn("no GPU cuda:0: there is no NVIDIA driver, or it knows no GPU", err)

    def test_serve_starts_no_worker_on_a_card_that_is_not_there(self):
        """One that ends at once would be started again and again."""
        for device, env, expected, said in (
                ("cuda", {"HEARTH_EMULATED_CAPABILITY": "10"}, 1, "compute capability 10.0"),
                ("cuda:1", {}, 3, "no GPU cuda:1: the number must be below 1")):
            code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--local-workers", "1",
                                        "--port", "0", "--data-dir", self.folder.name,
                                        "--device", device, env=env)
            self.assertEqual(code, expected, err)
            self.assertIn(said, err)
            self.assertNotIn("started again", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
