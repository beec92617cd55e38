"""The scores of an echoed prompt are the same on every split and through the loss of a worker that
computes the prompt: of the last one, which scores, and of the first.
"""

import os
import pathlib
import signal
import threading
import unittest

import swarm
from failover_test import all_here, stage_pid

TOKENS = 3000
TEXT = pathlib.Path(__file__).parents[2] / "ARCHITECTURE.md"


class Scores(unittest.TestCase):
    asked = None
    known = None  # what one worker answers

    @classmethod
    def setUpClass(cls):
        with swarm.Swarm(1) as s:
            _, answer = s.post("/tokenize", {"content": TEXT.read_text()})
            prompt = answer["tokens"][:TOKENS]
            assert len(prompt) == TOKENS, len(prompt)
            cls.asked = {"model": s.model, "prompt": prompt, "echo": True, "logprobs": 1,
                         "max_tokens": 1, "temperature": 0}
            cls.known = cls.ask(s)

    @classmethod
    def ask(cls, s):
        status, answer = s.post("/v1/completions", cls.asked)
        assert status == 200, answer
        return answer["choices"][0]

    def test_every_token_but_the_first_has_a_score(self):
        scores = self.known["logprobs"]["token_logprobs"]
        self.assertEqual(len(scores), TOKENS + 1)
        self.assertIsNone(scores[0])
        self.assertTrue(all(-100 < score <= 0 for score in scores[1:]))

    def test_the_loss_of_a_worker_changes_none(self):
        with swarm.Swarm(3, "--stages", "2") as s:
            self.assertEqual(self.ask(s), self.known)
            for stage in (1, 0):
                swarm.wait_until(lambda: all_here(s, 3), "all workers")
                found = []
                asking = threading.Thread(target=lambda: found.append(self.ask(s)))
                asking.start()
                swarm.wait_until(lambda: s.state()["running"] == 1, "a running request")
                os.kill(stage_pid(s, stage)[0], signal.SIGKILL)
                asking.join(swarm.PATIENCE_S)
                self.assertEqual(found, [self.known], f"stage {stage} of 2 was lost")


if __name__ == "__main__":
    swarm.main(layers=6)
