"""Runs llama.cpp's tests of its server (tools/server/tests), in their mode for a server that somebody
else started, against ours: the files whose routes we have.

They know the text of a model of theirs, and flags of their server that each test sets; what they
say of the rest is held here. KNOWN lists every test that fails, with its reason: one that fails and
is not there is a fault, and so is one that is there and passes.

    HEARTH_LLAMACPP_SOURCE=... python3 tests/e2e/llamacpp_test.py [PYTEST ARGUMENTS]
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import swarm

SOURCE = pathlib.Path(os.environ.get("HEARTH_LLAMACPP_SOURCE", "/none"))
FILES = ["test_basic.py", "test_chat_completion.py", "test_compat_anthropic.py",
         "test_compat_oai_responses.py", "test_completion.py", "test_embedding.py",
         "test_security.py", "test_template.py", "test_tokenize.py", "test_tool_call.py"]

KNOWN = {}


def run_theirs(api, model, arguments):
    """Outcomes by test, with the reason of each that failed."""
    tests = SOURCE / "tools/server/tests"
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report")
        report.touch()
        env = {**os.environ, "DEBUG_EXTERNAL": "1", "PORT": api.rsplit(":", 1)[1],
               "HEARTH_MODEL_ID": model, "HEARTH_REPORT": str(report),
               "PYTHONDONTWRITEBYTECODE": "1",
               "PYTHONPATH": str(pathlib.Path(__file__).resolve().parent)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p",
                   "llamacpp_plugin", "-m", "not slow", *arguments]
        done = subprocess.run(command + [f"unit/{name}" for name in FILES], cwd=tests, env=env)
        assert done.returncode in (0, 1), f"pytest ended with {done.returncode}"
        return [json.loads(line) for line in report.read_text().splitlines()]


def main():
    if not (SOURCE / "tools/server/tests").exists():
        print("HEARTH_LLAMACPP_SOURCE names no source tree of llama.cpp: its tests are not run")
        sys.exit(77)
    if not os.path.exists(swarm.MODEL):
        print("HEARTH_DEMO_MODEL names no file: the suite is not run")
        sys.exit(77)
    with swarm.Swarm(1) as s:
        status, models = s.get("/v1/models")
        assert status == 200, models
        outcomes = run_theirs(s.api, models["data"][0]["id"], sys.argv[1:])
    print(collections.Counter(each["outcome"] for each in outcomes))
    for each in outcomes:
        if each["outcome"] == "failed":
            print(each["test"], "|", each["why"].replace("\n", " ")[:200])


if __name__ == "__main__":
    main()
