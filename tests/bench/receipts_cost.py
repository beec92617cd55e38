#!/usr/bin/env python3
"""What receipts cost a swarm: two swarms of local workers, one with them and one without, do the
same work in turns; medians over the rounds of what the one took beside the other in that round.

    tests/bench/receipts_cost.py --model FILE [--rounds 9] [--workers 2]

Prints tokens a second of one stream, of eight, and of a prompt; the processor time of all processes
for all of that; bytes logged a request; and milliseconds that `hearth verify` takes to check an
answer that it has found, and to do all from its start to its end. Asserts nothing. On a loaded
machine only the last lines say something: what each thread of each process used, in the order of
their beginning. What makes receipts is a thread of its own in every process, which uses nothing
without them.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
sys.path.insert(0, str(root / "tests/bench"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))

PROMPT = 1000  # tokens


def thread_seconds(pid):
    """Of every thread that lives, the oldest first."""
    tasks = sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda path: int(path.name))
    return {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks}


def processor_seconds(pids):
    return sum(sum(thread_seconds(pid).values()) for pid in pids)


def pids_of(running):
    return {"serve": running.process.pid, **running.worker_pids()}


def log_bytes(folder):
    """Of the entries, each behind its length: what a log of many requests grows by, but for 32
    bytes of tree an entry."""
    bundles = folder / "ledger/tile/entries"
    whole = [path for path in bundles.iterdir() if path.is_file()]
    partial = [max(path.iterdir(), key=lambda p: int(p.name))
               for path in bundles.iterdir() if path.is_dir() and any(path.iterdir())]
    return sum(path.stat().st_size for path in whole + partial)


def seconds(work):
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def one_round(swarm, speed, running, tokens, number):
    """Ten requests, the same of each swarm in one round."""
    model = running.model
    pids = pids_of(running).values()
    begun = processor_seconds(pids)
    figures = {
        "one stream, tokens/s": speed.stream_rate(swarm, running.api, model, tokens, number)[0],
        "8 streams, tokens/s": speed.many_streams(swarm, running.api, model, tokens, 8)}
    prompt = {"model": model, "max_tokens": 1, "temperature": 0,
              "prompt": [100 + (i + number) % 1000 for i in range(PROMPT)]}
    figures[f"prompt of {PROMPT}, tokens/s"] = PROMPT / seconds(
        lambda: running.post("/v1/completions", prompt))
    time.sleep(1)  # what is behind the answers
    figures["processor seconds"] = processor_seconds(pids) - begun
    return figures


def threads_of(running):
    return {name: thread_seconds(pid) for name, pid in pids_of(running).items()}


def spent(begun, now):
    lines = []
    for process, threads in now.items():
        each = [1e3 * (seconds - begun[process].get(thread, 0.0))
                for thread, seconds in threads.items()]
        lines.append(f"{process}: " + " ".join(f"{one:.1f}" for one in each))
    return lines


def receipt_of(running):
    body = {"model": running.model, "prompt": "Once", "max_tokens": 16}
    return running.post("/v1/completions", body)[1]["hearth"]["receipt"]


def verify_milliseconds(swarm, folder, receipt):
    """(the check alone, the whole process)."""
    def found():
        code, out, _ = swarm.hearth("verify", receipt, folder, "--json")
        return json.loads(out) if code == 0 else None
    swarm.wait_until(found, "the receipts")
    alone, whole = [], []
    for _ in range(9):
        whole.append(1e3 * seconds(lambda: alone.append(found()["milliseconds"])))
    return statistics.median(alone), statistics.median(whole)


def compare(swarm, speed, options):
    with (tempfile.TemporaryDirectory() as name,
          swarm.Swarm(options.workers, "--referee-rate", "0.005", data_dir=name) as with_them,
          swarm.Swarm(options.workers, "--no-receipts") as without):
        swarms = {"with": with_them, "without": without}
        for running in swarms.values():
            one_round(swarm, speed, running, 8, 0)
        rounds = {"with": [], "without": []}
        begun = {which: threads_of(running) for which, running in swarms.items()}
        for number in range(1, options.rounds + 1):
            order = sorted(swarms, reverse=number % 2 == 0)
            for which in order:
                rounds[which].append(
                    one_round(swarm, speed, swarms[which], options.tokens, number))
        threads = {which: spent(begun[which], threads_of(running))
                   for which, running in swarms.items()}
        folder = pathlib.Path(name)
        alone, whole = verify_milliseconds(swarm, folder, receipt_of(with_them))
        requests = 10 * (options.rounds + 1) + 1
        with_them.stop()  # everything is logged
        return rounds, threads, {"bytes a request": log_bytes(folder) / requests,
                                 "verify: the check, ms": alone,
                                 "verify: the process, ms": whole}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    os.environ["HEARTH_DEMO_MODEL"] = options.model
    import swarm
    import swarm_speed
    swarm.MODEL = options.model
    load = os.getloadavg()[0]
    rounds, threads, log = compare(swarm, swarm_speed, options)
    print(f"{swarm_speed.cpu_name()}, {os.cpu_count()} threads, load {load:.1f} at the start and "
          f"{os.getloadavg()[0]:.1f} at the end; {os.path.basename(options.model)}, "
          f"{options.workers} workers, {options.tokens} tokens, {options.rounds} rounds")
    for figure in rounds["with"][0]:
        pairs = [(a[figure], b[figure]) for a, b in zip(rounds["with"], rounds["without"])]
        ratios = sorted(a / b for a, b in pairs)
        print(f"{figure:26} with {statistics.median(a for a, _ in pairs):8.2f}   without "
              f"{statistics.median(b for _, b in pairs):8.2f}   "
              f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    for name, value in log.items():
        print(f"{name:26} {value:10.2f}")
    for which, lines in threads.items():
        for line in lines:
            print(f"milliseconds of threads, {which}, {line}")


if __name__ == "__main__":
    main()
