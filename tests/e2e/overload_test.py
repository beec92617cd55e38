"""More work than the swarm can do: who is let in gets the tokens that it would get alone, all others
are told when to come again, nothing is left behind, and no key keeps another waiting."""

import asyncio
import concurrent.futures
import json
import select
import socket
import tempfile
import time
import unittest

import cluster
import load
import swarm


PROMPTS = ["Once upon a time", "The capital of France is", "Water boils at", "To be or not"]


def body(number, tokens=16):
    return {"model": body.model, "prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": tokens,
            "ignore_eos": True, "temperature": 0.8, "seed": number % 3}


def alone(api, tokens):
    """What each of them is answered when it asks alone."""
    known = {}
    for number in range(len(PROMPTS) * 3):
        answer = asyncio.run(load.ask(api, body(number, tokens)))
        assert answer.status == 200 and answer.done, answer.error
        known[number % len(PROMPTS), number % 3] = answer.ids
    return known


class Overload(unittest.TestCase):
    def idle(self, s):
        def nothing_left():
            state = s.state()
            pipelines = state["pipelines"]
            return (state["running"] == 0 and state["waiting"] == 0 and
                    all(p["kv_pages_reserved"] == 0 for p in pipelines) and
                    all(n["kv_tokens_used"] == 0 for n in state["nodes"]))
        swarm.wait_until(nothing_left, "idle")

    def test_who_is_let_in_gets_his_tokens_and_the_others_are_told_when(self):
        with swarm.Swarm(2, "--kv-budget", "16MB") as s:
            body.model = s.model
            carried = sum(len(answer.ids) for answer in asyncio.run(load.closed(s.api, 64, 3, body)))
            # 300 a second ask for three times the tokens a second that were carried, on any machine.
            tokens = max(4, carried // 300)
            seen = {200: 0, 429: 0}
            # A machine that carries more by now is asked for twice as many.
            for tokens in (tokens, 2 * tokens, 4 * tokens, 8 * tokens):
                print(f"{carried / 3:.0f} tokens a second; {tokens} asked for by each", flush=True)
                expected = alone(s.api, tokens)
                for number, answer in enumerate(asyncio.run(load.opened(
                        s.api, 300, 3, lambda number: body(number, tokens)))):
                    self.assertIn(answer.status, (200, 429), answer.error)
                    seen[answer.status] += 1
                    if answer.status == 429:
                        self.assertTrue(1 <= int(answer.headers["retry-after"]) <= 3600)
                        continue
                    self.assertIsNone(answer.error)
                    self.assertIsNotNone(answer.done)
                    self.assertEqual(answer.ids, expected[number % len(PROMPTS), number % 3])
                print("answers by status:", seen, flush=True)
                if seen[429] > 50:
                    break
            self.assertGreater(seen[200], 50)
            self.assertGreater(seen[429], 50)
            self.idle(s)
            self.assertEqual(asyncio.run(load.ask(s.api, body(0, tokens))).ids, expected[0, 0])

    def test_a_greedy_key_keeps_nobody_waiting(self):
        with tempfile.TemporaryDirectory() as folder:
            cluster.init(folder)
            keys = [swarm.hearth("key", "create", name, "--data-dir", folder)[1].strip()
                    for name in ("greedy", "guest")]
            admin = swarm.hearth("key", "create", "boss", "--admin", "--data-dir", folder)[1]
            with swarm.Swarm(1, "--host", "0.0.0.0", "--kv-budget", "16MB", data_dir=folder,
                             ready=False) as s:
                code, out, err = swarm.hearth("status", "--wait", "60", "--host", s.api,
                                              env={"HEARTH_API_KEY": admin.strip()})
                self.assertEqual(code, 0, err)
                models = swarm.http("GET", s.api + "/v1/models",
                                    headers={"Authorization": "Bearer " + keys[0]})[1]
                body.model = models["data"][0]["id"]

                async def both():
                    greedy = [asyncio.create_task(load.ask(s.api, body(i, 32), keys[0]))
                              for i in range(300)]
                    while not any(task.done() for task in greedy):
                        await asyncio.sleep(0.01)
                    guest = await load.ask(s.api, body(0, 32), keys[1])
                    before = sum(task.done() for task in greedy)
                    for task in greedy:
                        task.cancel()
                    await asyncio.gather(*greedy, return_exceptions=True)
                    return guest, before
                guest, before = asyncio.run(both())
                self.assertEqual(guest.status, 200, guest.error)
                self.assertIsNotNone(guest.done)
                print(f"greedy answers before the guest's: {before} of 300", flush=True)
                self.assertLess(before, 200)


class Reader:
    """One streamed completion over a socket with a small window, read when the test says so."""

    def __init__(self, api, body):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        host, port = api.removeprefix("http://").split(":")
        self.socket.connect((host, int(port)))
        data = json.dumps({"stream": True, "return_token_ids": True, **body}).encode()
        self.socket.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
                            "Content-Type: application/json\r\n"
                            f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        self.socket.settimeout(60)
        self.text = b""

    def read(self, most=1 << 20):
        part = self.socket.recv(most)
        self.text += part
        return bool(part)

    def ids(self):
        """By choice, of a body in chunks that may end anywhere."""
        raw, body = self.text.split(b"\r\n\r\n", 1)[1], b""
        while raw:
            size, _, raw = raw.partition(b"\r\n")
            body += raw[:int(size, 16)]
            raw = raw[int(size, 16) + 2:]
        found = {}
        for line in body.split(b"\n"):
            if line.startswith(b"data: {"):
                for choice in json.loads(line[6:]).get("choices", ()):
                    found.setdefault(choice["index"], []).extend(choice.get("token_ids") or ())
        return found

    def close(self):
        self.socket.close()


class Readers(unittest.TestCase):
    def free_after(self, s, what):
        """Seconds until no stage holds KV."""
        def used():
            return (any(p["kv_pages_reserved"] for p in s.state()["pipelines"]) or
                    any(n["kv_tokens_used"] for n in s.state()["nodes"]))
        begun = time.monotonic()
        swarm.wait_until(lambda: not used(), "free KV")
        print(f"{what}: KV free after {time.monotonic() - begun:.2f} s", flush=True)

    def test_an_answer_that_fits_the_buffer_waits_for_its_reader(self):
        with swarm.Swarm(2) as s:
            wanted = {"model": s.model, "prompt": "x y z", "max_tokens": 150, "ignore_eos": True,
                      "seed": 3, "n": 2, "logprobs": 20}
            known = Reader(s.api, wanted)
            while known.read():
                pass
            self.assertEqual([len(ids) for ids in known.ids().values()], [150] * 2)
            sleeper = Reader(s.api, wanted)
            swarm.wait_until(lambda: s.state()["totals"]["finished_length"] == 4,
                             "the end of an answer that its client does not read")
            self.free_after(s, "an answer that is not read yet")
            while sleeper.read():
                pass
            self.assertEqual(sleeper.ids(), known.ids())

    def test_a_stream_beyond_the_buffer_ends_and_frees_its_kv(self):
        with swarm.Swarm(2) as s:
            sleeper = Reader(s.api, {"model": s.model, "prompt": "x y z", "max_tokens": 400,
                                     "ignore_eos": True, "n": 8, "logprobs": 20})
            swarm.wait_until(lambda: s.state()["totals"]["cancelled"] > 0, "the stream's end")
            self.free_after(s, "a stream that was ended")
            self.assertRegex(s.read_log(), "its client left [0-9]+ bytes of it unread")
            try:
                while sleeper.read():
                    pass
            except OSError:
                pass  # a reset; else the connection just ends
            self.assertNotIn(b"[DONE]", sleeper.text)

    def test_who_reads_slowly_has_all_of_it(self):
        with swarm.Swarm(2) as s:
            wanted = {"model": s.model, "prompt": "x y z", "max_tokens": 100, "ignore_eos": True,
                      "seed": 3, "n": 2, "logprobs": 5}
            known, slow = Reader(s.api, wanted), Reader(s.api, wanted)
            while known.read():
                pass
            while slow.read(2 << 10):
                time.sleep(0.05)
            self.assertEqual(slow.ids(), known.ids())


class Crowds(unittest.TestCase):
    def test_idle_connections_lock_nobody_out(self):
        with swarm.Swarm(1) as s:
            address = ("127.0.0.1", int(s.api.rsplit(":", 1)[1]))
            idle = [socket.create_connection(address, timeout=swarm.PATIENCE_S) for _ in range(700)]
            code, _, err = swarm.hearth("status", "--host", s.api)
            self.assertEqual(code, 0, err)
            code, _, err = swarm.hearth("run", s.model, "hi", "-n", "3", "--host", s.api)
            self.assertEqual(code, 0, err)
            gone = [one for one in idle if select.select([one], [], [], 0)[0]]
            self.assertGreater(len(gone), 100)
            self.assertIn(b"too_many_connections", gone[0].recv(4096))
            for one in idle:
                one.close()

    def test_who_finds_no_place_is_told_so(self):
        with swarm.Swarm(1) as s:
            wanted = {"model": s.model, "prompt": "x", "max_tokens": 1, "ignore_eos": True,
                      "stream": True}

            def ask(_):
                try:
                    return swarm.http("POST", s.api + "/v1/completions", wanted)
                except OSError as error:
                    return repr(error), None
            seen = {}
            with concurrent.futures.ThreadPoolExecutor(700) as pool:
                for status, answer in pool.map(ask, range(700)):
                    seen[status] = seen.get(status, 0) + 1
                    if status == 429:
                        self.assertIn(answer["error"]["code"],
                                      ("too_many_connections", "rate_limit_exceeded"))
            print("700 at once, by status:", seen, flush=True)
            self.assertEqual(set(seen) - {200, 429}, set(), seen)


if __name__ == "__main__":
    swarm.main(layers=6)
