"""The official `anthropic` and `ollama` clients and `openai`'s responses, unmodified, against a running
server.

    HEARTH_API_ROOT=http://127.0.0.1:8177 python3 tests/e2e/dialects_suite.py

The server is started by the caller; any model will do. Times are never asserted.
"""

import json
import os
import unittest
import urllib.error
import urllib.request

import anthropic
import ollama
import openai

ROOT = os.environ.get("HEARTH_API_ROOT", "")
SAY = [{"role": "user", "content": "Count from one to ten."}]
# The same answer each time, which ends at its length.
EXACT = {"seed": 7, "ignore_eos": True}


def post(path, body, headers=None):
    """Status, headers and text of any answer."""
    request = urllib.request.Request(ROOT + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def chat_text(model, **fields):
    """What a chat of OpenAI's dialect answers to the same messages."""
    client = openai.OpenAI(base_url=ROOT + "/v1", api_key="any", max_retries=0, timeout=120)
    answer = client.chat.completions.create(model=model, messages=SAY, extra_body=EXACT, **fields)
    return answer.choices[0].message.content, answer.usage


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.openai = openai.OpenAI(base_url=ROOT + "/v1", api_key="any", max_retries=0, timeout=120)
        cls.anthropic = anthropic.Anthropic(base_url=ROOT, api_key="any", max_retries=0, timeout=120)
        cls.ollama = ollama.Client(host=ROOT, timeout=120)
        cls.model = cls.openai.models.list().data[0].id


def prompt_of(usage):
    """Anthropic counts the cached tokens of a prompt by themselves."""
    return usage.input_tokens + usage.cache_read_input_tokens


class Anthropic(Case):
    def message(self, **fields):
        fields = {"messages": SAY, "max_tokens": 12, "extra_body": EXACT, **fields}
        return self.anthropic.messages.create(model=self.model, **fields)

    def test_message(self):
        answer = self.message()
        self.assertEqual((answer.type, answer.role), ("message", "assistant"))
        text, usage = chat_text(self.model, max_tokens=12)
        self.assertEqual(answer.content[0].text, text)
        self.assertEqual(prompt_of(answer.usage), usage.prompt_tokens)
        self.assertEqual(answer.usage.output_tokens, usage.completion_tokens)
        self.assertEqual(answer.stop_reason, "max_tokens")

    def test_stream(self):
        with self.anthropic.messages.stream(model=self.model, messages=SAY, max_tokens=12,
                                            extra_body=EXACT) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_message()
        self.assertEqual(kinds[0], "message_start")
        self.assertEqual(kinds[-1], "message_stop")
        whole = self.message()
        self.assertEqual(final.content[0].text, whole.content[0].text)
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)
        self.assertEqual(final.stop_reason, whole.stop_reason)

    def test_system_and_blocks(self):
        blocks = [{"type": "text", "text": "Say "}, {"type": "text", "text": "yes."}]
        one = self.message(system="Be brief.", messages=[{"role": "user", "content": "Say yes."}])
        two = self.message(system=[{"type": "text", "text": "Be brief."}],
                           messages=[{"role": "user", "content": blocks}])
        self.assertEqual(one.content[0].text, two.content[0].text)

    def test_stop_sequence(self):
        text = self.message().content[0].text
        word = text.split()[-1]
        answer = self.message(stop_sequences=[word])
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("stop_sequence", word))
        self.assertEqual(answer.content[0].text, text[:text.index(word)])

    def test_count_tokens(self):
        counted = self.anthropic.messages.count_tokens(model=self.model, messages=SAY)
        self.assertEqual(counted.input_tokens, prompt_of(self.message().usage))

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError) as raised:
            self.anthropic.messages.create(model="no-such", messages=SAY, max_tokens=1)
        self.assertEqual(raised.exception.body["error"]["type"], "not_found_error")
        self.assertTrue(raised.exception.request_id)
        with self.assertRaises(anthropic.BadRequestError) as raised:
            self.message(messages=[{"role": "user", "content": [{"type": "image", "source": {
                "type": "base64", "media_type": "image/png", "data": "aa"}}]}])
        self.assertIn("'image'", raised.exception.message)
        status, _, text = post("/v1/messages", {"model": self.model, "messages": SAY})
        self.assertEqual((status, json.loads(text)["type"]), (400, "error"))
        self.assertIn("max_tokens", text)

    def test_idempotency_key_gives_the_same_stream(self):
        body = {"model": self.model, "messages": SAY, "max_tokens": 6, "stream": True}
        key = {"Idempotency-Key": os.urandom(8).hex()}
        texts = [post("/v1/messages", body, key)[2] for _ in range(2)]
        joined = ["".join(json.loads(line[6:])["delta"].get("text", "")
                          for line in text.splitlines()
                          if line.startswith("data: ") and "text_delta" in line)
                  for text in texts]
        self.assertEqual(joined[0], joined[1])
        status, _, text = post("/v1/messages", body, {**key, "Last-Event-ID": "0" * 16 + "-1"})
        self.assertEqual((status, json.loads(text)["type"]), (400, "error"))


