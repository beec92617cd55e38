#!/usr/bin/env python3
"""What ten times the load does to a swarm: its goodput against what it can do, and who waits.

    tests/bench/overload.py --model FILE [--workers 2] [--seconds 20] [--times 10] [--together]

Workers have one half of the processors, the server and the clients here the other, as where they are
machines of their own; with --together they share all. Capacity is what as many clients get who each
ask again once they are answered. Then clients come at a steady rate, ten times what was answered,
whatever becomes of those before. Asserts nothing.
"""

import argparse
import asyncio
import os
import pathlib
import platform
import statistics
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))

TOKENS = 24


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--times", type=float, default=10)
    parser.add_argument("--kv-budget", default="24MB")
    parser.add_argument("--together", action="store_true")
    return parser.parse_args()


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def keep_apart(s):
    cpus = sorted(os.sched_getaffinity(0))
    half = len(cpus) // 2
    for pids, those in (([s.process.pid, os.getpid()], cpus[:half]),
                        (s.worker_pids().values(), cpus[half:])):
        for pid in pids:
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), those)


def cpu_seconds(pids):
    """Of these processes so far, and of this one."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Cpu:
    """What server, workers and the clients here take of the processors from one call to the next."""

    def __init__(self, s):
        self.groups = [[s.process.pid], list(s.worker_pids().values()), [os.getpid()]]
        self.seen = [cpu_seconds(group) for group in self.groups]

    def share(self, seconds):
        now = [cpu_seconds(group) for group in self.groups]
        took = [f"{(after - before) / seconds:.2f}" for before, after in zip(self.seen, now)]
        self.seen = now
        return took


def row(name, answers, seconds, cpu):
    """Tokens that came within the time, of answers that came to their end."""
    good = [a for a in answers if a.status == 200 and a.done]
    begun = min(a.begun for a in answers)
    within = sum(len(a.ids) for a in good if a.done - begun <= seconds)
    first = [a.times[0] - a.begun for a in good]
    gaps = [(a.done - a.times[0]) / (len(a.ids) - 1) for a in good]
    refused = [a.over - a.begun for a in answers if a.status == 429]
    strange = [a for a in answers if a.status not in (200, 429) or (a.status == 200 and not a.done)]
    server, workers, clients = cpu.share(max(a.over for a in answers) - begun)
    print(f"| {name} | {len(answers)} | {len(good)} | {len(refused)} | {len(strange)} | "
          f"{within / seconds:.1f} | {statistics.median(first):.2f} | {percentile(first, .99):.2f} | "
          f"{1e3 * statistics.median(gaps):.0f} | {1e3 * percentile(gaps, .99):.0f} | "
          f"{1e3 * percentile(refused, .99):.0f} | {server} | {workers} | {clients} |", flush=True)
    return within / seconds


def main():
    options = arguments()
    os.environ["HEARTH_DEMO_MODEL"] = options.model
    import load
    import swarm
    commit = subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {commit}: "
          f"{' '.join(sys.argv)}\n")
    print("| | asked | answered | 429 | other | goodput, tokens/s | first token p50, s | p99, s | "
          "next token p50, ms | p99, ms | 429 p99, ms | processors: server | workers | clients |\n" +
          "|---" * 14 + "|")
    apart = not options.together and os.cpu_count() > 1
    threads = ["--threads", max(1, os.cpu_count() // 2 // options.workers)] if apart else []
    with swarm.Swarm(options.workers, "--kv-budget", options.kv_budget, *threads) as s:
        model = s.model
        if apart:
            keep_apart(s)

        def body(number):
            return {"model": model, "prompt": "Tell me the story of number %d." % number,
                    "max_tokens": TOKENS, "ignore_eos": True, "seed": number}
        asyncio.run(load.closed(s.api, options.clients, 3, body))  # warms up
        cpu = Cpu(s)
        answers = asyncio.run(load.closed(s.api, options.clients, options.seconds, body))
        capacity = row("capacity", answers, options.seconds, cpu)
        rate = options.times * capacity / TOKENS
        answers = asyncio.run(load.opened(s.api, rate, options.seconds, body))
        goodput = row(f"{options.times:g} times", answers, options.seconds, cpu)
        answers = asyncio.run(load.closed(s.api, options.clients, options.seconds, body))
        after = row("afterwards", answers, options.seconds, cpu)
    print(f"\ngoodput under load {goodput / capacity:.3f} of capacity, afterwards "
          f"{after / capacity:.3f}")


if __name__ == "__main__":
    main()
