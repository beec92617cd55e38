"""Compares what we read from models' answers with the cases of llama.cpp's tests/test-chat.cpp.

usage: chat_cases.py CHAT_TOOL CHAT_CASES_H [--verbose] [--only WORD]

The cases are taken from the source tree at HEARTH_LLAMACPP_SOURCE, compiled against a header that
writes them down, and run through CHAT_TOOL. Many say what that program does beyond reading calls:
SAME is the least number of cases that agree in all.
Exit code 77: the source tree or a compiler is not there.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SAME = 304  # of 463
# COMMON_CHAT_TOOL_CHOICE_* and COMMON_CHAT_CONTINUATION_NONE of the header
AUTO, REQUIRED, NONE = 0, 1, 2
NOT_CONTINUED = 0


def cases_of(source, header):
    """The cases of the source tree as objects."""
    text = (source / "tests/test-chat.cpp").read_text()

    def between(begin, end):
        return text[text.index(begin):text.index(end)]

    program = '#include "chat_cases.h"\n'
    program += between("static common_chat_tool special_function_tool{",
                       "// Use for PEG parser implementations")
    program += between("static void test_lfm2_parser(",
                       "static void test_template_generation_prompt()")
    program += "int main() { test_template_output_peg_parsers(false); }\n"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "cases.cpp")
        path.write_text(program)
        built = path.with_suffix("")
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-w", "-I",
                        str(header.parent), str(path), "-o", str(built)], check=True)
        lines = subprocess.run([str(built)], check=True, capture_output=True,
                               text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


HELLO = {"role": "user", "content": "Hey there!", "reasoning": "", "name": "", "tool_call_id": "",
         "calls": []}


def request_of(case, source):
    choice = case.get("tool_choice", AUTO)
    return {"template": (source / case["template"]).read_text(),
            "messages": case["messages"] or [HELLO],
            "tools": [] if choice == NONE else case["tools"],
            "required": choice == REQUIRED and bool(case["tools"]),
            "parallel_calls": case.get("parallel_calls", False),
            "variables": {"enable_thinking": case.get("enable_thinking", True)},
            "add_generation_prompt": case.get("add_generation_prompt", True),
            "continue_final_message": case.get("continued", NOT_CONTINUED) != NOT_CONTINUED,
            "separate_reasoning": case.get("separate_reasoning", False),
            "schema": case.get("schema"), "partial": case.get("partial", False),
            "answer": case["answer"]}


def call_of(call):
    try:
        arguments = json.loads(call["arguments"] or "{}")
    except json.JSONDecodeError:
        arguments = call["arguments"]
    return call["name"], arguments


def differences(case, got):
    """What differs of an answer: keys and why."""
    if "error" in got:
        return {"error": got["error"]}
    out = {}
    want = dict(case["expected"])
    if case.get("continued", NOT_CONTINUED) != NOT_CONTINUED:
        # Theirs repeats what the answer continues.
        for key in ("content", "reasoning"):
            want[key] = want[key].removeprefix(case["messages"][-1][key].strip())
    for key in ("content", "reasoning"):
        if want[key].strip() != got[key].strip():
            out[key] = f"{got[key]!r} instead of {want[key]!r}"
    wanted, found = [call_of(c) for c in want["calls"]], [call_of(c) for c in got["calls"]]
    if wanted != found:
        out["calls"] = f"{found} instead of {wanted}"
    enforced = case.get("schema") or case.get("tool_choice", AUTO) == REQUIRED or wanted
    if not case.get("partial") and enforced and got["grammar"] is not None:
        if got["grammar"] is not True:
            out["grammar"] = got["grammar"]
    return out


def main():
    tool, header = sys.argv[1], pathlib.Path(sys.argv[2])
    verbose = "--verbose" in sys.argv
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    source = pathlib.Path(os.environ.get("HEARTH_LLAMACPP_SOURCE", "/none"))
    if not (source / "tests/test-chat.cpp").exists():
        print("skipped: HEARTH_LLAMACPP_SOURCE names no source tree of llama.cpp")
        sys.exit(77)
    if not shutil.which(os.environ.get("CXX", "c++")):
        print("skipped: there is no C++ compiler")
        sys.exit(77)
    cases = [c for c in cases_of(source, header) if only.lower() in c["template"].lower()]
    requests = "\n".join(json.dumps(request_of(case, source)) for case in cases)
    answers = subprocess.run([tool], input=requests, capture_output=True, text=True,
                             check=True).stdout.splitlines()
    counts = collections.Counter()
    for case, line in zip(cases, answers, strict=True):
        found = differences(case, json.loads(line))
        counts["same" if not found else "+".join(found)] += 1
        if found and verbose:
            print(json.dumps({k: v for k, v in case.items() if k not in ("tools", "messages")}))
            print("  tools", [t["function"]["name"] for t in case["tools"]])
            print("  tail", repr(json.loads(line).get("tail", "")[-60:]))
            for key, why in found.items():
                print("  ", key, why)
    print(f"{counts['same']} of {len(cases)} cases agree; others differ in:", dict(counts))
    sys.exit(not only and counts["same"] < SAME)


if __name__ == "__main__":
    main()
