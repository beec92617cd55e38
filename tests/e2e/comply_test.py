"""Runs llm-comply, a judge of APIs that others wrote, against a real swarm: OpenAI's chat completions
and Responses, and Anthropic's messages. The model is scripted (small_model.py), so that every
answer ends by itself, and begins with a thought: the judge tries thoughts where a model's name says so.

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

NAME = "gpt-5-claude-4"
SAYS = ["First", " think", "</", "think", ">", *small_model.words("One two three four")]
FORMATS = ["openai-chat", "open-responses", "anthropic"]
IMAGES = "the models that are served read text; an image is refused by name"
ONLY = "it sends no 'model', which stands for the only one that is served"
DIFFERENCES = {
    "chat-image-input": IMAGES,
    "image-input": IMAGES,
    "anth-image-input": IMAGES,
    "chat-error-handling": ONLY,
    "error-handling": ONLY,
}


def judge(api, model, form):
    """The results of one format."""
    program = pathlib.Path(sys.executable).with_name("llm-comply")
    done = subprocess.run([program, "run", "--json", "-u", api + "/v1", "-k", "none", "-m", model,
                           "--format", form, "--timeout", str(swarm.PATIENCE_S)],
                          capture_output=True, text=True)
    assert done.stdout, f"llm-comply said nothing: {done.stderr}"
    return json.loads(done.stdout)["results"]


def main():
    if not os.path.exists(swarm.MODEL):
        print("HEARTH_DEMO_MODEL names no file: the suite is not run")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, NAME + ".gguf")
        small_model.script(swarm.MODEL, model, SAYS, template=small_model.THINKS)
        with swarm.Swarm(3, model=model) as s:
            status, models = s.get("/v1/models")
            assert status == 200, models
            results = [each for form in FORMATS
                       for each in judge(s.api, models["data"][0]["id"], form)]
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
