#!/usr/bin/env python3
"""What audits cost a swarm: two pipelines serve the same requests with `--audit off` and with
`--audit spot`, in turns.

    tests/bench/audit_cost.py --model FILE [--rounds 8] [--requests 40] [--tokens 32]
                              [--windows 600] [--days 10]

Once with workers whose standing has brought them to the floor rate (a log in which each has served
so many windows that were audited right, made by tests/bench/standing_log from the folder's own
keys; with --windows 10000 --days 91 they are veterans), and once with a fresh swarm, of whose
workers all first windows are audited.

The pipelines and the audits share this machine's processors, so what an audit takes is taken from
answers: the work of all processes until the last audit is over is what counts, and it is given
beside tokens a second. In a swarm with idle machines audits cost answers less. Intervals are of 95 %
over the rounds (Student's t on the logarithms of the ratios). Asserts nothing.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
sys.path.insert(0, str(root / "tests/bench"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))

WORKERS, STAGES, STREAMS, WINDOW = 4, 2, 8, 4096
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


def start(swarm, folder, mode):
    running = swarm.Swarm(WORKERS, "--stages", str(STAGES), "--audit", mode, "--threads", "1",
                          "--referee-rate", "0.005", data_dir=folder)
    swarm.wait_until(lambda: sum(p["state"] == "serving" for p in running.state()["pipelines"])
                     == WORKERS // STAGES, "all pipelines")
    return running


def quiet(running):
    """Receipts reach the log, and draws their entries, behind the answers."""
    def at_rest():
        audits = running.state()["audits"]
        return audits["waiting"] == 0 and audits["running"] == 0
    for _ in range(4):
        time.sleep(1)
        deadline = time.monotonic() + 300
        while not at_rest() and time.monotonic() < deadline:
            time.sleep(0.1)


def one_round(running, cost, options, number):
    pids = cost.pids_of(running).values()
    begun, used = time.monotonic(), cost.processor_seconds(pids)

    def ask(i):
        body = {"model": running.model, "max_tokens": options.tokens, "temperature": 1,
                "seed": i, "ignore_eos": True,
                "prompt": [100 + (7 * k + 31 * i) % 1000 for k in range(options.prompt)]}
        code, answer = running.post("/v1/completions", body, timeout=500)
        assert code == 200, answer
        return answer["usage"]["completion_tokens"]
    with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
        tokens = sum(pool.map(ask, range(number * options.requests,
                                         (number + 1) * options.requests)))
    answered = time.monotonic() - begun
    quiet(running)
    work = cost.processor_seconds(pids) - used
    return {"tokens a second": tokens / answered, "processor seconds a token": work / tokens}


def interval(ratios):
    logs = [math.log(ratio) for ratio in ratios]
    middle = statistics.mean(logs)
    if len(logs) < 2:
        return math.exp(middle), math.nan, math.nan
    wide = STUDENT.get(len(logs), 2.2) * statistics.stdev(logs) / math.sqrt(len(logs))
    return tuple(math.exp(middle + sign * wide) for sign in (0, -1, 1))


def compare(what, swarm, cost, options, folders, rounds, first=0):
    off, spot = start(swarm, folders["off"], "off"), start(swarm, folders["spot"], "spot")
    try:
        for number in range(first):  # a program's first use is audited whatever the standing
            one_round(off, cost, options, number)
            one_round(spot, cost, options, number)
        before = dict(spot.state()["audits"])
        pairs = []
        for number in range(first, first + rounds):
            pair = {}
            for mode in sorted(("off", "spot"), reverse=number % 2 == 0):
                pair[mode] = one_round({"off": off, "spot": spot}[mode], cost, options, number)
            pairs.append(pair)
            print(f"{what}, round {number}: {json.dumps(pair)}", file=sys.stderr, flush=True)
        audits = {key: value - before[key] for key, value in spot.state()["audits"].items()
                  if key in ("agreed", "disputed", "missed")}
    finally:
        off.stop()
        spot.stop()
    windows = rounds * options.requests * STAGES * -(-(options.prompt + options.tokens - 1) // WINDOW)
    print(f"{what}: {rounds} rounds of {options.requests} requests of {options.prompt} + "
          f"{options.tokens} tokens; of {windows} windows {json.dumps(audits)}")
    for figure in ("tokens a second", "processor seconds a token"):
        middle, low, high = interval([pair["spot"][figure] / pair["off"][figure]
                                      for pair in pairs])
        print(f"  {figure:26} off {statistics.median(p['off'][figure] for p in pairs):9.4f}   spot "
              f"{statistics.median(p['spot'][figure] for p in pairs):9.4f}   ratio {middle:.3f} "
              f"({low:.3f} to {high:.3f})")
    work, low, high = interval([pair["off"]["processor seconds a token"]
                                / pair["spot"]["processor seconds a token"] for pair in pairs])
    print(f"  of the unaudited throughput, by the work: {100 * work:.1f} % "
          f"({100 * low:.1f} to {100 * high:.1f})")


def with_standing(swarm, folder, options):
    """The keys of a first start, and a log that gives them a standing."""
    running = start(swarm, folder, "off")
    running.stop()
    made = subprocess.run([options.standing_log, folder, str(options.windows), str(options.days)],
                          capture_output=True, text=True, check=True)
    code, _, err = swarm.hearth("audit", folder)
    assert code == 0, err
    return made.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--fresh-rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--windows", type=int, default=600)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--standing-log", default=str(root / "build/tests/bench/standing_log"))
    options = parser.parse_args()
    os.environ["HEARTH_DEMO_MODEL"] = options.model
    import receipts_cost
    import swarm
    import swarm_speed
    swarm.MODEL = options.model
    print(f"{swarm_speed.cpu_name()}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}; "
          f"{os.path.basename(options.model)}, {WORKERS} workers in {WORKERS // STAGES} pipelines",
          flush=True)
    with tempfile.TemporaryDirectory() as off, tempfile.TemporaryDirectory() as spot:
        print(with_standing(swarm, spot, options), end="", flush=True)
        compare("at the floor rate", swarm, receipts_cost, options, {"off": off, "spot": spot},
                options.rounds, first=1)
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as off, tempfile.TemporaryDirectory() as spot:
        compare("a fresh swarm", swarm, receipts_cost, options, {"off": off, "spot": spot},
                options.fresh_rounds)


if __name__ == "__main__":
    main()
