"""Runs openai_suite.py, the official client's suite, against a real swarm of three workers."""

import os
import subprocess
import sys
import pathlib

import swarm

if __name__ == "__main__":
    if not os.path.exists(swarm.MODEL):
        print("HEARTH_DEMO_MODEL names no file: the suite is not run")
        sys.exit(77)
    with swarm.Swarm(3) as s:
        suite = pathlib.Path(__file__).with_name("openai_suite.py")
        sys.exit(subprocess.run([sys.executable, suite], env={
            **os.environ, "HEARTH_API_BASE": s.api + "/v1"}).returncode)
