#!/usr/bin/env python3
"""Whether emulated GPUs with the measured figures of one thread of this CPU have the speed of a real
pipeline of such threads.

    tests/bench/emulation.py [--layers 12] [--stages 2] [--streams 1,2,4] [--rounds 5] [--tokens 64]

A model with random weights (shape 8b, Q4_0) and a file with the same shape and no weights. Processes
of one thread give the figures: decode of one sequence the rate of the memory, a prompt the rate of
the multiplications. As many of them run at once as stages that compute at the same time, because
threads of one machine share its memory. Each round runs a pipeline of workers of one thread each,
real and emulated with these figures, one right after the other. Prints medians and ratios; asserts
nothing.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
sys.path.insert(0, str(root / "tests/bench"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))

PROMPT = 64


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--streams", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    return parser.parse_args()


def figures_of(hearth, real, tokens, together):
    """A card that is one thread of this CPU. A token reads all weights, and multiplies each once."""
    def rates(*words):
        command = [hearth, "bench", "model", real, "-t", "1", "-r", "3", "--json", *words]
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                for _ in range(together)]
        rows = [json.loads(run.communicate()[0])[-1] for run in runs]
        return rows[0], statistics.mean(row["avg_ts"] for row in rows)
    model, decode = rates("-p", "0", "-n", str(tokens))
    _, prefill = rates("-p", str(PROMPT), "-n", "0")
    tflops = 2.0 * model["model_n_params"] * prefill / 1e12
    return {"memory_gb": 64, "memory_gb_per_second": model["model_size"] * decode / 1e9,
            "fp16_tflops": tflops, "int8_tops": tflops, "fp32_tflops": tflops}


def main():
    options = arguments()
    import llamacpp
    import swarm
    from swarm_speed import many_streams
    streams = [int(word) for word in options.streams.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        real, shape, card = (f"{folder}/{name}" for name in ("real.gguf", "shape.gguf", "card.json"))
        make = ("--family", "qwen2", "--shape", "8b", "--layers", str(options.layers), "--vocabulary", "2000",
                "--type", "Q4_0")
        swarm.make_model(real, *make)
        swarm.make_model(shape, *make, "--shape-only")
        rates = {}
        for _ in range(options.rounds):
            for count in streams:
                figures = figures_of(swarm.HEARTH, real, options.tokens, min(count, options.stages))
                pathlib.Path(card).write_text(json.dumps(figures))
                print(count, json.dumps(figures), flush=True)
                for name, model, flags in (("real", real, ("--no-speculation",)),
                                           ("emulated", shape, ("--emulate", card))):
                    with swarm.Swarm(options.stages, "--threads", "1", *flags, model=model) as s:
                        many_streams(swarm, s.api, s.model, 8, 1)
                        rates.setdefault((name, count), []).append(
                            many_streams(swarm, s.api, s.model, options.tokens, count))
    print(f"{llamacpp.cpu_name()}, {options.layers} layers in {options.stages} stages of one thread, "
          f"{options.tokens} tokens, medians of {options.rounds} rounds, tokens/s")
    print(f"{'streams':>8}{'real':>10}{'EMULATED':>10}{'ratio':>8}")
    for count in streams:
        real, emulated = (statistics.median(rates[name, count]) for name in ("real", "emulated"))
        print(f"{count:8}{real:10.1f}{emulated:10.1f}{emulated / real:8.2f}")


if __name__ == "__main__":
    main()
