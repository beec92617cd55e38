"""Machines that join with one word and without the model's file: each fetches its own layers and
nothing else, from any machine that holds them, also a faulty one. Machines are network namespaces
on one wire, whose counters say what was fetched; exits 77 where those are not permitted.
"""

import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import threading
import time

import machines
import swarm
from file_server import Server


class Joiner(machines.Machine):
    """A machine with caches of its own, so that it finds no file of another's."""

    def __init__(self, wire, name, folder):
        super().__init__(wire, name, folder)
        self.cache = pathlib.Path(folder, name + ".cache")

    def environment(self):
        return {**super().environment(), "HEARTH_CACHE_DIR": str(self.cache),
                "HEARTH_MODELS": str(self.cache / "models"),
                "HF_HUB_CACHE": str(self.cache / "hub"),
                "OLLAMA_MODELS": str(self.cache / "ollama"), **self.variables}

    def counter(self, column):
        table = subprocess.run(self.wire.words(self.name, "cat", "/proc/net/dev"),
                               capture_output=True, text=True).stdout
        line = next(line for line in table.splitlines() if line.strip().startswith("eth0:"))
        return int(line.split(":")[1].split()[column])

    def received(self):
        """Bytes that came to the machine over the wire, by the kernel's own counter."""
        return self.counter(0)

    def sent(self):
        return self.counter(8)

    def events(self, kind):
        """What the worker said with --json, in whole lines: one may be half written."""
        found = []
        for line in self.log().splitlines(keepends=True):
            if line.startswith("{") and line.endswith("}\n"):
                event = json.loads(line)
                if event["event"] == kind:
                    found.append(event)
        return found

    def held(self, count=1):
        try:
            return swarm.wait_until(lambda: self.events("held")[count - 1:] or self.died())[0]
        except AssertionError as error:
            raise AssertionError(f"{self.name} does not hold its layers: {self.log()}") from error

    def died(self):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} ended: {self.log()}")

    def file(self):
        """The sparse file of its layers."""
        return next((self.cache / "layers").glob("*.gguf"))


class Manifest:
    """A manifest's own bytes (model/gguf/manifest.h), read without Hearth."""

    def __init__(self, raw):
        assert raw[:8] == b"HearthM2"
        self.file_bytes = int.from_bytes(raw[8:16], "little")
        self.header = int.from_bytes(raw[16:24], "little")
        self.tensors = {}
        at = 60
        for _ in range(int.from_bytes(raw[56:60], "little")):
            size = int.from_bytes(raw[at:at + 2], "little")
            name = raw[at + 2:at + 2 + size].decode()
            at += 2 + size
            offset, length = (int.from_bytes(raw[at + i:at + i + 8], "little") for i in (0, 8))
            self.tensors[name] = (offset, length, raw[at + 16:at + 48])
            at += 48

    def own(self, first, last, layers):
        """Names of what a stage of these layers reads; both are included."""
        names = []
        for name in self.tensors:
            if name.startswith("blk."):
                wanted = first <= int(name.split(".")[1]) <= last
            elif name == "token_embd.weight":
                wanted = first == 0 or (last == layers - 1 and "output.weight" not in self.tensors)
            else:
                wanted = last == layers - 1 or not name.startswith("output")
            if wanted:
                names.append(name)
        return names


