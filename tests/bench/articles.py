#!/usr/bin/env python3
"""EMULATED runs of the articles' 70B model: GPUs of the catalogue on machines of their own, as stages and
as groups, beside what `hearth plan` predicts from the figures that the server measured.

    tests/bench/articles.py [--gpu rtx4090] [--count 8] [--shape llama3-70b] [--quant f16]
                            [--rates 1000,10000] [--delay 0] [--layouts pipeline,auto,2]
                            [--streams 1,480] [--tokens 48] [--dilation 1] [--kill]

A network namespace for the server and for each machine, joined by one wire; what leaves a machine does
so at the rate, in Mbit/s (tbf), and is under way for the delay, in microseconds. The frames are real and
of the real size, and nothing is computed: a step sleeps for the time of the roofline. All machines share
this one's processors, which encrypt and send.

With --dilation K everything that is emulated takes K times as long (GPUs, rates and delay), and the
figures are those of the clock that is K times as slow (time dilation: Gupta et al., NSDI 2006). So the
processors of this machine count as K times as fast, in place of those of all the machines. A stall is a
matter of real clocks: with --kill the dilation is 1.

  pipeline   --stages COUNT --optimise throughput (or another): each machine is a stage
  auto       --tensor-parallel auto --optimise latency: the search decides
  N          --tensor-parallel N: groups of N

For each number of streams, while all of them are answered: tokens/s of all and of each, and the bytes that
left all machines for each token. For one stream also what `hearth plan --nodes` predicts of the figures
that the server measured, and for each number what `hearth plan --gpus` says of the catalogue's. With
--kill, a machine is killed in the middle of a stream, with one more machine as a spare: the stall, and
whether the tokens are those of the undisturbed stream. Needs root; asserts nothing.
"""

import argparse
import asyncio
import bisect
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
sys.path.insert(0, str(root / "tests/bench"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))
import load  # noqa: E402
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
    parser.add_argument("--delay", type=float, default=0.0, help="us, one way, beyond this machine's own")
    parser.add_argument("--layouts", default="pipeline,auto,2")
    parser.add_argument("--streams", default="1", help="answers at the same time")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--optimise", default="throughput", help="of the pipeline")
    parser.add_argument("--dilation", type=float, default=1.0)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--client", nargs=4, metavar=("API", "MODEL", "TOKENS", "STREAMS"),
                        help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kill and options.dilation != 1.0:
        parser.error("--kill measures a stall, which has real seconds: leave out --dilation")
    return options


def client(api, model, tokens, streams):
    """In the server's namespace: what came, as JSON lines. One stream: each event with its time. Several:
    the tokens of all within the time in which all were answered, and that time."""
    body = {"model": model, "prompt": "Once", "max_tokens": int(tokens) + 1, "ignore_eos": True,
            "temperature": 0, "return_token_ids": True, "cache_prompt": False}
    if streams == "1":
        for when, event in swarm.stream(api + "/v1/completions", body):
            if event != "[DONE]" and event["choices"] and event["choices"][0].get("token_ids"):
                print(json.dumps([when, event["choices"][0]["token_ids"]]), flush=True)
        return

    async def all_of_them():
        return await asyncio.gather(*(load.ask(api, body) for _ in range(int(streams))))
    answers = asyncio.run(all_of_them())
    for answer in answers:
        if answer.error or len(answer.times) != int(tokens) + 1:
            raise RuntimeError(f"{answer.status}, {len(answer.times)} tokens: {answer.error}")
    begin = max(answer.times[0] for answer in answers)
    end = min(answer.times[-1] for answer in answers)
    if end <= begin:
        raise RuntimeError("some ended before others began: ask for more --tokens or fewer --streams")
    inside = sum(bisect.bisect_right(answer.times, end) - bisect.bisect_right(answer.times, begin)
                 for answer in answers)
    print(json.dumps([inside, end - begin]))


def figures_of(gpu):
    """Of the catalogue, or of a .json file."""
    if gpu.endswith(".json"):
        return json.loads(pathlib.Path(gpu).read_text())
    for path in (root / "cli/plan/catalogue/files").glob("*.toml"):
        entry = tomllib.loads(path.read_text()).get("card", {}).get(gpu)
        if entry:
            return {key: value for key, (value, _) in entry.items() if key != "title"}
    raise KeyError(f"{gpu} is no GPU of the catalogue")


SPEEDS = ("memory_gb_per_second", "fp16_tflops", "fp16_short_tflops", "int8_tops", "fp32_tflops")


