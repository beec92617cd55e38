"""Runs llama.cpp's tests of its server (tools/server/tests), in their mode for a server that somebody
else started, against ours: the files whose routes we have.

They know the text of a model of theirs, and flags of their server that each test sets; what they
say of the rest is held here. KNOWN lists those that fail, with their reason: one that fails and is not
there is a fault, and so is a number of passed ones below PASSED.

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
from embeddings_test import with_pooling

SOURCE = pathlib.Path(os.environ.get("HEARTH_LLAMACPP_SOURCE", "/none"))
FILES = ["test_basic.py", "test_chat_completion.py", "test_compat_anthropic.py",
         "test_compat_oai_responses.py", "test_completion.py", "test_security.py",
         "test_template.py", "test_tokenize.py", "test_tool_call.py"]
OF_EMBEDDINGS = ["test_embedding.py"]

PASSED = 86
# Reasons by the beginning of a test's name; the longest that fits counts.
KNOWN = {
    "test_basic.py::test_server_multiple_addresses": "flags of their server",
    "test_basic.py::test_server_props": "no such route",
    "test_basic.py::test_server_models": "names of their flags",
    "test_basic.py::test_server_slots": "no such route",
    "test_basic.py::test_load_split_model": "no route /completion",
    "test_basic.py::test_no_ui": "no page is served",
    "test_basic.py::test_server_model_aliases_and_tags": "names of their flags",
    "test_chat_completion.py::test_chat_completion[": "words of their model",
    "test_chat_completion.py::test_chat_completion_cached_tokens": "no prefix cache",
    "test_chat_completion.py::test_chat_completion_stream": "first delta: '' as OpenAI's, not null",
    "test_chat_completion.py::test_chat_completion_with_openai_library": "words of their model",
    "test_chat_completion.py::test_chat_template": "their field __verbose",
    "test_chat_completion.py::test_apply_chat_template": "a template of their program",
    "test_chat_completion.py::test_invalid_chat_completion_req": "two last messages are no error",
    "test_chat_completion.py::test_chat_completion_with_timings_per_token": "first delta: ''",
    "test_chat_completion.py::test_logprobs_stream": "first delta: ''",
    "test_chat_completion.py::test_context_size_exceeded": "context of their flags",
    "test_chat_completion.py::test_return_progress": "their field return_progress",
    "test_chat_completion.py::test_verbose_debug": "their field __verbose",
    "test_compat_anthropic.py::test_anthropic_tool_result_with_image": "400 for an image, not 500",
    "test_compat_anthropic.py::test_anthropic_vision": "400 for an image, not 500",
    "test_compat_anthropic.py::test_anthropic_empty_messages": "400, as Anthropic's own",
    "test_compat_oai_responses.py::test_responses_with_openai_library": "words of their model",
    "test_compat_oai_responses.py::test_responses_stream_with_llama_telemetry": "their fields",
    "test_completion.py": "no route /completion, and words of their model",
    "test_embedding.py::test_embedding_mixed_input": "inputs of their own shapes",
    "test_embedding.py::test_embedding_content_text_same": "inputs of their own shapes",
    "test_embedding.py::test_embedding_pooling_none": "a way to embed of their flags",
    "test_embedding.py::test_embedding_error_prompt_too_long": "context of their flags",
    "test_embedding.py::test_embedding_usage": "a vocabulary that adds two tokens",
    "test_security.py": "keys of their flags, no page, other rules for origins",
    "test_compat_anthropic.py::test_anthropic_thinking_history": "a template of their flags",
    "test_template.py": "a template of their flags",
    "test_tokenize.py::test_tokenize_with_bos": "a vocabulary with another BOS",
    "test_tool_call.py::test_completion_without_tool_call_fast": "first delta: ''",
}


def run_theirs(api, model, files, arguments):
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
        done = subprocess.run(command + [f"unit/{name}" for name in files], cwd=tests, env=env)
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
        outcomes = run_theirs(s.api, s.model, FILES, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        embedder = pathlib.Path(folder, "embedder.gguf")
        with_pooling(swarm.MODEL, embedder, way=3, eos=1)
        with swarm.Swarm(1, model=embedder) as s:
            outcomes += run_theirs(s.api, s.model, OF_EMBEDDINGS, sys.argv[1:])
    counts = collections.Counter(each["outcome"] for each in outcomes)
    reasons = collections.Counter()
    wrong = 0
    for each in outcomes:
        if each["outcome"] != "failed":
            continue
        fits = [name for name in KNOWN if each["test"].startswith(name)]
        if fits:
            reasons[KNOWN[max(fits, key=len)]] += 1
        else:
            wrong += 1
            print("FAILED", each["test"], "|", each["why"].replace("\n", " "))
    print("llama.cpp's tests:", dict(counts), dict(reasons))
    # What passes: a change that loses one is seen.
    sys.exit(wrong > 0 or counts["passed"] < PASSED)


if __name__ == "__main__":
    main()
