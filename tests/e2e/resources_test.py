"""What a process takes of its machine: memory within what was promised, no processor when idle.

On files that are generated here, so that it runs everywhere.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import swarm

MIB, GIB = 1 << 20, 1 << 30
FOLDER = tempfile.TemporaryDirectory()
LARGE = os.path.join(FOLDER.name, "large.gguf")  # 306 MiB, one layer
SMALL = os.path.join(FOLDER.name, "small.gguf")  # 16 MiB, four layers
PROCESS = 32 * MIB  # README.md: of a process beside its weights and KV
NO_CAPACITY = 4
POSITIONS = 64 + 4


def setUpModule():
    for path, *words in ((LARGE, "8b", 1, 32000, "Q4_K_M"), (SMALL, "demo", 4, 2000, "Q8_0")):
        shape, layers, vocabulary, kind = words
        swarm.make_model(path, "--shape", shape, "--layers", layers, "--vocabulary", vocabulary,
                         "--type", kind)


def tearDownModule():
    FOLDER.cleanup()


def bound(path):
    """1.1 of the weights, the KV of 68 positions, and the constant."""
    # One layer of 8 heads of 128 keys and 128 values: a byte each and their scales, under two.
    kv = 2 * 8 * 128 * 2 * POSITIONS
    return 1.1 * os.path.getsize(path) + kv + PROCESS


def peak(*words):
    """The most that a run of the program held, in bytes."""
    process = subprocess.Popen([swarm.HEARTH, *map(str, words)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return usage.ru_maxrss * 1024


def peak_of(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(s, prompt="Hello", tokens=4):
    status, body = s.post("/v1/completions", {
        "model": s.model, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True})
    assert status == 200 and body["usage"]["completion_tokens"] == tokens, body
    return body


class Memory(unittest.TestCase):
    def test_one_process_holds_its_weights_once(self):
        found = peak("bench", "model", LARGE, "-p", 64, "-n", 4, "-r", 1)
        self.assertGreater(found, os.path.getsize(LARGE))  # else it measures nothing
        self.assertLess(found, bound(LARGE))

    def test_a_worker_holds_its_weights_once(self):
        swarm.MODEL = LARGE
        with swarm.Swarm(1) as s:
            usage = ask(s, "some words of a prompt")["usage"]
            self.assertLess(usage["total_tokens"], POSITIONS)
            found = peak_of(s.worker_pids()["local-1"])
        self.assertGreater(found, os.path.getsize(LARGE))
        self.assertLess(found, bound(LARGE))

    def test_a_budget_too_small_is_refused_with_the_figures(self):
        weights = os.path.getsize(LARGE) / GIB
        with tempfile.TemporaryDirectory() as folder:
            for words in (["bench", "model", LARGE], ["run", "--local", LARGE, "Hi"],
                          # Placed by measurement, it would wait for more machines.
                          ["serve", "--model", LARGE, "--stages", "1", "--port", "0",
                           "--data-dir", folder],
                          # Before it is told a range: no server listens there.
                          ["worker", "--model", LARGE, "--coordinator", "127.0.0.1:9"]):
                with self.subTest(words[0]):
                    code, _, err = swarm.hearth(*words, "--memory", "100MiB")
                    self.assertEqual(code, NO_CAPACITY, err)
                    found = re.search(
                        r"needs ([\d.]+) GiB of memory: weights ([\d.]+) GiB, KV of one sequence "
                        r"([\d.]+) GiB, buffers ([\d.]+) GiB, process 0.03 GiB; has 0.10 GiB "
                        r"\(--memory", err)
                    self.assertTrue(found, err)
                    needs, *parts = map(float, found.groups())
                    self.assertAlmostEqual(needs, sum(parts) + 0.03, delta=0.026)  # all rounded
                    self.assertAlmostEqual(parts[0], weights, delta=0.1 * weights)

    def needed(self, *words):
        """GiB, as the refusal of 1 MB says."""
        code, _, err = swarm.hearth(*words, "--memory", "1MB")
        self.assertEqual(code, NO_CAPACITY, err)
        return float(re.search(r"needs ([\d.]+) GiB", err)[1])

    def test_what_a_refusal_asks_for_suffices(self):
        words = ["bench", "model", SMALL, "-p", 8, "-n", 2, "-r", 1]
        rounded = 0.005
        enough = int((self.needed(*words) + rounded) * GIB)
        code, _, err = swarm.hearth(*words, "--memory", enough)
        self.assertEqual(code, 0, err)
        code, _, err = swarm.hearth(*words, "--memory", int(enough - 2 * rounded * GIB))
        self.assertEqual(code, NO_CAPACITY, err)

    def test_a_worker_ends_when_it_is_assigned_more_than_it_holds(self):
        swarm.MODEL = SMALL
        with swarm.Swarm(0, "--stages", "1", ready=False) as s, \
                tempfile.TemporaryDirectory() as folder:
            one = self.needed("worker", "--model", SMALL, "--coordinator",
                              s.info["control"])
            all_layers = self.needed("serve", "--model", SMALL, "--stages", "1", "--port", "0",
                                     "--data-dir", folder)
            self.assertGreater(all_layers, one + 0.02)  # GiB: something lies between
            budget = int((one + all_layers) / 2 * GIB)
            code, _, err = swarm.hearth("worker", "--model", SMALL, "--coordinator",
                                        s.info["control"], "--data-dir", s.data_dir,
                                        "--memory", budget)
            self.assertEqual(code, NO_CAPACITY, err)
            self.assertIn(f"needs {all_layers:.2f} GiB of memory", err)


class Idle(unittest.TestCase):
    def test_a_worker_that_has_served_uses_no_processor(self):
        swarm.MODEL = SMALL
        with swarm.Swarm(2) as s:
            ask(s, tokens=32)
            pids = s.worker_pids()
            self.assertEqual(len(pids), 2)
            time.sleep(0.2)  # threads look for work for some milliseconds before they sleep
            before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            time.sleep(2)
            spent = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
            # It did compute before, so that the clock is seen to run.
            self.assertTrue(all(seconds > 0.05 for seconds in before.values()), before)
            self.assertTrue(all(seconds < 0.04 for seconds in spent.values()), spent)


if __name__ == "__main__":
    unittest.main(verbosity=2)
