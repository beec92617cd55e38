"""Faults injected into real processes: workers and the coordinator killed or frozen."""

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import swarm


def long_request(model):
    return {"model": model, "max_tokens": 6000, "ignore_eos": True, "temperature": 0,
            "messages": [{"role": "user", "content": "Count upwards for ever."}]}


class Reader(threading.Thread):
    """One stream read in the background until it ends."""

    def __init__(self, api, body):
        super().__init__(daemon=True)
        self.api, self.body = api, body
        self.events, self.ended_at, self.failure = [], None, None
        self.start()

    def run(self):
        try:
            for _, event in swarm.stream(self.api + "/v1/chat/completions", self.body):
                self.events.append(event)
        except Exception as failure:  # a broken connection is what some tests look for
            self.failure = failure
        self.ended_at = time.monotonic()

    def started(self):
        return len(self.events) >= 3


class WorkerLoss(unittest.TestCase):
    """Where no other node holds the layers; failover_test.py has the others."""

    def test_each_stage(self):
        """A swarm for each kind of loss: they mostly wait for nodes that do not return."""
        with concurrent.futures.ThreadPoolExecutor() as swarms:
            for done in swarms.map(self.each_stage, (signal.SIGKILL, signal.SIGSTOP)):
                self.assertIsNone(done)

    def each_stage(self, number):
        with swarm.Swarm(0, "--stages", "3", ready=False) as s:
            words = [swarm.HEARTH, "worker", "--model", swarm.MODEL, "--coordinator",
                     s.info["control"], "--data-dir", str(s.data_dir), "--name"]
            workers = {name: subprocess.Popen([*words, name], stdout=s.log, stderr=s.log)
                       for name in ("w0", "w1", "w2")}
            try:
                for stage in range(3):
                    s.wait_ready()
                    self.lose(s, stage, workers, words, number)
            finally:
                for worker in workers.values():
                    worker.kill()
                    worker.wait()

    def lose(self, s, stage, workers, words, number):
        readers = [Reader(s.api, long_request(s.model)) for _ in range(3)]
        for reader in readers:
            swarm.wait_until(reader.started, "the stream's first tokens")
        victim = next(n for n in s.state()["nodes"]
                      if n["state"] == "serving" and n["stage"] == stage)
        killed_at = time.monotonic()
        os.kill(victim["process_id"], number)
        for reader in readers:
            reader.join(swarm.PATIENCE_S)
            self.assertIsNotNone(reader.ended_at, "the stream goes on")
            self.assertIn("error", reader.events[-1])
            self.assertTrue(reader.events[-1]["error"]["type"])
            self.assertIn("layers", reader.events[-1]["error"]["message"])
            self.assertNotIn("[DONE]", reader.events)
            self.assertFalse(any(c.get("finish_reason") for e in reader.events
                                 for c in e.get("choices", [])))
        after = max(reader.ended_at for reader in readers) - killed_at
        print(f"stage {stage}, {number.name}: the error came after {after:.2f} s", flush=True)
        self.assertEqual(s.get("/livez")[0], 200)
        workers[victim["name"]].kill()
        workers[victim["name"]].wait()
        workers[victim["name"]] = subprocess.Popen([*words, victim["name"]], stdout=s.log,
                                                   stderr=s.log)
        s.wait_ready()
        state = s.state()
        self.assertEqual(state["running"] + state["waiting"], 0)
        self.assertTrue(all(p["kv_pages_reserved"] == 0 for p in state["pipelines"]))
        code, _, err = swarm.hearth("run", s.model, "Say hi", "-n", "4", "--temp", "0", "--host",
                                    s.api)
        self.assertEqual(code, 0, err)


