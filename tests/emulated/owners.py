"""Whose machines have cards: two in one machine, and a card that its owner, or another program of
his, takes back while it answers. The cards are emulated and what NVML says of others is the test's;
programs, processes and sockets are real."""

import json
import os
import pathlib
import re
import signal
import tempfile
import time
import unittest

import cluster
import failover_test
import swarm

TOKENS = 48


def body(model, seed):
    return failover_test.request(model, seed, "Hi", TOKENS)


class Cards(cluster.Cluster):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.models = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.models.cleanup)
        swarm.MODEL = str(pathlib.Path(cls.models.name, "tiny.gguf"))
        swarm.make_model(swarm.MODEL, "--shape", "tiny", "--layers", "4")

    def environment(self, **variables):
        for name, value in variables.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)


class TwoInOneMachine(Cards):
    def answer(self, *where):
        code, out, err = swarm.hearth("run", *where, "Hi", "--token-ids", "-n", "8", "--temp", "0.8",
                                      "--seed", "3")
        self.assertEqual(code, 0, err)
        return out

    def test_each_takes_a_part_of_the_layers(self):
        self.environment(HEARTH_EMULATED_CARDS="2")
        expected = self.answer("--local", swarm.MODEL, "--device", "cpu")
        for flags in ((), ("--optimise", "latency")):
            with self.subTest(flags=flags):
                with swarm.Swarm(2, "--stages", "2", "--kv-budget", "1MB",
                                 *flags, ready=False) as s:
                    s.wait_ready()
                    nodes = s.state()["nodes"]
                    self.assertEqual(sorted(node["device"] for node in nodes),
                                     ["cuda:0 emulated card", "cuda:1 emulated card"])
                    layers = sorted(node["layers"] for node in nodes)
                    self.assertEqual((layers[0][0], layers[0][1], layers[1][1]),
                                     (0, layers[1][0], 4))
                    self.assertEqual(self.answer(s.model, "--host", s.api), expected)
                    if not flags:
                        continue
                    code, out, err = swarm.hearth("plan", swarm.MODEL, "--json", "--host", s.api)
                    self.assertEqual(code, 0, err)
                    stages = json.loads(out)["pipelines"][0]["stages"]
                    self.assertEqual(sorted(stage["layers"] for stage in stages), layers)


class OfSomebodyElse(Cards):
    """One machine with a card, which answers; one with a processor, which is idle."""

    expected = None  # of the card, undisturbed

    def setUp(self):
        super().setUp()
        self.init()
        self.foreign = pathlib.Path(self.root.name, "foreign")
        self.foreign.write_text("0")
        libraries = pathlib.Path(self.root.name, "libraries")
        libraries.mkdir()
        (libraries / "libnvidia-ml.so.1").symlink_to(os.environ["HEARTH_FAKE_NVML_LIBRARY"])
        self.environment(LD_LIBRARY_PATH=str(libraries), HEARTH_FAKE_NVML_FOREIGN=str(self.foreign))
        self.s = swarm.Swarm(0, "--stages", "1", data_dir=self.home, ready=False)
        self.addCleanup(self.s.stop)
        self.card, self.log = self.come("den", "cuda")
        self.s.wait_ready()
        self.model = self.s.model
        if OfSomebodyElse.expected is None:
            undisturbed = failover_test.Stream(self.s.api, body(self.model, 5))
            undisturbed.join(swarm.PATIENCE_S)
            self.assertEqual(len(undisturbed.ids), TOKENS, undisturbed.error)
            OfSomebodyElse.expected = undisturbed.answer()
        self.stream = failover_test.Stream(self.s.api, body(self.model, 5))
        swarm.wait_until(lambda: len(self.stream.ids) >= 4, "tokens of the card")
        self.come("hall", "cpu")
        swarm.wait_until(lambda: self.node("hall").get("state") == "serving", "the processor")
        self.assertFalse(self.stream.done, "it is over before anything happens")

    def come(self, name, device):
        return self.start(self.folder(name), "join", self.token(), "--model", swarm.MODEL, "--name",
                          name, "--device", device, "--kv-budget", "1MB")

    def node(self, name):
        return next((node for node in self.s.state()["nodes"] if node["name"] == name), {})

    def used(self):
        """Bytes of the card, as its worker has them."""
        def said():
            return re.findall(rf"card of {self.card.pid}: (\d+) bytes used", self.log.read_text())
        before = len(said())
        os.kill(self.card.pid, signal.SIGRTMIN + 1)
        swarm.wait_until(lambda: len(said()) > before, "the worker's word")
        return int(said()[-1])

    def gone(self, began):
        """The card's memory is free and the stream goes on with the same tokens."""
        swarm.wait_until(lambda: self.used() == 0, "free memory of the card")
        print(f"the card's memory is free after {time.monotonic() - began:.2f} s", flush=True)
        self.assertIsNone(self.card.poll(), "its process stays")
        self.stream.join(swarm.PATIENCE_S)
        self.assertEqual(self.stream.answer(), self.expected)
        self.assertEqual(self.s.state()["totals"]["finished_error"], 0)

    def back(self):
        swarm.wait_until(lambda: self.node("den")["state"] == "serving", "its return")
        self.assertGreater(self.used(), 0)

    def test_its_owner_pauses_it(self):
        self.assertGreater(self.used(), 0)
        began = time.monotonic()
        self.good(self.folder("den"), "pause", "2h")
        self.gone(began)
        self.assertEqual(self.node("den")["away"]["why"], "hearth pause")
        self.good(self.folder("den"), "resume")
        self.back()

    def test_another_program_uses_it(self):
        self.foreign.write_text(str(1 << 30))
        time.sleep(4)
        self.assertNotIn("away", self.node("den"), "as much as a desktop takes")
        began = time.monotonic()
        self.foreign.write_text(str(3 << 30))
        self.gone(began)
        self.assertEqual(self.node("den")["away"]["why"], "other programs use the GPU")
        self.foreign.write_text("0")
        self.back()


if __name__ == "__main__":
    unittest.main(verbosity=2)
