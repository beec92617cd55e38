"""What tests/gpu/check and tests/gpu/against-llamacpp share: the card, the build, the processes."""

import contextlib
import ctypes
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
FACTS = ("name", "driver_version", "compute_cap", "clocks.max.sm", "clocks.mem", "power.limit",
         "temperature.gpu")
CMAKE_LEAST = (3, 25)
GENERATE = 64
PROMPT = 512
BATCHES = (1, 8, 64)
# nvidia-smi counts the cards by their place on the bus. CUDA does the same only where this is set.
os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"


class Failed(Exception):
    """Something that ends a section. `said`: the last output of the command, for stderr."""

    def __init__(self, what, said=""):
        super().__init__(what)
        self.said = said


class Ending:
    """The end of a lease, as the handler of a signal: commands that are under way end as well. One that
    is being started has no process yet that could be killed, so the end waits for it."""

    starts = False
    signal = None

    @classmethod
    def handle(cls, number, _frame):
        cls.signal = number
        cls.now()

    @classmethod
    def now(cls):
        if cls.signal and not cls.starts:
            sys.exit(128 + cls.signal)


def finished(*command, seconds=None, env=None):
    """(exit code, standard output, standard error) of a command. The exit code is None where it took
    longer than `seconds`; it is then killed with all processes that it started."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, \
            tempfile.TemporaryFile("w+", errors="replace") as err:
        Ending.starts = True
        try:
            process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=err, env=env, start_new_session=True)
        except OSError as error:
            Ending.starts = False
            raise Failed(f"{command[0]} cannot be started: {error.strerror}") from error
        try:
            Ending.starts = False
            Ending.now()
            code = process.wait(seconds)
        except BaseException as error:  # the time is up, or this script ends
            code = None
            # A process whose card hangs may not die: it is left behind after ten seconds.
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def ending(code, seconds):
    """How a command ended, as a verb."""
    if code is None:
        return f"was not done after {seconds:.0f} s"
    return f"ended by signal {-code}" if code < 0 else f"ended with {code}"


def run(*command, seconds=None, env=None):
    """The standard output of a command that must end with 0."""
    code, out, err = finished(*command, seconds=seconds, env=env)
    if code != 0:
        name = " ".join([pathlib.Path(command[0]).name, *map(str, command[1:3])])
        raise Failed(f"{name} {ending(code, seconds)}", (out[-3000:] + err[-3000:]).strip())
    return out


def driver():
    """The library of NVIDIA's driver; raises OSError on a machine without."""
    return ctypes.CDLL("libcuda.so.1")


def why_no_card():
    """None where a card answers, else what is missing, as a clause."""
    try:
        library = driver()
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1)"
    if (error := library.cuInit(0)) != 0:
        return f"the NVIDIA driver does not start (CUDA error {error})"
    count = ctypes.c_int(0)
    if library.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the NVIDIA driver knows no card"
    return None


def need_card():
    if reason := why_no_card():
        print(f"No card answers here, so nothing was checked: {reason}.")
        sys.exit(SKIPPED)


def facts_of_driver():
    """What the driver's library says of the first visible card, where there is no nvidia-smi."""
    library = driver()
    device, number = ctypes.c_int(0), ctypes.c_int(0)
    name = ctypes.create_string_buffer(256)
    library.cuInit(0)
    library.cuDeviceGet(ctypes.byref(device), 0)
    library.cuDeviceGetName(name, len(name), device)
    capability = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
        library.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
        capability.append(str(number.value))
    library.cuDriverGetVersion(ctypes.byref(number))
    cuda = f"{number.value // 1000}.{number.value % 1000 // 10}"
    return {"name": name.value.decode(errors="replace"), "compute_cap": ".".join(capability),
            "driver_version": f"unknown (for CUDA {cuda})"}


def first_visible():
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    return ["-i", visible] if visible else []


def card():
    """FACTS of the first visible card, "unknown" for those that nothing here says."""
    facts = dict.fromkeys(FACTS, "unknown")
    try:
        said = run("nvidia-smi", f"--query-gpu={','.join(FACTS)}", "--format=csv,noheader",
                   *first_visible(), seconds=60)
        facts.update(zip(FACTS, (cell.strip() for cell in said.splitlines()[0].split(","))))
    except (Failed, IndexError):
        pass
    if not re.fullmatch(r"\d+\.\d", facts["compute_cap"]):
        facts.update(facts_of_driver())
    return facts


@contextlib.contextmanager
def clocks():
    """A function that gives the card's clocks while the block runs, read once a second."""
    with tempfile.TemporaryFile("w+") as readings:
        try:
            process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "-l", "1",
                 *first_visible()], stdin=subprocess.DEVNULL, stdout=readings,
                stderr=subprocess.DEVNULL)
        except OSError:
            process = None

        def said():
            readings.seek(0)
            seen = [int(number) for number in re.findall(r"(?m)^\s*(\d+)\s*$", readings.read())]
            if not seen:
                return "clocks unknown"
            return (f"{statistics.median(seen):.0f} MHz ({min(seen)} to {max(seen)}, "
                    f"{len(seen)} readings)")

        try:
            yield said
        finally:
            if process:
                process.kill()
                process.wait()


