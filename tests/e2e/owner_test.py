"""Machines that their owners take back while they answer: three workers with folders of their own,
as on three machines. What a paused or drained one served goes on elsewhere with the tokens of the
undisturbed run; its memory is free in seconds; what was said outlives the process."""

import json
import os
import re
import signal
import subprocess
import threading
import time

import cluster
import swarm

TOKENS = 90
SILENT_S = 0.6  # of the 1.5 s after which a machine is lost, and not slow
SHORT_S = 0.004  # enough for a sign of life


def request(model, seed, tokens):
    return {"model": model, "prompt": "Tell me a long story about the sea.", "max_tokens": tokens,
            "ignore_eos": True, "temperature": 0.9, "top_p": 0.95, "seed": seed,
            "return_token_ids": True}


class Stream(threading.Thread):
    """One stream, read in the background: token ids, when each came, and what failed."""

    def __init__(self, s, seed, tokens=TOKENS):
        super().__init__(daemon=True)
        self.api, self.body = s.api, request(s.model, seed, tokens)
        self.ids, self.times, self.text, self.error, self.done = [], [], "", None, False
        self.start()

    def run(self):
        try:
            for at, event in swarm.stream(self.api + "/v1/completions", self.body):
                if event == "[DONE]":
                    self.done = True
                    return
                self.error = self.error or event.get("error")
                for choice in event.get("choices", []):
                    self.text += choice.get("text", "")
                    fresh = choice.get("token_ids") or []
                    self.ids += fresh
                    self.times += [at] * len(fresh)
        except Exception as failure:  # a broken connection fails the comparison
            self.error = repr(failure)

    def answer(self):
        self.join(swarm.PATIENCE_S)
        return self.error, self.done, self.ids, self.text

    def longest_gap(self):
        return max((b - a for a, b in zip(self.times, self.times[1:])), default=0.0)

    def wait_for_tokens(self, count):
        swarm.wait_until(lambda: len(self.ids) >= count or self.error, "the first tokens")


