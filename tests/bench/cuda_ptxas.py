#!/usr/bin/env python3
"""What ptxas says of every kernel, out of the log of a build: registers, spills, static shared memory.

    cmake --preset engine -DHEARTH_CUDA=ON -DCMAKE_CUDA_FLAGS=-Xptxas=-v
    ninja -v -j1 -C build-engine hearth_cuda > LOG 2>&1
    tests/bench/cuda_ptxas.py LOG

So the figures are those of the very objects that are linked. One row a kernel, one column of registers
an architecture. Needs a CUDA compiler and no card.
"""

import argparse
import pathlib
import re
import subprocess


def weight_types(root):
    text = (root / "kernels/canonical.h").read_text()
    body = text.split("enum class WeightType", 1)[1].split("{", 1)[1].split("}", 1)[0]
    return [name.strip()[1:] for name in body.split(",") if name.strip()]


def readable(symbol, types):
    name = subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True).stdout
    name = name.replace("(anonymous namespace)::", "")
    match = re.search(r"(\w+)(?:<(.*)>)?\(hearth|(\w+)(?:<(.*)>)?\(", name)
    kernel = match.group(1) or match.group(3)
    arguments = match.group(2) or match.group(4) or ""
    arguments = re.sub(r"\(hearth::kernels::WeightType\)(\d+)", lambda m: types[int(m.group(1))],
                       arguments)
    return f"{kernel}<{arguments}>" if arguments else kernel


def figures(log):
    """(file, symbol, architecture, registers, spilled bytes, static shared bytes) of each kernel."""
    source, symbol, architecture, spilled = "?", None, None, 0
    for line in log.splitlines():
        if match := re.search(r" -c \S*?([\w]+\.cu) -o ", line):
            source = match.group(1)
        elif match := re.search(r"Compiling entry function '(\S+)' for 'sm_(\w+)'", line):
            symbol, architecture = match.group(1), int(match.group(2))
        elif match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(match.group(1)) + int(match.group(2))
        elif match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            yield (source, symbol, architecture, int(match.group(1)), spilled,
                   int(shared.group(1)) if shared else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=pathlib.Path)
    log = parser.parse_args().log.read_text()
    types = weight_types(pathlib.Path(__file__).resolve().parents[2])
    rows = {}
    for source, symbol, architecture, *values in figures(log):
        rows.setdefault((source, symbol), {})[architecture] = values
    if not rows:
        raise SystemExit("no line of ptxas in this log; was it built with -Xptxas=-v, and anew?")
    seen = sorted({a for found in rows.values() for a in found})
    heads = " | ".join(f"{a / 10:.1f}" for a in seen)
    print(f"| file | kernel | {heads} | spilled, the most | shared |")
    print("|---|---|" + "---|" * len(seen) + "---|---|")
    named = {(source, readable(symbol, types)): found for (source, symbol), found in rows.items()}
    for (source, kernel), found in sorted(named.items()):
        registers = " | ".join(str(found[a][0]) if a in found else "" for a in seen)
        spilled = max(values[1] for values in found.values())
        shared = max(values[2] for values in found.values())
        print(f"| {source} | {kernel} | {registers} | {spilled} | {shared} |")


if __name__ == "__main__":
    main()
