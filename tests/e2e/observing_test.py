"""What shows a swarm to its owner: status, top."""

import json
import signal
import subprocess
import time
import unittest

import swarm
from terminal import Terminal

SHOW_CURSOR = b"\x1b[?25h"


class Uncovered(unittest.TestCase):
    """A third of a swarm: no prompt would be answered."""

    @classmethod
    def setUpClass(cls):
        cls.swarm = swarm.Swarm(1, "--stages", "3", ready=False)
        swarm.wait_until(lambda: cls.swarm.state()["nodes"], 30, "the worker")

    @classmethod
    def tearDownClass(cls):
        cls.swarm.stop()

    def test_status_says_which_layers_nobody_holds_and_what_to_add(self):
        code, out, err = swarm.hearth("status", "--host", self.swarm.api)
        self.assertEqual(code, 0, err)
        self.assertIn("why     no pipeline serves: 1 of 3 workers are registered", out)
        self.assertRegex(out, r"no node for layers 10-19: it needs [\d.]+ MB of memory at least, "
                              r"[\d.]+ MB of them for weights")
        self.assertIn("no node for layers 20-29", out)
        self.assertIn("add     2 workers, each with: hearth worker --model smollm2-135m", out)
        state = json.loads(swarm.hearth("status", "--host", self.swarm.api, "--json")[1])
        self.assertEqual([gap["layers"] for gap in state["uncovered"]], [[10, 20], [20, 30]])
        for gap in state["uncovered"]:
            self.assertGreater(gap["memory_bytes"], gap["weight_bytes"])
            self.assertGreater(gap["weight_bytes"], 20_000_000)

    def test_what_is_to_be_added_suffices(self):
        words = [swarm.HEARTH, "worker", "--model", swarm.MODEL, "--data-dir",
                 str(self.swarm.data_dir), "--log-level", "error"]
        need = max(gap["memory_bytes"] for gap in self.swarm.state()["uncovered"])
        added = [subprocess.Popen([*words, "--name", name, "--memory", str(need)])
                 for name in ("attic", "nook")]
        try:
            self.swarm.wait_ready()
            self.assertEqual(self.swarm.state()["uncovered"], [])
        finally:
            for process in added:
                process.terminate()
                process.wait(20)
        swarm.wait_until(lambda: len(self.swarm.state()["uncovered"]) == 2, 20, "the gap again")


class Watching(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.swarm = swarm.Swarm(2)

    @classmethod
    def tearDownClass(cls):
        cls.swarm.stop()

    def words(self, *words):
        return [*words, "--host", self.swarm.api, "--interval", "0.2"]

    def test_without_a_terminal_pictures_stand_below_one_another(self):
        for verb in (["status", "-w"], ["top"]):
            code, out, err = swarm.hearth(*self.words(*verb, "--count", "3"))
            self.assertEqual((code, err), (0, ""), verb)
            self.assertNotIn("\x1b", out)
            self.assertEqual(out.count("local-2  serving"), 3, out)
            self.assertEqual(out.count("\n\n"), 2)
            code, out, _ = swarm.hearth(*self.words(*verb, "--count", "2", "--json"))
            self.assertEqual([json.loads(line)["ready"] for line in out.splitlines()],
                             [True, True])

    def test_a_terminal_is_drawn_in_place_and_put_back(self):
        for verb in (["status", "-w"], ["top"]):
            for end, code in ((b"q", 0), (b"\x03", 130), (None, -signal.SIGTERM)):
                with self.subTest(verb=verb, end=end):
                    terminal = Terminal(*self.words(*verb), size=(30, 100))
                    before = terminal.mode()
                    terminal.await_text(b"\x1b[H", 3)
                    self.assertNotEqual(terminal.mode(), before, "keys come at once")
                    self.assertNotIn(SHOW_CURSOR, terminal.seen)
                    if end is None:
                        terminal.process.terminate()
                        end = b""
                    terminal.type(end)
                    self.assertEqual(terminal.process.wait(20), code)
                    self.assertEqual(terminal.mode(), before)
                    terminal.await_text(SHOW_CURSOR)
                    self.assertIn(b"local-1", terminal.seen)
                    terminal.leave(self, b"", code)

    def test_a_small_terminal_gets_what_fits(self):
        terminal = Terminal(*self.words("top", "--count", "1"), size=(4, 20))
        self.assertEqual(terminal.process.wait(20), 0)
        terminal.await_text(b"lines more")
        for line in terminal.seen.split(b"\x1b[H")[1].split(b"\x1b[K\r\n"):
            self.assertLessEqual(len(line.decode().replace("\x1b[J", "").replace(
                SHOW_CURSOR.decode(), "")), 20)
        terminal.leave(self, b"")

    def test_work_shows_in_rates(self):
        chat = subprocess.Popen(
            [swarm.HEARTH, "run", self.swarm.model, "Count.", "-n", "2000", "--ignore-eos",
             "--host", self.swarm.api], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def at_work():
                state = self.swarm.state()
                return state if state["tokens_per_second"] > 0 and all(
                    node["rows_per_second"] > 0 and 0 < node["busy_ratio"] <= 1
                    for node in state["nodes"]) else None

            swarm.wait_until(at_work, 20, "rates")
            _, out, _ = swarm.hearth(*self.words("top", "--count", "1"))
            self.assertIn("1 request running", out)
        finally:
            chat.send_signal(signal.SIGINT)
            chat.wait(20)
        swarm.wait_until(lambda: all(node["rows_per_second"] == 0
                                     for node in self.swarm.state()["nodes"]), 20, "idleness")

    def test_a_server_that_goes_and_comes_back(self):
        with swarm.Swarm(1) as server:
            port = int(server.api.rsplit(":", 1)[1])
            words = ["status", "-w", "--host", server.api, "--interval", "0.2", "--json"]
            watching = subprocess.Popen([swarm.HEARTH, *words], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
            self.assertTrue(json.loads(watching.stdout.readline())["ready"])
            server.stop()
            self.assertIn("asking again", watching.stderr.readline())
        with swarm.Swarm(1, port=port):
            deadline = time.monotonic() + 20
            while not json.loads(watching.stdout.readline())["ready"]:
                self.assertLess(time.monotonic(), deadline)
            watching.send_signal(signal.SIGINT)
            watching.communicate(timeout=20)
            self.assertEqual(watching.returncode, 130)


if __name__ == "__main__":
    swarm.main()
