"""What tests/gpu/check and tests/gpu/against-llamacpp share: the card, the build, the processes."""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def why_no_card():
    """None where a card answers, else what is missing, as a clause."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1)"
    if (error := driver.cuInit(0)) != 0:
        return f"the NVIDIA driver does not start (CUDA error {error})"
    count = ctypes.c_int(0)
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the NVIDIA driver knows no card"
    return None


def need_card():
    if reason := why_no_card():
        print(f"No card answers here, so nothing was checked: {reason}.")
        sys.exit(SKIPPED)


def card():
    """Name, driver, compute capability and clocks of the first visible card."""
    fields = ("name", "driver_version", "compute_cap", "clocks.sm", "clocks.max.sm", "clocks.mem",
              "power.limit", "temperature.gpu")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    said = run("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader",
               *(["-i", visible] if visible else []))
    return dict(zip(fields, (cell.strip() for cell in said.splitlines()[0].split(","))))


def run(*command, **options):
    """The standard output; ends the program where the command fails."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        said = (done.stdout[-2000:] + done.stderr[-2000:]).strip()
        sys.exit(f"{' '.join(map(str, command))} failed ({done.returncode}):\n{said}")
    return done.stdout


def tool(name):
    """A program of the CUDA toolkit, on the path or beside nvcc; None where it is not there."""
    places = [os.environ.get("PATH", "")]
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if home:
            places.append(f"{home}/bin")
    return shutil.which(name, path=":".join(places))


def build(targets, packages=None, folder=None):
    """Builds preset `engine` for this card alone; gives its folder. `packages`: what --pack made."""
    folder = pathlib.Path(folder or ROOT / "build-engine")
    nvcc = tool("nvcc") or sys.exit("there is no CUDA compiler (nvcc) here")
    architecture = card()["compute_cap"].replace(".", "")
    environment = dict(os.environ, CUDACXX=nvcc)
    settings = ["-DHEARTH_CUDA=ON", f"-DHEARTH_CUDA_ARCHITECTURES={architecture}-real"]
    if packages:
        packages = pathlib.Path(packages).resolve()
        settings.append(f"-DCMAKE_PREFIX_PATH={packages}")
        environment["PKG_CONFIG_PATH"] = str(packages / "pkgconfig")
        if not shutil.which("pkg-config"):
            settings.append(f"-DPKG_CONFIG_EXECUTABLE={packages / 'pkg-config'}")
            environment["LD_LIBRARY_PATH"] = str(packages)
    generator = [] if shutil.which("ninja") else ["-G", "Unix Makefiles"]
    run("cmake", "-S", ROOT, "--preset", "engine", "-B", folder, *generator, *settings,
        env=environment)
    run("cmake", "--build", folder, "-j", os.cpu_count() or 1, "--target", *targets,
        env=environment)
    return folder


def card_flags(engine):
    """The flags that put `bench model` on the card; None where this engine has none yet."""
    return ["--device", "cuda"] if "--device" in run(engine, "bench", "model", "--help") else None


def model_rate(engine, model, flags, prompt, generate, batch):
    """Tokens a second of one measurement."""
    rows = json.loads(run(engine, "bench", "model", model, "-p", prompt, "-n", generate, "-b",
                          batch, "-r", 1, "--json", *flags))
    return rows[0]["avg_ts"]


def commit():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.strip() or "unknown"
