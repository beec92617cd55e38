"""A coding agent, aider, edits a file through a swarm of three workers. HEARTH_AGENT_PYTHON is a
Python with the package of coding_agent.txt.

The small models write no programs: the agent's settings ask for the edit with a grammar, which
the swarm's last worker enforces token by token. All that the agent sends and reads is its own.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import small_model
import swarm

BEFORE = 'print("hello")\n'
AFTER = 'def main():\n    print("good evening")\n\n\nmain()\n'


def edit(api, model, python, folder):
    """The file after the agent's work."""
    work = pathlib.Path(folder, "work")
    work.mkdir()
    (work / "hello.py").write_text(BEFORE)
    answer = f"hello.py\n```\n{AFTER}```\n"
    settings = [{"name": f"openai/{model}", "edit_format": "whole", "use_repo_map": False,
                 "extra_params": {"extra_body": {"guided_choice": [answer]}}}]
    (work / "settings.yml").write_text(json.dumps(settings))  # JSON is YAML
    done = subprocess.run(
        [python, "-m", "aider", "--model", f"openai/{model}", "--model-settings-file",
         "settings.yml", "--openai-api-base", api + "/v1", "--openai-api-key", "any", "--no-git",
         "--yes-always", "--no-check-update", "--no-show-model-warnings", "--analytics-disable",
         "--no-gitignore", "--no-pretty", "--no-suggest-shell-commands", "--message",
         "Say good evening in a function.", "hello.py"],
        cwd=work, capture_output=True, text=True, timeout=2 * swarm.PATIENCE_S,
        env={**os.environ, "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    return (work / "hello.py").read_text()


def main():
    python = os.environ.get("HEARTH_AGENT_PYTHON", "")
    if not os.path.exists(swarm.MODEL) or not os.path.exists(python):
        print("HEARTH_DEMO_MODEL or HEARTH_AGENT_PYTHON names no file: the agent is not run")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, "scripted.gguf")
        small_model.script(swarm.MODEL, model, ["Nothing"])
        with swarm.Swarm(3, model=model) as s:
            status, models = s.get("/v1/models")
            assert status == 200, models
            after = edit(s.api, models["data"][0]["id"], python, folder)
    assert after == AFTER, after
    print("the agent edited the file")


if __name__ == "__main__":
    main()
