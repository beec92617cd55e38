"""hearth verify --re-execute against real swarms: what was answered is computed again by one process
with its own copy of the model, and equal; or what was changed is named."""

import http.client
import json
import pathlib
import shutil
import tempfile
import unittest
import urllib.parse

import swarm

PROMPT = "Tell me of the sea, and of what lies below."


def post(api, path, body):
    """The bytes of an answer, of a stream too."""
    where = urllib.parse.urlsplit(api)
    link = http.client.HTTPConnection(where.hostname, where.port, timeout=swarm.PATIENCE_S)
    link.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    reply = link.getresponse()
    data = reply.read()
    link.close()
    assert reply.status == 200, data
    return data


class Verify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = pathlib.Path(tempfile.mkdtemp())
        for name, seed, weights in (("one", 1, "Q4_0"), ("seed", 2, "Q4_0"), ("type", 1, "Q8_0")):
            swarm.make_model(cls.models / f"{name}.gguf", "--shape", "demo", "--layers", "4",
                             "--vocabulary", "1200", "--seed", seed, "--type", weights)
        swarm.MODEL = str(cls.models / "one.gguf")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.models)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, workers=2):
        self.swarm = swarm.Swarm(workers, data_dir=self.folder)
        self.addCleanup(self.swarm.stop)

    def run_saved(self, name, *flags, prompt=PROMPT):
        """What hearth run wrote of an answer, as JSON."""
        file = self.folder / name
        code, out, err = swarm.hearth("run", self.swarm.model, prompt, "--host", self.swarm.api,
                                      "--receipt", file, "--json", *flags)
        self.assertEqual(code, 0, err)
        saved = json.loads(file.read_text())
        self.assertEqual(json.loads(out)["receipt"], saved["answer"]["hearth"]["receipt"])
        return saved

    def save(self, saved, name="changed.json"):
        file = self.folder / name
        file.write_text(json.dumps(saved) if isinstance(saved, dict) else saved)
        return file

    def verify(self, file, *flags, model="one"):
        """(exit code, JSON, stderr), once the log has all that the file names."""
        def said():
            code, out, err = swarm.hearth("verify", file, self.folder, "--re-execute", "--json",
                                          "--model", self.models / f"{model}.gguf", *flags)
            return None if "has no receipt" in err else (code, out, err)
        code, out, err = swarm.wait_until(said, "receipts in the log")
        return code, json.loads(out) if out else {}, err

    def proved(self, file, *flags, choices=1):
        code, found, err = self.verify(file, *flags)
        self.assertEqual(code, 0, err)
        self.assertTrue(found["sound"])
        again = found["computed_again"]
        self.assertEqual(again["choices"], choices)
        covered = sum(r["positions"][1] - r["positions"][0] for r in found["receipts"]
                      if r["stage"] == 0)
        self.assertEqual(again["positions"], covered)
        return found

    def refused(self, file, what, *flags, **where):
        model = where.pop("model", "one")
        code, found, err = self.verify(file, *flags, model=model)
        self.assertEqual(code, 6, err)
        self.assertFalse(found["sound"])
        self.assertEqual(found["differs"]["what"], what, found["fault"])
        for name, value in where.items():
            self.assertEqual(found["differs"].get(name), value, found["fault"])
        self.assertIn(found["fault"], err)
        return found["fault"]

    def test_what_hearth_run_saved_is_proved(self):
        self.start(3)
        greedy = self.run_saved("greedy", "--temperature", "0", "-n", "20")
        self.assertEqual(set(greedy), {"request", "answer"})
        self.proved(self.folder / "greedy")
        # Hot enough for a model without sense to say something.
        drawing = ["--temperature", "50", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed",
                   "-7", "--ignore-eos"]
        drawn = self.run_saved("drawn", *drawing, "-n", "20")
        self.assertEqual(drawn["answer"]["hearth"]["seed"], -7)
        self.proved(self.folder / "drawn")
        # A character that it has said ends it: the swarm goes on for some tokens, and so do receipts.
        text = drawn["answer"]["choices"][0]["message"]["content"]
        stop = next(c for c in text[3:] if c.isascii() and c.isalnum())
        stopped = self.run_saved("stopped", *drawing, "-n", "200",
                                 "--stop", stop)
        self.assertEqual(stopped["answer"]["choices"][0]["finish_reason"], "stop")
        self.proved(self.folder / "stopped")
        # Text alone, in words.
        code, out, err = swarm.hearth("verify", self.folder / "greedy", self.folder,
                                      "--re-execute", "--model", swarm.MODEL)
        self.assertEqual(code, 0, err)
        self.assertIn("computed again: the answer and every root of", out)

    def test_the_date_in_a_prompt_is_that_of_its_request(self):
        template = self.folder / "dated.jinja"
        template.write_text("{{ strftime_now('%F %T') }}{% for m in messages %} {{ m.content }}"
                            "{% endfor %}")
        self.swarm = swarm.Swarm(1, "--chat-template", template, data_dir=self.folder)
        self.addCleanup(self.swarm.stop)
        status, reply = self.swarm.post("/apply-template",
                                        {"messages": [{"role": "user", "content": "Hi"}]})
        self.assertEqual(status, 200, reply)
        self.assertRegex(reply["prompt"], r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d Hi$")
        self.run_saved("dated.json", "--max-tokens", "8")
        self.proved(self.folder / "dated.json", "--chat-template", template)
        code, _, err = self.verify(self.folder / "dated.json")  # the model's own template
        self.assertEqual(code, 6, err)

    def test_what_any_client_saved_is_proved(self):
        self.start()
        chat = {"model": self.swarm.model, "messages": [{"role": "user", "content": PROMPT}],
                "max_tokens": 12, "temperature": 1}
        cases = [("whole", {**chat, "n": 2}, 2), ("ids", {**chat, "return_token_ids": True}, 1),
                 ("stream", {**chat, "stream": True}, 1),
                 ("stream-two", {**chat, "stream": True, "n": 2, "return_token_ids": True}, 2),
                 ("windows", {**chat, "max_tokens": 700, "ignore_eos": True}, 1),
                 ("long", {k: v for k, v in chat.items() if k != "max_tokens"}
                  | {"stop": ["e", "a", "t"]}, 1)]
        for name, body, choices in cases:
            with self.subTest(name):
                answer = self.save(post(self.swarm.api, "/v1/chat/completions", body).decode(), name)
                request = self.save(body, name + ".request")
                self.proved(answer, "--request", request, choices=choices)
        body = {"model": self.swarm.model, "prompt": ["The sea", "The land"], "echo": True,
                "max_tokens": 9, "seed": 3}
        answer = self.save(post(self.swarm.api, "/v1/completions", body).decode(), "echo")
        self.proved(answer, "--request", self.save(body, "echo.request"), choices=2)
        # Ended by a token of its own.
        for token in range(3):
            body = {**chat, "temperature": 0, "logit_bias": {str(token): 100}}
            data = post(self.swarm.api, "/v1/chat/completions", body)
            if json.loads(data)["choices"][0]["finish_reason"] == "stop":
                break
        self.assertEqual(json.loads(data)["choices"][0]["finish_reason"], "stop")
        answer = self.save(data.decode(), "ended")
        self.proved(answer, "--request", self.save(body, "ended.request"))

        # Of a body alone nothing was asked; of a name alone nothing at all.
        code, _, err = swarm.hearth("verify", answer, self.folder, "--re-execute")
        self.assertEqual(code, 1)
        self.assertIn("--request", err)
        name = json.loads(data)["hearth"]["receipt"]
        code, _, err = swarm.hearth("verify", name, self.folder, "--re-execute")
        self.assertEqual(code, 1)
        self.assertIn("hearth run --receipt", err)
        code, _, err = swarm.hearth("run", self.swarm.model, "a", "--local", "--receipt", "x")
        self.assertEqual(code, 2)

    def test_what_was_changed_is_named(self):
        self.start()
        flags = ["--temperature", "0.9", "-n", "24", "--ignore-eos"]
        saved = self.run_saved("saved", *flags, "--hashes", self.folder / "hashes")
        self.proved(self.folder / "saved")

        def changed():
            return json.loads(json.dumps(saved))
        answer = saved["answer"]
        for at in (0, 10, 23):  # the last is in no receipt
            other = changed()
            ids = other["answer"]["choices"][0]["token_ids"]
            ids[at] = 300 if ids[at] != 300 else 301
            fault = self.refused(self.save(other), "answer", choice=0, window=0)
            self.assertIn(f"token {at} of the answer", fault)
        other = changed()
        other["answer"]["choices"][0]["message"]["content"] += "!"
        self.refused(self.save(other), "answer")
        other = changed()
        self.assertEqual(other["answer"]["choices"][0]["finish_reason"], "length")
        other["answer"]["choices"][0]["finish_reason"] = "stop"
        self.assertIn("ends with \"stop\"", self.refused(self.save(other), "answer", choice=0))
        # Of what audits found there is the server's word alone.
        other = changed()
        other["answer"]["hearth"]["verified"] = {"state": "verified"}
        code, out, err = swarm.hearth("verify", self.save(other), self.folder, "--re-execute",
                                      "--model", swarm.MODEL)
        self.assertEqual(code, 0, err)
        self.assertIn("hearth.verified", out)
        self.assertIn("no node signs it", out)
        # A name is hex digits of either case.
        other["answer"]["hearth"]["receipt"] = answer["hearth"]["receipt"].upper()
        self.proved(self.save(other))
        code, _, err = swarm.hearth("verify", answer["hearth"]["receipt"].upper(), self.folder)
        self.assertEqual(code, 0, err)
        other = changed()
        del other["answer"]["choices"][0]["token_ids"][-3:]
        self.refused(self.save(other), "answer")

        other = changed()
        salt = other["answer"]["hearth"]["salt"]
        other["answer"]["hearth"]["salt"] = ("0" if salt[0] != "0" else "1") + salt[1:]
        self.refused(self.save(other), "salt", choice=0, window=0)
        other = changed()
        other["request"]["messages"][0]["content"] = PROMPT[:-1] + "!"
        self.refused(self.save(other), "salt", choice=0, window=0)

        other = changed()
        other["request"]["seed"] += 1
        self.refused(self.save(other), "sampling")
        other["answer"]["hearth"]["seed"] += 1
        self.refused(self.save(other), "sampling", choice=0, window=0)
        other = changed()
        other["request"]["top_p"] = 0.5
        self.refused(self.save(other), "sampling", choice=0, window=0)

        fault = self.refused(self.folder / "saved", "model", model="type")
        self.assertIn("another model file", fault)
        # Without a manifest a file of the same shape is known when it computes something else.
        fault = self.refused(self.folder / "saved", "stage", model="seed", choice=0, window=0,
                             stage=0)
        self.assertIn("other weights", fault)

        # The receipts of another request: of another time, of another length, of the same.
        longer = self.run_saved("longer", *flags, prompt=PROMPT + " And more.")
        same = self.run_saved("same", *flags, prompt=PROMPT[:-1] + "!")
        for of in (longer, same):
            self.proved(self.folder / ("longer" if of is longer else "same"))
            other = changed()
            other["answer"]["hearth"]["receipt"] = of["answer"]["hearth"]["receipt"]
            other["answer"]["created"] = of["answer"]["created"]
            self.refused(self.save(other), "request" if of is longer else "salt", choice=0)
            if of["answer"]["created"] != answer["created"]:
                other["answer"]["created"] = answer["created"]
                self.assertIn("belong to a request of", self.refused(self.save(other), "request"))
            other["answer"]["created"] -= 3600
            self.assertIn("belong to a request of", self.refused(self.save(other), "request"))

    def test_several_windows_of_four_stages(self):
        self.start(4)
        ids = [260 + i * 7 % 900 for i in range(4090)]
        body = {"model": self.swarm.model, "prompt": ids, "max_tokens": 24, "temperature": 0.8,
                "seed": 5, "return_token_ids": True}
        data = json.loads(post(self.swarm.api, "/v1/completions", body))
        request = self.save(body, "request")
        found = self.proved(self.save(data), "--request", request)
        self.assertEqual(sorted({r["window"] for r in found["receipts"]}), [0, 1])
        self.assertEqual({r["stages"] for r in found["receipts"]}, {4})
        tokens = data["choices"][0]["token_ids"]
        tokens[15] = 300 if tokens[15] != 300 else 301
        self.refused(self.save(data), "answer", "--request", request, window=1, position=4105)


if __name__ == "__main__":
    unittest.main(verbosity=2)