def rss(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024


class Owner(cluster.Cluster):
    def setUp(self):
        super().setUp()
        self.init()
        self.s = swarm.Swarm(0, "--stages", "2", data_dir=self.home, ready=False)
        self.addCleanup(self.s.stop)
        self.workers = {}
        for name in ("den", "attic", "hall"):
            self.workers[name], _ = self.join(name, self.token())
        swarm.wait_until(lambda: len(self.nodes()) == 3 and self.s._ready(), "three workers")

    def nodes(self):
        return {node["name"]: node for node in self.s.state()["nodes"]}

    def serving(self, stage):
        return next(node for node in self.nodes().values()
                    if node["state"] == "serving" and node["stage"] == stage)

    def reference(self, seed):
        error, done, ids, text = Stream(self.s, seed).answer()
        self.assertIsNone(error)
        self.assertTrue(done and len(ids) == TOKENS)
        return error, done, ids, text

    def restart(self, name):
        self.workers[name].send_signal(signal.SIGKILL)
        self.workers[name].wait()
        self.start_worker(name)

    def start_worker(self, name):
        self.workers[name], _ = self.start(self.folder(name), "worker", "--model", swarm.MODEL)
        pid = self.workers[name].pid
        swarm.wait_until(lambda: self.nodes().get(name, {}).get("process_id") == pid and
                         self.nodes()[name]["state"] != "lost", f"{name}'s return")

    def wait_for_state(self, name, *states):
        swarm.wait_until(lambda: self.nodes()[name]["state"] in states, f"{name} {states}")

    def pause_measured(self, node, *words):
        """Pauses the node's machine until its process has given its weights back; what pause says."""
        pid, before = node["process_id"], rss(node["process_id"])
        begin = time.monotonic()
        order = subprocess.Popen([swarm.HEARTH, "pause", *words, "--data-dir",
                                  self.folder(node["name"])], stdout=subprocess.PIPE, text=True)
        swarm.wait_until(lambda: before - rss(pid) > 0.8 * node["weight_bytes"], "free memory")
        took = time.monotonic() - begin
        said = order.communicate(timeout=swarm.PATIENCE_S)[0]
        self.assertEqual(order.returncode, 0)
        print(f"pause: {node['weight_bytes'] / 1e6:.0f} MB of weights, resident "
              f"{before / 1e6:.0f} to {rss(pid) / 1e6:.0f} MB in {took:.2f} s; {said.strip()}",
              flush=True)
        return said

    def test_pause_and_resume_while_it_answers(self):
        for stage in (0, 1):
            with self.subTest(stage=stage):
                expected = self.reference(20 + stage)
                stream = Stream(self.s, 20 + stage)
                stream.wait_for_tokens(20)
                node = self.serving(stage)
                said = self.pause_measured(node, "2h")
                self.assertIn("paused until 20", said)
                self.assertEqual(stream.answer(), expected)
                print(f"the stream paused for {stream.longest_gap():.2f} s", flush=True)
                self.paused(node["name"])
                self.good(self.folder(node["name"]), "resume")
                self.wait_for_state(node["name"], "free", "serving")
        self.assertEqual(self.s.state()["totals"]["finished_error"], 0)

    def paused(self, name):
        self.assertEqual(self.nodes()[name]["state"], "paused")
        away = self.nodes()[name]["away"]
        self.assertEqual((away["drain"], away["why"]), (False, "hearth pause"))
        self.assertAlmostEqual(away["until"], time.time() + 7200, delta=120)
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(away["until"]))
        for words in (["status"], ["top", "--count", "1"]):
            code, out, err = swarm.hearth(*words, "--host", self.s.api)
            self.assertEqual(code, 0, err)
            self.assertIn(f"paused until {until} (hearth pause)", out)
        out = json.loads(swarm.hearth("status", "--json", "--host", self.s.api)[1])
        self.assertTrue(any(node.get("away") == away for node in out["nodes"]))
        self.restart(name)
        self.assertEqual(self.nodes()[name]["state"], "paused")
        print(f"a worker that starts paused has {rss(self.workers[name].pid) / 1e6:.0f} MB",
              flush=True)

    def test_a_pause_ends_by_itself(self):
        name = self.serving(1)["name"]
        self.good(self.folder(name), "pause", "3s")
        self.assertEqual(self.nodes()[name]["state"], "paused")
        self.wait_for_state(name, "free", "serving")
        self.assertNotIn("away", self.nodes()[name])

    def test_where_nobody_takes_over(self):
        expected = self.reference(31)
        spare = next(name for name, node in self.nodes().items() if node["state"] == "free")
        self.good(self.folder(spare), "pause")
        stream = Stream(self.s, 31)
        stream.wait_for_tokens(20)
        node = self.serving(0)
        self.pause_measured(node)
        error, _, ids, _ = stream.answer()
        self.assertTrue(error and error["type"], error)
        self.assertIn(f"worker {node['name']} is paused by its owner", error["message"])
        self.assertEqual(ids, expected[2][:len(ids)])
        self.good(self.folder(node["name"]), "resume")
        self.s.wait_ready()
        self.assertEqual(self.reference(31), expected)
        # Back within the bound: the stream waits for it.
        stream = Stream(self.s, 31)
        stream.wait_for_tokens(20)
        node = self.serving(1)
        order = subprocess.Popen([swarm.HEARTH, "pause", "--data-dir", self.folder(node["name"])])
        self.wait_for_state(node["name"], "paused")
        os.unlink(os.path.join(self.folder(node["name"]), "pause.json"))  # as resume does
        self.assertEqual(stream.answer(), expected)
        order.wait(swarm.PATIENCE_S)

    def test_a_slow_machine_is_routed_around(self):
        """Others have its processor for nine tenths of the time and more, in longer and longer spans,
        then in between them for less and less, until the coordinator finds it slow beside its
        neighbours, who may be slow themselves."""
        tokens = 700
        expected = Stream(self.s, 61, tokens).answer()
        self.assertEqual(len(expected[2]), tokens)
        stream = Stream(self.s, 61, tokens)
        stream.wait_for_tokens(200)
        node = self.serving(1)
        over = threading.Event()

        def stutter():
            worker, stopped, runs = self.workers[node["name"]], 0.135, 0.018
            while not over.is_set():
                worker.send_signal(signal.SIGSTOP)
                over.wait(stopped)
                worker.send_signal(signal.SIGCONT)
                over.wait(runs)
                if stopped < SILENT_S:
                    stopped = 1.05 * stopped
                    runs = 0.015 + stopped / 40
                else:  # a step takes several spans
                    runs = max(0.95 * runs, SHORT_S)
        thread = threading.Thread(target=stutter)
        begin = time.monotonic()
        thread.start()
        try:
            swarm.wait_until(lambda: any(n["state"] == "serving" and n["stage"] == 1 and
                                         n["name"] != node["name"] for n in self.nodes().values()),
                             "another machine")
            print(f"routed around after {time.monotonic() - begin:.1f} s and "
                  f"{len(stream.ids) - 200} tokens", flush=True)
            self.assertIn("times as long", self.nodes()[node["name"]]["slow"])
            out = swarm.hearth("status", "--host", self.s.api)[1]
            self.assertRegex(out, f"slow +{node['name']}: its steps take")
        finally:
            over.set()
            thread.join()
        self.assertEqual(stream.answer(), expected)

    def test_drain(self):
        expected = self.reference(41)
        stream = Stream(self.s, 41)
        stream.wait_for_tokens(20)
        name = self.serving(0)["name"]
        said = self.good(self.folder(name), "drain", "1h")
        self.assertIn("drained until 20", said)
        self.assertEqual(self.workers[name].wait(swarm.PATIENCE_S), 0)
        self.assertEqual(stream.answer(), expected)
        print(f"drain: the stream paused for {stream.longest_gap():.2f} s", flush=True)
        self.start_worker(name)
        self.assertEqual(self.nodes()[name]["state"], "paused")
        self.assertTrue(self.nodes()[name]["away"]["drain"])
        self.assertIn("drained until", swarm.hearth("status", "--host", self.s.api)[1])
        self.good(self.folder(name), "resume")
        self.wait_for_state(name, "free", "serving")
        # Without a spare what runs here ends first.
        spare = next(other for other, node in self.nodes().items() if node["state"] == "free")
        self.good(self.folder(spare), "pause")
        stream = Stream(self.s, 41)
        stream.wait_for_tokens(20)
        name = self.serving(1)["name"]
        self.good(self.folder(name), "drain")
        self.assertEqual(stream.answer(), expected)
        self.assertEqual(self.workers[name].wait(swarm.PATIENCE_S), 0)
        self.assertEqual(self.s.state()["totals"]["finished_error"], 0)
        self.assertIn("to serve again: hearth resume", self.good(self.folder(name), "logs"))
        self.assertEqual(self.good(self.folder(name), "resume"), "resumed")
        self.assertIn("nothing was paused here", self.good(self.folder(name), "resume"))

    def test_hours(self):
        name = next(name for name, node in self.nodes().items() if node["state"] == "free")
        now = time.localtime()
        begin, end = ((now.tm_hour + hours) % 24 for hours in (2, 3))
        self.workers[name].kill()
        self.workers[name].wait()
        self.workers[name], _ = self.start(self.folder(name), "worker", "--model", swarm.MODEL,
                                           "--hours", f"{begin:02}:00-{end:02}:00")
        swarm.wait_until(lambda: self.nodes()[name].get("away"), "the pause")
        away = self.nodes()[name]["away"]
        self.assertEqual(away["why"], "outside its hours")
        self.assertEqual(time.localtime(away["until"])[3:5], (begin, 0))


if __name__ == "__main__":
    swarm.main()
