"""Faults of many kinds under streams that run through five machines, which are network namespaces:
processes killed and frozen, cables pulled, machines that hear nothing or are not heard, links that
carry one way, a coordinator that is killed or stands still, an owner who takes his machine back. A
stream has the tokens of the undisturbed run, each once, whenever the fault comes.

HEARTH_FAULTS: how many faulted generations (12 by default); HEARTH_FAULTS_SEED: which. Exits 77
where namespaces are not permitted.
"""

import ctypes
import os
import random
import signal
import subprocess
import threading
import time

import machines
import restart_test
import swarm
from failover_test import LONG_PROMPT, SLACK, TOKENS, request, sockets

API = "http://127.0.0.1:11500"  # in the coordinator's namespace
WORKERS = ("desk", "attic", "cellar", "den", "loft")
LONG_TOKENS = 12
# Seconds without a token after a fault in the decode, for each machine that it takes. A link that
# says nothing is missed like a frozen process, and then a second passes in connecting.
# A busy machine adds to it: SLACK times what an undisturbed answer takes.
STALL = {"killed": 3.0, "frozen": 5.0, "unplugged": 6.0, "paused": 3.0}


def enter(space):
    """This thread, and the threads that it starts, live in that network namespace."""
    with open(space) as held:
        if ctypes.CDLL(None, use_errno=True).setns(held.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns", space)


class Client(restart_test.Client):
    """Comes back with its Idempotency-Key until its answer is whole, and notes when tokens came."""

    def __init__(self, body, key):
        self.times = []
        super().__init__(API, {**body, "stream": True}, key)

    def take(self, event_id, data):
        before = len(self.ids)
        super().take(event_id, data)
        self.times += [time.monotonic()] * (len(self.ids) - before)

    def longest_gap(self, since):
        times = [since] + [at for at in self.times if at > since]
        return max((b - a for a, b in zip(times, times[1:])), default=0.0)


class Faults:
    """Each does something to a machine and gives back what undoes it."""

    def __init__(self, home, spaces):
        self.home, self.spaces = home, spaces

    def address(self, machine):
        return machines.NETWORK + str(1 + ("home", *WORKERS).index(machine.name))

    def nft(self, machine, rules):
        done = subprocess.run(machine.wire.words(machine.name, "nft", rules), capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise OSError(done.stderr)

    def dropped(self, machine, hook, rule):
        self.nft(machine, "add table ip cut; "
                          f"add chain ip cut {hook} {{ type filter hook {hook} priority 0; }}; "
                          f"add rule ip cut {hook} {rule} drop")
        return lambda: self.nft(machine, "delete table ip cut")

    def killed(self, machine):
        machine.stop(signal.SIGKILL)
        return lambda: machine.start("worker", "--model", swarm.MODEL)

    def frozen(self, machine):
        machine.process.send_signal(signal.SIGSTOP)
        return lambda: machine.process.send_signal(signal.SIGCONT)

    def unplugged(self, machine):
        hub = self.spaces + "hub"
        machines.ip("-n", hub, "link", "set", machine.name, "down")
        return lambda: machines.ip("-n", hub, "link", "set", machine.name, "up")

    def flapping(self, machine):
        """Its cable comes and goes, once a second."""
        over = threading.Event()

        def flap():
            while not over.is_set():
                plug = self.unplugged(machine)
                over.wait(0.5)
                plug()
                over.wait(0.5)
        return self.until(over, flap)

    def slow(self, machine):
        """A tenth of its speed."""
        over = threading.Event()

        def stutter():
            while not over.is_set():
                machine.process.send_signal(signal.SIGSTOP)
                over.wait(0.045)
                machine.process.send_signal(signal.SIGCONT)
                over.wait(0.005)
        return self.until(over, stutter)

    def until(self, over, does):
        thread = threading.Thread(target=does)
        thread.start()

        def end():
            over.set()
            thread.join()
        return end

    def deaf(self, machine):
        return self.dropped(machine, "input", "iif != lo")

    def mute(self, machine):
        return self.dropped(machine, "output", "oif != lo")

    def apart_from_home(self, machine):
        """The coordinator and it lose each other; its neighbours hear it."""
        return self.dropped(machine, "input", "ip saddr " + self.address(self.home))

    def apart_from_others(self, machine):
        """It does not hear other workers, who hear it; the coordinator hears everybody."""
        return self.dropped(machine, "input",
                            f"ip saddr {machines.NETWORK}0/24 ip saddr != " +
                            self.address(self.home))

    def paused(self, machine):
        code, _, error = machine.run("pause", "1h")
        assert code == 0, error

        def resume():
            code, _, error = machine.run("resume")
            assert code == 0, error
        return resume

    def coordinator_killed(self, _):
        self.home.stop(signal.SIGKILL)
        self.home.start(*MachineFaults.serve)
        return lambda: None

    def coordinator_frozen(self, _):
        self.home.process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        self.home.process.send_signal(signal.SIGCONT)
        return lambda: None


class MachineFaults(machines.Household):
    on_the_wire = ("home", *WORKERS)
    serve = ("serve", "--model", swarm.MODEL, "--stages", "3")
    kinds = ("killed", "frozen", "unplugged", "flapping", "slow", "deaf", "mute", "apart_from_home",
             "apart_from_others", "paused", "coordinator_killed", "coordinator_frozen")
    moments = ("before", "prefill", "first token", "decode", "last token", "failover", "idle")

    def setUp(self):
        super().setUp()
        self.good(self.home, "init", "testhome")
        token = self.good(self.home, "token", "create", "--uses", str(len(WORKERS)))
        self.home.start(*self.serve)
        self.answers()
        for machine in self.machines[1:]:
            machine.start("join", token, "--model", swarm.MODEL, "--name", machine.name)
        outside = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net"
        back = os.open(outside, os.O_RDONLY)
        self.addCleanup(os.close, back)
        self.addCleanup(ctypes.CDLL(None).setns, back, 0)
        enter(f"/run/netns/{self.wire.prefix}home")
        self.faults = Faults(self.home, self.wire.prefix)
        self.asked = 0
        self.alone_s = 0.0

    def state(self):
        return swarm.http("GET", API + "/api/v1/state")[1]

    def all_here(self):
        try:
            state = self.state()
            return (sum(n["state"] in ("serving", "free") for n in state["nodes"]) == len(WORKERS)
                    and swarm.http("GET", API + "/readyz")[0] == 200)
        except OSError:
            return False

    def settle(self):
        """Everybody is back, and nothing of what ran is left anywhere."""
        swarm.wait_until(self.all_here, "every machine's return")

        def nothing_runs():
            state = self.state()
            return (state["running"] + state["waiting"] == 0 and
                    all(p["kv_pages_reserved"] == 0 for p in state["pipelines"]) and
                    all(n["kv_tokens_used"] == 0 for n in state["nodes"]))
        swarm.wait_until(nothing_runs, "the release of what ran")
        self.assertEqual(self.state()["totals"]["finished_error"], 0)
        swarm.wait_until(lambda: sockets(self.home.process.pid) <= self.base,
                         "sockets back to baseline")

    def ask(self, body):
        self.asked += 1
        return Client(body, f"request {self.asked}")

    def undisturbed(self, body):
        began = time.monotonic()
        client = self.ask(body)
        answer = client.answer()
        self.assertTrue(answer[1], answer)
        self.alone_s = max(self.alone_s, time.monotonic() - began)
        return answer, client.times[0]

    def pipeline(self):
        """The machines that serve, by stage; None while a late loss is being mended."""
        nodes = [n for n in self.state()["nodes"] if n["state"] == "serving"]
        by_stage = {n["stage"]: getattr(self, n["name"]) for n in nodes}
        return [by_stage[stage] for stage in range(3)] if set(by_stage) == {0, 1, 2} else None

    def wait_for_tokens(self, client, count):
        swarm.wait_until(lambda: len(client.ids) >= count or client.error, "tokens")

    def strike(self, kinds, victims, moment, clients, after):
        """Waits for the moment, then does the faults one after the other; what undoes them."""
        if moment == "prefill":
            time.sleep(self.chance.uniform(0.0, 0.8) * self.prompt_s)
        elif moment == "first token":
            time.sleep(self.chance.uniform(0.9, 1.05) * self.prompt_s)
        elif clients:
            self.wait_for_tokens(clients[0], after)
        undo = []
        for number, (kind, victim) in enumerate(zip(kinds, victims)):
            if number:
                time.sleep(self.chance.uniform(0.05, 2.5))
            undo.append(getattr(self.faults, kind)(victim))
        return undo

    def generation(self, moment, kinds):
        long = moment in ("prefill", "first token")
        chosen = self.chance.sample(self.long if long else self.short, 2)
        stages = swarm.wait_until(self.pipeline, "a pipeline")
        victims = self.chance.sample(stages, len(kinds))
        after = {"last token": TOKENS - 1}.get(moment, self.chance.choice((1, 5, 30, 60)))
        early = moment in ("before", "idle")
        clients = [] if early else [self.ask(body) for body, _ in chosen]
        struck = time.monotonic()
        undo = self.strike(kinds, victims, moment, clients, after)
        if not early and not long:
            struck = min([time.monotonic()] + [at for at in clients[0].times[after - 1:after]])
        if moment == "idle":
            time.sleep(4)
        clients = clients or [self.ask(body) for body, _ in chosen]
        try:
            for client, (_, expected) in zip(clients, chosen):
                self.assertEqual(client.answer(), expected)
        finally:
            for one in undo:
                one()
        gap = max(client.longest_gap(struck) for client in clients)
        print(f"{moment}: {', '.join(kinds)} of {', '.join(v.name for v in victims)}: longest "
              f"silence {gap:.2f} s", flush=True)
        if moment in ("decode", "last token") and kinds[0] in STALL:
            self.assertLess(gap, STALL[kinds[0]] + SLACK * self.alone_s)

    def test_no_fault_changes_a_token(self):
        count = int(os.environ.get("HEARTH_FAULTS", "12"))
        seed = int(os.environ.get("HEARTH_FAULTS_SEED", "1"))
        print(f"HEARTH_FAULTS_SEED={seed}", flush=True)
        self.chance = random.Random(seed)
        swarm.wait_until(self.all_here, "five machines")
        model = self.model()
        short = [request(model, 100 + i) for i in range(3)]
        long = [request(model, 200 + i, LONG_PROMPT, LONG_TOKENS) for i in range(2)]
        self.short = [(body, self.undisturbed(body)[0]) for body in short]
        began = time.monotonic()
        answer, first = self.undisturbed(long[0])
        self.prompt_s = first - began
        self.long = [(long[0], answer), (long[1], self.undisturbed(long[1])[0])]
        self.base = sockets(self.home.process.pid)
        # Every kind in the decode, where most of a stream's life is, comes before any chance.
        plan = [("decode", [kind]) for kind in self.chance.sample(self.kinds, len(self.kinds))]
        plan = plan[:max(4, count // 6)]
        while len(plan) * 2 < count:
            moment = self.chance.choice(self.moments)
            kinds = self.chance.choices(self.kinds, k=2 if moment == "failover" else 1)
            plan.append((moment, kinds))
        for moment, kinds in plan[:(count + 1) // 2]:
            with self.subTest(moment=moment, kinds=kinds):
                self.generation(moment, kinds)
                self.settle()


if __name__ == "__main__":
    machines.main(layers=6)
