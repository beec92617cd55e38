"""Runs dialects_suite.py, the official clients of other dialects, against a real swarm; and shows that
`hearth launch` gives a client program the server, the key and the model."""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile

import swarm


def check_launch(api):
    """A program named claude that prints what it was given."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "claude")
        program.write_text("#!/bin/sh\necho \"$ANTHROPIC_BASE_URL $ANTHROPIC_MODEL $*\"\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        env = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"],
               "HEARTH_CACHE_DIR": folder}
        hearth = os.environ["HEARTH_BINARY"]

        def launch(*words):
            return subprocess.run([hearth, "launch", *words, "--host", api], env=env, text=True,
                                  capture_output=True, check=False)

        def model():
            shown = launch("llm", "--print").stdout
            return next(line.split("'")[1] for line in shown.splitlines() if "LLM_MODEL" in line)

        ran = subprocess.run([hearth, "launch", "--host", api, "claude", "--", "-p", "hi"], env=env,
                             text=True, capture_output=True, check=False)
        assert ran.stdout == f"{api} {model()} -p hi\n", (ran.stdout, ran.stderr)
        shown = launch("claude", "--print").stdout
        assert f"export ANTHROPIC_BASE_URL='{api}'" in shown, shown
        unknown = launch("emacs")
        assert unknown.returncode != 0 and "claude, codex" in unknown.stderr, unknown.stderr
        missing = subprocess.run([hearth, "launch", "goose", "--host", api], text=True,
                                 env={**env, "PATH": folder}, capture_output=True, check=False)
        assert missing.returncode != 0 and "not installed" in missing.stderr, missing.stderr
        print("launch: ok")


if __name__ == "__main__":
    if not os.path.exists(swarm.MODEL):
        print("HEARTH_DEMO_MODEL names no file: the suite is not run")
        sys.exit(77)
    with swarm.Swarm(3) as s:
        suite = pathlib.Path(__file__).with_name("dialects_suite.py")
        failed = subprocess.run([sys.executable, suite],
                                env={**os.environ, "HEARTH_API_ROOT": s.api}).returncode
        check_launch(s.api)
        sys.exit(failed)
