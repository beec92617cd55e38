#!/usr/bin/env python3
"""Speed of one stream with speculative decoding against without, as ratios measured in one run.

    tests/bench/lone.py --model FILE [--stages 1,3] [--rounds 5] [--tokens 256] [--paced 12600,250]
                        [--draft FILE]

Three texts: prose that is drawn at temperature 1, an edit of a source file, which mostly repeats
the file, and JSON by a schema. Every round asks for each text twice, one right after the other, with
and without speculation in turn, from workers on this machine that hold equal shares of the layers.
Both answers must have the same tokens; else the program fails. Prints medians; asserts no time.

With --paced STEP,ROW each stage takes so many microseconds for a step of one row, and so many more for
each further row, as another machine would (build the target hearth_paced, and set HEARTH_BINARY to
build/tests/bench/hearth_paced). What is computed is real, what a stage takes is declared. A 70B model
in Q4_K_M has 10.5 GB a stage on four cards; an RTX 4090 reads them in 12.6 ms (83 % of 1 TB/s) and
multiplies one more row by them in 0.25 ms (140 TFLOPS).
"""

import argparse
import os
import pathlib
import statistics
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
sys.path.insert(0, str(root / "tests/bench"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))

CODE = '''class Account:
    """A bank account with an owner and a balance in cents."""

    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance
        self.history = []

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("the amount must be positive")
        self.balance += amount
        self.history.append(("deposit", amount))

    def withdraw(self, amount):
        if amount <= 0:
            raise ValueError("the amount must be positive")
        if amount > self.balance:
            raise ValueError("the balance is too low")
        self.balance -= amount
        self.history.append(("withdraw", amount))

    def transfer(self, other, amount):
        self.withdraw(amount)
        other.deposit(amount)

    def statement(self):
        lines = [f"Account of {self.owner}"]
        for kind, amount in self.history:
            lines.append(f"{kind}: {amount / 100:.2f}")
        lines.append(f"balance: {self.balance / 100:.2f}")
        return "\\n".join(lines)
'''

SENSORS = {"type": "array", "minItems": 60, "items": {
    "type": "object", "properties": {
        "temperature_celsius": {"type": "integer", "minimum": -40, "maximum": 60},
        "relative_humidity_percent": {"type": "integer", "minimum": 0, "maximum": 100},
        "is_battery_low": {"type": "boolean"}},
    "required": ["temperature_celsius", "relative_humidity_percent", "is_battery_low"],
    "additionalProperties": False}}

TEXTS = {
    "prose": {"prompt": "The old lighthouse keeper had not spoken to anyone for", "temperature": 1},
    "code edit": {"prompt": f"File account.py:\n```python\n{CODE}```\n\nThe same file with the "
                            f"class renamed to Wallet:\n```python\nclass Wallet:\n",
                  "temperature": 0},
    "JSON by schema": {"prompt": "Readings of the sensors as JSON:\n", "temperature": 1,
                       "response_format": {"type": "json_schema", "json_schema": {
                           "name": "sensors", "schema": SENSORS}}},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--stages", default="1,3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--paced", help="microseconds of a step, and of a further row")
    parser.add_argument("--draft", help="a draft model's file; its own time is real, with --paced too")
    return parser.parse_args()


def ask(swarm_module, s, text, tokens, seed, speculation):
    """Tokens, tokens a second after the first one, and the timings."""
    body = {"model": s.model, "max_tokens": tokens + 1, "ignore_eos": True, "seed": seed,
            "return_token_ids": True, "hearth": {"speculation": speculation}, **TEXTS[text]}
    ids, times, timings = [], [], {}
    for when, event in swarm_module.stream(s.api + "/v1/completions", body):
        if event == "[DONE]":
            continue
        timings = event.get("timings") or timings
        for choice in event["choices"]:
            new = choice.get("token_ids") or []
            ids += new
            times += [when] * len(new)
    return ids, (len(ids) - 1) / (times[-1] - times[0]), timings


def main():
    options = arguments()
    os.environ["HEARTH_DEMO_MODEL"] = options.model
    import llamacpp
    import swarm
    swarm.MODEL = options.model
    flags = []
    if options.paced:
        step, row = options.paced.split(",")
        os.environ.update(HEARTH_PACED_STEP_US=step, HEARTH_PACED_ROW_US=row)
        flags = ["--device", "cuda"]
        print(f"declared times: {step} us a step of one row, {row} us each further row")
    if options.draft:
        flags += ["--draft", options.draft]
        print(f"draft model: {os.path.basename(options.draft)}")
    print(f"{llamacpp.cpu_name()}, {os.cpu_count()} CPUs, {os.path.basename(options.model)}, "
          f"{options.tokens} tokens, medians of {options.rounds} interleaved rounds")
    print(f"{'text':16}{'stages':>7}{'plain':>11}{'drafted':>11}{'ratio':>8}   (least to most)   "
          f"accepted of drafted")
    for stages in map(int, options.stages.split(",")):
        with swarm.Swarm(stages, *flags) as s:
            for text in TEXTS:
                rates = {False: [], True: []}
                drafted = accepted = 0
                for turn in range(-1, options.rounds):
                    answers = {}
                    for speculation in (turn % 2 == 0, turn % 2 != 0):
                        ids, rate, timings = ask(swarm, s, text, options.tokens, 7 + turn,
                                                 speculation)
                        answers[speculation] = ids
                        if turn < 0:  # the first answer warms up
                            continue
                        rates[speculation].append(rate)
                        if speculation:
                            drafted += timings.get("draft_n", 0)
                            accepted += timings.get("draft_n_accepted", 0)
                        elif timings.get("draft_n"):
                            sys.exit("a plain answer was drafted")
                    if answers[True] != answers[False]:
                        sys.exit(f"{text}, {stages} stages: speculation changed the answer")
                ratios = sorted(a / b for a, b in zip(rates[True], rates[False]))
                print(f"{text:16}{stages:7}{statistics.median(rates[False]):9.1f}/s"
                      f"{statistics.median(rates[True]):9.1f}/s{statistics.median(ratios):8.2f}"
                      f"   ({ratios[0]:.2f} to {ratios[-1]:.2f})   {accepted} of {drafted}",
                      flush=True)


if __name__ == "__main__":
    main()
