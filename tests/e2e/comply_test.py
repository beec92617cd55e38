"""Runs llm-comply, a judge of APIs that others wrote, against a real swarm: OpenAI's chat completions
and Responses, and Anthropic's messages. The model is scripted (small_model.py), so that every
answer ends by itself.

DIFFERENCES are the tests that fail, with their reason; one more that fails is a fault, and so is one
of these that passes.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import small_model
import swarm

# What the judge tries of thoughts, it tries where a model's name says that it thinks.
MODELS = {"scripted": (small_model.words("One two three four"), None),
          "gpt-5-claude-4": (["First", " think", "</", "think", ">", "One"], small_model.THINKS)}
THOUGHTS = {"openai-chat": "chat-reasoning-summary", "open-responses": "reasoning-summary",
            "anthropic": "anth-thinking-display"}
IMAGES = "the models that are served read text; an image is refused by name"
ONLY = "it sends no 'model', which stands for the only one that is served"
DIFFERENCES = {
    "chat-image-input": IMAGES,
    "image-input": IMAGES,
    "anth-image-input": IMAGES,
    "chat-error-handling": ONLY,
    "error-handling": ONLY,
}


def judge(api, model, form, *words):
    """The results of one format."""
    program = pathlib.Path(sys.executable).with_name("llm-comply")
    done = subprocess.run([program, "run", "--json", "-u", api + "/v1", "-k", "none", "-m", model,
                           "--format", form, "--timeout", str(swarm.PATIENCE_S), *words],
                          capture_output=True, text=True)
    assert done.stdout, f"llm-comply said nothing: {done.stderr}"
    return json.loads(done.stdout)["results"]


def main():
    if not os.path.exists(swarm.MODEL):
        print("HEARTH_DEMO_MODEL names no file: the suite is not run")
        sys.exit(77)
    results = []
    for name, (says, template) in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, name + ".gguf")
            small_model.script(swarm.MODEL, model, says, template=template)
            with swarm.Swarm(3, model=model) as s:
                for form, thought in THOUGHTS.items():
                    words = ["-f", thought] if template else []
                    results += judge(s.api, name, form, *words)
    wrong = 0
    for each in results:
        known = each["id"] in DIFFERENCES
        failed = each["status"] == "failed"
        wrong += failed != known
        if failed != known or each.get("warnings"):
            print(each["id"], each["status"], each.get("errors", []), each.get("warnings", []))
    print("llm-comply:", dict(collections.Counter(each["status"] for each in results)))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