class CoordinatorLoss(unittest.TestCase):
    def test_standalone_workers_serve_again(self):
        with tempfile.TemporaryDirectory() as folder:
            port, api_port = swarm.free_port(), swarm.free_port()
            first = swarm.Swarm(0, "--stages", "2", data_dir=folder, control_port=port,
                                port=api_port, ready=False)
            control = first.info["control"]
            workers = [subprocess.Popen([swarm.HEARTH, "worker", "--model", swarm.MODEL,
                                         "--coordinator", control, "--name", f"w{i}",
                                         "--data-dir", folder],
                                        stdout=first.log, stderr=first.log) for i in range(2)]
            try:
                first.wait_ready()
                reader = Reader(first.api, long_request(first.model))
                swarm.wait_until(reader.started, "first tokens")
                first.kill()
                reader.join(swarm.PATIENCE_S)
                self.assertNotIn("[DONE]", reader.events)
                self.assertTrue(all(w.poll() is None for w in workers))
                with swarm.Swarm(0, "--stages", "2", data_dir=folder, control_port=port,
                                 port=api_port) as second:
                    self.assertEqual(sorted(second.worker_pids().values()),
                                     sorted(w.pid for w in workers))
                    code, _, err = swarm.hearth("run", second.model, "Say hi", "-n", "4",
                                                "--temp", "0", "--host", second.api)
                    self.assertEqual(code, 0, err)
            finally:
                for worker in workers:
                    worker.kill()
                    worker.wait()

    def test_workers_without_a_name_have_the_same_ones_at_each_start(self):
        with tempfile.TemporaryDirectory() as folder:
            with swarm.Swarm(0, "--stages", "2", data_dir=folder, ready=False) as s:
                environment = {**os.environ, "HEARTH_DATA_DIR": folder}
                words = [swarm.HEARTH, "worker", "--model", swarm.MODEL]
                names = set()
                for _ in range(2):
                    workers = [subprocess.Popen(words, stdout=s.log, stderr=s.log, env=environment)
                               for _ in range(2)]
                    try:
                        pids = sorted(worker.pid for worker in workers)
                        swarm.wait_until(lambda: sorted(s.worker_pids().values()) == pids,
                                         "both workers")
                        names |= set(s.worker_pids())
                        code, _, err = swarm.hearth("worker", "--model", swarm.MODEL, "--name",
                                                    min(names), env=environment)
                        self.assertEqual(code, 5, err)
                        self.assertIn("runs already", err)
                    finally:
                        for worker in workers:
                            worker.kill()
                            worker.wait()
                first, second = sorted(names, key=len)
                self.assertEqual(second, first + "-2")
                self.assertEqual(len(list(pathlib.Path(folder, "local").glob("*.key"))), 2)

    def test_workers_of_the_same_folder_find_a_coordinator_on_another_port(self):
        with tempfile.TemporaryDirectory() as folder:
            first = swarm.Swarm(0, "--stages", "2", data_dir=folder, ready=False)
            environment = {**os.environ, "HEARTH_DATA_DIR": folder}
            workers = [subprocess.Popen([swarm.HEARTH, "worker", "--model", swarm.MODEL,
                                         "--name", f"w{i}"], stdout=first.log, stderr=first.log,
                                        env=environment) for i in range(2)]
            try:
                first.wait_ready()
                first.kill()
                with swarm.Swarm(0, "--stages", "2", data_dir=folder) as second:
                    self.assertNotEqual(second.info["control"], first.info["control"])
                    self.assertEqual(sorted(second.worker_pids().values()),
                                     sorted(w.pid for w in workers))
            finally:
                for worker in workers:
                    worker.kill()
                    worker.wait()

    def test_a_frozen_coordinator_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            s = swarm.Swarm(0, "--stages", "1", ready=False)
            log = pathlib.Path(folder, "worker.log")
            with open(log, "wb") as out:
                worker = subprocess.Popen([swarm.HEARTH, "worker", "--model", swarm.MODEL,
                                           "--coordinator", s.info["control"], "--name", "w",
                                           "--data-dir", s.data_dir],
                                          stdout=out, stderr=out)
            try:
                s.wait_ready()
                s.process.send_signal(signal.SIGSTOP)
                swarm.wait_until(lambda: "no session with the coordinator" in log.read_text(),
                                 "the worker's notice of the silence")
                self.assertIsNone(worker.poll())
                s.process.send_signal(signal.SIGCONT)
                swarm.wait_until(lambda: "registered with" in
                                 log.read_text().split("no session with the coordinator")[-1],
                                 "the worker's return")
                s.wait_ready()
                self.assertEqual(s.worker_pids(), {"w": worker.pid})
            finally:
                s.process.send_signal(signal.SIGCONT)
                worker.kill()
                worker.wait()
                s.stop()

    def test_local_workers_end_with_their_coordinator(self):
        s = swarm.Swarm(2)
        pids = list(s.worker_pids().values())
        self.assertEqual(len(pids), 2)
        s.kill()
        swarm.wait_until(lambda: not any(swarm.alive(pid) for pid in pids), "the workers' end")
        s.stop()


