#!/usr/bin/env python3
"""What the way between four machines costs, beside the ideal in the same run.

    tests/bench/pipeline.py --model FILE [--rates 1000,2500,10000] [--rounds 5] [--tokens 96]
                            [--streams 32] [--share 0.4]

Five network namespaces on one wire: a server and four workers of one thread, each with a rate (tbf)
for what leaves it, over TLS as always. From the workers' own counters:

  latency      one stream. A token's time round the ring, beside the sum of what the four stages
               computed for it and of its bytes at the rate of the link. What is above that, divided
               by four, is what a hop costs.
  throughput   so many streams, each worker held to a share of a processor (cpu quota of a cgroup).
               The part of the time in which the slowest stage computes: 1 is its capacity.

A stage computes from the step's arrival at its engine to its return; waiting for a processor that
others hold counts as computing. Needs root, asserts nothing.
"""

import argparse
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))
BARE_RING = os.environ.get("HEARTH_BARE_RING", str(root / "build/tests/bench/bench_bare_ring"))
import machines  # noqa: E402
import shaping  # noqa: E402
import swarm  # noqa: E402

WORKERS = ["den", "attic", "cellar", "shed"]
HOPS = len(WORKERS)
# Of a step of one row beside its activation, by proto/step.h and frame.h, a TLS record, and the
# headers of TCP, IP and Ethernet.
BESIDE = 100 + 22 + 66


class Swarm:
    def __init__(self, options, folder):
        self.options = options
        self.wire = machines.Wire("home", *WORKERS)
        self.machines = [machines.Machine(self.wire, name, folder) for name in ("home", *WORKERS)]
        self.home, self.shares = self.machines[0], []

    def start(self):
        self.good("init", "bench")
        self.home.start("serve", "--model", self.options.model, "--stages", str(len(WORKERS)))
        swarm.wait_until(lambda: self.home.run("status")[0] == 0, "the server")
        token = self.good("token", "create", "--uses", str(len(WORKERS)))
        for machine in self.machines[1:]:
            machine.start("join", token, "--model", self.options.model, "--name", machine.name,
                          "--threads", "1")
        swarm.wait_until(lambda: self.home.run("status", "--wait", "1")[0] == 0, "readiness")
        self.model = self.state()["model"]["id"]

    def good(self, *words):
        code, out, err = self.home.run(*words, timeout=600)
        if code != 0:
            raise RuntimeError(err)
        return out.strip()

    def state(self):
        return json.loads(self.good("status", "--json"))

    def counters(self):
        """Of the stages in their order; heartbeats bring them."""
        time.sleep(1.0)
        return sorted((node for node in self.state()["nodes"] if node["epoch"]),
                      key=lambda node: node["stage"])

    def stream(self, tokens, wait=True):
        words = ("run", self.model, "Once", "--raw", "-n", str(tokens + 1), "--temp", "0",
                 "--ignore-eos")
        one = subprocess.Popen(self.wire.words("home", swarm.HEARTH, *words),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=self.home.environment())
        return one.wait() if wait else one

    def end(self):
        for machine in reversed(self.machines):
            machine.stop(signal.SIGKILL)
        self.wire.cut()
        for share in self.shares:
            share.end()


def differences(before, after, name):
    return [b[name] - a[name] for a, b in zip(before, after)]


def latency(one, megabits, hidden):
    """Seconds of a token: round the ring, of them computing and on the wire."""
    found = []
    for _ in range(one.options.rounds):
        before = one.counters()
        one.stream(one.options.tokens)
        after = one.counters()
        steps = differences(before, after, "ring_steps_total")[0]
        ring = differences(before, after, "ring_seconds_total")[0] / steps
        computing = sum(busy / count for busy, count in
                        zip(differences(before, after, "busy_seconds_total"),
                            differences(before, after, "steps_total")))
        wire = ((HOPS - 1) * (2 * hidden + BESIDE) + BESIDE) * 8 / (megabits * 1e6)
        found.append((ring, computing, wire))
    return [statistics.median(values) for values in zip(*found)]


def bare_hop(one, megabits, hidden):
    """Seconds of a hop beyond its bytes between stages that compute nothing and speak nothing."""
    size = 2 * hidden + BESIDE - 66
    memory = os.path.getsize(one.options.model) // HOPS
    stages = []
    for at, name in enumerate(WORKERS):
        behind = f"{machines.NETWORK}{2 + (at + 1) % HOPS}"  # home is the first
        words = (BARE_RING, 7000, behind, 7000, size, memory, 1000, *(["first"] if at == 0 else []))
        stages.append(subprocess.Popen(one.wire.words(name, *words), stdout=subprocess.PIPE))
    found = [json.loads(stage.communicate(timeout=120)[0]) for stage in stages]
    ring = found[0]["waiting"] + found[0]["reading"]
    reading = sum(each["reading"] for each in found)
    return (ring - reading) / HOPS - (size + 66) * 8 / (megabits * 1e6)


def throughput(one):
    """Tokens a second of all streams, and the part of the time in which each stage computes."""
    streams = [one.stream(one.options.tokens * 20, wait=False) for _ in range(one.options.streams)]
    time.sleep(10)
    before, began = one.counters(), time.monotonic()
    time.sleep(15)
    after, seconds = one.counters(), time.monotonic() - began
    for stream in streams:
        stream.kill()
        stream.wait()
    swarm.wait_until(lambda: one.state()["running"] == 0, "the end of all streams")
    busy = [value / seconds for value in differences(before, after, "busy_seconds_total")]
    return differences(before, after, "rows_total")[0] / seconds, busy


def hidden_of(model):
    code, out, err = swarm.hearth("show", model, "--json")
    assert code == 0, err
    return json.loads(out)["hidden_size"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rates", default="1000,2500,10000", help="Mbit/s")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--share", type=float, default=0.4)
    options = parser.parse_args()
    options.model = os.path.abspath(options.model)
    print(f"{os.cpu_count()} cpus of {platform.machine()}, load {os.getloadavg()[0]:.1f} at the "
          f"start; {os.path.basename(options.model)}, four workers of one thread; latency: medians "
          f"of {options.rounds} streams of {options.tokens} tokens; throughput: {options.streams} "
          f"streams, {options.share} of a processor a worker\n")
    print("| Mbit/s | a token round the ring, ms | of it computing | on the wire | ideal/measured | "
          "a hop costs, us | of bare sockets | tokens/s of all streams | slowest stage computes |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        one = Swarm(options, folder)
        try:
            one.start()
            hidden = hidden_of(options.model)
            rows = []
            for megabits in map(int, options.rates.split(",")):
                for name in ("home", *WORKERS):
                    shaping.rate(one.wire, name, megabits)
                rows.append([megabits, *latency(one, megabits, hidden),
                             bare_hop(one, megabits, hidden)])
            for machine in one.machines[1:]:
                one.shares.append(shaping.Share(machine.name, options.share))
                one.shares[-1].take(machine.process.pid)
            for megabits, ring, computing, wire, bare in rows:
                for name in ("home", *WORKERS):
                    shaping.rate(one.wire, name, megabits)
                rate, busy = throughput(one)
                hop = (ring - computing - wire) / HOPS
                print(f"| {megabits} | {ring * 1e3:.2f} | {computing * 1e3:.2f} | "
                      f"{wire * 1e3:.3f} | {(computing + wire) / ring:.3f} | {hop * 1e6:.0f} | "
                      f"{bare * 1e6:.0f} | {rate:.0f} | {max(busy):.2f} |", flush=True)
        finally:
            one.end()


if __name__ == "__main__":
    main()
