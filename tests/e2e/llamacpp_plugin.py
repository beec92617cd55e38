"""A plugin of pytest that points llama.cpp's tests of its server at ours (llamacpp_test.py).

Their tests start a server each, with flags. Here a swarm with the scripted model of small_model.py
is started where a test asks for another chat template, and the one that runs serves otherwise. They
name models that their server ignores, and ours answers 404 to names of models that it has not.
"""

import functools
import json
import os
import pathlib
import tempfile

import pytest
import requests
from openai.resources import chat, completions, embeddings
from openai.resources.responses import responses

import small_model
import swarm
import utils  # of their tests

# Long enough for answers that end at their length.
SAYS = small_model.words(
    "One two three four five six seven eight nine ten and then the sea is blue while every bird "
    "sings a song of home for us all who like to hear it when evening comes down on this old town")


class Server:
    """The swarm that runs."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.template = self.swarm = self.model = None

    def serve(self, template):
        if self.swarm and self.template == template:
            return
        self.stop()
        model = pathlib.Path(self.folder.name, "scripted.gguf")
        small_model.script(swarm.MODEL, model, SAYS, layers=1, template=template)
        self.swarm, self.template = swarm.Swarm(1, model=model), template
        self.model = self.swarm.get("/v1/models")[1]["data"][0]["id"]

    def stop(self):
        if self.swarm:
            self.swarm.stop()
        self.swarm = None


SERVER = Server()


def start(process, timeout_seconds=0):
    """Of their ServerProcess."""
    path = process.chat_template_file
    SERVER.serve(pathlib.Path(path).read_text() if path else None)
    process.server_port = int(SERVER.swarm.api.rsplit(":", 1)[1])


utils.ServerProcess.start = start
utils.ServerProcess.stop = lambda process: None
utils.ServerPreset.load_all = staticmethod(lambda: None)


def with_model(call, key):
    @functools.wraps(call)
    def wrapped(*args, **kwargs):
        body = kwargs if key is None else kwargs.get(key)
        if isinstance(body, dict) and body.get("model") is not None:
            body["model"] = SERVER.model
        return call(*args, **kwargs)
    return wrapped


requests.post = with_model(requests.post, "json")
for owner in (chat.completions.Completions, completions.Completions, responses.Responses,
              embeddings.Embeddings):
    owner.create = with_model(owner.create, None)


def pytest_sessionfinish():
    SERVER.stop()
    SERVER.folder.cleanup()


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