def tool(name):
    """A program of the CUDA toolkit, on the path or in $CUDA_HOME; None where it is not there."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    places = [os.environ.get("PATH", ""), f"{home}/bin", f"{home}/compute-sanitizer"]
    return shutil.which(name, path=":".join(places if home else places[:1]))


def check_cmake():
    said = run("cmake", "--version", seconds=60)
    version = re.search(r"version (\d+)\.(\d+)\S*", said)
    if not version or tuple(map(int, version.groups())) < CMAKE_LEAST:
        least = ".".join(map(str, CMAKE_LEAST))
        raise Failed(f"CMake must be {least} or newer, not "
                     f"'{said.splitlines()[0] if said else ''}'; `pip install cmake` gets one")


class Build:
    """Preset `engine` for this card alone, in a folder of its own. `packages`: what --pack made."""

    def __init__(self, facts, packages=None, folder=None):
        self.facts = facts
        self.packages = pathlib.Path(packages).resolve() if packages else None
        self.folder = pathlib.Path(folder or ROOT / "build-engine").resolve()
        self.environment = dict(os.environ)
        self.configured = False

    def configure(self, seconds=None):
        check_cmake()
        nvcc = tool("nvcc")
        if not nvcc:
            raise Failed("there is no CUDA compiler (nvcc) on the path or in $CUDA_HOME/bin")
        self.environment["CUDACXX"] = nvcc
        architecture = self.facts["compute_cap"].replace(".", "")
        # Warnings of a compiler that has not been tried yet must not end the check. The line numbers
        # are for tests/gpu/machine_code and for the sanitizer's reports.
        settings = ["-DHEARTH_CUDA=ON", f"-DHEARTH_CUDA_ARCHITECTURES={architecture}-real",
                    "-DHEARTH_WARNINGS_ARE_ERRORS=OFF", "-DCMAKE_CUDA_FLAGS=-lineinfo"]
        if self.packages:
            settings += self.settings_of_packages()
        generator = [] if shutil.which("ninja") else ["-G", "Unix Makefiles"]
        run("cmake", "-S", ROOT, "--preset", "engine", "-B", self.folder, *generator, *settings,
            env=self.environment, seconds=seconds)
        self.configured = True

    def settings_of_packages(self):
        libraries = f"/usr/lib/{platform.machine()}-linux-gnu"
        if not pathlib.Path(libraries).is_dir():
            raise Failed(f"--with needs Debian or Ubuntu, whose libraries are in {libraries}; "
                         "elsewhere, install the five libraries that --help names")
        self.environment["PKG_CONFIG_PATH"] = str(self.packages / "pkgconfig")
        settings = [f"-DCMAKE_PREFIX_PATH={self.packages}"]
        if not shutil.which("pkg-config"):
            settings.append(f"-DPKG_CONFIG_EXECUTABLE={self.packages / 'pkg-config'}")
            self.environment["LD_LIBRARY_PATH"] = str(self.packages)
        return settings

    def make(self, *targets, seconds=None):
        begun = time.monotonic()
        if not self.configured:
            self.configure(seconds)
        if seconds is not None:
            seconds = max(1.0, seconds - (time.monotonic() - begun))
        run("cmake", "--build", self.folder, "-j", os.cpu_count() or 1, "--target", *targets,
            env=self.environment, seconds=seconds)

    @property
    def device_code(self):
        return self.folder / "kernels/cuda/libhearth_cuda.a"

    @property
    def suite(self):
        return self.folder / "tests/gpu/hearth_gpu_tests"

    @property
    def kernel_bench(self):
        return self.folder / "tests/gpu/hearth_gpu_bench"

    @property
    def engine(self):
        return self.folder / "hearth-engine"

    @property
    def measure(self):
        return self.folder / "tests/tools/hearth-measure"


def card_flags(engine):
    """The flags that put `bench model` on the card; None where this engine has none yet."""
    said = run(engine, "bench", "model", "--help", seconds=60)
    return ["--device", "cuda"] if "--device" in said else None


def model_rates(engine, model, flags, seconds=None):
    """Tokens a second by one process: {what: rate}, of prefill and of decode in BATCHES."""
    rows = json.loads(run(engine, "bench", "model", model, "-p", PROMPT, "-n", GENERATE, "-b",
                          ",".join(map(str, BATCHES)), "-r", 1, "--json", *flags, seconds=seconds))
    return {what_of(row["n_prompt"], row["n_parallel"]): row["avg_ts"] for row in rows}


def what_of(prompt, batch):
    return f"prefill of {prompt}" if prompt else f"decode, batch {batch}"


def commit():
    try:
        return finished("git", "-C", ROOT, "rev-parse", "--short", "HEAD")[1].strip() or "unknown"
    except Failed:
        return "unknown"
