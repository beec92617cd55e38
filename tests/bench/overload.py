#!/usr/bin/env python3
"""What ten times the load does to a swarm: its goodput against what it can do, and who waits.

    tests/bench/overload.py --model FILE [--workers 2] [--seconds 20] [--times 10]

Capacity is what as many clients get who each ask again once they are answered. Then clients come at
a steady rate, ten times what was answered, whatever becomes of those before. Asserts nothing.
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
    return parser.parse_args()


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def row(name, answers, seconds):
    """Tokens that came within the time, of answers that came to their end."""
    good = [a for a in answers if a.status == 200 and a.done]
    begun = min(a.begun for a in answers)
    within = sum(len(a.ids) for a in good if a.done - begun <= seconds)
    first = [a.first - a.begun for a in good]
    gaps = [(a.done - a.first) / (len(a.ids) - 1) for a in good]
    refused = [a.over - a.begun for a in answers if a.status == 429]
    strange = [a for a in answers if a.status not in (200, 429) or (a.status == 200 and not a.done)]
    print(f"| {name} | {len(answers)} | {len(good)} | {len(refused)} | {len(strange)} | "
          f"{within / seconds:.1f} | {statistics.median(first):.2f} | {percentile(first, .99):.2f} | "
          f"{1e3 * statistics.median(gaps):.0f} | {1e3 * percentile(gaps, .99):.0f} | "
          f"{1e3 * percentile(refused, .99):.0f} |", flush=True)
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
          "next token p50, ms | p99, ms | 429 p99, ms |\n" + "|---" * 11 + "|")
    with swarm.Swarm(options.workers, "--kv-budget", options.kv_budget) as s:
        model = s.model

        def body(number):
            return {"model": model, "prompt": "Tell me the story of number %d." % number,
                    "max_tokens": TOKENS, "ignore_eos": True, "seed": number}
        asyncio.run(load.closed(s.api, options.clients, 3, body))  # warms up
        answers = asyncio.run(load.closed(s.api, options.clients, options.seconds, body))
        capacity = row("capacity", answers, options.seconds)
        rate = options.times * capacity / TOKENS
        answers = asyncio.run(load.opened(s.api, rate, options.seconds, body))
        goodput = row(f"{options.times:g} times", answers, options.seconds)
        answers = asyncio.run(load.closed(s.api, options.clients, options.seconds, body))
        after = row("afterwards", answers, options.seconds)
    print(f"\ngoodput under load {goodput / capacity:.3f} of capacity, afterwards "
          f"{after / capacity:.3f}")


if __name__ == "__main__":
    main()
