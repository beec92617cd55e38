#!/usr/bin/env python3
"""What ptxas says of every kernel of kernels/cuda: registers, spills and static shared memory.

    tests/bench/cuda_ptxas.py [--architectures 89 90] [--files rows.cu ...] [--nvcc nvcc]

Compiles each file once, for all the architectures, with the flags of cmake/HearthCuda.cmake and
prints one row a kernel. Needs a CUDA compiler and no card.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile

FLAGS = ["-std=c++20", "-O3", "--expt-relaxed-constexpr", "-fmad=false", "-ftz=false",
         "-prec-div=true", "-prec-sqrt=true", "-Werror=all-warnings",
         "-Xcompiler=-Wall,-Wextra,-Werror", "-Xptxas=-v"]


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


def figures(output, types):
    """(kernel, architecture, registers, spilled bytes, static shared bytes) of each kernel."""
    kernel, architecture, spilled = None, None, 0
    for line in output.splitlines():
        if match := re.search(r"Compiling entry function '(\S+)' for 'sm_(\w+)'", line):
            kernel, architecture = readable(match.group(1), types), match.group(2)
        elif match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(match.group(1)) + int(match.group(2))
        elif match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            yield (kernel, architecture, int(match.group(1)), spilled,
                   int(shared.group(1)) if shared else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--architectures", nargs="+", default=["89", "90"])
    parser.add_argument("--files", nargs="+", help="of kernels/cuda (all)")
    parser.add_argument("--nvcc", default="nvcc")
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    types = weight_types(root)
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted((root / "kernels/cuda").glob("*.cu")):
            if options.files and source.name not in options.files:
                continue
            codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in options.architectures]
            done = subprocess.run([options.nvcc, *FLAGS, *codes, f"-I{root}", "-c", str(source),
                                   "-o", f"{folder}/out.o"], capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{source.name}: {done.stderr}")
            for kernel, architecture, *values in figures(done.stderr + done.stdout, types):
                rows.setdefault((source.name, kernel), {})[architecture] = values
    heads = " | ".join(f"{a}: registers | spilled | shared" for a in options.architectures)
    print(f"| file | kernel | {heads} |")
    print("|---|---|" + "---|---|---|" * len(options.architectures))
    for (name, kernel), found in sorted(rows.items()):
        cells = " | ".join(" | ".join(str(v) for v in found[a]) for a in options.architectures)
        print(f"| {name} | {kernel} | {cells} |")


if __name__ == "__main__":
    main()
