"""llama.cpp of a pinned version, built once into the cache: what Hearth is compared with.

Its source is the `vendor/llama.cpp` folder of the source distribution of llama-cpp-python, which
deploy/steps.sh fetches. Two builds: `native`, as its own users have it, and `avx2`, which knows
nothing beyond AVX2, FMA and F16C.
"""

import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ("llama-bench", "llama-batched-bench", "llama-perplexity", "llama-quantize")
FLAGS = {
    "native": ["-DGGML_NATIVE=ON"],
    "avx2": ["-DGGML_NATIVE=OFF", "-DGGML_AVX=ON", "-DGGML_AVX2=ON", "-DGGML_FMA=ON",
             "-DGGML_F16C=ON", "-DGGML_BMI2=ON"],
}


def step(name):
    """Runs a function of deploy/steps.sh; gives what it prints."""
    done = subprocess.run(["bash", "-c", f'source "{ROOT}/deploy/steps.sh"; {name}'],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"deploy/steps.sh: {name} failed")
    return done.stdout.strip()


def build(variant="native"):
    """The folder of llama.cpp's programs, built first where they are not there yet."""
    source = pathlib.Path(step("llamacpp_source"))
    folder = source.parents[1] / f"build-{variant}"
    programs = folder / "bin"
    if all((programs / target).exists() for target in TARGETS):
        return programs
    print(f"==> building llama.cpp ({variant}) in {folder}; about 12 minutes on 2 cores",
          file=sys.stderr)
    jobs = str(os.cpu_count())
    configure = ["cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                 "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_SERVER=OFF",
                 "-DLLAMA_BUILD_EXAMPLES=OFF", "-DBUILD_SHARED_LIBS=OFF", *FLAGS[variant]]
    for command in (configure, ["cmake", "--build", folder, "-j", jobs, "--target", *TARGETS]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"llama.cpp did not build:\n{done.stdout[-3000:]}")
    return programs


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def cpu_features():
    """The instruction sets that matter here, as the processor names them."""
    flags = set()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.split(":", 1)[1].split())
            break
    return [name for name in ("avx2", "avx_vnni", "avx512f", "avx512_vnni") if name in flags]


def commit():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                          stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() or "unknown"
