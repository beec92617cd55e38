"""Calls that are required match their schemas: the cases of the Berkeley Function Calling Leaderboard.

HEARTH_BFCL names the folder bfcl_eval/data of the package bfcl-eval 2026.3.23, whose wheel is large
and not among the packages of deploy/test. The model is scripted (small_model.py): it knows nothing
of tools, and ends each text and list as soon as it may, so what is right in its calls is right by
the grammar.

    pip download --no-deps bfcl-eval==2026.3.23; unzip -d bfcl bfcl_eval-*.whl
    HEARTH_BFCL=bfcl/bfcl_eval/data tests/run_python tests/e2e/function_calls_test.py [CASES]
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile

import jsonschema

import small_model
import swarm

CASES = 1000
AT_ONCE = 8
# What the package's own names of types stand for, as its type_mappings.py has them; case aside.
TYPES = {"float": "number", "double": "number", "bool": "boolean", "list": "array",
         "dict": "object", "tuple": "array", "any": "string", "byte": "integer",
         "short": "integer", "long": "integer", "char": "string", "arraylist": "array",
         "hashmap": "object", "hashtable": "object", "queue": "array", "stack": "array",
         "bigint": "integer", "": "string"}


def schema_of(value):
    """Their schema as JSON Schema."""
    if isinstance(value, list):
        return [schema_of(each) for each in value]
    if not isinstance(value, dict):
        return value
    out = {key: schema_of(each) for key, each in value.items()}
    if isinstance(value.get("type"), str):
        word = value["type"].lower()
        out["type"] = TYPES.get(word, word)
    return out


def cases(folder, count):
    """(id, messages, tools) of cases from all files, the same each time."""
    rows = []
    for path in sorted(pathlib.Path(folder).glob("BFCL_v4_*.json")):
        if "format" in path.name:  # no cases
            continue
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row.get("function") and "question" in row:
                rows.append(row)
    for row in rows[::max(1, len(rows) // count)][:count]:
        tools = [{"type": "function", "function": {**each, "parameters": schema_of(
            each["parameters"])}} for each in row["function"]]
        yield row["id"], row["question"][0], tools


class Judge:
    def __init__(self, s):
        self.swarm = s

    def ask(self, number, messages, tools):
        body = {"messages": messages, "tools": tools, "tool_choice": "required", "seed": number,
                "max_tokens": 2000, "parallel_tool_calls": False}
        status, answer = self.swarm.post("/v1/chat/completions", body)
        if status != 200:
            return f"{status}: {answer['error']['message'] if isinstance(answer, dict) else answer}"
        choice = answer["choices"][0]
        calls = choice["message"].get("tool_calls") or []
        if choice["finish_reason"] != "tool_calls" or len(calls) != 1:
            return f"{choice['finish_reason']}, {len(calls)} calls: {str(choice)[-300:]}"
        schemas = {each["function"]["name"]: each["function"]["parameters"] for each in tools}
        function = calls[0]["function"]
        if function["name"] not in schemas:
            return f"calls {function['name']}"
        try:
            jsonschema.Draft202012Validator(schemas[function["name"]]).validate(
                json.loads(function["arguments"]))
        except (ValueError, jsonschema.ValidationError) as error:
            return f"{function['arguments'][:300]}: {str(error)[:300]}"
        return None


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CASES
    data = os.environ.get("HEARTH_BFCL", "")
    if not os.path.isdir(data) or not os.path.exists(swarm.MODEL):
        print("HEARTH_BFCL or HEARTH_DEMO_MODEL is not there: the calls are not judged")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, "scripted.gguf")
        small_model.script(swarm.MODEL, model, ["One"], layers=1)
        with swarm.Swarm(1, model=model) as s:
            judge = Judge(s)
            asked = list(cases(data, count))
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                wrong = list(pool.map(judge.ask, range(len(asked)), *list(zip(*asked))[1:]))
    for (name, _, _), why in zip(asked, wrong):
        if why:
            print(name, "|", why)
    kinds = collections.Counter("wrong" if why else "valid" for why in wrong)
    print(f"{kinds['valid']} of {len(asked)} calls are valid")
    sys.exit(kinds["wrong"] > 0)


if __name__ == "__main__":
    main()