class Cluster:
    def __init__(self, options, layout, megabits, folder):
        self.options, self.layout = options, layout
        self.folder = pathlib.Path(folder)
        os.environ["HEARTH_CACHE_DIR"] = str(self.folder / "cache")
        self.names = [f"m{i + 1}" for i in range(options.count + (1 if options.kill else 0))]
        self.wire = machines.Wire("home", *self.names)
        self.machines = [machines.Machine(self.wire, name, folder) for name in ("home", *self.names)]
        self.home = self.machines[0]
        self.gpu = options.gpu
        if options.dilation != 1.0:
            figures = {key: value / options.dilation if key in SPEEDS else value
                       for key, value in figures_of(options.gpu).items()}
            self.gpu = self.folder / "gpu.json"
            self.gpu.write_text(json.dumps(figures))
        for name in ("home", *self.names):
            shaping.rate(self.wire, name, megabits / options.dilation)
            if options.delay:  # half of it on each of two cables
                self.wire.far(name, options.delay * options.dilation / 2e3)

    def flags(self):
        if self.layout == "pipeline":
            return ("--optimise", self.options.optimise, "--stages", str(self.options.count))
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
            machine.start("worker", "--emulate", self.gpu, *shape)
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

    def stream(self, streams=1):
        """A client process; its lines are tokens, or the rate of several streams."""
        info = json.loads((self.home.folder / "serve.json").read_text())
        words = (sys.executable, str(pathlib.Path(__file__).resolve()), "--client", info["api"],
                 self.state()["model"]["id"], str(self.options.tokens), str(streams))
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
        took = (lines[-1][0] - lines[0][0]) / self.options.dilation
        return (len(ids) - len(lines[0][1])) / took, (self.sent() - before) / len(ids), ids

    def many_streams(self, streams):
        """Likewise of all of them together, without ids."""
        before = self.sent()
        tokens, seconds = json.loads(self.stream(streams).communicate()[0])
        every = streams * (self.options.tokens + 1)
        return tokens / seconds * self.options.dilation, (self.sent() - before) / every

    def predicted(self):
        """Tokens/s of one stream, by the figures that the server has measured."""
        nodes = self.folder / "nodes.json"
        nodes.write_text(json.dumps(self.measured()))
        shape = next((self.folder / "cache").rglob("*.gguf"))
        pipeline = self.layout == "pipeline"
        stages = ("--stages", str(self.options.count)) if pipeline else ()
        objective = self.options.optimise if pipeline else "latency"
        plan = json.loads(self.good("plan", shape, "--nodes", nodes, "--optimise", objective, *stages,
                                    "--json"))
        return plan["pipelines"][0]["tokens_per_second"] * self.options.dilation

    def foreseen(self, megabits, streams):
        """Tokens/s of all streams by the catalogue's figures, with the layout that runs; a pipeline has
        users for a batch more than stages. Nothing for a GPU that the catalogue does not have."""
        if self.options.gpu.endswith(".json"):
            return None
        ranks = 1 if self.layout == "pipeline" else int(self.layout)
        stages = self.options.count // ranks
        whole, _, part = f"{megabits / 1000:g}".partition(".")  # "1g", "2g5"
        link = whole + "g" + part
        batch = -(-streams // (stages + 1))
        plan = json.loads(self.good(
            "plan", self.options.shape, "--gpus", f"{self.options.count}x{self.options.gpu}", "--quant",
            self.options.quant, "--link", link, "--batch", str(min(batch, 512)), "--context",
            str(self.options.tokens), "--json"))
        one = next(entry for entry in plan["layouts"]
                   if (entry["layout"]["stages"], entry["layout"]["ranks"]) == (stages, ranks))
        return one["alone_tokens_per_second"] if streams == 1 else one["all_tokens_per_second"]

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


def cell(value, places=2):
    return "-" if value is None else f"{value:.{places}f}"


def measure(one, layout, megabits, streams):
    """The cells of a row, and the ids of one stream."""
    options = one.options
    rounds = [one.one_stream() if streams == 1 else one.many_streams(streams)
              for _ in range(options.rounds)]
    rate = statistics.median(each[0] for each in rounds)
    sent = statistics.median(each[1] for each in rounds)
    by_nodes = one.predicted() if streams == 1 and layout in ("pipeline", "auto") else None
    by_catalogue = one.foreseen(megabits, streams) if layout != "auto" else None
    delays = [link["seconds"] / options.dilation for link in one.measured()["links"]]
    cells = [str(megabits), layout, one.layout_text(), str(streams),
             f"{statistics.median(delays) * 1e6:.0f}", cell(rate), cell(rate / streams),
             cell(by_nodes), cell(by_nodes and by_nodes / rate), cell(by_catalogue),
             cell(by_catalogue and rate / by_catalogue), cell(sent / 1e3, 0)]
    return cells, rounds[0][2] if streams == 1 else None


def run(options, layout, megabits):
    with tempfile.TemporaryDirectory() as folder:
        one = Cluster(options, layout, megabits, folder)
        try:
            one.start()
            one.one_stream()
            for streams in map(int, options.streams.split(",")):
                cells, said = measure(one, layout, megabits, streams)
                if options.kill:
                    stall, same = one.kill_one(said) if said else (None, True)
                    cells += [cell(stall), "0" if same else "SOME"]
                print("| " + " | ".join(cells) + " |", flush=True)
        finally:
            one.end()


def main():
    options = arguments()
    if options.client:
        return client(*options.client)
    started = time.strftime("%Y-%m-%d %H:%M")
    print(f"EMULATED: {options.count} x {options.gpu}, {options.shape} {options.quant}, {options.tokens} "
          f"tokens of each stream, medians of {options.rounds}, {options.dilation:g} times as slow; "
          f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start, {started}\n")
    head = ["Mbit/s", "layout", "ranks of each stage", "streams", "measured delay, us",
            "EMULATED tokens/s", "of each stream", "predicted by measurements", "predicted/EMULATED",
            "predicted by the catalogue", "EMULATED/predicted", "kB on the wire for a token"]
    if options.kill:
        head += ["stall after a kill, s", "tokens changed"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for megabits in map(int, options.rates.split(",")):
        for layout in options.layouts.split(","):
            run(options, layout, megabits)


if __name__ == "__main__":
    main()
