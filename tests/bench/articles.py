#!/usr/bin/env python3
"""EMULATED runs of the articles' 70B model: GPUs of the catalogue on machines of their own, as stages and
as groups, beside what `hearth plan` predicts from the figures that the server measured.

    tests/bench/articles.py [--gpu rtx4090] [--count 8] [--shape llama3-70b] [--quant f16]
                            [--rates 1000,10000] [--layouts pipeline,auto,2] [--tokens 48] [--kill]

A network namespace for the server and for each machine, joined by one wire; what leaves a machine does
so at the rate, in Mbit/s (tbf). The frames are real and of the real size, and nothing is computed: a step
sleeps for the time of the roofline. All machines share this one's processors, which encrypt and send.

  pipeline   --stages COUNT: each machine is a stage
  auto       --tensor-parallel auto --optimise latency: the search decides
  N          --tensor-parallel N: groups of N; `hearth plan` predicts no fixed groups

For one stream: tokens/s without the first token; bytes that left all machines for each token; and the
prediction. With --kill, a machine is killed in the middle of a stream, with one more machine as a spare:
the stall, and whether the tokens are those of the undisturbed stream. Needs root; asserts nothing.
"""

import argparse
import json
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
import machines  # noqa: E402
import shaping  # noqa: E402
import swarm  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="rtx4090", help="a name of the catalogue or a .json file")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--shape", default="llama3-70b")
    parser.add_argument("--quant", default="f16")
    parser.add_argument("--rates", default="1000,10000", help="Mbit/s")
    parser.add_argument("--layouts", default="pipeline,auto,2")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--client", nargs=3, metavar=("API", "MODEL", "TOKENS"), help=argparse.SUPPRESS)
    return parser.parse_args()


def client(api, model, tokens):
    """One stream, in the server's namespace: token ids and when each came, as JSON lines."""
    body = {"model": model, "prompt": "Once", "max_tokens": int(tokens) + 1, "ignore_eos": True,
            "temperature": 0, "return_token_ids": True, "cache_prompt": False}
    for when, event in swarm.stream(api + "/v1/completions", body):
        if event != "[DONE]" and event["choices"] and event["choices"][0].get("token_ids"):
            print(json.dumps([when, event["choices"][0]["token_ids"]]), flush=True)


