"""Compares tokenize_tool with the vectors that llama.cpp publishes for its own tokenizers.

Usage: tokenizer_vectors.py TOOL; HEARTH_LLAMACPP_SOURCE names a tree of llama.cpp (the sdist of
llama-cpp-python 0.3.36 holds one in vendor/llama.cpp). Exit 77: not run.
"""

import os
import pathlib
import struct
import subprocess
import sys

VOCABULARIES = ["gpt-2", "llama-bpe", "qwen2", "qwen35", "llama-spm", "phi-3", "refact", "starcoder",
                "command-r", "deepseek-llm", "gemma-4"]
SEPARATOR = b"\n__ggml_vocab_test__\n"


def compare(tool, models, name):
    stem = models / f"ggml-vocab-{name}.gguf"
    inputs = pathlib.Path(f"{stem}.inp").read_bytes().split(SEPARATOR)
    expected = [line.split() for line in pathlib.Path(f"{stem}.out").read_text().split("\n")]
    if expected[-1] == []:
        expected.pop()
    assert len(inputs) - 1 <= len(expected) <= len(inputs), (len(inputs), len(expected))
    inputs = inputs[: len(expected)]
    records = b"".join(struct.pack("<I", len(text)) + text for text in inputs)
    done = subprocess.run([tool, str(stem), "text"], input=records, capture_output=True, check=True)
    actual = [line.split() for line in done.stdout.decode().split("\n")[:-1]]
    assert len(actual) == len(expected), (name, len(actual), len(expected))
    wrong = 0
    for text, want, got in zip(inputs, expected, actual):
        if want != got:
            wrong += 1
            print(f"{name}: {text!r}\n  llama.cpp {' '.join(want)}\n  hearth    {' '.join(got)}")
    print(f"{name}: {len(inputs) - wrong} of {len(inputs)} texts have the ids of llama.cpp")
    return wrong


def main():
    source = os.environ.get("HEARTH_LLAMACPP_SOURCE", "")
    if not source:
        print("not run: HEARTH_LLAMACPP_SOURCE names no tree of llama.cpp")
        return 77
    models = pathlib.Path(source) / "models"
    wrong = sum(compare(sys.argv[1], models, name) for name in VOCABULARIES)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
