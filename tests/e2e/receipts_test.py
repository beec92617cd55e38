"""Receipts of a real swarm: who computed which layers of an answer, in a log that hearth verify and
hearth audit check by its files alone."""

import http.client
import json
import pathlib
import shutil
import tempfile
import unittest
import urllib.parse

import swarm

PROMPTS = ["What is the capital of France?", "List three colours.", "1 2 3 4 5"]


def ask(api, body):
    """(the answer's JSON, or its last chunk's; the x-hearth-receipt of its head)."""
    where = urllib.parse.urlsplit(api)
    link = http.client.HTTPConnection(where.hostname, where.port, timeout=swarm.PATIENCE_S)
    link.request("POST", "/v1/chat/completions", json.dumps(body),
                 {"Content-Type": "application/json"})
    reply = link.getresponse()
    text = reply.read().decode()
    link.close()
    assert reply.status == 200, text
    if body.get("stream"):
        chunks = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        text = next(chunk for chunk in reversed(chunks) if '"hearth"' in chunk)
    return json.loads(text), reply.headers["x-hearth-receipt"]


def body(model, prompt, **more):
    return {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 12,
            "temperature": 0, **more}


def verify(receipt, folder):
    code, out, err = swarm.hearth("verify", receipt, folder, "--json")
    return code, json.loads(out) if out else {}, err


class Receipts(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, *flags):
        running = swarm.Swarm(2, *flags, data_dir=self.folder)
        self.addCleanup(running.stop)
        return running

    def receipts_of(self, name, count):
        """What the log says of an answer, once all of it is there."""
        def whole():
            code, found, _ = verify(name, self.folder)
            return found if code == 0 and len(found["receipts"]) == count else None
        return swarm.wait_until(whole, f"{count} receipts of {name}")

    def test_every_answer_has_a_receipt_of_each_stage(self):
        running = self.start()
        model = running.model
        names = []
        for i, prompt in enumerate(PROMPTS):
            answer, name = ask(running.api, body(model, prompt, stream=i == 1))
            self.assertEqual(answer["hearth"]["receipt"], name)
            names.append((name, 2))
        answer, name = ask(running.api, body(model, PROMPTS[0], n=2, temperature=1))
        names.append((name, 4))
        answer, name = ask(running.api, body(model, "word " * 400, stop=["e"]))
        names.append((name, 2))
        for name, count in names:
            found = self.receipts_of(name, count)
            self.assertTrue(found["sound"])
            self.assertEqual([r["stage"] for r in found["receipts"]], [0, 1] * (count // 2))
            self.assertEqual([r["layers"] for r in found["receipts"][:2]], [[0, 15], [15, 30]])
            self.assertEqual(len({r["worker"] for r in found["receipts"]}), 2)
        code, out, err = swarm.hearth("audit", self.folder)
        self.assertEqual(code, 0, err)
        self.assertIn("members: 2; credits in circulation: 0; open disputes: 0", out)
        self.assertNotIn("error", running.read_log())

        # The log goes on in the next process, with workers of the same keys.
        running.stop()
        again = self.start()
        _, name = ask(again.api, body(model, PROMPTS[0]))
        self.receipts_of(name, 2)
        self.receipts_of(names[0][0], 2)
        self.assertEqual(swarm.hearth("audit", self.folder)[0], 0)
        again.stop()
        self.tamper(name)

    def tamper(self, name):
        """A byte of the last receipt is another one."""
        bundle = next((self.folder / "ledger/tile/entries").glob("000*"))
        bundle = bundle if bundle.is_file() else max(bundle.iterdir(), key=lambda p: int(p.name))
        data = bytearray(bundle.read_bytes())
        data[-100] ^= 1
        bundle.write_bytes(bytes(data))
        code, out, err = swarm.hearth("audit", self.folder)
        self.assertEqual((code, out), (6, ""))
        self.assertRegex(err, r"tile/entries/000[^:]*: entry \d+ at byte \d+")
        code, found, err = verify(name, self.folder)
        self.assertEqual(code, 6, err)
        self.assertIn("not what the checkpoint signs", found["fault"])
        # A server does not go on with it.
        code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--port", "0", "--data-dir",
                                    self.folder)
        self.assertNotEqual(code, 0)
        self.assertIn("ledger", err)
        self.assertIn("entry", err)

    def test_a_lost_worker_leaves_receipts_of_the_pipeline_that_answered(self):
        running = self.start()
        events = swarm.stream(running.api + "/v1/chat/completions",
                              body(running.model, PROMPTS[0], max_tokens=200, ignore_eos=True))
        for _ in range(20):
            next(events)
        swarm.os.kill(running.worker_pids()["local-2"], swarm.signal.SIGKILL)
        last = [event for _, event in events if event != "[DONE]" and "hearth" in event]
        found = self.receipts_of(last[-1]["hearth"]["receipt"], 2)
        self.assertGreater(found["receipts"][0]["positions"][1], 200)
        code, _, err = swarm.hearth("audit", self.folder)
        self.assertEqual(code, 0, err)

    def test_none_where_none_are_wanted(self):
        running = self.start("--no-receipts")
        answer, name = ask(running.api, body(running.model, PROMPTS[0]))
        self.assertIsNone(name)
        self.assertNotIn("receipt", answer["hearth"])
        self.assertFalse((self.folder / "ledger").exists())

    def test_what_is_no_receipt(self):
        self.start().stop()
        code, _, err = verify("abc", self.folder)
        self.assertEqual(code, 1)
        self.assertIn("hex digits", err)
        code, found, _ = verify("00" * 14, self.folder)
        self.assertEqual((code, found["sound"]), (6, False))
        code, _, err = verify("00" * 14, self.folder / "nowhere")
        self.assertEqual(code, 1, err)


if __name__ == "__main__":
    swarm.main()