class Responses(Case):
    def respond(self, **fields):
        fields = {"input": "Count from one to ten.", "max_output_tokens": 12,
                  "extra_body": EXACT, **fields}
        return self.openai.responses.create(model=self.model, **fields)

    def test_response(self):
        answer = self.respond()
        text, usage = chat_text(self.model, max_tokens=12)
        self.assertEqual(answer.output_text, text)
        self.assertEqual(answer.usage.total_tokens, usage.total_tokens)
        self.assertEqual(answer.status, "incomplete")
        self.assertEqual(answer.incomplete_details.reason, "max_output_tokens")
        self.assertFalse(answer.store)

    def test_stream(self):
        events = list(self.respond(stream=True))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual(events[-1].type, "response.incomplete")
        text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        self.assertEqual(text, self.respond().output_text)
        self.assertEqual(events[-1].response.output_text, text)

    def test_conversation_of_items(self):
        first = self.respond()
        history = [{"role": "user", "content": "Count from one to ten."}]
        history += [item.model_dump() for item in first.output]
        again = self.respond(input=history + [{"role": "user", "content": "Go on."}],
                             instructions="Be brief.")
        self.assertGreater(again.usage.input_tokens, first.usage.input_tokens)
        self.assertEqual(again.instructions, "Be brief.")

    def test_logprobs(self):
        answer = self.respond(include=["message.output_text.logprobs"], top_logprobs=2)
        logprobs = answer.output[0].content[0].logprobs
        self.assertTrue(logprobs and len(logprobs[0].top_logprobs) == 2)

    def test_input_tokens(self):
        counted = self.openai.responses.input_tokens.count(
            model=self.model, input="Count from one to ten.")
        self.assertEqual(counted.input_tokens, self.respond().usage.input_tokens)

    def test_errors(self):
        for fields in ({"previous_response_id": "resp_1"}, {"background": True},
                       {"truncation": "auto"}, {"tools": [{"type": "web_search"}]}):
            with self.assertRaises(openai.BadRequestError) as raised:
                self.respond(**fields)
            self.assertTrue(raised.exception.param.startswith(next(iter(fields))), fields)


class Ollama(Case):
    OPTIONS = {"num_predict": 12, **EXACT}

    def test_chat(self):
        answer = self.ollama.chat(self.model, SAY, options=self.OPTIONS)
        text, usage = chat_text(self.model, max_tokens=12)
        self.assertEqual(answer.message.content, text)
        self.assertEqual(answer.eval_count, usage.completion_tokens)
        self.assertEqual(answer.prompt_eval_count, usage.prompt_tokens)
        self.assertEqual((answer.done, answer.done_reason), (True, "length"))

    def test_stream(self):
        parts = list(self.ollama.chat(self.model + ":latest", SAY, options=self.OPTIONS,
                                      stream=True))
        whole = self.ollama.chat(self.model, SAY, options=self.OPTIONS)
        self.assertEqual("".join(part.message.content for part in parts), whole.message.content)
        self.assertEqual([part.done for part in parts], [False] * (len(parts) - 1) + [True])
        _, headers, text = post("/api/chat", {"model": self.model, "messages": SAY,
                                              "options": self.OPTIONS})
        self.assertEqual(headers["Content-Type"], "application/x-ndjson")
        for line in text.splitlines():
            json.loads(line)

    def test_generate(self):
        answer = self.ollama.generate(self.model, "Count from one to ten.", options=self.OPTIONS)
        self.assertEqual(answer.response,
                         self.ollama.chat(self.model, SAY, options=self.OPTIONS).message.content)
        parts = list(self.ollama.generate(self.model, "Count from one to ten.",
                                          options=self.OPTIONS, stream=True))
        self.assertEqual("".join(part.response for part in parts), answer.response)
        raw = self.ollama.generate(self.model, "The sea is", raw=True, options=self.OPTIONS)
        completed = self.openai.completions.create(model=self.model, prompt="The sea is",
                                                   max_tokens=12, extra_body=EXACT)
        self.assertEqual(raw.response, completed.choices[0].text)
        self.assertEqual(self.ollama.generate(self.model, "").done_reason, "load")

    def test_models(self):
        self.assertEqual([each.model for each in self.ollama.list().models], [self.model])
        self.assertEqual([each.model for each in self.ollama.ps().models], [self.model])
        shown = self.ollama.show(self.model)
        # The small model's template writes no thoughts; tools are described to any.
        self.assertEqual(shown.capabilities, ["completion", "tools"])
        family = shown.modelinfo["general.architecture"]
        self.assertGreater(shown.modelinfo[family + ".context_length"], 0)
        with urllib.request.urlopen(ROOT + "/api/version") as answer:
            self.assertTrue(json.load(answer)["version"])

    def test_errors(self):
        for call, status in ((lambda: self.ollama.chat("no-such", SAY), 404),
                             (lambda: self.ollama.show("no-such"), 404),
                             (lambda: self.ollama.embed(self.model, "x"), 400),
                             (lambda: self.ollama.generate(self.model, "x", suffix="y"), 400)):
            with self.assertRaises(ollama.ResponseError) as raised:
                call()
            self.assertEqual(raised.exception.status_code, status)
        status, _, text = post("/api/pull", {"model": "x"})
        self.assertEqual((status, list(json.loads(text))), (404, ["error"]))


class Others(Case):
    def test_embeddings_are_refused(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.openai.embeddings.create(model=self.model, input="x")
        self.assertEqual(raised.exception.param, "model")
        self.assertIn("gives no embeddings", raised.exception.message)

    def test_input_tokens_of_a_chat(self):
        status, _, text = post("/v1/chat/completions/input_tokens", {"messages": SAY})
        self.assertEqual(status, 200)
        _, usage = chat_text(self.model, max_tokens=1)
        self.assertEqual(json.loads(text)["input_tokens"], usage.prompt_tokens)


if __name__ == "__main__":
    unittest.main(verbosity=2)
