"""The coordinator is killed in the middle of answers and started again: clients that come back with
their Idempotency-Key get the rest, with the text of the undisturbed run, nothing twice and nothing
left out. Real processes on real sockets.
"""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request

import swarm

TOKENS = 80
PROMPT = "Tell me a long story about the sea."
LONG_PROMPT = "The quick brown fox jumps over the lazy dog. " * 45


def request(prompt=PROMPT, tokens=TOKENS, **more):
    return {"model": more.pop("model"), "prompt": prompt, "max_tokens": tokens,
            "ignore_eos": True, "temperature": 0.9, "top_p": 0.95, "presence_penalty": 0.4,
            "return_token_ids": True, "stream": True,
            "stream_options": {"include_usage": True}, **more}


class Client(threading.Thread):
    """Asks for one answer with a key and comes back for the rest until it is whole."""

    def __init__(self, api, body, key):
        super().__init__(daemon=True)
        self.api, self.body, self.key = api, body, key
        self.ids, self.text, self.finish, self.usage = [], "", None, None
        self.last, self.done, self.error, self.connections = None, False, None, 0
        self.last_ids = []
        self.start()

    def run(self):
        deadline = time.monotonic() + swarm.PATIENCE_S
        while not self.done and self.error is None and time.monotonic() < deadline:
            try:
                self.connect()
            except (OSError, urllib.error.URLError, ValueError) as failure:
                self.note = repr(failure)
                time.sleep(0.05)

    def connect(self):
        headers = {"Content-Type": "application/json", "Idempotency-Key": self.key}
        if self.last:
            headers["Last-Event-ID"] = self.last
        ask = urllib.request.Request(self.api + "/v1/completions",
                                     data=json.dumps(self.body).encode(), headers=headers)
        try:
            with urllib.request.urlopen(ask, timeout=swarm.PATIENCE_S) as reply:
                self.connections += 1
                event_id, data = None, None
                for raw in reply:
                    line = raw.decode().rstrip("\n")
                    if line.startswith("id: "):
                        event_id = line[4:]
                    elif line.startswith("data: "):
                        data = line[6:]
                    elif line == "" and data is not None:
                        self.take(event_id, data)
                        event_id, data = None, None
        except urllib.error.HTTPError as refusal:
            if refusal.code not in (429, 503):
                self.error = refusal.code, refusal.read()
            time.sleep(0.1)

    def take(self, event_id, data):
        if data == "[DONE]":
            self.done = True
            return
        event = json.loads(data)
        if "error" in event:
            self.error = event["error"]
            return
        if event_id:
            self.last = event_id
        self.usage = swarm.uncached(event.get("usage")) or self.usage
        for choice in event.get("choices", []):
            self.text += choice.get("text", "")
            self.ids += choice.get("token_ids") or []
            self.finish = choice.get("finish_reason") or self.finish

    def answer(self):
        self.join(swarm.PATIENCE_S)
        return self.error, self.done, self.ids, self.text, self.finish, self.usage


