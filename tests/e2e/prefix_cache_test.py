"""The prefix cache over three real workers: the next turn computes only what is new, with the bytes
and the receipts of a server without it; each API key by itself; and through the loss of a worker.
"""

import os
import pathlib
import signal
import unittest

import audits_test
import swarm
from failover_test import Stream, all_here, request, stage_pid

TEXT = (pathlib.Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()
PAGE = 32  # tokens of a KV page


def chat(s, messages, **more):
    body = {"model": s.model, "messages": messages, "max_tokens": 24, "seed": 5, "temperature": 0.8,
            "repetition_penalty": 1.1, "logprobs": True, "top_logprobs": 2, "ignore_eos": True, **more}
    status, answer = s.post("/v1/chat/completions", body)
    assert status == 200, answer
    return answer


def cached(answer):
    usage, timings = answer["usage"], answer["timings"]
    found = usage["prompt_tokens_details"]["cached_tokens"]
    assert timings["cache_n"] == found, answer
    assert timings["cache_n"] + timings["prompt_n"] == usage["prompt_tokens"], answer
    return found


def system(number, length=4000):
    return [{"role": "system", "content": f"Conversation {number}. " + TEXT[:length]}]


def turns(s, messages, count, **more):
    """Answers of so many turns; each next one has the answers before it."""
    answers = []
    for turn in range(count):
        messages = messages + [{"role": "user", "content": f"And what is row {turn} about?"}]
        answers.append(chat(s, messages, **more))
        messages = messages + [{"role": "assistant",
                                "content": answers[-1]["choices"][0]["message"]["content"]}]
    return answers


def told(answers):
    return [answer["choices"] for answer in answers]


class PrefixCache(unittest.TestCase):
    def test_the_next_turn_computes_what_is_new(self):
        with swarm.Swarm(3) as s:
            plain = turns(s, system(1), 3, cache_prompt=False)
            self.assertEqual([cached(answer) for answer in plain], [0, 0, 0])
            answers = turns(s, system(1), 3)
            self.assertEqual(told(answers), told(plain))
            self.assertEqual(cached(answers[0]), 0, "the turns before left nothing")
            for before, now in zip(answers, answers[1:]):
                least = before["usage"]["prompt_tokens"] // PAGE * PAGE - PAGE
                self.assertGreaterEqual(cached(now), least)
                self.assertLess(cached(now), now["usage"]["prompt_tokens"])
            again = turns(s, system(1), 3)
            self.assertEqual(told(again), told(plain))
            # All but the row that gives the first token, and what stands in a page that is not whole.
            self.assertGreater(cached(again[0]), again[0]["usage"]["prompt_tokens"] - PAGE - 1)
            metrics = s.get("/metrics")[1]
            hits = sum(cached(answer) for answer in answers + again)
            asked = sum(answer["usage"]["prompt_tokens"] for answer in answers + again)
            for name, tokens in (("hits", hits), ("queries", asked)):
                self.assertIn(f'hearth_prefix_cache_{name}_total{{model_name="{s.model}"}} {tokens}\n',
                              metrics)
            shown = swarm.wait_until(
                lambda: (out := swarm.hearth("status", "--host", s.api)[1]) and
                " cached" in out and out, "cached positions in hearth status")
            self.assertRegex(shown, r"\d+ of \d+ positions in use, \d+ cached")
            # What shares with all is another scope, and so is an echo that is scored.
            shared = [chat(s, system(1) + [{"role": "user", "content": "Hello"}], cache="shared")
                      for _ in range(2)]
            self.assertEqual(cached(shared[0]), 0)
            self.assertGreater(cached(shared[1]), 0)
            ids = s.post("/tokenize", {"content": TEXT[:3000]})[1]["tokens"]
            echo = {"model": s.model, "prompt": ids, "echo": True, "logprobs": 1, "max_tokens": 1,
                    "temperature": 0}
            scored = [s.post("/v1/completions", echo)[1] for _ in range(2)]
            self.assertEqual(scored[0]["choices"], scored[1]["choices"])
            for wrong in ({"cache": "all"}, {"cache": "key", "cache_prompt": False}):
                status, refused = s.post("/v1/chat/completions", {
                    "messages": [{"role": "user", "content": "x"}], **wrong})
                self.assertEqual((status, refused["error"]["param"]), (400, "cache"))

    def test_other_dialects_tell_it(self):
        with swarm.Swarm(2) as s:
            def message():
                return s.post("/v1/messages", {
                    "model": s.model, "max_tokens": 4, "temperature": 0,
                    "messages": [{"role": "user", "content": TEXT[:2000]}]})[1]["usage"]
            first, second = message(), message()
            self.assertEqual(first["cache_read_input_tokens"], 0)
            self.assertGreater(second["cache_read_input_tokens"], 0)
            self.assertEqual(first["input_tokens"],
                             second["input_tokens"] + second["cache_read_input_tokens"])
            answer = s.post("/v1/responses", {"model": s.model, "input": TEXT[:2000],
                                              "max_output_tokens": 16})[1]
            self.assertGreater(answer["usage"]["input_tokens_details"]["cached_tokens"], 0)
            answer = s.post("/api/chat", {"model": s.model, "stream": False,
                                          "messages": [{"role": "user", "content": TEXT[:2000]}],
                                          "options": {"num_predict": 4}})[1]
            self.assertEqual(answer["prompt_eval_count"], first["input_tokens"])

    def test_without_it_nothing_is_cached(self):
        with swarm.Swarm(2, "--no-prefix-cache") as s:
            answers = [chat(s, system(1) + [{"role": "user", "content": "Hello"}])
                       for _ in range(2)]
            self.assertEqual([cached(answer) for answer in answers], [0, 0])
            self.assertEqual(answers[0]["choices"], answers[1]["choices"])

    def test_conversations_that_do_not_all_fit(self):
        with swarm.Swarm(3, "--kv-budget", "6M") as s:
            pages = s.state()["pipelines"][0]["kv_pages"]
            size = chat(s, system(0, 1200) + [{"role": "user", "content": "x"}],
                        cache="off")["usage"]["prompt_tokens"] + 24
            count = pages * PAGE // size + 2
            for _ in range(2):
                for number in range(count):
                    messages = system(number, 1200) + [{"role": "user", "content": "Which rows?"}]
                    kept = chat(s, messages)
                    self.assertEqual(told([kept]), told([chat(s, messages, cache="off")]))

    def test_through_the_loss_of_a_worker(self):
        with swarm.Swarm(3) as whole:
            plain = turns(whole, system(1), 3, cache="off")
        with swarm.Swarm(4, "--stages", "3") as s:
            answers = turns(s, system(1), 1)
            for lost in (1, 0):
                swarm.wait_until(lambda: all_here(s, 4), "all workers")
                os.kill(stage_pid(s, lost)[0], signal.SIGKILL)
                answers = turns(s, system(1), 3)
                self.assertEqual(told(answers), told(plain))
                for before, now in zip(answers, answers[1:]):
                    self.assertGreater(cached(now), before["usage"]["prompt_tokens"] - 2 * PAGE)

    def test_a_loss_in_a_turn_that_was_cached(self):
        with swarm.Swarm(4, "--stages", "3") as s:
            body = request(s.model, 3, TEXT[:6000])
            plain = Stream(s.api, body)
            plain.join(swarm.PATIENCE_S)
            del body["cache_prompt"]
            first = Stream(s.api, body)
            first.join(swarm.PATIENCE_S)
            for lost in (1, 0, 2):
                swarm.wait_until(lambda: all_here(s, 4), "all workers")
                stream = Stream(s.api, body)
                swarm.wait_until(lambda: len(stream.ids) >= 5 or stream.done, "its first tokens")
                os.kill(stage_pid(s, lost)[0], signal.SIGKILL)
                stream.join(swarm.PATIENCE_S)
                self.assertEqual(stream.answer()[:-1], plain.answer()[:-1], f"stage {lost} was lost")
                self.assertTrue(stream.done and len(stream.ids) > 0)


class Keys(swarm.InOneFolder):
    def test_a_key_finds_what_it_asked_itself(self):
        s = swarm.Swarm(2, data_dir=self.folder)
        self.addCleanup(s.stop)
        keys = []
        for name in ("one", "other"):
            code, out, err = swarm.hearth("key", "create", name, "--data-dir", self.folder)
            self.assertEqual(code, 0, err)
            keys.append({"Authorization": "Bearer " + out.strip()})
        body = {"model": s.model, "max_tokens": 4, "messages": system(1), "temperature": 0}

        def ask(key, **more):
            status, answer = swarm.http("POST", s.api + "/v1/chat/completions", {**body, **more},
                                        headers=key)
            self.assertEqual(status, 200, answer)
            return cached(answer)
        self.assertEqual([ask(keys[0]), ask(keys[1])], [0, 0])
        self.assertGreater(ask(keys[0]), 0)
        self.assertEqual(ask(keys[0], cache="shared"), 0, "what was shared is all that is found")
        self.assertGreater(ask(keys[1], cache="shared"), 0)
        self.assertEqual(ask(keys[0], cache="off"), 0)


class Audited(swarm.InOneFolder):
    start = audits_test.Audits.start
    serving = staticmethod(audits_test.Audits.serving)
    audited = audits_test.Audits.audited

    # Others compute the windows of cached positions again, and find what the receipts say.
    def test_receipts_of_cached_positions_stand(self):
        s = self.start("full")
        body = {"model": s.model, "max_tokens": 8, "temperature": 0, "seed": 1,
                "messages": [{"role": "user", "content": TEXT[:3000]}]}
        answers = [s.post("/v1/chat/completions", body)[1] for _ in range(3)]
        self.assertEqual(told(answers[1:]), told(answers[:2]))
        self.assertGreater(sum(cached(answer) for answer in answers), 0)
        found = self.audited(s, 2 * len(answers))
        self.assertEqual((found["agreed"], found["disputed"], found["missed"]),
                         (2 * len(answers), 0, 0))


if __name__ == "__main__":
    swarm.main(layers=6)
