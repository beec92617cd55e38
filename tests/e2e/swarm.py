"""A real swarm of real processes on loopback, for the end-to-end tests.

Needs HEARTH_BINARY and HEARTH_DEMO_MODEL; without a model the tests exit 77, CTest's mark for a
test that was not run.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

HEARTH = os.environ.get("HEARTH_BINARY", "build/hearth")
MEASURE = os.environ.get("HEARTH_MEASURE", "build/tests/tools/hearth-measure")
MODEL = os.environ.get("HEARTH_DEMO_MODEL", "")


def main(variable="HEARTH_DEMO_MODEL", layers=None):
    """unittest.main with CTest's exit code for 'not run'. With `layers`, MODEL is those first layers
    of the demo model: a test that compares answers and reads none needs a part of the time."""
    global MODEL
    if not os.path.exists(MODEL):
        print(f"{variable} names no file: the end-to-end tests are not run")
        sys.exit(77)
    if layers:
        MODEL = first_layers(layers)
    # A shell in the background ignores Ctrl-C, and so would what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main(verbosity=2)


def first_layers(layers):
    """Made once, beside the program."""
    path = pathlib.Path(HEARTH).resolve().parent / f"demo-of-{layers}-layers.gguf"
    if not path.exists() or path.stat().st_mtime < os.stat(MODEL).st_mtime:
        import small_model
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = os.path.join(folder, path.name)
            small_model.first_layers(MODEL, made, layers)
            os.replace(made, path)
    return str(path)


# Ends what hangs, and measures nothing: a slow machine is no failure. What a wait is for comes, on
# a machine that has nothing else to do, after a small part of it.
PATIENCE_S = 240


def wait_until(condition, what="the condition"):
    """Looks again and again, with a pause as long as the look (of 20 to 250 ms): a look may start a
    process, and what it waits for needs the processor too."""
    begun = time.monotonic()
    while (look := time.monotonic()) < begun + PATIENCE_S:
        value = condition()
        if value:
            return value
        time.sleep(min(max(0.02, time.monotonic() - look), 0.25))
    raise AssertionError(f"{what} did not hold within {PATIENCE_S} s")


def hearth(*words, timeout=PATIENCE_S, env=None, stdin=None):
    """Runs the program to its end: (exit code, stdout, stderr)."""
    done = subprocess.run([HEARTH, *map(str, words)], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(env or {})}, input=stdin)
    return done.returncode, done.stdout, done.stderr


def make_model(path, *words):
    """Writes a model of random weights; the words are flags of hearth-measure make-model."""
    subprocess.run([MEASURE, "make-model", *map(str, (path, *words))], check=True,
                   stderr=subprocess.DEVNULL)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"


def free_port():
    """A port to come back to: below those that the system gives to outgoing links, for one of them
    may be in use as the near end of a link when a server wants it again."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as held:
            try:
                held.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port of 100 is free")


class Swarm:
    """`hearth serve` with its workers; use as a context. Its own referee judges, and draws windows to
    compute itself (one of 200 else, in place of those whom a test waits for) only where flags say so."""

    def __init__(self, workers=3, *flags, data_dir=None, control_port=None, port=None,
                 ready=True, model=None, plain=False, shape=None):
        self._folder = None if data_dir else tempfile.TemporaryDirectory()
        self.data_dir = pathlib.Path(data_dir or self._folder.name)
        self.log = open(self.data_dir / "serve.log", "ab")
        served = ["--shape", shape] if shape else ["--model", str(model or MODEL)]
        words = [HEARTH, "serve", *served, "--local-workers", str(workers),
                 "--data-dir", str(self.data_dir), "--port", str(port or 0)]
        if control_port is not None:
            words += ["--control-port", str(control_port)]
        # A test that does not say otherwise (or plain) is about one pipeline of all workers.
        if not plain and not {"--stages", "--optimise", "--place"} & set(map(str, flags)):
            words += ["--stages", str(max(1, workers))]
        if not plain and "--referee-rate" not in flags:
            words += ["--referee-rate", "0"]
        (self.data_dir / "serve.json").unlink(missing_ok=True)
        self.process = subprocess.Popen([*words, *map(str, flags)], stdout=self.log,
                                        stderr=self.log)
        self.info = wait_until(self._read_info, "serve.json")
        self.api = self.info["api"]
        if ready:
            self.wait_ready()

    def _read_info(self):
        if self.process.poll() is not None:
            raise AssertionError("serve ended: " + self.read_log())
        try:
            return json.loads((self.data_dir / "serve.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def read_log(self):
        return (self.data_dir / "serve.log").read_text(errors="replace")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        if self._folder:
            self._folder.cleanup()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def get(self, path, timeout=PATIENCE_S):
        """(status, JSON or text)."""
        return http("GET", self.api + path, None, timeout)

    def post(self, path, body, timeout=PATIENCE_S):
        return http("POST", self.api + path, body, timeout)

    def state(self):
        """A busy machine may answer that the coordinator is not there in time: it is asked again."""
        def found():
            status, state = self.get("/api/v1/state")
            return state if status == 200 else None
        return wait_until(found, "the state")

    def wait_ready(self):
        wait_until(self._ready, "readiness")

    def _ready(self):
        if self.process.poll() is not None:
            raise AssertionError("serve ended: " + self.read_log())
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    @property
    def model(self):
        return self.get("/v1/models")[1]["data"][0]["id"]

    def worker_pids(self):
        return {node["name"]: node["process_id"] for node in self.state()["nodes"]
                if node["state"] != "lost"}


def uncached(usage):
    """What a request costs, but for what its prompt had in common with an earlier one."""
    return usage and {name: of for name, of in usage.items() if name != "prompt_tokens_details"}


def http(method, url, body=None, timeout=PATIENCE_S, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={
        **({"Content-Type": "application/json"} if data else {}), **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return reply.status, _decode(reply)
    except urllib.error.HTTPError as error:
        return error.code, _decode(error)


def _decode(reply):
    text = reply.read().decode()
    return json.loads(text) if "json" in reply.headers.get("Content-Type", "") else text


def stream(url, body, timeout=PATIENCE_S):
    """Yields each event of a streamed completion as (seconds, JSON or "[DONE]")."""
    request = urllib.request.Request(url, data=json.dumps({**body, "stream": True}).encode(),
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        for raw in reply:
            line = raw.decode().rstrip("\n")
            if line.startswith("data: "):
                text = line[len("data: "):]
                yield time.monotonic(), text if text == "[DONE]" else json.loads(text)


class InOneFolder(unittest.TestCase):
    """A data folder, whose servers come one after the other, and workers that the test starts."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.processes = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []

    def work(self, s, name, program=HEARTH, defect="0"):
        words = [program, "worker", "--model", MODEL, "--coordinator", s.info["control"],
                 "--data-dir", str(self.folder), "--name", name, "--threads", "1"]
        self.processes.append(subprocess.Popen(words, stdout=s.log, stderr=s.log,
                                               env={**os.environ, "HEARTH_DEFECT": defect}))