class Restart(unittest.TestCase):
    def setUp(self):
        self.port = swarm.free_port()
        self.swarm = swarm.Swarm(2, port=self.port)
        self.folder = self.swarm._folder  # outlives the process
        self.swarm._folder = None
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(lambda: self.swarm.stop())
        self.model = self.swarm.model

    def start_again(self, *flags):
        self.swarm.log.close()
        self.swarm = swarm.Swarm(2, *flags, data_dir=self.folder.name, port=self.port,
                                 ready=False)

    def undisturbed(self, body, key="undisturbed"):
        return Client(self.swarm.api, body, key).answer()

    def rows(self):
        with sqlite3.connect(self.folder.name + "/hearth.db") as db:
            return (db.execute("SELECT count(*) FROM requests").fetchone()[0],
                    db.execute("SELECT count(*) FROM request_tokens").fetchone()[0])

    def test_killed_at_every_moment(self):
        # Of a request without a seed, too: key and body make it.
        moments = [("before it is accepted", PROMPT, None), ("in the prefill", LONG_PROMPT, None),
                   ("at the first token", PROMPT, 1), ("in the decode", PROMPT, 30),
                   ("at the last token", PROMPT, TOKENS - 1)]
        for name, prompt, after in moments:
            for seed in ([7] if after != 30 else [7, None]):
                with self.subTest(moment=name, seed=seed):
                    tokens = 12 if prompt is LONG_PROMPT else TOKENS
                    body = request(prompt, tokens, model=self.model)
                    key = f"{name} {seed}"
                    if seed is not None:
                        body["seed"] = seed
                        expected = self.undisturbed(body, "whole " + key)
                    else:
                        expected = self.undisturbed(body, key)
                        self.forget(key)
                    self.assertTrue(expected[1], expected)
                    self.kill_at(after, prompt, body, key, expected)

    def forget(self, key):
        ask = urllib.request.Request(self.swarm.api + "/v1/requests", method="DELETE",
                                     headers={"Idempotency-Key": key})
        with urllib.request.urlopen(ask, timeout=swarm.PATIENCE_S) as reply:
            self.assertEqual(reply.status, 204)

    def kill_at(self, after, prompt, body, key, expected):
        client = Client(self.swarm.api, body, key)
        if after is not None:
            swarm.wait_until(lambda: len(client.ids) >= after, "tokens")
        elif prompt is LONG_PROMPT:
            time.sleep(0.1)
        struck = time.monotonic()
        self.swarm.kill()
        self.start_again()
        answer = client.answer()
        print(f"{key}: whole {time.monotonic() - struck:.1f} s after the kill, "
              f"{client.connections} connections", flush=True)
        self.assertEqual(answer, expected)
        self.swarm.wait_ready()
        state = self.swarm.state()
        if after == 30:
            self.assertEqual(state["totals"]["resumed"], 1, "from its tokens")
        swarm.wait_until(self.idle, "the release of what ran")

    def idle(self):
        state = self.swarm.state()
        return state["running"] + state["waiting"] == 0

    def test_a_finished_answer_is_not_computed_again(self):
        body = request(model=self.model, stream=False)
        body.pop("stream_options")
        url = self.swarm.api + "/v1/completions"
        first = swarm.http("POST", url, body, headers={"Idempotency-Key": "k"})
        again = swarm.http("POST", url, body, headers={"Idempotency-Key": "k"})
        self.assertEqual(first, again)
        before = self.swarm.state()["totals"]["generation_tokens"]
        self.assertEqual(before, TOKENS)
        time.sleep(0.1)
        self.swarm.kill()
        self.start_again()
        after = swarm.http("POST", url, body, headers={"Idempotency-Key": "k"})
        for field in ("id", "created", "choices", "hearth"):
            self.assertEqual(after[1][field], first[1][field])
        self.assertEqual(swarm.uncached(after[1]["usage"]), swarm.uncached(first[1]["usage"]))
        self.assertEqual(self.swarm.state()["totals"]["generation_tokens"], 0)
        self.assertEqual(self.rows()[0], 1)

    def test_two_clients_on_one_key(self):
        body = request(model=self.model, seed=3)
        expected = self.undisturbed(body)
        clients = [Client(self.swarm.api, body, "shared") for _ in range(2)]
        swarm.wait_until(lambda: len(clients[0].ids) >= 20, "tokens")
        self.swarm.kill()
        self.start_again()
        for client in clients:
            self.assertEqual(client.answer(), expected)
        self.assertEqual(self.swarm.state()["totals"]["cancelled"], 0)

    def test_nobody_comes_back(self):
        # Many tokens, for they must outlast the grace of ten seconds on any machine.
        body = request(model=self.model, tokens=1900, seed=4, n=8)
        client = Client(self.swarm.api, body, "gone")
        swarm.wait_until(lambda: len(client.ids) >= 5, "tokens")
        client.done = True  # the thread ends with its connection
        self.swarm.kill()
        self.start_again()
        # The grace may end before the workers of a busy machine serve again: then nothing has begun.
        swarm.wait_until(lambda: self.rows() == (0, 0), "an empty table")
        self.swarm.wait_ready()
        swarm.wait_until(self.idle, "its release")
        totals = self.swarm.state()["totals"]
        self.assertEqual((totals["finished_length"], totals["finished_stop"]), (0, 0), totals)

    def test_a_plain_stop_and_a_server_that_writes_nothing(self):
        body = request(model=self.model, seed=5)
        expected = self.undisturbed(body)
        client = Client(self.swarm.api, body, "stopped")
        swarm.wait_until(lambda: len(client.ids) >= 20, "tokens")
        self.swarm.process.send_signal(signal.SIGTERM)
        self.swarm.process.wait(swarm.PATIENCE_S)
        self.start_again("--no-resume")
        self.assertEqual(client.answer(), expected)
        self.assertEqual(self.rows(), (0, 0))
        self.assertEqual(os.stat(self.folder.name + "/hearth.db").st_mode & 0o777, 0o600)

    def test_the_own_client_shows_a_pause(self):
        words = ["run", self.model, "--host", self.swarm.api, "--seed", "9", "--max-tokens", "100",
                 "--ignore-eos", PROMPT]
        code, expected, error = swarm.hearth(*words)
        self.assertEqual(code, 0, error)
        run = subprocess.Popen([swarm.HEARTH, *words], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        begun = os.read(run.stdout.fileno(), 1)
        time.sleep(0.1)
        self.swarm.kill()
        self.start_again()
        text, error = run.communicate(timeout=swarm.PATIENCE_S)
        self.assertEqual(run.returncode, 0, error)
        self.assertEqual((begun + text).decode(), expected)
        # It is done and says so: nothing of it stays.
        swarm.wait_until(lambda: self.rows() == (0, 0), "an empty table")

    def test_hostile_headers(self):
        body = request(model=self.model, tokens=3)
        del body["stream_options"]
        url = self.swarm.api + "/v1/completions"

        def code(**headers):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            status, answer = swarm.http("POST", url, body, headers=named)
            return status, answer["error"]["code"] if status != 200 else ""

        self.assertEqual(code(Idempotency_Key="k" * 256), (400, "bad_idempotency_key"))
        self.assertEqual(code(Idempotency_Key="k\xe9"), (400, "bad_idempotency_key"))
        self.assertEqual(code(Idempotency_Key=""), (400, "bad_idempotency_key"))
        self.assertEqual(code(Last_Event_ID="0123456789abcdef-1"), (400, "bad_last_event_id"))
        for bad in ("1", "x" * 2049, "0123456789abcdef-1.2", "0123456789abcdef-99999999999"):
            self.assertEqual(code(Idempotency_Key="k", Last_Event_ID=bad),
                             (400, "bad_last_event_id"), bad)
        self.assertEqual(code(Idempotency_Key="k", Last_Event_ID="0123456789abcdef-1"),
                         (409, "event_of_another_answer"))
        self.assertEqual(code(Idempotency_Key="k")[0], 200)
        text = swarm.http("POST", url, body, headers={"Idempotency-Key": "k"})[1]
        answer = re.search("id: ([0-9a-f]{16})-", text).group(1)
        self.assertEqual(code(Idempotency_Key="k", Last_Event_ID=answer + "-999999"),
                         (400, "bad_last_event_id"))
        body["max_tokens"] = 4
        self.assertEqual(code(Idempotency_Key="k"), (422, "idempotency_key_reused"))
        with socket.create_connection(("127.0.0.1", self.port)) as raw:
            raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                        b"Idempotency-Key: a\0b\r\nContent-Length: 2\r\n\r\n{}")
            self.assertIn(b" 400 ", raw.recv(200))
        self.swarm.wait_ready()


if __name__ == "__main__":
    swarm.main(layers=6)
