#!/usr/bin/env python3
"""What prompts of others cost an answer, and what long prompts cost a short one.

    tests/bench/mixed.py --model FILE [--workers 3] [--streams 16] [--long 2000] [--rounds 3]

Sixteen streams answer throughout. In the idle part nothing else happens. In the mixed part two more
clients send one prompt after the other, a long one and a short one of 60 tokens, and read one token of
each. Prints, for a server without a target of its own, for one with an `--itl-target` of twice the
idle step, and for one that never shortens a prompt's chunks (a target of a minute): the time between
two tokens of a stream (inter_token_latency), the time to the first token of both kinds of prompt
(time_to_first_token), each at p50 and p99, and the tokens a second of all streams. Every prompt is
another one, so the prefix cache finds nothing. Asserts nothing.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import statistics
import sys
import threading
import time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
sys.path.insert(0, str(root / "tests/bench"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))

SHORT = 60  # tokens, about
TEXTS = sorted(root.glob("docs/*.md"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--long", type=int, default=2000, help="tokens of a long prompt, about")
    parser.add_argument("--prompts", type=int, default=6, help="long prompts of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    return parser.parse_args()


def share(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class Prompts:
    """Texts that begin differently, of about so many tokens."""

    def __init__(self, swarm):
        self.words = " ".join(path.read_text() for path in TEXTS).split()
        sample = " ".join(self.words[:2000])
        self.per_word = len(swarm.post("/tokenize", {"content": sample})[1]["tokens"]) / 2000
        self.rng = random.Random(1)

    def of(self, tokens):
        count = int(tokens / self.per_word)
        at = self.rng.randrange(len(self.words) - count)
        return f"{self.rng.random()} " + " ".join(self.words[at:at + count])


class Streams:
    """Answers that go on until stop(), with the times of their tokens."""

    def __init__(self, swarm_module, s, prompts, count):
        self.swarm, self.s, self.running = swarm_module, s, True
        self.times = [[] for _ in range(count)]
        self.threads = [threading.Thread(target=self._answer, args=(i, prompts.of(SHORT)))
                        for i in range(count)]
        for thread in self.threads:
            thread.start()
        swarm_module.wait_until(lambda: all(len(t) > 8 for t in self.times), "all streams")

    def _answer(self, index, prompt):
        body = {"model": self.s.model, "prompt": prompt, "max_tokens": 4000, "ignore_eos": True,
                "seed": index, "return_token_ids": True}
        while self.running:
            for when, event in self.swarm.stream(self.s.api + "/v1/completions", body):
                if event != "[DONE]" and event["choices"] and event["choices"][0].get("token_ids"):
                    self.times[index].append(when)
                if not self.running:
                    break

    def stop(self):
        self.running = False
        for thread in self.threads:
            thread.join()

    def between(self, begin, end):
        """Seconds between two tokens of a stream, and tokens a second of all, in that time."""
        gaps, tokens = [], 0
        for times in self.times:
            inside = [t for t in times if begin <= t <= end]
            tokens += len(inside)
            gaps += [b - a for a, b in zip(inside, inside[1:])]
        return gaps, tokens / (end - begin)


def first_token(swarm_module, s, prompt):
    begun = time.monotonic()
    body = {"model": s.model, "prompt": prompt, "max_tokens": 1, "return_token_ids": True}
    for when, event in swarm_module.stream(s.api + "/v1/completions", body):
        if event != "[DONE]" and event["choices"]:
            return when - begun
    raise AssertionError("an answer without a token")


def round_of(swarm_module, args, target):
    flags = ["--itl-target", str(target)] if target else []
    with swarm_module.Swarm(args.workers, "--threads", str(args.threads), *flags,
                            model=args.model) as s:
        prompts = Prompts(s)
        streams = Streams(swarm_module, s, prompts, args.streams)
        try:
            begun = time.monotonic()
            swarm_module.wait_until(lambda: min(
                sum(t > begun for t in times) for times in streams.times) > 100, "an idle part")
            idle = streams.between(begun, time.monotonic())
            begun = time.monotonic()
            firsts = {"long": [], "short": []}

            def long_prompts():
                for _ in range(args.prompts):
                    firsts["long"].append(first_token(swarm_module, s, prompts.of(args.long)))

            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                job = pool.submit(long_prompts)
                while not job.done():
                    firsts["short"].append(first_token(swarm_module, s, prompts.of(SHORT)))
                job.result()
            mixed = streams.between(begun, time.monotonic())
        finally:
            streams.stop()
    return idle, mixed, firsts


def main():
    args = arguments()
    import llamacpp
    import swarm
    print(f"{llamacpp.cpu_name()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, commit "
          f"{llamacpp.commit()}; {pathlib.Path(args.model).name}; {args.workers} workers, "
          f"{args.streams} streams, prompts of {args.long} and {SHORT} tokens")
    found = {}
    for _ in range(args.rounds):
        idle_step = None
        for name in ("default", "twice the idle step", "a minute"):
            target = {"default": None, "a minute": 60_000}.get(name) or (
                idle_step and max(1, round(2000 * idle_step)))
            idle, mixed, firsts = round_of(swarm, args, target)
            idle_step = idle_step or statistics.median(idle[0])
            of = found.setdefault(name, {"idle": [], "itl": [], "long": [], "short": [],
                                         "idle rate": [], "rate": []})
            of["idle"] += idle[0]
            of["itl"] += mixed[0]
            of["idle rate"].append(idle[1])
            of["rate"].append(mixed[1])
            of["long"] += firsts["long"]
            of["short"] += firsts["short"]
    columns = [("idle", "idle itl"), ("itl", "mixed itl"), ("long", "ttft long"),
               ("short", "ttft short")]
    print(f"{'--itl-target':20}" + "".join(f" | {title:>10} p50,ms {'p99,ms':>7}"
                                            for _, title in columns) + " | tokens/s idle  mixed")
    for name, of in found.items():
        row = f"{name:20}"
        for key, _ in columns:
            row += f" | {share(of[key], 0.5) * 1000:17.1f} {share(of[key], 0.99) * 1000:7.1f}"
        print(row + f" | {statistics.median(of['idle rate']):13.1f} "
              f"{statistics.median(of['rate']):6.1f}")


if __name__ == "__main__":
    main()
