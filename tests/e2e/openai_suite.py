"""The official `openai` client, unmodified, against a running server.

    HEARTH_API_BASE=http://127.0.0.1:8177/v1 python3 tests/e2e/openai_suite.py

The server is started by the caller; any model will do. Times are never asserted.
"""

import asyncio
import http.client
import http.server
import json
import os
import threading
import unittest
import urllib.parse
import urllib.request

import openai

BASE = os.environ.get("HEARTH_API_BASE", "")
ROOT = BASE.rsplit("/v1", 1)[0]
SAY = [{"role": "user", "content": "Count from one to ten."}]
EXACT = {"ignore_eos": True, "return_token_ids": True}


def post(path, body):
    request = urllib.request.Request(ROOT + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


class Suite(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = openai.OpenAI(base_url=BASE, api_key="any", max_retries=0, timeout=120)
        cls.model = cls.client.models.list().data[0].id

    def chat(self, **fields):
        fields.setdefault("messages", SAY)
        fields.setdefault("max_tokens", 12)
        return self.client.chat.completions.create(model=self.model, **fields)

    def complete(self, prompt="The sea is", **fields):
        fields.setdefault("max_tokens", 12)
        return self.client.completions.create(model=self.model, prompt=prompt, **fields)

    # --- whole answers ---

    def test_models(self):
        listed = self.client.models.list().data
        self.assertEqual(self.client.models.retrieve(listed[0].id).id, listed[0].id)
        self.assertGreater(listed[0].model_extra["meta"]["n_vocab"], 0)

    def test_chat(self):
        answer = self.chat(extra_body={"ignore_eos": True})
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 12)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 12)
        self.assertTrue(answer.system_fingerprint)
        self.assertIn("predicted_per_second", answer.model_extra["timings"])

    def test_content_parts_and_roles(self):
        parts = [{"type": "text", "text": "Count from one"}, {"type": "text", "text": " to ten."}]
        whole = self.chat(seed=1)
        joined = self.chat(seed=1, messages=[{"role": "user", "content": parts}])
        self.assertEqual(whole.choices[0].message.content, joined.choices[0].message.content)
        system = [{"role": "system", "content": "Be brief."}, *SAY]
        developer = [{"role": "developer", "content": "Be brief."}, *SAY]
        self.assertEqual(self.chat(seed=1, messages=system).choices[0].message.content,
                         self.chat(seed=1, messages=developer).choices[0].message.content)

    def test_max_completion_tokens(self):
        answer = self.client.chat.completions.create(
            model=self.model, messages=SAY, max_completion_tokens=3,
            extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 3)

    def test_same_seed_same_tokens(self):
        def ids(seed):
            answer = self.chat(seed=seed, temperature=1.0, max_tokens=20, extra_body=EXACT)
            return answer.choices[0].model_extra["token_ids"]
        self.assertEqual(ids(42), ids(42))
        self.assertEqual(ids(-42), ids(-42))
        self.assertNotEqual(ids(42), ids(43))

    def test_reported_seed_repeats_the_answer(self):
        first = self.chat(max_tokens=20, extra_body=EXACT)
        again = self.chat(max_tokens=20, extra_body=EXACT, seed=first.model_extra["hearth"]["seed"])
        self.assertEqual(first.choices[0].model_extra["token_ids"],
                         again.choices[0].model_extra["token_ids"])

    def test_choices_have_seeds_of_their_own(self):
        many = self.chat(n=3, seed=10, extra_body=EXACT)
        self.assertEqual([choice.index for choice in many.choices], [0, 1, 2])
        for i, choice in enumerate(many.choices):
            alone = self.chat(seed=10 + i, extra_body=EXACT)
            self.assertEqual(choice.model_extra["token_ids"],
                             alone.choices[0].model_extra["token_ids"])

    def test_logit_bias(self):
        token = post("/tokenize", {"content": "a"})["tokens"][0]
        answer = self.chat(temperature=0, max_tokens=3, logit_bias={str(token): 100},
                           extra_body=EXACT)
        self.assertEqual(answer.choices[0].model_extra["token_ids"], [token] * 3)

    def test_logprobs(self):
        answer = self.chat(logprobs=True, top_logprobs=3, temperature=0,
                           extra_body={"ignore_eos": True})
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), 12)
        for entry in content:
            self.assertLessEqual(entry.logprob, 0)
            self.assertEqual(len(entry.top_logprobs), 3)
            best = max(top.logprob for top in entry.top_logprobs)
            self.assertEqual(best, entry.logprob)  # greedy: what was taken is the likeliest

    def test_hashes(self):
        answer = self.chat(max_tokens=2, extra_body={"return_hashes": True, "ignore_eos": True})
        rows = answer.model_extra["hearth"]["hashes"]
        steps = answer.usage.prompt_tokens + 1  # the last token sampled is never computed
        self.assertEqual({row["step"] for row in rows}, set(range(steps)))
        stages = sorted({tuple(row["layers"]) for row in rows})
        self.assertEqual(len(rows), steps * len(stages))
        for (_, end), (begin, _) in zip(stages, stages[1:]):
            self.assertEqual(end, begin)

    # --- streams ---

    def stream(self, **fields):
        return list(self.chat(stream=True, **fields))

    def test_stream_equals_whole(self):
        whole = self.chat(seed=5, max_tokens=30, extra_body=EXACT)
        chunks = self.stream(seed=5, max_tokens=30, extra_body=EXACT,
                             stream_options={"include_usage": True})
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)
        self.assertEqual(len({chunk.created for chunk in chunks}), 1)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        usage = chunks.pop()
        self.assertEqual(usage.choices, [])
        # The prompt was computed before, and its answer is the same.
        usage.usage.prompt_tokens_details = whole.usage.prompt_tokens_details
        self.assertEqual(usage.usage, whole.usage)
        self.assertTrue(all(chunk.usage is None for chunk in chunks))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        ids = [i for chunk in chunks for i in chunk.choices[0].model_extra["token_ids"]]
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(ids, whole.choices[0].model_extra["token_ids"])
        self.assertEqual(chunks[-1].choices[0].finish_reason, "length")

    def test_stream_of_several_choices(self):
        texts = {}
        reasons = {}
        for chunk in self.stream(n=4, seed=5, extra_body={"ignore_eos": True}):
            choice = chunk.choices[0]
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
        whole = self.chat(n=4, seed=5, extra_body={"ignore_eos": True})
        self.assertEqual(texts, {c.index: c.message.content for c in whole.choices})
        self.assertEqual(reasons, {i: "length" for i in range(4)})

    def test_stream_logprobs(self):
        chunks = self.stream(logprobs=True, top_logprobs=1, extra_body={"ignore_eos": True})
        entries = [entry for chunk in chunks if chunk.choices[0].logprobs
                   for entry in chunk.choices[0].logprobs.content]
        self.assertEqual(len(entries), 12)

    def test_stop_string_even_across_chunks(self):
        free = self.chat(seed=3, max_tokens=40, extra_body={"ignore_eos": True})
        text = free.choices[0].message.content
        for length in (1, 4, 9):
            stop = text[len(text) // 2:len(text) // 2 + length]
            self.assertTrue(stop)
            expected = text[:text.index(stop)]
            answer = self.chat(seed=3, max_tokens=40, stop=[stop, "\x00never"],
                               extra_body={"ignore_eos": True})
            self.assertEqual(answer.choices[0].message.content, expected)
            self.assertEqual(answer.choices[0].finish_reason, "stop")
            chunks = self.stream(seed=3, max_tokens=40, stop=stop, extra_body={"ignore_eos": True})
            shown = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            self.assertEqual(shown, expected)
            self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")

    def test_abort_frees_the_sequence(self):
        def running():
            with urllib.request.urlopen(ROOT + "/api/v1/state") as answer:
                state = json.load(answer)
            return state["running"] + state["waiting"]
        stream = self.chat(stream=True, max_tokens=200, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        for _ in range(2000):
            if running() == 0:
                return
        self.fail("the sequence of an aborted stream still runs")

    def test_sixteen_streams_at_once(self):
        async def one(client, i):
            stream = await client.chat.completions.create(
                model=self.model, messages=SAY, max_tokens=8 + i, seed=i, stream=True,
                extra_body=EXACT)
            ids = []
            async for chunk in stream:
                ids += chunk.choices[0].model_extra["token_ids"]
            return ids

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=BASE, api_key="any", timeout=300) as client:
                return await asyncio.gather(*(one(client, i) for i in range(16)))

        for i, ids in enumerate(asyncio.run(all_of_them())):
            alone = self.chat(max_tokens=8 + i, seed=i, extra_body=EXACT)
            self.assertEqual(ids, alone.choices[0].model_extra["token_ids"])

    # --- legacy completions ---

    def test_prompts_of_every_kind(self):
        ids = post("/tokenize", {"content": "The sea is", "add_special": True,
                                 "parse_special": False})["tokens"]
        fields = {"seed": 2, "extra_body": {"ignore_eos": True}}
        text = self.complete("The sea is", **fields).choices[0].text
        self.assertEqual(self.complete(ids, **fields).choices[0].text, text)
        for prompts in (["The sea is"] * 2, [ids, ids]):
            answer = self.complete(prompts, **fields)
            self.assertEqual([choice.text for choice in answer.choices], [text, text])
        streamed = self.complete("The sea is", stream=True, **fields)
        self.assertEqual("".join(chunk.choices[0].text for chunk in streamed), text)
        self.assertEqual(self.complete("The sea is", echo=True, **fields).choices[0].text,
                         "The sea is" + text)

    def test_legacy_logprobs(self):
        logprobs = self.complete(logprobs=2, extra_body={"ignore_eos": True}).choices[0].logprobs
        self.assertEqual(len(logprobs.tokens), 12)
        self.assertEqual(len(logprobs.token_logprobs), 12)
        self.assertEqual(len(logprobs.top_logprobs), 12)
        self.assertEqual(logprobs.text_offset[0], 0)

    def test_echo_with_logprobs_scores_the_prompt(self):
        """As evaluation tools ask; each score is the log probability of the token where it is forced."""
        ids = post("/tokenize", {"content": "The capital of France is Paris, a city"})["tokens"]
        scored = self.complete(ids, echo=True, logprobs=2, max_tokens=1).choices[0].logprobs
        self.assertEqual(len(scored.token_logprobs), len(ids) + 1)
        self.assertIsNone(scored.token_logprobs[0])
        for i in range(1, len(ids)):
            forced = self.complete(ids[:i], max_tokens=1, temperature=0, logprobs=2,
                                   logit_bias={str(ids[i]): 100},
                                   extra_body={"ignore_eos": True}).choices[0].logprobs
            self.assertEqual(scored.token_logprobs[i], forced.token_logprobs[0])
            self.assertEqual(scored.top_logprobs[i], forced.top_logprobs[0])
        text = "The capital of France is"
        alone = self.complete(text, echo=True, logprobs=1, max_tokens=0)
        self.assertEqual(alone.choices[0].text, text)
        self.assertEqual(alone.usage.completion_tokens, 0)
        chunks = list(self.complete(ids, echo=True, logprobs=2, max_tokens=1, stream=True))
        streamed = [chunk.choices[0].logprobs for chunk in chunks
                    if chunk.choices and chunk.choices[0].logprobs]
        self.assertEqual(sum((part.token_logprobs for part in streamed), [])[:-1],
                         scored.token_logprobs[:-1])
        self.assertEqual(sum((part.text_offset for part in streamed), []), scored.text_offset)
        many = self.complete([ids, ids[:4]], echo=True, logprobs=2, max_tokens=1).choices
        self.assertEqual(many[0].logprobs.token_logprobs[:-1], scored.token_logprobs[:-1])
        self.assertEqual(many[1].logprobs.token_logprobs[:4], scored.token_logprobs[:4])

    def test_an_evaluation_tool_scores_continuations(self):
        """As lm-evaluation-harness does: the tokens behind a context, and whether each is the likeliest."""
        def score(context, continuation):
            whole = post("/tokenize", {"content": context + continuation})["tokens"]
            begin = len(post("/tokenize", {"content": context})["tokens"])
            told = self.complete(whole, echo=True, logprobs=1, max_tokens=1, temperature=0,
                                 seed=1234).choices[0].logprobs
            scores = told.token_logprobs[begin:-1]
            self.assertEqual(len(scores), len(whole) - begin)
            greedy = all(max(top, key=top.get) == token for top, token in
                         zip(told.top_logprobs[begin:-1], told.tokens[begin:-1]))
            return sum(scores), greedy

        likely, _ = score("One, two, three, four,", " five")
        unlikely, greedy = score("One, two, three, four,", " walrus")
        self.assertGreater(likely, unlikely)
        self.assertFalse(greedy)
        answer = self.complete("One, two, three,", max_tokens=4, temperature=0,
                               extra_body={"ignore_eos": True}).choices[0].text
        self.assertTrue(score("One, two, three,", answer)[1])

    # --- tools, formats and prefill ---

    def test_json_formats(self):
        answer = self.chat(response_format={"type": "json_object"}, max_tokens=400, seed=5,
                           temperature=0.7)
        if answer.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(answer.choices[0].message.content), dict)
        schema = {"type": "object", "additionalProperties": False, "required": ["city", "days"],
                  "properties": {"city": {"enum": ["Oslo", "Bern"]},
                                 "days": {"type": "integer", "minimum": 1, "maximum": 9}}}
        wanted = {"type": "json_schema", "json_schema": {"name": "trip", "schema": schema}}
        for seed in range(5):
            answer = self.chat(response_format=wanted, max_tokens=60, seed=seed, temperature=1.5)
            self.assertEqual(answer.choices[0].finish_reason, "stop")
            trip = json.loads(answer.choices[0].message.content)
            self.assertEqual(sorted(trip), ["city", "days"])
            self.assertIn(trip["city"], ["Oslo", "Bern"])
            self.assertIn(trip["days"], range(1, 10))

    def test_other_formats(self):
        def text(**body):
            answer = self.complete(max_tokens=12, temperature=1.5, extra_body=body)
            self.assertEqual(answer.choices[0].finish_reason, "stop")
            return answer.choices[0].text
        self.assertIn(text(guided_choice=["red", "green"]), ["red", "green"])
        self.assertRegex(text(guided_regex="[a-f]{3}-[0-9]{2}"), "^[a-f]{3}-[0-9]{2}$")
        self.assertIn(text(grammar='root ::= "a" | "b" "c"'), ["a", "bc"])
        self.assertRegex(text(structured_outputs={"regex": "x[yz]"}), "^x[yz]$")

    TOOLS = [{"type": "function", "function": {
        "name": name, "description": "Counts.", "parameters": {
            "type": "object", "properties": {"to": {"type": "integer", "maximum": 99}},
            "required": ["to"], "additionalProperties": False}}} for name in ("count", "rest")]

    def test_required_and_named_calls(self):
        named = {"type": "function", "function": {"name": "rest"}}
        for choice, names in (("required", ("count", "rest")), (named, ("rest",))):
            answer = self.chat(tools=self.TOOLS, tool_choice=choice, max_tokens=200, seed=3,
                               temperature=1.0, parallel_tool_calls=False)
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            call, = answer.choices[0].message.tool_calls
            self.assertIn(call.function.name, names)
            self.assertEqual(list(json.loads(call.function.arguments)), ["to"])

    def test_streamed_call_is_the_same(self):
        fields = {"tools": self.TOOLS, "tool_choice": "required", "max_tokens": 200, "seed": 3,
                  "parallel_tool_calls": False}
        whole = self.chat(**fields).choices[0].message.tool_calls[0]
        deltas = [delta for chunk in self.stream(**fields) if chunk.choices
                  for delta in chunk.choices[0].delta.tool_calls or []]
        for call in (deltas[0], whole):  # an id belongs to one answer
            self.assertRegex(call.id, r"^[0-9A-Za-z]{9}$")
        self.assertNotEqual(deltas[0].id, whole.id)
        self.assertEqual(deltas[0].function.name, whole.function.name)
        self.assertEqual("".join(delta.function.arguments or "" for delta in deltas),
                         whole.function.arguments)

    def test_calls_and_results_are_messages(self):
        call = {"id": "call00001", "type": "function",
                "function": {"name": "count", "arguments": '{"to": 3}'}}
        answer = self.chat(tools=self.TOOLS, extra_body={"ignore_eos": True}, messages=[
            *SAY, {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call00001", "content": "1, 2, 3"}])
        self.assertEqual(answer.usage.completion_tokens, 12)

    def test_reasoning_fields_are_taken(self):
        answer = self.chat(reasoning_effort="low", extra_body={
            "ignore_eos": True, "chat_template_kwargs": {"enable_thinking": False}})
        self.assertEqual(answer.usage.completion_tokens, 12)

    def test_prefill_is_continued(self):
        """The prompt ends with the message's text, so a completion of it goes on the same way."""
        messages = [*SAY, {"role": "assistant", "content": "1, 2,"}]
        exact = {"seed": 5, "extra_body": {"ignore_eos": True}}
        answer = self.chat(messages=messages, **exact)
        prompt = post("/apply-template", {"messages": SAY})["prompt"] + "1, 2,"
        self.assertEqual(self.complete(prompt, **exact).choices[0].text,
                         answer.choices[0].message.content)

    # --- errors ---

    def assert_refused(self, error_class, status, code, **fields):
        with self.assertRaises(error_class) as caught:
            self.client.chat.completions.create(**{"model": self.model, "messages": SAY, **fields})
        self.assertEqual(caught.exception.status_code, status)
        self.assertEqual(caught.exception.code, code)
        self.assertTrue(caught.exception.request_id)
        return caught.exception

    def test_error_classes(self):
        refused = self.assert_refused
        refused(openai.NotFoundError, 404, "model_not_found", model="no-such-model")
        error = refused(openai.BadRequestError, 400, "invalid_value", temperature=-1)
        self.assertEqual(error.param, "temperature")
        refused(openai.BadRequestError, 400, "invalid_value", n=9)
        refused(openai.BadRequestError, 400, "context_length_exceeded", max_tokens=2**31 - 1)
        refused(openai.BadRequestError, 400, "unsupported_value",
                extra_body={"function_call": {"name": "f"}})
        refused(openai.BadRequestError, 400, "invalid_value", response_format={"type": "yaml"})
        refused(openai.BadRequestError, 400, "unsupported_content", messages=[
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])
        with self.assertRaises(openai.BadRequestError):
            self.client.embeddings.create(model=self.model, input="x")
        with self.assertRaises(openai.PermissionDeniedError):
            self.client.models.list(extra_headers={"Origin": "https://evil.example"})

    def test_one_connection_survives_errors(self):
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(ROOT).netloc)
        for body, status in ((b"{", 400), (b"[]", 400), (b'{"content":"a"}', 200)):
            connection.request("POST", "/tokenize", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            self.assertEqual(answer.status, status)
            answer.read()
        connection.close()

    def test_client_retries_as_told(self):
        """What our error answers make the client do, seen through a proxy that fails first."""
        seen = []
        refusal = json.dumps({"error": {"message": "full", "type": "rate_limit_error",
                                        "param": None, "code": "rate_limit_exceeded"}}).encode()

        class Proxy(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                seen.append(self.headers["x-stainless-retry-count"])
                if len(seen) == 1:
                    self.send_response(429)
                    self.send_header("Retry-After", "0.01")
                    answer = refusal
                else:
                    request = urllib.request.Request(ROOT + self.path, body,
                                                     {"Content-Type": "application/json"})
                    self.send_response(200)
                    with urllib.request.urlopen(request) as reply:
                        answer = reply.read()
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *words):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1",
                               api_key="any", max_retries=2)
        answer = client.chat.completions.create(model=self.model, messages=SAY, max_tokens=1)
        server.shutdown()
        server.server_close()
        self.assertEqual(seen, ["0", "1"])
        self.assertEqual(answer.usage.completion_tokens, 1)


if __name__ == "__main__":
    if not BASE:
        print("HEARTH_API_BASE names no server: the suite is not run")
        raise SystemExit(77)  # CTest's mark for a test that was not run
    unittest.main(verbosity=2)
