#!/usr/bin/env python3
"""hearth plan against reality: what it predicts and chooses beside what is then measured.

    tests/bench/plan.py --model FILE [--sets 10] [--seed 1] [--others 6] [--tokens 16] [--rounds 2]
                        [--optimise latency|throughput] [--delays] [--kernels avx2,avx512]

Each set draws from its seed three machines: network namespaces on one wire, each with a rate of its
own for what leaves it (tbf), and a worker of one thread with a share of a processor (cpu quota of a
cgroup) and memory for a part of the model. The server places layers for the latency of one stream
by what it measured; the figure of `hearth plan` stands beside the median of so many measured
streams. Then the same machines get other placements by hand (`serve --place`): the chosen one with
a layer moved over its boundary, the other way round, and random ones that fit. Where one of them
is quicker, it and the chosen one are measured anew, four times each and in turns.

With --delays each cable also takes 0, 5 or 20 ms for every frame, either way (tests/e2e/far_cable.cc).

For throughput as many streams run as the prediction says, and what counts is how many rows the first
stage takes in 20 seconds.

The model must be large: a worker with a quota runs unhindered until the quota of a period (3.4 ms) is
used up, so a stage must take many periods for its share to be its speed. For small ones: with
--kernels each machine has a whole processor, and draws which of these kernels it computes with
(HEARTH_ISA). Needs root, asserts nothing.

Not here: cards.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))
os.environ.setdefault("HEARTH_FAR_CABLE", str(root / "build/tests/e2e/far-cable"))
import machines  # noqa: E402
import shaping  # noqa: E402
import swarm  # noqa: E402

NAMES = ["den", "attic", "cellar"]
STAGES = 2  # of three machines: the third alone forms no pipeline to which a stream might go
BESIDE = 500 << 20  # bytes of a worker beside its weights: KV, buffers and the process


def rate_of(home, model, options, rounds):
    """Tokens a second of one stream after its first token, as the client sees them."""
    rates = []
    for _ in range(rounds):
        code, _, err = home.run("run", model, "Once", "--raw", "-n", options.tokens + 1, "--temp",
                                "0", "--ignore-eos", "--verbose", timeout=600)
        if code != 0:
            raise RuntimeError(err)
        line = next(line for line in err.splitlines() if line.startswith("eval rate"))
        rates.append(float(line.split()[2]))
    print("  " + " ".join(f"{rate:.2f}" for rate in rates), file=sys.stderr, flush=True)
    return statistics.median(rates)


def rate_of_all(home, model, streams):
    """Tokens a second of so many streams together."""
    words = ("run", model, "Once", "--raw", "-n", "300", "--temp", "0", "--ignore-eos")
    runs = [subprocess.Popen(home.wire.words(home.name, swarm.HEARTH, *words),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             env=home.environment()) for _ in range(streams)]

    def state():
        return json.loads(home.run("status", "--json")[1])

    def rows():
        return next(node["rows_total"] for node in state()["nodes"]
                    if node["epoch"] and node["stage"] == 0)

    try:
        swarm.wait_until(lambda: state()["running"] == streams, "all streams")
        time.sleep(5)
        before, began = rows(), time.monotonic()
        time.sleep(20)
        return (rows() - before) / (time.monotonic() - began)
    finally:
        for run in runs:
            run.kill()
            run.wait()
        swarm.wait_until(lambda: state()["running"] == 0, "the end of all streams")


def sizes_of(model):
    """Layers, and bytes of the embedding, of a mean layer and of the head."""
    node = {"memory_bytes": 10**15, "weight_bytes_per_second": [1e9, 1e9]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"nodes": [{"name": name, **node} for name in NAMES],
                   "link": {"seconds": 0, "bytes_per_second": 1e12}}, file)
        file.flush()
        code, out, err = swarm.hearth("plan", model, "--nodes", file.name, "--stages", "3",
                                      "--json")
    assert code == 0, err
    stages = json.loads(out)["pipelines"][0]["stages"]
    counts = [stage["layers"][1] - stage["layers"][0] for stage in stages]
    weights = [stage["weight_bytes"] for stage in stages]
    layer = weights[1] / counts[1]
    return sum(counts), weights[0] - counts[0] * layer, layer, weights[2] - counts[2] * layer


def with_sizes(order, sizes):
    placed, begin = [], 0
    for name, size in zip(order, sizes):
        placed.append((name, begin, begin + size))
        begin += size
    return tuple(placed)


def other_placements(draw, chosen, sizes_of_model, room, wanted):
    """Without the chosen one, the likeliest to be better first."""
    layers, embedding, layer, head = sizes_of_model
    found = []

    def add(placed):
        fits = all(begin < end and (begin == 0) * embedding + (end == layers) * head +
                   (end - begin) * layer <= room[name] for name, begin, end in placed)
        if fits and placed != chosen and placed not in found:
            found.append(placed)

    order, sizes = [one[0] for one in chosen], [one[2] - one[1] for one in chosen]
    for at in range(len(sizes) - 1):
        for step in (1, -1):
            moved = list(sizes)
            moved[at] += step
            moved[at + 1] -= step
            add(with_sizes(order, moved))
    add(with_sizes(order[::-1], sizes[::-1]))
    for _ in range(200):
        cuts = sorted(draw.sample(range(1, layers), STAGES - 1))
        add(with_sizes(draw.sample(NAMES, STAGES),
                       [b - a for a, b in zip([0] + cuts, cuts + [layers])]))
    return found[:wanted]


class Set:
    """Three machines and a server, drawn from a seed."""

    def __init__(self, seed, options, folder):
        self.options, self.draw, self.shares = options, random.Random(seed), []
        self.parts = {name: round(self.draw.uniform(0.3, 0.65), 2) for name in NAMES}
        self.links = {name: self.draw.choice((10, 30, 100, 1000)) for name in NAMES}
        size = os.path.getsize(options.model)
        self.room = {name: int(size * self.draw.uniform(0.6, 1.0)) for name in NAMES}
        self.kernels = {}
        if options.kernels:
            self.parts = dict.fromkeys(NAMES, 1.0)
            kinds = random.Random(f"kernels {seed}")
            self.kernels = {name: kinds.choice(options.kernels.split(",")) for name in NAMES}
        delays = random.Random(f"delays {seed}")
        self.delays = {name: delays.choice((0, 5, 20)) if options.delays else 0 for name in NAMES}
        self.wire = machines.Wire("home", *NAMES)
        self.machines = [machines.Machine(self.wire, name, folder) for name in ("home", *NAMES)]
        self.home = self.machines[0]

    def serve(self, *words):
        self.home.start("serve", "--model", self.options.model, "--no-announce", *words)
        self.shares[0].take(self.home.process.pid)
        swarm.wait_until(lambda: self.home.run("status")[0] == 0, "the server")

    def ready(self):
        try:
            swarm.wait_until(lambda: self.home.run("status", "--wait", "1")[0] == 0, "readiness")
        except AssertionError as late:
            lines = self.home.run("status")[1].splitlines()
            why = [line for line in lines if line.startswith("why")]
            raise RuntimeError((why or [str(late)])[0]) from late
        return json.loads(self.home.run("status", "--json")[1])

    def start(self):
        for name in NAMES:
            shaping.rate(self.wire, name, self.links[name])
            if self.delays[name]:
                self.wire.far(name, self.delays[name])
        assert self.home.run("init", "bench")[0] == 0
        self.shares.append(shaping.Share("home", 2.0))
        self.serve("--optimise", self.options.optimise, "--stages", str(STAGES))
        token = self.home.run("token", "create", "--uses", str(len(NAMES)))[1].strip()
        for machine in self.machines[1:]:
            if self.kernels:
                machine.variables["HEARTH_ISA"] = self.kernels[machine.name]
            machine.start("join", token, "--model", self.options.model, "--name", machine.name,
                          "--threads", "1", "--kv-budget", "128MB", "--memory",
                          str(self.room[machine.name] + BESIDE))
            self.shares.append(shaping.Share(machine.name, self.parts[machine.name]))
            self.shares[-1].take(machine.process.pid)

    def run(self):
        self.start()
        state = self.ready()
        serving = sorted((node for node in state["nodes"] if node["epoch"]),
                         key=lambda node: node["stage"])
        chosen = tuple((node["name"], *node["layers"]) for node in serving)
        code, out, err = self.home.run("plan", self.options.model, "--stages", STAGES, "--json",
                                       "--optimise", self.options.optimise)
        if code != 0:
            raise RuntimeError(err)
        model = state["model"]["id"]
        plan = json.loads(out)["pipelines"][0]
        measured = self.measure(model, plan)
        print(json.dumps(state.get("measured")), file=sys.stderr)
        self.say(chosen, measured)
        others = []
        for placed in other_placements(self.draw, chosen, sizes_of(self.options.model), self.room,
                                       self.options.others):
            others.append((self.measure_at(placed, model, plan), placed))
        others.sort(reverse=True)
        return {"chosen": chosen, "predicted": self.predicted(plan), "measured": measured,
                "others": others,
                "against": self.against(chosen, measured, others, model, plan)}

    def measure_at(self, placed, model, plan, times=1):
        self.home.stop()
        self.serve("--place", ",".join(f"{name}:{begin}-{end - 1}" for name, begin, end in placed))
        self.ready()
        measured = self.measure(model, plan, times)
        self.say(placed, measured)
        return measured

    def against(self, chosen, measured, others, model, plan):
        """The chosen one's part of the best one's rate. Of many that were measured the luckiest
        comes first, so where it is not the chosen one both are measured anew, in turns."""
        if not others or measured >= others[0][0]:
            return 1.0
        first, second = [], []
        for _ in range(4):
            first.append(self.measure_at(chosen, model, plan, 2))
            second.append(self.measure_at(others[0][1], model, plan, 2))
        return min(1.0, sum(first) / sum(second))

    def say(self, placed, measured):
        print(f"{text_of(placed)}: {measured:.2f}", file=sys.stderr, flush=True)

    def predicted(self, plan):
        latency = self.options.optimise == "latency"
        return plan["tokens_per_second" if latency else "all_tokens_per_second"]

    def measure(self, model, plan, times=1):
        if self.options.optimise == "latency":
            return rate_of(self.home, model, self.options, times * self.options.rounds)
        return rate_of_all(self.home, model, plan["streams"])

    def end(self):
        for machine in reversed(self.machines):
            machine.stop(signal.SIGKILL)
        self.wire.cut()
        for share in self.shares:
            share.end()


def text_of(placed):
    return ", ".join(f"{name} {begin}-{end - 1}" for name, begin, end in placed)


def row(seed, options):
    with tempfile.TemporaryDirectory() as folder:
        one = Set(seed, options, folder)
        drawn = ", ".join(f"{name} {one.kernels.get(name, f'{one.parts[name]} cpu')} "
                          f"{one.links[name]} Mbit/s" +
                          (f" {one.delays[name]} ms" if options.delays else "") for name in NAMES)
        try:
            found = one.run()
        except (RuntimeError, AssertionError) as failed:
            sys.stderr.write(one.home.log()[-1000:])
            return f"| {seed} | {drawn} | failed: {str(failed).splitlines()[0]} | | | | | |"
        finally:
            one.end()
    best = found["others"][0] if found["others"] else (0.0, ())
    return (f"| {seed} | {drawn} | {text_of(found['chosen'])} | {found['predicted']:.2f} | "
            f"{found['measured']:.2f} | {found['predicted'] / found['measured']:.2f} | "
            f"{best[0]:.2f} ({text_of(best[1])}; of {len(found['others'])}) | {found['against']:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--others", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--optimise", choices=("latency", "throughput"), default="latency")
    parser.add_argument("--delays", action="store_true")
    parser.add_argument("--kernels")
    options = parser.parse_args()
    options.model = os.path.abspath(options.model)
    what = (f"medians of {options.rounds} streams of {options.tokens} tokens"
            if options.optimise == "latency" else "all streams of the prediction together")
    print(f"{os.cpu_count()} cpus of {platform.machine()}, load {os.getloadavg()[0]:.1f} at the "
          f"start; {os.path.basename(options.model)}, {what}\n")
    print("| seed | machines | chosen | predicted tok/s | measured | predicted/measured | "
          "best other | chosen/best |")
    print("|---|---|---|---|---|---|---|---|")
    for seed in range(options.seed, options.seed + options.sets):
        print(row(seed, options), flush=True)


if __name__ == "__main__":
    main()
