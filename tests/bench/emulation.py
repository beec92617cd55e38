#!/usr/bin/env python3
"""Whether emulated GPUs with the measured figures of one thread of this CPU have the speed of a real
pipeline of such threads.

    tests/bench/emulation.py [--layers 12] [--stages 2] [--streams 1,2,4] [--rounds 5] [--tokens 64]

A model with random weights (shape 8b, Q4_0) and a file with the same shape and no weights. One
process of one thread gives the figures: decode of one sequence the rate of its memory, a prompt the
rate of its multiplications. Each round runs a pipeline of workers of one thread each, real and
emulated with these figures, one right after the other. Prints medians and ratios; asserts nothing.
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


def figures_of(hearth, real, tokens):
    """A card that is one thread of this CPU. A token reads all weights, and multiplies each once."""
    def rate(*words):
        out = subprocess.run([hearth, "bench", "model", real, "-t", "1", "-r", "3", "--json", *words],
                             capture_output=True, text=True, check=True).stdout
        return json.loads(out)[-1]
    decode = rate("-p", "0", "-n", str(tokens))
    prefill = rate("-p", str(PROMPT), "-n", "0")
    read = decode["model_size"] * decode["avg_ts"]
    multiplied = 2.0 * prefill["model_n_params"] * prefill["avg_ts"]
    return {"memory_gb": 64, "memory_gb_per_second": read / 1e9, "fp16_tflops": multiplied / 1e12,
            "int8_tops": multiplied / 1e12, "fp32_tflops": multiplied / 1e12}


def main():
    options = arguments()
    import llamacpp
    import swarm
    from swarm_speed import many_streams
    streams = [int(word) for word in options.streams.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        real, shape, card = (f"{folder}/{name}" for name in ("real.gguf", "shape.gguf", "card.json"))
        make = ("--shape", "8b", "--layers", str(options.layers), "--vocabulary", "2000",
                "--type", "Q4_0")
        swarm.make_model(real, *make)
        swarm.make_model(shape, *make, "--shape-only")
        rates = {}
        for _ in range(options.rounds):
            figures = figures_of(swarm.HEARTH, real, options.tokens)
            pathlib.Path(card).write_text(json.dumps(figures))
            for name, model, flags in (("real", real, ("--no-speculation",)),
                                       ("emulated", shape, ("--emulate", card))):
                with swarm.Swarm(options.stages, "--threads", "1", *flags,
                                 model=model) as s:
                    many_streams(swarm, s.api, s.model, 8, 1)
                    for count in streams:
                        rates.setdefault((name, count), []).append(
                            many_streams(swarm, s.api, s.model, options.tokens, count))
            print(json.dumps(figures), flush=True)
    print(f"{llamacpp.cpu_name()}, {options.layers} layers in {options.stages} stages of one thread, "
          f"{options.tokens} tokens, medians of {options.rounds} rounds, tokens/s")
    print(f"{'streams':>8}{'real':>10}{'EMULATED':>10}{'ratio':>8}")
    for count in streams:
        real, emulated = (statistics.median(rates[name, count]) for name in ("real", "emulated"))
        print(f"{count:8}{real:10.1f}{emulated:10.1f}{emulated / real:8.2f}")


if __name__ == "__main__":
    main()