class Cluster:
    def __init__(self, options, layout, megabits, folder):
        self.options, self.layout = options, layout
        self.folder = pathlib.Path(folder)
        os.environ["HEARTH_CACHE_DIR"] = str(self.folder / "cache")
        self.names = [f"m{i + 1}" for i in range(options.count + (1 if options.kill else 0))]
        self.wire = machines.Wire("home", *self.names)
        self.machines = [machines.Machine(self.wire, name, folder) for name in ("home", *self.names)]
        self.home = self.machines[0]
        for name in ("home", *self.names):
            shaping.rate(self.wire, name, megabits)

    def flags(self):
        if self.layout == "pipeline":
            return ("--optimise", "latency", "--stages", str(self.options.count))
        if self.layout == "auto":
            return ("--optimise", "latency", "--tensor-parallel", "auto")
        return ("--optimise", "latency", "--tensor-parallel", self.layout)

    def start(self):
        self.good("init", "bench")
        shape = ("--shape", self.options.shape, "--quant", self.options.quant)
        self.home.start("serve", *shape, *self.flags())
        swarm.wait_until(lambda: self.home.run("status")[0] == 0, "the server")
        token = self.good("token", "create", "--uses", str(len(self.names)))
        for machine in self.machines[1:]:
            code, _, err = machine.run("join", token, "--no-worker", "--name", machine.name, timeout=600)
            if code != 0:
                raise RuntimeError(err)
            machine.start("worker", "--emulate", self.options.gpu, *shape)
        # All are measured, and their links are.
        pairs = len(self.names) * (len(self.names) - 1)
        swarm.wait_until(lambda: len(self.measured().get("links", [])) == pairs, "the links")
        swarm.wait_until(lambda: self.home.run("status", "--wait", "1")[0] == 0, "readiness")

    def good(self, *words):
        code, out, err = self.home.run(*words, timeout=600)
        if code != 0:
            raise RuntimeError(err)
        return out.strip()

    def state(self):
        return json.loads(self.good("status", "--json"))

    def measured(self):
        return self.state().get("measured", {})

    def layout_text(self):
        """Ranks of each stage."""
        nodes = [node for node in self.state()["nodes"] if node["state"] == "serving"]
        stages = {node["stage"]: node.get("ranks", 1) for node in nodes}
        return " + ".join(str(ranks) for _, ranks in sorted(stages.items()))

    def stream(self):
        """A client process; its lines are tokens."""
        info = json.loads((self.home.folder / "serve.json").read_text())
        words = (sys.executable, str(pathlib.Path(__file__).resolve()), "--client", info["api"],
                 self.state()["model"]["id"], str(self.options.tokens))
        return subprocess.Popen(self.wire.words("home", *words), stdout=subprocess.PIPE, text=True)

    def sent(self):
        path = "/sys/class/net/eth0/statistics/tx_bytes"
        return sum(int(subprocess.run(self.wire.words(name, "cat", path), capture_output=True, text=True,
                                      check=True).stdout) for name in self.names)

    def one_stream(self):
        """(tokens/s, bytes on the wire for a token, token ids)."""
        before = self.sent()
        lines = [json.loads(line) for line in self.stream().stdout]
        ids = [token for _, tokens in lines for token in tokens]
        took = lines[-1][0] - lines[0][0]
        return (len(ids) - len(lines[0][1])) / took, (self.sent() - before) / len(ids), ids

    def predicted(self):
        """Tokens/s of one stream, by the figures that the server has measured."""
        nodes = self.folder / "nodes.json"
        nodes.write_text(json.dumps(self.measured()))
        shape = next((self.folder / "cache").rglob("*.gguf"))
        stages = ("--stages", str(self.options.count)) if self.layout == "pipeline" else ()
        plan = json.loads(self.good("plan", shape, "--nodes", nodes, "--optimise", "latency", *stages,
                                    "--json"))
        return plan["pipelines"][0]["tokens_per_second"]

    def kill_one(self, said):
        """(seconds of the longest pause, whether the tokens are those of before)."""
        stream = self.stream()
        ids, times = [], []
        for line in stream.stdout:
            when, tokens = json.loads(line)
            ids += tokens
            times.append(when)
            if len(times) == self.options.tokens // 2:
                last = [node for node in self.state()["nodes"] if node["state"] == "serving"][-1]
                next(m for m in self.machines if m.name == last["name"]).process.kill()
        return max(b - a for a, b in zip(times, times[1:])), ids == said

    def end(self):
        for machine in reversed(self.machines):
            machine.stop(9)
        self.wire.cut()


def run(options, layout, megabits):
    with tempfile.TemporaryDirectory() as folder:
        one = Cluster(options, layout, megabits, folder)
        try:
            one.start()
            one.one_stream()
            rounds = [one.one_stream() for _ in range(options.rounds)]
            rate = statistics.median(each[0] for each in rounds)
            sent = statistics.median(each[1] for each in rounds)
            predicted = one.predicted() if layout in ("pipeline", "auto") else None
            delays = [link["seconds"] for link in one.measured()["links"]]
            cells = [str(megabits), layout, one.layout_text(), f"{statistics.median(delays) * 1e6:.0f}",
                     f"{rate:.2f}", f"{predicted:.2f}" if predicted else "-",
                     f"{predicted / rate:.2f}" if predicted else "-", f"{sent / 1e3:.0f}"]
            if options.kill:
                stall, same = one.kill_one(rounds[0][2])
                cells += [f"{stall:.2f}", "0" if same else "SOME"]
            print("| " + " | ".join(cells) + " |", flush=True)
        finally:
            one.end()


def main():
    options = arguments()
    if options.client:
        return client(*options.client)
    started = time.strftime("%Y-%m-%d %H:%M")
    print(f"EMULATED: {options.count} x {options.gpu}, {options.shape} {options.quant}, one stream of "
          f"{options.tokens} tokens, medians of {options.rounds}; {os.cpu_count()} processors, load "
          f"{os.getloadavg()[0]:.1f} at the start, {started}\n")
    head = ["Mbit/s", "layout", "ranks of each stage", "measured delay, us", "EMULATED tokens/s",
            "predicted", "predicted/EMULATED", "kB on the wire for a token"]
    if options.kill:
        head += ["stall after a kill, s", "tokens changed"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for megabits in map(int, options.rates.split(",")):
        for layout in options.layouts.split(","):
            run(options, layout, megabits)


if __name__ == "__main__":
    main()
