"""What shows a swarm to its owner: status, top, doctor, logs."""

import email.utils
import http.server
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
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
        swarm.wait_until(lambda: cls.swarm.state()["nodes"], "the worker")

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
                process.wait(swarm.PATIENCE_S)
        swarm.wait_until(lambda: len(self.swarm.state()["uncovered"]) == 2, "the gap again")


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
                    self.assertEqual(terminal.process.wait(swarm.PATIENCE_S), code)
                    self.assertEqual(terminal.mode(), before)
                    terminal.await_text(SHOW_CURSOR)
                    self.assertIn(b"local-1", terminal.seen)
                    terminal.leave(self, b"", code)

    def test_a_small_terminal_gets_what_fits(self):
        terminal = Terminal(*self.words("top", "--count", "1"), size=(4, 20))
        self.assertEqual(terminal.process.wait(swarm.PATIENCE_S), 0)
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
                # The rates may still be those of an earlier request.
                return state if state["running"] == 1 and state["tokens_per_second"] > 0 and all(
                    node["rows_per_second"] > 0 and 0 < node["busy_ratio"] <= 1
                    for node in state["nodes"]) else None

            swarm.wait_until(at_work, "rates")
            _, out, _ = swarm.hearth(*self.words("top", "--count", "1"))
            self.assertIn("1 request running", out)
        finally:
            chat.send_signal(signal.SIGINT)
            chat.wait(swarm.PATIENCE_S)
        swarm.wait_until(lambda: all(node["rows_per_second"] == 0
                                     for node in self.swarm.state()["nodes"]), "idleness")

    # The dashboard and the alerts of deploy/observe ask for what is exported.
    def test_every_metric_that_is_asked_for_is_exported(self):
        status, answer = self.swarm.post("/v1/completions", {"prompt": "Hello", "max_tokens": 2})
        self.assertEqual(status, 200, answer)
        root = pathlib.Path(__file__).parents[2]
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(self.swarm.get("/metrics")[1])
            file.flush()
            done = subprocess.run([sys.executable, root / "tests/house/metrics.py", root, file.name],
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_server_that_goes_and_comes_back(self):
        port = swarm.free_port()
        with swarm.Swarm(1, port=port) as server:
            words = ["status", "-w", "--host", server.api, "--interval", "0.2", "--json"]
            watching = subprocess.Popen([swarm.HEARTH, *words], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
            self.assertTrue(json.loads(watching.stdout.readline())["ready"])
            server.stop()
            self.assertIn("retrying", watching.stderr.readline())
        with swarm.Swarm(1, port=port):
            deadline = time.monotonic() + swarm.PATIENCE_S
            while not json.loads(watching.stdout.readline())["ready"]:
                self.assertLess(time.monotonic(), deadline)
            watching.send_signal(signal.SIGINT)
            watching.communicate(timeout=swarm.PATIENCE_S)
            self.assertEqual(watching.returncode, 130)


class WrongClock(http.server.BaseHTTPRequestHandler):
    """Two minutes ahead."""

    asked = 0

    def do_HEAD(self):
        WrongClock.asked += 1
        self.send_response_only(200)
        self.send_header("Date", email.utils.formatdate(time.time() + 120, usegmt=True))
        self.end_headers()

    def log_message(self, *_):
        pass


class Doctor(unittest.TestCase):
    """The probes for real: what this machine is like is not known, what the test makes of it is."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.data = pathlib.Path(self.folder.name, "a data folder")
        self.env = {"HEARTH_DATA_DIR": str(self.data), "HEARTH_MODELS": self.folder.name}

    def tearDown(self):
        self.folder.cleanup()

    def doctor(self, *words, env=None):
        """(exit code, {check: [finding]})"""
        code, out, err = swarm.hearth("doctor", "--json", *words, env=env or self.env)
        self.assertEqual(err, "")
        report = json.loads(out)
        found = {}
        for finding in report["findings"]:
            found.setdefault(finding["check"], []).append(finding)
        count = sum(f["health"] == "failed" for fs in found.values() for f in fs)
        self.assertEqual(report["failed"], count)
        self.assertEqual(code, 1 if count else 0)
        return found

    def test_every_check_says_something(self):
        found = self.doctor("--offline")
        for check in ("coordinator", "clock", "ports", "driver", "disk", "permissions", "limits"):
            for finding in found[check]:
                self.assertIn(finding["health"], ("ok", "warning", "failed", "skipped"))
                self.assertTrue(finding["text"])
        self.assertEqual(found["coordinator"][0]["health"], "skipped")
        self.assertIn("does not exist yet", found["permissions"][0]["text"])
        code, out, err = swarm.hearth("doctor", "--offline", env=self.env)
        self.assertRegex(out.splitlines()[-1], r"^\d+ failed, \d+ warnings?$")

    def test_the_line_that_mends_permissions_mends_them(self):
        self.data.mkdir(mode=0o755)
        self.data.chmod(0o755)
        for name in ("node.key", "hearth.db", "harmless"):
            self.data.joinpath(name).write_text("secret")
            self.data.joinpath(name).chmod(0o644)
        wrong = [f for f in self.doctor("--offline")["permissions"] if f["health"] == "failed"]
        self.assertEqual([shlex.split(f["mend"])[:2] for f in wrong],
                         [["chmod", "700"], ["chmod", "600"], ["chmod", "600"]])
        for finding in wrong:
            subprocess.run(finding["mend"], shell=True, check=True)
        mended = self.doctor("--offline")["permissions"]
        self.assertEqual([f["health"] for f in mended], ["ok"])
        self.assertIn("2 secret files", mended[0]["text"])

    def test_a_server_that_runs_here(self):
        with swarm.Swarm(1, data_dir=self.folder.name) as server:
            env = {**self.env, "HEARTH_DATA_DIR": str(server.data_dir)}
            found = self.doctor(env=env)
            self.assertEqual([f["health"] for f in found["coordinator"]], ["ok"])
            self.assertEqual([f["health"] for f in found["ports"]], ["ok"] * 3, found["ports"])
            self.assertIn("api port %s answers here and listens for this machine only" %
                          server.api.rsplit(":", 1)[1], found["ports"][0]["text"])
            self.assertEqual(found["clock"][0]["health"], "ok")
            self.assertIn("the server", found["clock"][0]["text"])
            offline = self.doctor("--offline", env=env)
            self.assertEqual(offline["coordinator"][0]["health"], "skipped")
            self.assertEqual([f["health"] for f in offline["ports"]], ["ok"] * 3)
            self.assertNotIn("answers", offline["ports"][0]["text"])
            server.kill()
            found = self.doctor("--offline", env=env)["ports"]
            self.assertEqual(found[0]["health"], "warning")
            subprocess.run(found[0]["mend"], shell=True, check=True)
            self.assertNotIn("farewell", self.doctor("--offline", env=env)["ports"][0]["text"])

    def test_ports_clocks_and_servers_that_are_not_as_they_should_be(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), WrongClock)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        try:
            found = self.doctor("--clock", url, "--port", server.server_port)
            self.assertEqual(found["clock"][0]["health"], "failed")
            self.assertIn("behind " + url, found["clock"][0]["text"])
            self.assertEqual(found["ports"][0]["health"], "warning")
            self.assertEqual(WrongClock.asked, 1)
            self.doctor("--clock", url, "--offline")
            self.assertEqual(WrongClock.asked, 1, "--offline dials nothing")
        finally:
            server.shutdown()
            server.server_close()
        found = self.doctor("--host", "127.0.0.1:9")
        self.assertEqual(found["coordinator"][0]["health"], "failed")
        self.assertEqual(found["coordinator"][0]["mend"], "hearth serve --model MODEL")

    def test_few_open_files_are_noticed(self):
        done = subprocess.run(["bash", "-c", 'ulimit -Sn 128; exec "$0" doctor --offline --json',
                               os.path.abspath(swarm.HEARTH)], capture_output=True, text=True,
                              env={**os.environ, **self.env})
        limits = [f for f in json.loads(done.stdout)["findings"] if f["check"] == "limits"]
        self.assertEqual(limits[0]["health"], "warning")
        self.assertIn("ulimit -n", limits[0]["mend"])


class Logs(unittest.TestCase):
    def test_what_server_and_workers_log_is_kept_and_followed(self):
        with swarm.Swarm(1, "--log-level", "debug") as server:
            words = ["logs", "--data-dir", str(server.data_dir)]
            swarm.wait_until(lambda: re.search(r"(?m)^20\d\d-\d\d-\d\d [\d:.]+ info ready: ",
                                               swarm.hearth(*words)[1]), "readiness logged")
            swarm.wait_until(lambda: "[local-1] " in swarm.hearth(*words)[1], "its lines")
            code, _, err = swarm.hearth(*words, "local-9")
            self.assertEqual(code, 1)
            self.assertIn("local-9 has no log file", err)

            following = subprocess.Popen([swarm.HEARTH, *words, "-f", "-n", "1"],
                                         stdout=subprocess.PIPE, text=True)
            following.stdout.readline()
            os.kill(server.worker_pids()["local-1"], signal.SIGKILL)
            for line in following.stdout:
                if "was ended by signal 9" in line:
                    break
            following.send_signal(signal.SIGINT)
            following.communicate(timeout=swarm.PATIENCE_S)
            self.assertEqual(following.returncode, -signal.SIGINT)
            self.assertEqual((server.data_dir / "logs").stat().st_mode & 0o777, 0o700)

    def test_a_worker_that_was_started_by_hand(self):
        with swarm.Swarm(0, ready=False) as server:
            process = subprocess.Popen(
                [swarm.HEARTH, "worker", "--model", swarm.MODEL, "--name", "den", "--data-dir",
                 str(server.data_dir)], stderr=subprocess.DEVNULL)
            try:
                server.wait_ready()
                words = ["logs", "--data-dir", str(server.data_dir), "den"]
                self.assertIn("info den: ", swarm.hearth(*words)[1])
                _, out, _ = swarm.hearth("__complete", "--", "logs", "d",
                                         env={"HEARTH_DATA_DIR": str(server.data_dir)})
                self.assertEqual(out.split(), ["den"])
            finally:
                process.terminate()
                process.wait(swarm.PATIENCE_S)

    def test_stderr_alone_where_that_is_wanted(self):
        with swarm.Swarm(1, "--no-log-file") as server:
            self.assertFalse((server.data_dir / "logs").exists())
            code, _, err = swarm.hearth("logs", "--data-dir", server.data_dir)
            self.assertEqual(code, 1)
            self.assertIn("there is no log", err)


if __name__ == "__main__":
    swarm.main()
