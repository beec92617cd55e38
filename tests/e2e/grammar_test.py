"""A grammar is a part of the proved function: the same bytes on every split, through the loss of the
worker that masks or of the one that begins, through a restart of the coordinator, and when what was
saved is computed again.
"""

import json
import os
import re
import signal
import urllib.request
import unittest

import swarm
from failover_test import Stream, all_here, stage_pid
from restart_test import Client

AFTER = 12  # tokens of an answer, then a worker is lost
# Members are in another order than that of their names.
SCHEMA = {"type": "object", "properties": {
    "stock": {"type": "array", "minItems": 3, "maxItems": 5, "items": {
        "type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
                                         "count": {"type": "integer", "minimum": 0,
                                                   "maximum": 999}},
        "required": ["name", "count"], "additionalProperties": False}},
    "kind": {"enum": ["fruit", "tool", "a sea shell"]},
    "at": {"type": "string", "format": "date"}},
    "required": ["stock", "kind", "at"], "additionalProperties": False}
LINES = r'root ::= line{5,7}' '\n' r'line ::= "- " [a-z]{3,10} " = " [1-9] [0-9]{0,2} "\n"'
TOOL = {"type": "function", "function": {"name": "find", "parameters": {
    "type": "object", "properties": {"what": {"type": "string", "maxLength": 20},
                                     "most": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["what", "most"], "additionalProperties": False}}}


def body(**more):
    return {"max_tokens": 400, "temperature": 0.9, "top_p": 0.95, "seed": 7,
            "return_token_ids": True, "stream_options": {"include_usage": True}, **more}


def bodies(model):
    """With what says that a text is right."""
    schema = {"type": "json_schema", "json_schema": {"name": "shop", "schema": SCHEMA}}
    return [(body(model=model, prompt="The shop sells:", response_format=schema), is_shop),
            (body(model=model, prompt="A list:\n", grammar=LINES), is_list)]


def is_shop(text):
    shop = json.loads(text, object_pairs_hook=list)
    if [key for key, _ in shop] != ["stock", "kind", "at"]:
        return False
    (_, stock), (_, kind), (_, at) = shop
    rows = [dict(row) for row in stock]
    return (3 <= len(rows) <= 5 and all([key for key, _ in row] == ["name", "count"] for row in stock)
            and all(len(row["name"]) <= 12 and 0 <= row["count"] <= 999 for row in rows)
            and kind in ("fruit", "tool", "a sea shell") and re.fullmatch(r"\d{4}-\d\d-\d\d", at))


def is_list(text):
    return re.fullmatch(r"(- [a-z]{3,10} = [1-9][0-9]{0,2}\n){5,7}", text)


class Grammar(unittest.TestCase):
    local = None  # the answers of one worker

    @classmethod
    def setUpClass(cls):
        with swarm.Swarm(1) as s:
            cls.local = [cls.ask(s, one) for one, _ in bodies(s.model)]
            plain = {k: v for k, v in bodies(s.model)[1][0].items() if k != "grammar"}
            cls.free = cls.ask(s, {**plain, "max_tokens": 40})

    @staticmethod
    def ask(s, one):
        stream = Stream(s.api, one)
        stream.join(swarm.PATIENCE_S)
        assert stream.done and stream.error is None, stream.answer()
        return stream.answer()

    def test_what_one_worker_answers(self):
        for (_, is_right), (_, _, ids, text, finish, _) in zip(bodies(""), self.local):
            self.assertEqual(finish, "stop", text)
            self.assertTrue(is_right(text), text)
            self.assertGreater(len(ids), 2 * AFTER, text)
        self.assertFalse(is_list(self.free[3]), "without a grammar it says something else")

    def split(self, stages):
        """Undisturbed, then with the loss of the first stage and of the last, which masks."""
        with swarm.Swarm(stages + 1, "--stages", str(stages)) as s:
            asked = [one for one, _ in bodies(s.model)]
            self.assertEqual([self.ask(s, one) for one in asked], self.local)
            for stage in sorted({0, stages - 1}):
                swarm.wait_until(lambda: all_here(s, stages + 1), "all workers")
                streams = [Stream(s.api, one) for one in asked]
                swarm.wait_until(lambda: all(len(one.ids) >= AFTER for one in streams), "tokens")
                os.kill(stage_pid(s, stage)[0], signal.SIGKILL)
                for stream, known in zip(streams, self.local):
                    stream.join(swarm.PATIENCE_S)
                    self.assertEqual(stream.answer(), known, f"stage {stage} of {stages} was lost")
            self.assertGreater(s.state()["totals"]["resumed"], 0, "answers went on elsewhere")

    def test_one_stage(self):
        self.split(1)

    def test_two_stages(self):
        self.split(2)

    def test_three_stages(self):
        self.split(3)

    def test_a_restart_of_the_coordinator(self):
        port = swarm.free_port()
        first = swarm.Swarm(1, port=port)
        folder, first._folder = first._folder, None
        self.addCleanup(folder.cleanup)
        self.addCleanup(first.stop)
        asked = [{**one, "stream": True} for one, _ in bodies(first.model)]
        clients = [Client(first.api, one, f"key {i}") for i, one in enumerate(asked)]
        swarm.wait_until(lambda: all(len(client.ids) >= AFTER for client in clients), "tokens")
        first.kill()
        second = swarm.Swarm(1, data_dir=folder.name, port=port, ready=False)
        self.addCleanup(second.stop)
        self.assertEqual([client.answer() for client in clients], self.local)
        self.assertTrue(all(client.connections > 1 for client in clients))

    def test_what_was_saved_is_computed_again(self):
        """Templates, schemas and tools read the order of the request's members; calls are not text."""
        with swarm.Swarm(2) as s:
            chat = body(model=s.model, messages=[{"role": "user", "content": "What do you sell?"}])
            schema = {"type": "json_schema", "json_schema": {"name": "shop", "schema": SCHEMA}}
            cases = {"schema": {**chat, "response_format": schema},
                     "call": {**chat, "tools": [TOOL], "tool_choice": "required"},
                     "stream": {**chat, "tools": [TOOL], "tool_choice": "required", "stream": True}}
            for name, asked in cases.items():
                with self.subTest(name):
                    self.proved(s, name, asked)

    def proved(self, s, name, asked):
        sent = json.dumps(asked).encode()
        request = urllib.request.Request(s.api + "/v1/chat/completions", data=sent,
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=swarm.PATIENCE_S) as reply:
            answer = reply.read()
        (s.data_dir / "request").write_bytes(sent)

        def verify(saved):
            (s.data_dir / "answer").write_bytes(saved)
            def said():
                code, out, err = swarm.hearth(
                    "verify", s.data_dir / "answer", s.data_dir, "--re-execute", "--request",
                    s.data_dir / "request", "--model", swarm.MODEL)
                return None if "has no receipt" in err else (code, out + err)
            return swarm.wait_until(said, "receipts")

        code, said = verify(answer)
        self.assertEqual(code, 0, said)
        if name == "schema":
            self.assertTrue(is_shop(json.loads(answer)["choices"][0]["message"]["content"]))
            # Of another grammar there are no receipts.
            text = sent.replace(b'"fruit"', b'"fruits"')
        else:
            if name == "call":
                choice = json.loads(answer)["choices"][0]
                self.assertEqual(choice["finish_reason"], "tool_calls")
                call = choice["message"]["tool_calls"][0]["function"]
                self.assertEqual(list(json.loads(call["arguments"])), ["what", "most"])
            code, said = verify(answer.replace(b'"name":"find"', b'"name":"hide"'))
            self.assertEqual(code, 6, said)
            self.assertIn("call 0 of the saved answer", said)
            text = sent.replace(b'"maximum": 99', b'"maximum": 98')
        self.assertNotEqual(text, sent)
        (s.data_dir / "request").write_bytes(text)
        code, said = verify(answer)
        self.assertEqual(code, 6, said)


if __name__ == "__main__":
    swarm.main()
