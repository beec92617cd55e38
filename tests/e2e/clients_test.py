"""Runs clients_suite.py, libraries that programs use for their models, against a real swarm of three
workers with the scripted model. HEARTH_CLIENTS_PYTHON is a Python with the packages of clients.txt.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import small_model
import swarm
from embeddings_test import with_pooling

WORDS = "One two three four five"

if __name__ == "__main__":
    python = os.environ.get("HEARTH_CLIENTS_PYTHON", "")
    if not os.path.exists(swarm.MODEL) or not os.path.exists(python):
        print("HEARTH_DEMO_MODEL or HEARTH_CLIENTS_PYTHON names no file: the suite is not run")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, "scripted.gguf")
        small_model.script(swarm.MODEL, model, small_model.words(WORDS))
        embedder = pathlib.Path(folder, "embedder.gguf")
        with_pooling(swarm.MODEL, embedder, way=3, eos=1)
        with swarm.Swarm(3, model=model) as s, swarm.Swarm(1, model=embedder) as other:
            status, models = s.get("/v1/models")
            assert status == 200, models
            suite = pathlib.Path(__file__).with_name("clients_suite.py")
            sys.exit(subprocess.run([python, suite, *sys.argv[1:]], env={
                **os.environ, "HEARTH_API_ROOT": s.api, "HEARTH_WORDS": WORDS,
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "HEARTH_MODEL_ID": models["data"][0]["id"],
                "HEARTH_EMBED_ROOT": other.api, "HEARTH_EMBED_ID": other.model}).returncode)
