#!/usr/bin/env python3
"""Whether a server and its workers stay as large as they are: memory and file descriptors of every
process of a swarm over many short requests.

    tests/bench/request_soak.py --model FILE [--requests 20000] [--workers 3] [--clients 4]
        [--every 250] [--warm 2000] [--flag WORD ...] [--curve FILE]

Of four requests one is a chat, one a stream, one carries an Idempotency-Key, one asks with a
connection of its own; every answer of a prompt must be the same. Prints the curve as a table, then
for each process the least-squares slope of its memory after the first --warm requests, in bytes a
request, and the least and the most file descriptors. Exits with 1 when a slope is 1,024 bytes or
more, when descriptors grow, or when an answer is not the one that its prompt had before.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.parse

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))

PROMPTS = 16
SLOPE_MAX = 1024  # bytes a request
DESCRIPTORS_MAX = 8  # beside those after the warm time: connections of the clients come and go


def memory_of(pid):
    """Resident bytes: all, and those that no file stands behind."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return [int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) * 1024
            for name in ("VmRSS", "RssAnon")]


def descriptors_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def slope(points):
    """Of the least-squares line through (x, y)."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    square = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / square if square else 0.0


class Load:
    """Clients that ask until so many requests are answered."""

    def __init__(self, api, model, requests, tokens):
        self.url = urllib.parse.urlsplit(api)
        self.model, self.requests, self.tokens = model, requests, tokens
        self.lock = threading.Lock()
        self.begun = self.done = 0
        self.answers = {}
        self.wrong = []

    def client(self):
        connection = None
        while (number := self._next()) is not None:
            if connection is None or number % 4 == 3:
                connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=240)
            try:
                found = self._ask(connection, number)
            except (OSError, http.client.HTTPException) as error:
                found, connection = repr(error), None
            self._take(number, found)

    def _next(self):
        with self.lock:
            if self.begun == self.requests:
                return None
            self.begun += 1
            return self.begun - 1

    def _ask(self, connection, number):
        kind, prompt = number % 4, f"Story {number // 4 % PROMPTS}:"
        body = {"model": self.model, "max_tokens": self.tokens, "seed": 7, "ignore_eos": True}
        body |= ({"messages": [{"role": "user", "content": prompt}]} if kind == 0 else
                 {"prompt": prompt, "stream": kind == 1})
        headers = {"Content-Type": "application/json"}
        if kind == 2:
            headers["Idempotency-Key"] = f"soak-{number}"
        path = "/v1/chat/completions" if kind == 0 else "/v1/completions"
        connection.request("POST", path, json.dumps(body), headers)
        reply = connection.getresponse()
        text = reply.read().decode()
        if reply.status != 200:
            return f"{reply.status}: {text}"
        if kind == 0:
            return "chat " + json.loads(text)["choices"][0]["message"]["content"]
        if kind == 2:
            return "text " + json.loads(text)["choices"][0]["text"]
        events = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        if kind == 3:
            return "text " + json.loads(text)["choices"][0]["text"]
        return "text " + "".join(choice["text"] for event in events
                                 for choice in json.loads(event).get("choices", ()))

    def _take(self, number, found):
        with self.lock:
            self.done += 1
            known = self.answers.setdefault((number % 4 == 0, number // 4 % PROMPTS), found)
            if found != known or not found.startswith(("chat ", "text ")):
                self.wrong.append(f"request {number}: {found[:200]!r}, before {known[:200]!r}")


def measure(running, load, every, clients, report):
    """Rows of (requests, {process: (rss, anonymous, descriptors)})."""
    pids = {"serve": running.process.pid, **running.worker_pids()}
    threads = [threading.Thread(target=load.client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    rows, target = [], 0
    while any(thread.is_alive() for thread in threads):
        if load.done >= target:
            rows.append((load.done, {name: (*memory_of(pid), descriptors_of(pid))
                                     for name, pid in pids.items()}))
            report(rows[-1])
            target = load.done + every
        time.sleep(0.02)
    return rows


def judge(rows, warm):
    """Prints what each process does after the warm time. True when all are flat."""
    late = [row for row in rows if row[0] >= warm]
    flat = len(late) > 1
    for name in rows[0][1]:
        rate, bare = (slope([(count, of[name][i]) for count, of in late]) for i in (0, 1))
        descriptors = [of[name][2] for _, of in late]
        print(f"{name}: resident {rate:+.0f} bytes a request, without files {bare:+.0f}; "
              f"descriptors {min(descriptors)} to {max(descriptors)}")
        flat = flat and rate < SLOPE_MAX and max(descriptors) <= descriptors[0] + DESCRIPTORS_MAX
    return flat


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=4)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--warm", type=int, default=2_000)
    parser.add_argument("--flag", action="append", default=[], help="another word for serve")
    parser.add_argument("--curve", help="also write the rows to this file, as JSON lines")
    options = parser.parse_args()
    import swarm  # its environment is set above

    commit = subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    print(f"commit {commit}; {' '.join(sys.argv)}", flush=True)
    curve = open(options.curve, "w") if options.curve else None

    def report(row):
        print(f"{row[0]:6} " + "  ".join(f"{name} {of[0] / 1e6:.1f} MB {of[2]} fds"
                                         for name, of in row[1].items()), flush=True)
        if curve:
            print(json.dumps(row), file=curve, flush=True)

    # The words of a default server, but for its folder and its ports.
    with swarm.Swarm(options.workers, "--optimise", "auto", "--referee-rate", "0.005",
                     *options.flag, model=options.model) as running:
        swarm.wait_until(lambda: len(running.worker_pids()) == options.workers, "all workers")
        load = Load(running.api, running.model, options.requests, options.tokens)
        begun = time.monotonic()
        rows = measure(running, load, options.every, options.clients, report)
        print(f"{load.done} requests in {time.monotonic() - begun:.0f} s, "
              f"{len(load.wrong)} answers wrong", *load.wrong[:5], sep="\n")
        flat = judge(rows, options.warm)
    sys.exit(0 if flat and not load.wrong else 1)


if __name__ == "__main__":
    main()
