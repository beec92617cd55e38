"""What somebody gets who types the fewest words: three machines (network namespaces), or one with
four local workers, with default flags. One worker after the other is killed, frozen and paused while
it computes an answer. The stream ends with the tokens of the undisturbed run, and the rest serves on
without anybody acting: where each worker holds the model, and where it takes two of three or four.

HEARTH_LOSSES: how many losses of each kind (1 by default); HEARTH_LOSSES_SEED: which. Exits 77
where namespaces are not permitted.
"""

import ctypes
import json
import os
import random
import signal
import threading
import time
import unittest

import machines
import swarm
from failover_test import SLACK, TOKENS, Stream, request
from machine_faults_test import API, enter

LOSSES = int(os.environ.get("HEARTH_LOSSES", "1"))
SEED = int(os.environ.get("HEARTH_LOSSES_SEED", "26"))
# Seconds without a token. A busy machine adds to it: SLACK times what an undisturbed answer takes.
STALL = {"killed": 3.0, "frozen": 5.0, "paused": 1.5}


class Losses:
    """What a test of losses does with a swarm: `api` is its address, `machines_count` its workers."""

    kinds = tuple(STALL)

    def state(self):
        return swarm.http("GET", self.api + "/api/v1/state")[1]

    def model_id(self):
        return self.state()["model"]["id"]

    def settle(self):
        """All are here, one pipeline serves at least, and nothing of what ran is left."""
        def settled():
            try:
                state = self.state()
                here = sum(n["state"] in ("serving", "free") for n in state["nodes"])
                return (here == self.machines_count and
                        swarm.http("GET", self.api + "/readyz")[0] == 200 and
                        state["running"] + state["waiting"] == 0 and
                        all(p["state"] == "serving" for p in state["pipelines"]))
            except OSError:
                return False
        try:
            swarm.wait_until(settled, "all workers")
        except AssertionError as error:
            raise AssertionError(f"{self.state()} {self.server_log()}") from error

    def undisturbed(self, body):
        began = time.monotonic()
        stream = Stream(self.api, body)
        stream.join(swarm.PATIENCE_S)
        self.assertTrue(stream.done and stream.error is None, stream.answer())
        self.alone_s = max(self.alone_s, time.monotonic() - began)
        return stream.answer()

    def victim(self):
        """A worker of the pipeline that computes the stream."""
        state = self.state()
        running = [p for p in state["pipelines"] if p["running"]]
        if not running:
            return None
        name = self.chance.choice(running[0]["nodes"])
        return next(n for n in state["nodes"] if n["name"] == name)

    def strike(self, kind, node):
        """What undoes it."""
        pid = node["process_id"]
        if kind == "paused":
            return self.pause(node)
        if kind == "frozen":
            os.kill(pid, signal.SIGSTOP)
            return lambda: os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGKILL)
        return self.start_again(node)

    def loss(self, kind, seed):
        body = request(self.model_id(), seed)
        expected = self.undisturbed(body)
        stream = Stream(self.api, body)
        after = self.chance.randrange(1, TOKENS - 10)
        swarm.wait_until(lambda: len(stream.ids) >= after or stream.error, "tokens")
        node = self.victim()
        if node is None:  # it was quicker than the question
            stream.join(swarm.PATIENCE_S)
            self.assertEqual(stream.answer(), expected)
            print(f"{kind}: the stream was over before", flush=True)
            return
        struck = time.monotonic()
        undo = self.strike(kind, node)
        try:
            stream.join(swarm.PATIENCE_S)
            self.assertEqual(stream.answer(), expected, f"{kind} {node['name']} after {after}")
            gap = stream.longest_gap(struck)
            print(f"{kind} {node['name']} after {after} tokens: {gap:.2f} s without one",
                  flush=True)
            self.assertLess(gap, STALL[kind] + SLACK * self.alone_s)
            # It serves on before the machine is back.
            self.assertEqual(self.undisturbed(body), expected)
        finally:
            undo()
        self.settle()

    def test_no_loss_changes_a_token(self):
        self.chance = random.Random(SEED)
        for number in range(LOSSES):
            for kind in self.kinds:
                with self.subTest(kind=kind, number=number):
                    self.loss(kind, self.chance.randrange(1 << 30))


class Fewest(Losses, machines.Household):
    on_the_wire = ("home", "den", "attic")
    machines_count = 3
    api = API
    words = ()  # of each worker

    def setUp(self):
        super().setUp()
        self.good(self.home, "init", "testhome")
        token = self.good(self.home, "token", "create", "--uses", "2")
        self.home.start("serve", "--model", swarm.MODEL, "--local-workers", "1", *self.words)
        self.answers()
        for machine in (self.den, self.attic):
            machine.start("join", token, "--model", swarm.MODEL, "--name", machine.name,
                          *self.words)
        outside = os.open(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net",
                          os.O_RDONLY)
        self.addCleanup(os.close, outside)
        self.addCleanup(ctypes.CDLL(None).setns, outside, 0)
        enter(f"/run/netns/{self.wire.prefix}home")
        self.alone_s = 0.0
        self.settle()

    def server_log(self):
        return self.home.log()

    def machine_of(self, node):
        return getattr(self, node["name"], self.home)  # home's worker has the host's name

    def pause(self, node):
        machine = self.machine_of(node)
        self.good(machine, "pause")
        return lambda: self.good(machine, "resume")

    def start_again(self, node):
        machine = self.machine_of(node)
        if machine is self.home:
            return lambda: None  # the server starts its worker again
        return lambda: (machine.process.wait(), machine.start("worker", "--model", swarm.MODEL,
                                                              *self.words))


class TwoOfThree(Fewest):
    """No machine holds the model alone."""

    words = ("--memory", "150MB")

    def setUp(self):
        super().setUp()
        self.assertEqual({len(p["nodes"]) for p in self.state()["pipelines"]}, {2})

    def test_what_cannot_be_held_is_named_and_serves_again_by_itself(self):
        for machine in (self.den, self.attic):
            self.good(machine, "pause")
        swarm.wait_until(lambda: swarm.http("GET", API + "/readyz")[0] == 503, "the loss")
        code, answer = swarm.http("POST", API + "/v1/completions", request(self.model_id(), 1))
        self.assertEqual(code, 503)
        said = answer["error"]["message"]
        self.assertIn("den is paused", said)
        self.assertIn("attic is paused", said)
        self.good(self.attic, "resume")
        swarm.wait_until(lambda: swarm.http("GET", API + "/readyz")[0] == 200, "service")
        self.undisturbed(request(self.model_id(), 1))


class FourLocal(Losses, unittest.TestCase):
    """Four workers of one server, which starts a killed one again."""

    machines_count = 4
    words = ()

    def setUp(self):
        self.swarm = swarm.Swarm(4, *self.words, plain=True)
        self.addCleanup(self.swarm.stop)
        self.api = self.swarm.api
        code, out, said = swarm.hearth("key", "create", "owner", "--admin", "--data-dir",
                                       self.swarm.data_dir)
        self.assertEqual(code, 0, said)
        self.admin = out.split()[0]
        self.alone_s = 0.0
        self.settle()

    def server_log(self):
        return self.swarm.read_log()

    def start_again(self, _):
        return lambda: None

    def pause(self, node):
        def order(verb):
            code, _, said = swarm.hearth(verb, "--node", node["name"], "--host", self.api,
                                         "--api-key", self.admin)
            self.assertEqual(code, 0, said)

        order("pause")
        return lambda: order("resume")


class TwoOfFourLocal(FourLocal):
    """No worker holds the model alone."""

    words = ("--memory", "150MB")


if __name__ == "__main__":
    machines.main()
