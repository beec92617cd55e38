"""Gemma 3 270M, a real model with local layers, alone and in a swarm of three.

Needs HEARTH_GEMMA_MODEL in place of the demo model (deploy/steps.sh fetches it).
"""

import json
import os
import pathlib
import tempfile
import unittest

import swarm

swarm.MODEL = os.environ.get("HEARTH_GEMMA_MODEL", "")
# More tokens than the window of 512.
LONG = "\n".join(pathlib.Path(swarm.__file__).read_text().splitlines()[:100])


def local(*words):
    code, out, err = swarm.hearth("run", "--local", swarm.MODEL, *words)
    assert code == 0, err
    return out


class Gemma(unittest.TestCase):
    def test_greedy_text_goes_on_as_text_does(self):
        for prompt, wanted in (("Monday, Tuesday, Wednesday, Thursday,", "Friday, Saturday"),
                               ("one two three four five six", "seven eight nine ten")):
            with self.subTest(prompt=prompt):
                text = local(prompt, "--raw", "--temp", "0", "-n", "12")
                self.assertIn(wanted, text)

    def test_swarm_equals_local(self):
        cases = ((["Tell me about rivers."], 24), ([LONG, "--raw"], 6))
        with swarm.Swarm(3) as served, tempfile.TemporaryDirectory() as folder:
            for words, length in cases:
                for flags in (["--temp", "0"], ["--temp", "0.9", "--seed", "7"]):
                    with self.subTest(prompt=words[0][:20], flags=flags):
                        files = [pathlib.Path(folder, name) for name in "abc"]
                        rest = [*words, *flags, "-n", length, "--token-ids", "--ignore-eos",
                                "--hashes"]
                        whole = local(*rest, files[0])
                        split = local(*rest, files[1], "--stages", "3")
                        code, found, err = swarm.hearth("run", served.model, *rest, files[2],
                                                        "--host", served.api)
                        self.assertEqual(code, 0, err)
                        self.assertEqual(len(whole.split()), length)
                        self.assertEqual(whole, split)
                        self.assertEqual(whole, found)
                        self.assertEqual(files[1].read_text(), files[2].read_text())
                        ends = [[json.loads(line) for line in file.read_text().splitlines()]
                                for file in files[:2]]
                        self.assertEqual([one["out"] for one in ends[0]],
                                         [part["out"] for part in ends[1] if part["stage"] == 2])
            steps = {json.loads(line)["step"] for line in files[0].read_text().splitlines()}
            self.assertGreater(len(steps), 600)


if __name__ == "__main__":
    swarm.main("HEARTH_GEMMA_MODEL")
