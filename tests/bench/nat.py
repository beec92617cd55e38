#!/usr/bin/env python3
"""Links between workers behind routers: the route of every pair, and the rate of a relayed link.

    tests/bench/nat.py --model FILE [--rates 20,100] [--rounds 5] [--no-matrix] [--no-rates]

Network namespaces, with nftables in the routers (tests/e2e/nat.py). Needs root, asserts nothing.

  routes  a server outside and two workers behind a router of each kind, 10 or 20 ms away. The
          coordinator measures every link, and the table shows the route and how many of the pairs
          were measured.
  rates   two workers behind symmetric routers, and a rate (tbf) for what leaves each machine.
          `hearth ping` measures both legs, to the server, and then the relayed link. A ratio is that
          of the link to its slower leg, in the same round.
"""

import argparse
import collections
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))
os.environ.setdefault("HEARTH_FAR_CABLE", str(root / "build/tests/e2e/far-cable"))
import machines  # noqa: E402
import nat  # noqa: E402
import shaping  # noqa: E402
import swarm  # noqa: E402

ALL = (nat.NONE, *(kind for kind in nat.KINDS if kind not in nat.ASKED), nat.DOUBLE)


class Swarm:
    """A server outside, and a worker in each home."""

    def __init__(self, model, inside, folder, *serve, far=False):
        self.wire = nat.Homes("home", inside)
        for i, name in enumerate(inside if far else ()):
            self.wire.far(name, 10 + 10 * (i % 2))
        self.machines = {name: machines.Machine(self.wire, name, folder)
                         for name in ("home", *inside)}
        self.home = self.machines["home"]
        try:
            self.good("home", "init", "bench")
            self.home.start("serve", "--model", model, *serve)
            swarm.wait_until(lambda: self.home.run("status")[0] == 0, "the server")
            token = self.good("home", "token", "create", "--uses", str(len(inside)))
            for name in inside:
                self.machines[name].start("join", token, "--model", model, "--name", name,
                                          "--threads", "1")
            swarm.wait_until(lambda: len(self.state()["nodes"]) == len(inside), "the workers")
        except BaseException:
            self.end()
            raise

    def good(self, name, *words):
        code, out, err = self.machines[name].run(*words)
        if code != 0:
            raise AssertionError(f"{words}: {err}{self.machines[name].log()[-2000:]}")
        return out.strip()

    def state(self):
        return json.loads(self.good("home", "status", "--json"))

    def ping(self, name, to):
        return json.loads(self.good(name, "ping", to, "-c", "3", "--interval", "0.2", "--json"))

    def end(self):
        for machine in self.machines.values():
            machine.stop(signal.SIGKILL)
        self.wire.cut()


def routes(model):
    inside = {f"m{i}": kind for i, kind in enumerate(ALL + ALL)}
    pairs = len(inside) * (len(inside) - 1) // 2
    with tempfile.TemporaryDirectory() as folder:
        one = Swarm(model, inside, folder, far=True)
        try:
            def measured():
                links = one.state().get("routes", [])
                return links if len(links) == 2 * pairs else None
            links = swarm.wait_until(measured, "a measured link for every pair")
        finally:
            one.end()
    found = collections.defaultdict(collections.Counter)
    for link in links:
        if link["from"] < link["to"]:
            kinds = sorted((inside[link["from"]], inside[link["to"]]), key=ALL.index)
            found[tuple(kinds)][link["route"]] += 1
    print(f"\n{sum(sum(one.values()) for one in found.values())} of {pairs} pairs have a link\n")
    print("| | " + " | ".join(ALL) + " |\n|---" + "|---" * len(ALL) + "|")
    for row, first in enumerate(ALL):
        cells = [", ".join(sorted(found[(first, second)])) if column >= row else ""
                 for column, second in enumerate(ALL)]
        print(f"| {first} | " + " | ".join(cells) + " |", flush=True)


def rates(model, megabits, rounds):
    print("\n| Mbit/s of each machine | leg of one, MB/s | leg of the other, MB/s | relayed, MB/s "
          "| ratio, median | least |\n|---|---|---|---|---|---|")
    inside = {"desk": "symmetric", "attic": "symmetric"}
    with tempfile.TemporaryDirectory() as folder:
        one = Swarm(model, inside, folder, "--stages", "2")
        try:
            for rate in megabits:
                for name in one.machines:
                    shaping.rate(one.wire, name, rate)
                figures = []
                for _ in range(rounds):
                    there = one.ping("desk", "coordinator")["bytes_per_second"]["to"]
                    back = one.ping("attic", "coordinator")["bytes_per_second"]["from"]
                    link = one.ping("desk", "attic")
                    assert link["path"] == "relayed", link
                    figures.append((there, back, link["bytes_per_second"]["to"]))
                ratios = [through / min(there, back) for there, back, through in figures]
                medians = [statistics.median(column) / 1e6 for column in zip(*figures)]
                print(f"| {rate} | " + " | ".join(f"{value:.2f}" for value in medians) +
                      f" | {statistics.median(ratios):.2f} | {min(ratios):.2f} |", flush=True)
        finally:
            one.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--rates", default="20,100")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-matrix", action="store_true")
    parser.add_argument("--no-rates", action="store_true")
    options = parser.parse_args()
    commit = subprocess.run(["git", "-C", str(root), "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, commit {commit}: "
          + " ".join(["tests/bench/nat.py", *sys.argv[1:]]), flush=True)
    if not options.no_rates:
        rates(options.model, [int(rate) for rate in options.rates.split(",")], options.rounds)
    if not options.no_matrix:
        routes(options.model)


if __name__ == "__main__":
    main()
