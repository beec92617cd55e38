"""Speculation on real processes: answers, hashes and the local run are the same with and without it,
also through the loss of a worker among accepted drafts; figures and metrics say what was drafted.
"""

import itertools
import os
import pathlib
import re
import signal
import tempfile
import unittest

import swarm
from failover_test import Stream, all_here, stage_pid

TEXT = "The cat sat on the mat, and the dog sat on the cat. " * 6
SCHEMA = {"type": "array", "minItems": 3, "maxItems": 4, "items": {
    "type": "object", "properties": {"temperature_celsius": {"type": "integer", "minimum": 0,
                                                              "maximum": 99},
                                     "is_battery_low": {"type": "boolean"}},
    "required": ["temperature_celsius", "is_battery_low"], "additionalProperties": False}}


def body_of(s, **more):
    return {"model": s.model, "prompt": TEXT, "max_tokens": 80, "seed": 11, "ignore_eos": True,
            "return_token_ids": True, "logprobs": 2, "temperature": 0, **more}


FORMAT = {"response_format": {"type": "json_schema",
                              "json_schema": {"name": "readings", "schema": SCHEMA}},
          "prompt": "Readings: ", "temperature": 1.0}


class Speculation(unittest.TestCase):
    def ask(self, s, **more):
        status, answer = s.post("/v1/completions", body_of(s, **more))
        self.assertEqual(status, 200, answer)
        return answer

    def metric(self, s, name, kind):
        text = s.get("/metrics")[1]
        found = re.search(rf'^{name}{{[^}}]*kind="{kind}"[^}}]*}} (\d+)', text, re.MULTILINE)
        return int(found[1])

    def test_the_same_with_and_without(self):
        with swarm.Swarm(3) as s:
            for more in ({}, {"temperature": 0.7, "frequency_penalty": 0.3}, FORMAT):
                more = {**more, "return_hashes": True}
                drafted = self.ask(s, **more)
                plain = self.ask(s, **more, hearth={"speculation": False})
                self.assertNotIn("draft_n", plain["timings"])
                self.assertEqual(drafted["choices"], plain["choices"])
                self.assertEqual(drafted["hearth"]["hashes"], plain["hearth"]["hashes"])
                self.assertEqual(swarm.uncached(drafted["usage"]), swarm.uncached(plain["usage"]))
                timings = drafted["timings"]
                if more.get("temperature", 0) == 0:  # it repeats itself
                    self.assertGreater(timings["draft_n_accepted"], 0)
                self.assertLessEqual(timings.get("draft_n_accepted", 0), timings.get("draft_n", 0))
            # Drafts are sent where a wider step is worth its time, which the first stage measures.
            seeds = itertools.count()
            swarm.wait_until(lambda: self.ask(s, **{**FORMAT, "seed": next(seeds)})["timings"].get(
                "draft_n_grammar_accepted", 0), "an answer with accepted drafts of its grammar")
            for kind in ("lookup", "grammar"):
                accepted = self.metric(s, "hearth_speculation_accepted_total", kind)
                self.assertGreater(accepted, 0, kind)
                self.assertGreaterEqual(self.metric(s, "hearth_speculation_drafted_total", kind),
                                        accepted)

    def test_the_same_as_in_one_process(self):
        with swarm.Swarm(3) as s, tempfile.TemporaryDirectory() as folder:
            hashes = []
            words = [TEXT, "--raw", "-n", 60, "--temp", 0, "--seed", 3, "--token-ids", "--verbose",
                     "--ignore-eos"]
            runs = [("run", s.model, *words, "--host", s.api),
                    ("run", "--local", swarm.MODEL, *words, "--stages", 3)]
            for run in runs:
                for flags in ((), ("--no-speculation",)):
                    file = pathlib.Path(folder) / str(len(hashes))
                    code, out, err = swarm.hearth(*run, *flags, "--hashes", file)
                    self.assertEqual(code, 0, err)
                    hashes.append((out, file.read_text()))
                    self.assertEqual("drafted by lookup" in err, not flags, err)
            self.assertEqual(len(set(hashes)), 1)

    def test_an_end_inside_a_step_tells_all_hashes(self):
        with tempfile.TemporaryDirectory() as folder:
            for tokens in (47, 53, 54, 55):
                told = []
                for flags in ((), ("--no-speculation",)):
                    file = pathlib.Path(folder) / f"{tokens}{len(told)}"
                    code, _, err = swarm.hearth("run", "--local", swarm.MODEL, TEXT, "--raw", "-n",
                                                tokens, "--temp", 0, "--ignore-eos", "--stages", 2,
                                                "--hashes", file, *flags)
                    self.assertEqual(code, 0, err)
                    told.append(file.read_text())
                self.assertEqual(told[0], told[1], f"{tokens} tokens")

    def test_the_loss_of_a_worker_changes_nothing(self):
        with swarm.Swarm(3, "--stages", "2") as s:
            body = body_of(s, max_tokens=200, stream=True)
            del body["logprobs"]
            quiet = Stream(s.api, body)
            quiet.join(swarm.PATIENCE_S)
            self.assertEqual(len(quiet.ids), 200)
            for stage in (1, 0):
                swarm.wait_until(lambda: all_here(s, 3), "all workers")
                before = self.metric(s, "hearth_speculation_accepted_total", "lookup")
                stream = Stream(s.api, body)
                swarm.wait_until(lambda: stream.ids, "a token")
                os.kill(stage_pid(s, stage)[0], signal.SIGKILL)
                stream.join(swarm.PATIENCE_S)
                self.assertEqual(stream.answer(), quiet.answer(), f"stage {stage} of 2 was lost")
                self.assertGreater(self.metric(s, "hearth_speculation_accepted_total", "lookup"),
                                   before)

    def test_a_draft_model(self):
        """The model is its own draft model: always right, and never faster. A trial asks it, its
        drafts are accepted, and the trial is lost."""
        asked = ({"prompt": "Once upon a time", "max_tokens": 120},
                 {"prompt": "Once upon a time", "max_tokens": 120, "temperature": 0.9},
                 {**FORMAT, "max_tokens": 60})
        with swarm.Swarm(2, "--draft", swarm.MODEL) as s:
            for more in asked:
                more = {**more, "return_hashes": True}
                drafted = self.ask(s, **more)
                plain = self.ask(s, **more, hearth={"speculation": False})
                self.assertEqual(drafted["choices"], plain["choices"])
                self.assertEqual(drafted["hearth"]["hashes"], plain["hearth"]["hashes"])
            seeds = itertools.count()
            swarm.wait_until(
                lambda: self.ask(s, prompt="Once upon a time", temperature=1.0, max_tokens=60,
                                 seed=next(seeds))["timings"].get("draft_n_model_accepted", 0),
                "an answer with accepted drafts of the draft model")
            accepted = self.metric(s, "hearth_speculation_accepted_total", "model")
            self.assertGreater(accepted, 0)
            self.assertEqual(self.metric(s, "hearth_speculation_drafted_total", "model"), accepted)
            state = s.state()
            self.assertEqual(state["totals"]["drafts"]["model"]["accepted"], accepted)
            kept = {node["draft_bytes"] for node in state["nodes"]}
            self.assertGreater(min(kept), os.path.getsize(swarm.MODEL) // 2)
            out = swarm.hearth("status", "--host", s.api)[1]
            self.assertIn("of memory for a draft model", out)
            self.assertIn(f"model {accepted} of {accepted} accepted", out)

    def test_a_draft_model_of_another_vocabulary_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            draft = pathlib.Path(folder) / "draft.gguf"
            swarm.make_model(draft, "--vocabulary", 400)
            runs = (("serve", swarm.MODEL, "--data-dir", folder, "--port", 0),
                    ("run", "--local", swarm.MODEL, "Hello"))
            for run in runs:
                code, _, err = swarm.hearth(*run, "--draft", draft)
                self.assertNotEqual(code, 0)
                self.assertRegex(err, r"another vocabulary than .*: token \d+ is '.*' of 400 in the "
                                      r"draft model")

    def test_the_server_turns_it_off(self):
        with swarm.Swarm(1, "--no-speculation") as s:
            self.assertNotIn("draft_n", self.ask(s)["timings"])
            self.assertEqual(self.metric(s, "hearth_speculation_drafted_total", "lookup"), 0)


if __name__ == "__main__":
    swarm.main()
