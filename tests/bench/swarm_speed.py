#!/usr/bin/env python3
"""Speed of the swarm, as ratios measured in one run, rounds interleaved, medians.

    tests/bench/swarm_speed.py --model FILE [--llama-bench PATH] [--rounds 5]

Prints: decode of one process against llama.cpp on the same file with the same threads; one stream
through three loopback workers against one process; sixteen streams against one, and with a schema
against without. `--only schema` measures the last alone. Asserts nothing.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
sys.path.insert(0, str(root / "tests/bench"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--llama-bench", help="llama.cpp's llama-bench, for the ratio to it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--only", choices=["schema"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser.parse_args()


def bench_rate(command):
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return rows[-1]["avg_ts"]


def stream_rate(swarm_module, api, model, tokens, seed, **more):
    """Tokens a second after the first one, and the times of first and last token."""
    body = {"model": model, "prompt": "Once", "max_tokens": tokens + 1, "ignore_eos": True,
            "seed": seed, "temperature": 0, "return_token_ids": True, **more}
    times = []
    for when, event in swarm_module.stream(api + "/v1/completions", body):
        if event != "[DONE]" and event["choices"] and event["choices"][0].get("token_ids"):
            times += [when] * len(event["choices"][0]["token_ids"])
    return (len(times) - 1) / (times[-1] - times[0]), times[0], times[-1], len(times)


def run_rate(swarm_module, model, tokens, *flags):
    """What `hearth run --verbose` prints: the same client, with and without a swarm behind it."""
    code, _, err = swarm_module.hearth("run", model, "Once", "--raw", "-n", tokens + 1, "--temp",
                                       "0", "--ignore-eos", "--verbose", *flags)
    assert code == 0, err
    return float(next(line.split()[2] for line in err.splitlines() if line.startswith("eval rate")))


def many_streams(swarm_module, api, model, tokens, streams, **more):
    """All tokens over the time from the first token of all to the last."""
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        jobs = [pool.submit(stream_rate, swarm_module, api, model, tokens, i, **more)
                for i in range(streams)]
        done = [job.result() for job in jobs]
    first, last = min(d[1] for d in done), max(d[2] for d in done)
    return sum(d[3] for d in done) / (last - first)


# More people than any answer here has room for.
PEOPLE = {"type": "array", "minItems": 1_000, "items": {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 40}, "age": {"type": "integer", "minimum": 0,
                                                         "maximum": 150},
    "email": {"type": "string", "format": "email"},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 8}},
    "required": ["name", "age", "tags"], "additionalProperties": False}}


def schema_rates(swarm_module, s, model, tokens, add):
    """Sixteen answers that differ, without a schema and with one. A short answer before has read the
    vocabulary; most masks are made in the run."""
    drawn = {"temperature": 1}
    schema = {"type": "json_schema", "json_schema": {"name": "people", "schema": PEOPLE}}
    stream_rate(swarm_module, s.api, model, 16, 0, response_format=schema)
    add("three workers, 16 streams, drawn",
        many_streams(swarm_module, s.api, model, tokens, 16, **drawn))
    add("three workers, 16 streams, schema",
        many_streams(swarm_module, s.api, model, tokens, 16, response_format=schema, **drawn))


def main():
    options = arguments()
    os.environ["HEARTH_DEMO_MODEL"] = options.model
    import llamacpp
    import swarm
    swarm.MODEL = options.model
    figures = {}
    add = lambda name, value: figures.setdefault(name, []).append(value)
    for _ in range(options.rounds):
        if options.only:
            with swarm.Swarm(3) as s:
                stream_rate(swarm, s.api, s.model, 16, 0)
                schema_rates(swarm, s, s.model, options.tokens, add)
            continue
        if options.llama_bench:
            add("llama.cpp, decode", bench_rate(
                [options.llama_bench, "-m", options.model, "-p", "0", "-n", str(options.tokens),
                 "-t", str(options.threads), "-r", "1", "-o", "json"]))
            add("llama.cpp, prefill 512", bench_rate(
                [options.llama_bench, "-m", options.model, "-p", "512", "-n", "0",
                 "-t", str(options.threads), "-r", "1", "-o", "json"]))
        add("one process, decode", bench_rate(
            [swarm.HEARTH, "bench", "model", options.model, "-p", "0", "-n", str(options.tokens),
             "-t", str(options.threads), "-r", "1", "--json"]))
        add("one process, prefill 512", bench_rate(
            [swarm.HEARTH, "bench", "model", options.model, "-p", "512", "-n", "0",
             "-t", str(options.threads), "-r", "1", "--json"]))
        with swarm.Swarm(3) as s:
            model = s.model
            stream_rate(swarm, s.api, model, 16, 0)
            add("one process, hearth run", run_rate(swarm, options.model, options.tokens, "--local"))
            add("three workers, hearth run",
                run_rate(swarm, model, options.tokens, "--host", s.api))
            add("three workers, one stream", stream_rate(swarm, s.api, model, options.tokens, 1)[0])
            add("three workers, 16 streams", many_streams(swarm, s.api, model, options.tokens, 16))
            schema_rates(swarm, s, model, options.tokens, add)

    print(f"{llamacpp.cpu_name()}, {options.threads} threads, {os.path.basename(options.model)}, "
          f"{options.tokens} tokens, medians of {options.rounds} interleaved rounds")
    medians = {name: statistics.median(values) for name, values in figures.items()}
    for name, value in medians.items():
        print(f"{name:33} {value:9.1f} tokens/s   ({min(figures[name]):.1f} to "
              f"{max(figures[name]):.1f})")
    ratio = lambda a, b: print(f"{a} / {b}: {medians[a] / medians[b]:.2f}")
    if options.llama_bench:
        ratio("one process, decode", "llama.cpp, decode")
        ratio("one process, prefill 512", "llama.cpp, prefill 512")
    ratio("three workers, 16 streams, schema", "three workers, 16 streams, drawn")
    if options.only:
        return
    ratio("three workers, hearth run", "one process, hearth run")
    ratio("three workers, one stream", "one process, decode")
    ratio("three workers, 16 streams", "three workers, one stream")


if __name__ == "__main__":
    main()
