"""Three workers of a cluster on machines of their own (network namespaces); the cable of one is
pulled while a stream runs through it, and put back. Exits 77 where namespaces are not permitted.
"""

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import time

import machines
import swarm

STALL_S = 6.0  # no end of the link says a word: as for a frozen process, and a second to connect
SLACK = 10  # times what an undisturbed answer takes: what a busy machine may add to it
PROMPT = ("Tell me a long story about the sea.", "-n", "200", "--temp", "0.9", "--seed", "5",
          "--ignore-eos")
STORY = {"prompt": PROMPT[0], "max_tokens": 100, "temperature": 0.9, "seed": 5, "ignore_eos": True,
         "stream": True}
# Prints each event of a stream as it comes, as a client that sends no Idempotency-Key.
READ = """import sys, urllib.request
body, address = sys.argv[1:]
headers = {"Content-Type": "application/json"}
for line in urllib.request.urlopen(urllib.request.Request(address, body.encode(), headers)):
    print(line.decode().strip(), flush=True)
"""
ASK = """import json, sys, urllib.request
key, body, address = sys.argv[1:]
headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
answer = urllib.request.urlopen(urllib.request.Request(address, body.encode(), headers)).read()
print([choice["text"] for choice in json.loads(answer)["choices"]])
"""


class Cable(machines.Household):
    on_the_wire = ("home", "desk", "attic", "cellar")

    def plug(self, machine, state):
        machines.ip("-n", self.wire.prefix + "hub", "link", "set", machine, state)

    def stream(self, model, cut=None):
        """What `hearth run` prints, and the longest silence after the cable is pulled."""
        run = subprocess.Popen(
            self.wire.words("home", swarm.HEARTH, "run", model, *PROMPT), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=self.home.environment())
        text, longest, last, pulled = b"", 0.0, None, False
        while part := os.read(run.stdout.fileno(), 4096):
            now = time.monotonic()
            if pulled:
                longest = max(longest, now - last)
            text, last = text + part, now
            if cut is not None and not pulled and len(text) > 100:
                self.plug(cut, "down")
                pulled = True
        self.assertEqual(run.wait(swarm.PATIENCE_S), 0, run.stderr.read())
        run.stderr.close()
        run.stdout.close()
        self.assertEqual(pulled, cut is not None)
        return text, longest

    def test_a_pulled_cable(self):
        self.good(self.home, "init", "testhome")
        self.home.start("serve", "--model", swarm.MODEL, "--stages", "2")
        self.answers()
        token = self.good(self.home, "token", "create", "--uses", "3")
        for worker in self.machines[1:]:
            worker.start("join", token, "--model", swarm.MODEL, "--name", worker.name)
        swarm.wait_until(lambda: sum(n["state"] in ("serving", "free") for n in self.nodes()) == 3,
                         "three workers")
        self.ready()
        model = self.model()
        began = time.monotonic()
        expected, _ = self.stream(model)
        alone_s = time.monotonic() - began
        for stage in (0, 1):
            with self.subTest(stage=stage):
                victim = next(n["name"] for n in self.nodes()
                              if n["state"] == "serving" and n["stage"] == stage)
                found, longest = self.stream(model, victim)
                print(f"cable of stage {stage} pulled: longest silence {longest:.2f} s", flush=True)
                self.assertEqual(found, expected)
                self.assertLess(longest, STALL_S + SLACK * alone_s)
                self.plug(victim, "up")
                swarm.wait_until(lambda: sum(n["state"] in ("serving", "free")
                                             for n in self.nodes()) == 3, "its return")

    @contextlib.contextmanager
    def pulled(self, machine):
        """Its cable."""
        self.plug(machine.name, "down")
        yield
        self.plug(machine.name, "up")

    @contextlib.contextmanager
    def dropped(self, machine, peer, port=""):
        """What the two send each other is lost, silently; only that of a port of the machine's, where
        one is named ("11501", or "!= 11501" for all others)."""
        address = f"{machines.NETWORK}{1 + self.on_the_wire.index(peer.name)}"
        own = {"input": "tcp dport", "output": "tcp sport"}
        rules = "add table ip cut; "
        for hook, side in (("input", "saddr"), ("output", "daddr")):
            named = f"{own[hook]} {port}" if port else ""
            rules += (f"add chain ip cut {hook} {{ type filter hook {hook} priority 0; }}; "
                      f"add rule ip cut {hook} ip {side} {address} {named} drop; ")
        self.nft(machine, rules)
        yield
        self.nft(machine, "delete table ip cut")

    def nft(self, machine, rules):
        done = subprocess.run(self.wire.words(machine.name, "nft", rules), capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def api_stream(self, model, seconds=0, cut=None):
        """The text of an answer, while something is cut for so long once it has begun."""
        body = json.dumps({"model": model, **STORY})
        run = subprocess.Popen(
            self.wire.words("home", sys.executable, "-c", READ, body,
                            "http://127.0.0.1:11500/v1/completions"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        text, pieces = "", 0
        for line in run.stdout:
            if not line.startswith("data: ") or line.startswith("data: [DONE]"):
                continue
            event = json.loads(line[len("data: "):])
            self.assertNotIn("error", event)
            text += "".join(choice["text"] for choice in event["choices"])
            pieces += 1
            if cut is not None and pieces == 20:
                with cut:
                    time.sleep(seconds)  # the fault itself, and no wait for anything
        _, err = run.communicate(timeout=swarm.PATIENCE_S)
        self.assertEqual(run.returncode, 0, err)
        self.assertTrue(pieces > 20 or cut is None)
        return text

    def two_stages(self):
        """The answer of two machines without a spare, undisturbed."""
        self.good(self.home, "init", "testhome")
        self.home.start("serve", "--model", swarm.MODEL, "--stages", "2")
        self.answers()
        token = self.good(self.home, "token", "create", "--uses", "2")
        for worker in (self.desk, self.attic):
            worker.start("join", token, "--model", swarm.MODEL, "--name", worker.name)
        self.ready()
        return self.api_stream(self.model())

    def interrupt(self, expected, cuts):
        """Each of the cuts, by name, for a second and for four."""
        for seconds in (1, 4):
            for name, cut in cuts.items():
                with self.subTest(seconds=seconds, cut=name):
                    began = time.monotonic()
                    self.assertEqual(self.api_stream(self.model(), seconds, cut()), expected)
                    print(f"{name} cut for {seconds} s: whole after "
                          f"{time.monotonic() - began:.1f} s", flush=True)
                    self.ready()
        for machine in (self.desk, self.attic):
            self.assertIsNone(machine.process.poll(), machine.log())

    def test_a_short_interruption_ends_no_stream_where_no_node_is_spare(self):
        expected = self.two_stages()
        cut = functools.partial
        self.interrupt(expected, {machine.name: cut(self.pulled, machine)
                                  for machine in (self.desk, self.attic, self.home)})
        if shutil.which("nft") is None:
            self.skipTest("this machine has no nft command (nftables)")
        # Of one link: the machines at both ends are heard by others meanwhile.
        stage = {n["stage"]: getattr(self, n["name"]) for n in self.nodes()}
        self.interrupt(expected, {
            "control of the first stage": cut(self.dropped, self.home, stage[0], "11501"),
            "control of the last stage": cut(self.dropped, self.home, stage[1], "11501"),
            "requests to the first stage": cut(self.dropped, self.home, stage[0], "!= 11501"),
            "tokens of the last stage": cut(self.dropped, self.home, stage[1], "!= 11501"),
            "activations": cut(self.dropped, stage[0], stage[1])})

    def used(self):
        return sum(n["kv_tokens_used"] for n in self.nodes())

    def alone(self):
        """A server at home, which answers everybody who has a key, and a key of the desk's."""
        self.good(self.home, "init", "testhome")
        self.home.start("serve", "--model", swarm.MODEL, "--local-workers", "1", "--host", "0.0.0.0")
        self.answers()
        self.ready()
        return self.good(self.home, "key", "create", "desk")

    def test_an_unplugged_client_holds_no_kv(self):
        self.desk.variables = {"HEARTH_API_KEY": self.alone()}
        words = ("run", self.model(), "Tell me.", "-n", "300", "--seed", "5", "--ignore-eos", "--host",
                 f"{machines.NETWORK}1:11500")
        expected = self.good(self.desk, *words)
        swarm.wait_until(lambda: self.used() == 0, "free KV of the first answer")
        run = subprocess.Popen(self.wire.words("desk", swarm.HEARTH, *words), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=self.desk.environment())
        self.addCleanup(run.kill)
        begun = os.read(run.stdout.fileno(), 64)
        self.assertTrue(begun)
        swarm.wait_until(self.used, "KV in use")
        self.plug("desk", "down")
        pulled = time.monotonic()
        swarm.wait_until(lambda: self.used() == 0, "free KV")
        state = json.loads(self.good(self.home, "status", "--json"))
        self.assertEqual(state["totals"]["finished_length"], 2, "generation waits for no reader")
        print(f"client unplugged: KV free after {time.monotonic() - pulled:.2f} s", flush=True)
        self.plug("desk", "up")
        out, err = run.communicate(timeout=swarm.PATIENCE_S)
        self.assertEqual(run.returncode, 0, err)
        self.assertEqual((begun + out).decode().strip(), expected)

    def test_an_unplugged_client_that_awaits_a_whole_answer_holds_no_kv(self):
        key = self.alone()
        body = {"model": self.model(), "prompt": "Tell me.", "max_tokens": 300, "ignore_eos": True,
                "seed": 5, "n": 2}
        words = self.wire.words("desk", sys.executable, "-c", ASK, key, json.dumps(body),
                                f"http://{machines.NETWORK}1:11500/v1/completions")
        expected = subprocess.run(words, capture_output=True, text=True, timeout=swarm.PATIENCE_S)
        self.assertEqual(expected.returncode, 0, expected.stderr)
        swarm.wait_until(lambda: self.used() == 0, "free KV of the first answer")
        run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        swarm.wait_until(self.used, "KV in use")
        self.plug("desk", "down")
        pulled = time.monotonic()
        swarm.wait_until(lambda: self.used() == 0, "free KV")
        state = json.loads(self.good(self.home, "status", "--json"))
        totals = state["totals"]
        self.assertEqual(totals["finished_length"] + totals["cancelled"], 4, totals)
        print(f"client without a stream unplugged: KV free after {time.monotonic() - pulled:.2f} s",
              flush=True)
        self.plug("desk", "up")
        run.kill()  # its connection is over, which only its own time limit would tell it
        run.communicate()


if __name__ == "__main__":
    machines.main(layers=6)
