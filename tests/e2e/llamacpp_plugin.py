"""A plugin of pytest that points llama.cpp's tests of its server at ours (llamacpp_test.py).

HEARTH_MODEL_ID is the served model: those tests name models that their server ignores, and ours
answers 404 to names of models that it has not.
"""

import functools
import json
import os

import pytest
import requests
from openai.resources import chat, completions, embeddings
from openai.resources.responses import responses

MODEL = os.environ["HEARTH_MODEL_ID"]


def with_model(call, key):
    @functools.wraps(call)
    def wrapped(*args, **kwargs):
        body = kwargs if key is None else kwargs.get(key)
        if isinstance(body, dict) and body.get("model") is not None:
            body["model"] = MODEL
        return call(*args, **kwargs)
    return wrapped


requests.post = with_model(requests.post, "json")
for owner in (chat.completions.Completions, completions.Completions, responses.Responses,
              embeddings.Embeddings):
    owner.create = with_model(owner.create, None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A line of JSON a test: its name, how it ended and where."""
    report = (yield).get_result()
    if report.when == "call" or report.outcome != "passed":
        line = {"test": item.nodeid.removeprefix("unit/"), "outcome": report.outcome}
        if report.outcome == "failed":
            line["why"] = call.excinfo.exconly()[:300]
        with open(os.environ["HEARTH_REPORT"], "a") as out:
            out.write(json.dumps(line) + "\n")
