#!/usr/bin/env python3
"""Whether a page that stays open grows: the browser's memory of it while the swarm works.

    tests/bench/open_page.py --model FILE [--minutes 60] [--page swarm] [--every 300]

Opens the page in Chromium, asks the swarm something every few seconds, and reads the JavaScript
heap after garbage collection, DOM nodes and event listeners. Needs what tests/e2e/pages_test.py
needs (HEARTH_BROWSER_PYTHON). Prints a table, then the slopes after the first quarter. Exits with 1
when the heap grows by more than 1 MiB an hour, or nodes or listeners by more than 100 an hour, or
when the browser logs an error.
"""

import argparse
import os
import pathlib
import sys
import time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "tests/e2e"), str(root / "tests/bench")]
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))

BOUNDS = {"heap": 1024 * 1024, "nodes": 100, "listeners": 100}  # growth an hour


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--page", default="swarm")
    parser.add_argument("--every", type=float, default=300, help="seconds between two readings")
    return parser.parse_args()


def reading(driver):
    driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    metrics = {each["name"]: each["value"]
               for each in driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
    return {"heap": metrics["JSHeapUsedSize"], "nodes": metrics["Nodes"],
            "listeners": metrics["JSEventListeners"]}


def ask(swarm, s):
    swarm.http("POST", s.api + "/v1/completions",
               {"model": s.model, "prompt": "A river", "max_tokens": 8})


def main():
    options = arguments()
    os.environ["HEARTH_DEMO_MODEL"] = options.model
    import pages_test
    import request_soak
    import swarm
    swarm.MODEL = options.model
    readings = []
    with swarm.Swarm(3) as s:
        browser = pages_test.Browser()
        try:
            browser.open(s.api)
            browser.view(options.page)
            for domain in ("HeapProfiler", "Performance"):
                browser.driver.execute_cdp_cmd(f"{domain}.enable", {})
            begin = time.monotonic()
            print("| minute | heap, KB | nodes | listeners |\n|---|---|---|---|")
            while True:
                minute = (time.monotonic() - begin) / 60
                readings.append((minute / 60, reading(browser.driver)))
                now = readings[-1][1]
                print(f"| {minute:.0f} | {now['heap'] / 1024:.0f} | {now['nodes']:.0f} | "
                      f"{now['listeners']:.0f} |", flush=True)
                if minute >= options.minutes:
                    break
                until = time.monotonic() + options.every
                while time.monotonic() < until:
                    ask(swarm, s)
                    time.sleep(3)
            faults = browser.faults()
        finally:
            browser.close()
    late = [each for each in readings if each[0] >= options.minutes / 240]
    failed = bool(faults)
    for fault in faults:
        print(f"the browser's log: {fault}")
    for name, bound in BOUNDS.items():
        grown = request_soak.slope([(hour, each[name]) for hour, each in late])
        failed |= grown > bound
        print(f"{name}: {grown:+.0f} an hour, at most {bound}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