class Names(unittest.TestCase):
    def test_a_second_worker_of_a_name_is_refused_and_a_restarted_one_is_not(self):
        with swarm.Swarm(0, "--stages", "1", ready=False) as s:
            words = ["worker", "--model", swarm.MODEL, "--coordinator", s.info["control"],
                     "--name", "den", "--data-dir", str(s.data_dir)]
            first = subprocess.Popen([swarm.HEARTH, *words], stdout=s.log, stderr=s.log)
            try:
                s.wait_ready()
                code, _, err = swarm.hearth(*words)
                self.assertEqual(code, 5, err)
                self.assertIn("worker den runs already", err)
                self.assertIn("--name", err)
                self.assertIsNone(first.poll())
                self.assertEqual(s.worker_pids(), {"den": first.pid})
                first.kill()
                first.wait()
                first = subprocess.Popen([swarm.HEARTH, *words], stdout=s.log, stderr=s.log)
                swarm.wait_until(lambda: s.worker_pids() == {"den": first.pid},
                                 "the restarted worker in its pipeline")
                s.wait_ready()
            finally:
                first.kill()
                first.wait()


class Termination(unittest.TestCase):
    def test_sigterm_ends_streams_with_an_error_and_exits_zero(self):
        s = swarm.Swarm(3)
        reader = Reader(s.api, long_request(s.model))
        swarm.wait_until(reader.started, "first tokens")
        pids = list(s.worker_pids().values())
        begun = time.monotonic()
        s.process.terminate()
        self.assertEqual(s.process.wait(swarm.PATIENCE_S), 0)
        print(f"ended {time.monotonic() - begun:.2f} s after the signal", flush=True)
        reader.join(swarm.PATIENCE_S)
        self.assertNotIn("[DONE]", reader.events)
        swarm.wait_until(lambda: not any(swarm.alive(pid) for pid in pids), "the workers' end")
        s.stop()


class Refusals(unittest.TestCase):
    def test_not_loopback(self):
        with swarm.Swarm(0, "--stages", "1", ready=False) as s:
            code, _, err = swarm.hearth("worker", "--model", swarm.MODEL, "--listen", "192.0.2.1:0",
                                        "--data-dir", s.data_dir)
            self.assertEqual(code, 1, err)
            self.assertIn("loopback", err)
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = swarm.hearth("worker", "--model", swarm.MODEL, "--coordinator",
                                        "192.0.2.1:9", "--data-dir", folder)
            self.assertEqual(code, 3, err)
            self.assertIn("hearth join", err)

    def test_a_kv_budget_that_holds_no_page(self):
        with tempfile.TemporaryDirectory() as folder:
            for budget in ("1", None):
                code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--local-workers",
                                            "2", "--stages", "2", "--kv-budget",
                                            budget or str(least - 1), "--data-dir", folder)
                self.assertEqual(code, 1, err)
                found = re.search(r"15 layers of this model need --kv-budget (\d+) or more", err)
                self.assertTrue(found, err)
                least = int(found.group(1))
        code, _, err = swarm.hearth("worker", "--model", swarm.MODEL, "--coordinator",
                                    "127.0.0.1:9", "--kv-budget", "1")
        self.assertEqual(code, 1)
        self.assertIn("--kv-budget", err)
        with swarm.Swarm(2, "--kv-budget", str(least)) as s:
            self.assertEqual(s.state()["pipelines"][0]["kv_pages"], 1)

    def test_more_stages_than_layers(self):
        code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--stages", "31")
        self.assertEqual(code, 1)
        self.assertIn("30 layers, fewer than 31 stages", err)

    def test_port_taken(self):
        with swarm.Swarm(1) as s:
            port = s.api.rsplit(":", 1)[1]
            code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--local-workers", "1",
                                        "--port", port, "--data-dir", s.data_dir / "second")
            self.assertEqual(code, 1)
            self.assertIn(port, err)

    def test_oversized_prompts_are_refused_and_nothing_dies(self):
        with swarm.Swarm(2) as s:
            pids = s.worker_pids()
            for length, status in ((9000, {400}), (3_000_000, {400, 413})):
                found, body = s.post("/v1/completions",
                                     {"model": s.model, "prompt": "word " * length,
                                      "max_tokens": 5})
                self.assertIn(found, status)
                self.assertTrue(body["error"]["message"])
            found, body = s.post("/v1/completions", {"model": s.model, "prompt": "Hi",
                                                     "max_tokens": 100_000})
            self.assertEqual(found, 400)
            self.assertEqual(s.worker_pids(), pids)


if __name__ == "__main__":
    swarm.main()