class Join(machines.Household):
    kind = Joiner

    def setUp(self):
        super().setUp()
        self.file = swarm.MODEL

    def make(self, *words):
        """A model of random weights."""
        self.file = os.path.join(self.folder, "made.gguf")
        swarm.make_model(self.file, *words)

    def init(self, stages=2):
        self.good(self.home, "init", "testhome")
        self.stages = stages
        self.serve()
        self.word = self.good(self.home, "token", "create", "--uses", "9")

    def serve(self):
        self.home.start("serve", "--model", self.file, "--stages", self.stages)
        self.answers()

    def join(self, machine, *words):
        machine.start("join", self.word, "--name", machine.name, "--json", *words)

    def manifest(self):
        return Manifest((self.home.folder / "manifest").read_bytes())

    def layers(self):
        return json.loads(self.good(self.home, "status", "--json"))["model"]["layers"]

    def assert_right(self, machine, held):
        """Every tensor of its layers, and the header, by SHA-256."""
        manifest, got = self.manifest(), machine.file()
        self.assertEqual(got.stat().st_size, manifest.file_bytes)
        with open(got, "rb") as file, open(self.file, "rb") as whole:
            self.assertEqual(file.read(manifest.header), whole.read(manifest.header))
            names = manifest.own(*held["layers"], self.layers())
            for name in names:
                offset, length, digest = manifest.tensors[name]
                file.seek(offset)
                self.assertEqual(hashlib.sha256(file.read(length)).digest(), digest, name)
        own = manifest.header + sum(manifest.tensors[name][1] for name in names)
        self.assertEqual(held["bytes"], own)
        return own

    def answer(self, machine):
        return self.good(machine, "run", self.model(), *self.prompt())

    def prompt(self):
        return "Count to five.", "-n", "12", "--temp", "0", "--seed", "1"

    def slow(self, machine, rate):
        """What the machine receives, from now on at most so fast."""
        hub = self.wire.prefix + "hub"
        done = subprocess.run(["tc", "-n", hub, "qdisc", "replace", "dev", machine.name, "root",
                               "tbf", "rate", rate, "burst", "64kb", "latency", "200ms"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("no traffic control here: " + done.stderr.strip())

    def quick(self, machine):
        """As before slow()."""
        subprocess.run(["tc", "-n", self.wire.prefix + "hub", "qdisc", "del", "dev", machine.name,
                        "root"], check=True)

    def damage(self, path):
        """One bit of each tensor: whichever it is asked for, one is wrong."""
        with open(path, "r+b") as file:
            for offset, length, _ in self.manifest().tensors.values():
                file.seek(offset + length // 2)
                byte = file.read(1)[0]
                file.seek(offset + length // 2)
                file.write(bytes([byte ^ 4]))

    def test_one_word_and_no_file(self):
        self.init()
        began = time.monotonic()
        self.join(self.desk)
        first = self.desk.held()
        took = time.monotonic() - began
        self.join(self.attic, "--offline")
        second = self.attic.held()
        self.ready()
        self.assertEqual([first["layers"][0], second["layers"][1] + 1], [0, self.layers()])
        self.assertEqual(first["layers"][1] + 1, second["layers"][0])
        plan = self.desk.events("hold")[0]
        self.assertIn("stage 1 of 2", plan["why"])
        self.assertEqual(plan["bytes"], first["bytes"])
        self.assertGreater(plan["memory_budget"], plan["memory"])
        for machine, held in ((self.desk, first), (self.attic, second)):
            own = self.assert_right(machine, held)
            got = machine.received()
            print(f"{machine.name}: layers {held['layers']}, own {own}, fetched {held['fetched']}, "
                  f"the wire {got}: {got / own:.4f} of its own")
            self.assertLessEqual(got, 1.02 * own)
        print(f"joined and fetched {first['fetched']} bytes in {took:.2f} s")
        told = self.answer(self.home)
        self.assertTrue(told)
        self.assertEqual(told, self.good(self.home, "run", "--local", self.file, *self.prompt()))

        with self.subTest("either side starts again and fetches nothing"):
            other = pathlib.Path(self.folder, "other.gguf")
            other.write_bytes(pathlib.Path(self.file).read_bytes() + b"\0")
            for machine, more in ((self.desk, ()), (self.attic, ("--model", other))):
                machine.stop()
                machine.start("worker", "--json", *more)
            self.assertEqual(self.desk.held(2)["fetched"], 0)
            self.assertEqual(self.desk.held(2)["layers"], first["layers"])
            self.assertEqual(self.attic.held(2)["fetched"], 0)
            self.assertIn(f"{other} is not the model that the coordinator serves", self.attic.log())
            self.ready()
            before = self.desk.received()
            self.home.stop(signal.SIGKILL)
            self.serve()
            self.ready()
            self.assertEqual(self.answer(self.home), told)
            self.assertLess(self.desk.received() - before, 1_000_000)
            for machine in (self.desk, self.attic):
                self.assertTrue(all(each["fetched"] == 0 for each in machine.events("held")[1:]))

    def test_the_counters_of_the_wire(self):
        self.make("--shape", "8b", "--layers", "2", "--type", "Q2_K", "--vocabulary", "4000")
        self.init()
        self.join(self.desk)
        self.join(self.attic)
        # Each is told its layers by the coordinator; the second is not of the first stage.
        for machine in (self.desk, self.attic):
            held = machine.held()
            own = self.assert_right(machine, held)
            got = machine.received()
            print(f"{machine.name}: layers {held['layers']}, own {own} bytes, fetched "
                  f"{held['fetched']}, the wire {got}: {got / own:.4f} of its own")
            self.assertLessEqual(got, 1.02 * own)
        self.ready()

    def test_killed_twenty_times(self):
        self.init(stages=1)
        self.slow(self.desk, "40mbit")  # so that it has not all of it before the last kill
        self.join(self.desk)
        dice = random.Random(20)
        swarm.wait_until(lambda: self.desk.events("fetch") or self.desk.died(), "bytes")
        for _ in range(20):
            time.sleep(dice.uniform(0.02, 0.3))
            self.desk.stop(signal.SIGKILL)
            seen = len(self.desk.events("fetch"))
            self.desk.start("worker", "--json")
            swarm.wait_until(lambda: len(self.desk.events("fetch")) > seen or self.desk.died(),
                             "it goes on")
        self.assertEqual(self.desk.events("held"), [], "killed while it fetched, every time")
        done = [event["done"] for event in self.desk.events("fetch")]
        self.assertEqual(done, sorted(done), "what had come is kept")
        self.quick(self.desk)
        self.desk.held()
        self.ready()
        own = self.assert_right(self.desk, self.desk.events("held")[0])
        print(f"after the kills {self.desk.received() / own:.3f} of its own bytes had come")
        self.assertEqual(self.answer(self.home),
                         self.good(self.home, "run", "--local", self.file, *self.prompt()))


class Peers(Join):
    """With a second machine that holds the same layers."""
    on_the_wire = ("home", "desk", "attic", "shed")

    def setUp(self):
        super().setUp()
        self.init(stages=1)
        self.join(self.desk)
        self.desk.held()
        self.ready()
        # The coordinator names it as a holder once a heartbeat has said so.
        swarm.wait_until(self.desk_is_known_to_hold, "a heartbeat of what desk holds")

    def desk_is_known_to_hold(self):
        nodes = json.loads(self.good(self.home, "status", "--json"))["nodes"]
        held = next((n.get("held") for n in nodes if n["name"] == "desk"), None)
        return held and held["bytes"] == held["bytes_total"] > 0

    test_one_word_and_no_file = test_the_counters_of_the_wire = test_killed_twenty_times = None

    def test_a_peer_serves_a_part(self):
        before = self.desk.sent()
        self.join(self.attic)
        held = self.attic.held()
        own = self.assert_right(self.attic, held)
        share = (self.desk.sent() - before) / own
        print(f"the peer sent {share:.2f} of what was fetched, the coordinator the rest")
        self.assertGreater(share, 0.1)

    def test_a_wrong_bit_is_named(self):
        self.damage(self.desk.file())
        self.join(self.attic)
        self.assert_right(self.attic, self.attic.held())
        self.assertRegex(self.attic.log(), r"desk at \S+ is dropped: tensor \S+ does not match")
        self.assertNotRegex(self.attic.log(), r"coordinator at \S+ is dropped")

        with self.subTest("status names it, and by whose word"):
            self.assertEqual(self.accused(1), [("desk", 1, False)])
            self.assertRegex(self.home.log(), r"attic reports wrong bytes from desk: tensor")
            shown = self.good(self.home, "status")
            self.assertRegex(shown, r"wrong +desk: it sent wrong bytes of the model, as reported by "
                                    r"1 node \(tensor ")
        with self.subTest("after two reports no node is sent there, until it starts again"):
            self.join(self.shed)
            self.assert_right(self.shed, self.shed.held())
            self.assertEqual(self.accused(2), [("desk", 2, True)])
            self.desk.stop()
            self.desk.start("worker", "--json")
            self.assert_right(self.desk, self.desk.held(2))  # what it has is hashed again
            swarm.wait_until(lambda: self.wrong_bytes() == [], "it is asked again")

    def wrong_bytes(self):
        return json.loads(self.good(self.home, "status", "--json"))["wrong_bytes"]

    def accused(self, accusers):
        """As status says, once so many have told of somebody."""
        return [(one["node"], one["accusers"], one["out"]) for one in swarm.wait_until(
            lambda: [one for one in self.wrong_bytes() if one["accusers"] >= accusers],
            "it is told")]

    def test_a_stalled_peer(self):
        self.slow(self.attic, "200mbit")
        self.join(self.attic, "--stall", "2")
        swarm.wait_until(lambda: self.attic.events("fetch") or self.attic.died(), "bytes")
        self.desk.process.send_signal(signal.SIGSTOP)
        try:
            held = self.attic.held()
        finally:
            self.desk.process.send_signal(signal.SIGCONT)
        self.assert_right(self.attic, held)

    def test_a_file_of_this_machine(self):
        folder = self.attic.cache / "elsewhere"
        folder.mkdir(parents=True)
        shutil.copy(self.file, folder / "any name")
        os.chmod(folder, 0o555)
        before = self.attic.received()
        self.join(self.attic, "--model-dir", folder)
        held = self.attic.held()
        self.assertEqual(held["in_place"], str((folder / "any name").resolve()))
        self.assertEqual(held["fetched"], 0)
        self.assertLess(self.attic.received() - before, 500_000)
        os.chmod(folder, 0o755)
        wrong = self.shed.cache / "given.gguf"
        wrong.parent.mkdir(parents=True)
        shutil.copy(self.file, wrong)
        self.damage(wrong)
        self.join(self.shed, "--model", wrong)
        self.assertGreater(self.shed.held()["fetched"], 0)
        self.assertIn(f"{wrong} is not used", self.shed.log())

    def test_a_full_disk(self):
        small = pathlib.Path(self.folder, "small")
        small.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", small],
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("no small disk here: " + done.stderr.strip())
        try:
            self.attic.variables = {"HEARTH_CACHE_DIR": str(small)}
            self.join(self.attic)
            failed = swarm.wait_until(
                lambda: self.attic.events("failed") or
                ([{"error": self.attic.log()}] if self.attic.process.poll() is not None else None),
                "the full disk")[0]
            self.assertRegex(failed["error"], r"bytes are needed in .*small.*; free some space")
            self.attic.stop(signal.SIGKILL)
        finally:
            subprocess.run(["umount", "-l", small])
        self.assertTrue(self.answer(self.home), "the others serve on")


class Elsewhere(Join):
    """Where the model was pulled, when no node is of use: here a hub on each machine's loopback, and
    a coordinator whose file is damaged after it was hashed."""
    on_the_wire = ("home", "desk")

    test_one_word_and_no_file = test_the_counters_of_the_wire = test_killed_twenty_times = None

    def setUp(self):
        super().setUp()
        self.make("--shape", "demo", "--layers", "6", "--vocabulary", "2000", "--type", "Q8_0")
        self.data = pathlib.Path(self.file).read_bytes()
        self.hub(self.home)
        pulled = json.loads(self.good(self.home, "pull", "hf:they/models/made.gguf", "--json"))
        self.file = pulled["path"]
        self.init(stages=1)
        swarm.wait_until((self.home.folder / "manifest").exists, "the manifest")
        self.damage(self.file)
        self.server = self.hub(self.desk)

    def hub(self, machine):
        server = Server(self.data, machine.listen())
        self.addCleanup(server.close)
        machine.variables["HF_ENDPOINT"] = server.url.rsplit("/", 1)[0]
        return server

    def fails(self, says):
        before = len(self.desk.events("failed"))
        swarm.wait_until(lambda: self.desk.died() or any(
            re.search(says, one["error"]) for one in self.desk.events("failed")[before:]), says)

    def test_a_web_server_with_every_failing_and_then_with_none(self):
        self.server.status = 416
        self.join(self.desk, "--stall", "1")
        self.fails("answers with status 416")
        self.assertRegex(self.desk.log(), r"coordinator at \S+ is dropped: tensor \S+ does not match")
        honest = self.data
        wrong = bytearray(honest)
        for offset, length, _ in self.manifest().tensors.values():
            wrong[offset + length // 2] ^= 4
        for failing, value, says in (
                ("no_range", True, "does not serve ranges"), ("other_range", True, "it sends"),
                ("data", honest + b"x", f"it sends bytes .*/{len(honest) + 1}"),
                ("data", bytes(wrong), r"tensor \S+ does not match the manifest"),
                ("data", honest, "")):
            self.server.status = 0
            self.server.no_range = self.server.other_range = False
            setattr(self.server, failing, value)
            if says:
                self.fails(says)
        self.server.redirect = True
        self.server.truncate = 0.3
        self.server.stall_once = {self.server.requests + 2, self.server.requests + 4}
        held = self.desk.held()
        self.assertEqual(held["in_place"], "")
        pathlib.Path(self.file).write_bytes(honest)
        self.assert_right(self.desk, held)
        self.ready()

    def test_only_its_own_bytes(self):
        self.join(self.desk)
        held = self.desk.held()
        pathlib.Path(self.file).write_bytes(self.data)
        own = self.assert_right(self.desk, held)
        print(f"own layers {own} bytes, the hub sent {self.server.sent}: "
              f"{self.server.sent / own:.4f} of them")
        self.assertLessEqual(self.server.sent, 1.02 * own)

    def test_offline_dials_nobody(self):
        before = self.server.requests
        self.join(self.desk, "--offline")
        self.fails("coordinator at .*does not match the manifest")
        self.assertEqual(self.server.requests, before)


class Fair(Join):
    """Three machines fetch at the same time from one that serves an answer meanwhile."""
    on_the_wire = ("home", "desk", "attic", "shed", "cellar")
    SILENCE_S = 2.0   # between two pieces of the answer, and 20 times what it is alone
    STILL_S = 3.0     # of a machine that fetches, without 64 KiB more, or a third of its time
    APART = 3.0       # the last one takes so many times as long as the first

    test_one_word_and_no_file = test_the_counters_of_the_wire = test_killed_twenty_times = None

    def silence(self, model):
        """The longest one of an answer, once it has begun."""
        run = subprocess.Popen(
            self.wire.words("home", swarm.HEARTH, "run", model, "Tell me a story.", "-n", "100",
                            "--temp", "0.9", "--seed", "5", "--ignore-eos"),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.home.environment())
        longest, last = 0.0, None
        while os.read(run.stdout.fileno(), 4096):
            now = time.monotonic()
            longest = max(longest, now - (last or now))
            last = now
        run.stdout.close()
        self.assertEqual(run.wait(swarm.PATIENCE_S), 0)
        return longest

    def fetch(self, machine, told):
        """Joins; how long it takes, and how long it stood still at most."""
        self.join(machine)
        began = moved = time.monotonic()
        still, got = 0.0, 0
        while not machine.events("held"):
            machine.died()
            now, received = time.monotonic(), machine.received()
            if received - got > 65536:
                still, got, moved = max(still, now - moved), received, now
            self.assertLess(now - moved, swarm.PATIENCE_S, machine.log())
            time.sleep(0.1)
        told.append((machine.name, time.monotonic() - began, still))

    def test_nobody_starves(self):
        self.file = os.path.join(self.folder, "copy.gguf")
        shutil.copy(swarm.MODEL, self.file)
        self.init(stages=1)
        self.join(self.desk)
        self.desk.held()
        self.ready()
        model = self.model()
        alone = self.silence(model)
        self.damage(self.file)  # then only the desk is of use
        before, told = self.desk.sent(), []
        joiners = [threading.Thread(target=self.fetch, args=(machine, told))
                   for machine in self.machines[2:]]
        for joiner in joiners:
            joiner.start()
        during = [self.silence(model)]
        while any(joiner.is_alive() for joiner in joiners):
            during.append(self.silence(model))
        for joiner in joiners:
            joiner.join()
        times = [took for _, took, _ in told]
        print(f"answers alone: {alone:.3f} s between two pieces at most, {len(during)} answers "
              f"while {len(told)} machines fetched {(self.desk.sent() - before) >> 20} MiB from "
              f"their node: {max(during):.3f} s; they took "
              + ", ".join(f"{took:.1f} s (stood still {still:.1f} s at most)"
                          for _, took, still in told), flush=True)
        self.assertEqual(len(told), 3)
        self.assertLess(max(during), self.SILENCE_S + 20 * alone)
        for name, took, still in told:
            self.assertLess(still, max(self.STILL_S, took / 3), name)
        self.assertLess(max(times) / min(times), self.APART)
        for machine in self.machines[2:]:
            self.assertNotRegex(machine.log(), r"desk at \S+ is dropped")


if __name__ == "__main__":
    machines.main()
