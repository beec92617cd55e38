#!/usr/bin/env python3
"""The JSON-Schema-Test-Suite as judge of grammars: what a schema allows can be generated, and nothing
else can.

Usage: grammar_suite.py GRAMMAR_TOOL [SUITE] [-v]
SUITE, or HEARTH_SCHEMA_SUITE: the folder with draft2020-12/ and draft7/. Exit 77: it is not there.

Each valid instance must be a text of the schema's grammar in some order of its members (a grammar has
one), each invalid one in none. A schema that the compiler refuses must be refused by keyword and place;
those are counted by keyword. Instances are written as the grammar documents: no space, whole numbers
without fraction or exponent.
"""

import collections
import itertools
import json
import os
import pathlib
import subprocess
import sys

from canonical import grammar

ORDERS_MAX = 720
DRAFTS = {"draft2020-12": "draft/2020-12", "draft7": "draft-07"}
# Formats are annotations in these files, and the compiler asserts them, as generators do.
LEFT_OUT = {"format.json"}
FORMATS = {"date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "hostname", "email", "uri",
           "uri-reference", "json-pointer", "relative-json-pointer"}
OPTIONAL = {"bignum.json", "ecmascript-regex.json", "non-bmp-regex.json", "float-overflow.json"}


def number(value):
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float):
        return format(value, "f").rstrip("0") if "e" in repr(value) else repr(value)
    return json.dumps(value)


def orders(value):
    """Texts of an instance, in the orders of its members; each object adds its own."""
    if isinstance(value, dict):
        names = list(value)
        shuffled = itertools.permutations(names) if len(names) <= 6 else [names, sorted(names)]
        for order in shuffled:
            for parts in itertools.product(*(list(itertools.islice(orders(value[n]), 24)) for n in order)):
                yield "{" + ",".join(json.dumps(n, ensure_ascii=False) + ":" + p
                                     for n, p in zip(order, parts)) + "}"
    elif isinstance(value, list):
        for parts in itertools.product(*(list(itertools.islice(orders(v), 24)) for v in value)):
            yield "[" + ",".join(parts) + "]"
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield number(value)
    else:
        yield json.dumps(value, ensure_ascii=False)


def writable(text):
    try:
        text.encode()
        return True
    except UnicodeEncodeError:
        return False


def files(suite):
    for draft in ("draft2020-12", "draft7"):
        root = suite / draft
        for path in sorted(root.glob("*.json")):
            if path.name not in LEFT_OUT:
                yield draft, path, False
        for path in sorted((root / "optional").glob("*.json")):
            if path.name in OPTIONAL:
                yield draft, path, False
        for path in sorted((root / "optional" / "format").glob("*.json")):
            if path.stem in FORMATS:
                yield draft, path, True


def check_controls(ask, wrong):
    """A control token in the encoded form: the oracle reads it and no text that spells it."""
    for token in (0, 7, 255, 256, 65_536, 199_999, 2**31 - 1):
        answer = ask({"kind": "control", "text": str(token), "cases": ["ab", f"a{token}b"]})
        automaton = grammar.Grammar(bytes.fromhex(answer["bytes"]))
        named, other = grammar.control(token), grammar.control(token ^ 1)
        for text, allowed in ((b"a" + named + b"b", True), (b"a" + 2 * named + b"b", True), (b"ab", False),
                              (b"a" + 3 * named + b"b", False), (b"a" + other + b"b", False)):
            if grammar.allows(automaton, text) != allowed:
                wrong.append(f"control token {token}: the oracle reads {text} otherwise")
        if any(answer["accepted"]):
            wrong.append(f"control token {token}: a text is accepted in its place")


def main():
    verbose = "-v" in sys.argv
    given = [a for a in sys.argv[1:] if a != "-v"]
    tool, suite = given[0], pathlib.Path(given[1] if len(given) > 1 else os.environ.get("HEARTH_SCHEMA_SUITE", ""))
    if not (suite / "draft2020-12").is_dir():
        print("the JSON-Schema-Test-Suite is not there: set HEARTH_SCHEMA_SUITE, or run deploy/test")
        return 77
    counts = collections.Counter()
    refused = collections.Counter()
    wrong = []
    with subprocess.Popen([tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        def ask(request):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        check_controls(ask, wrong)
        for draft, path, formats in files(suite):
            for group in json.loads(path.read_text()):
                schema = group["schema"]
                if isinstance(schema, dict) and "$schema" not in schema:
                    schema = {"$schema": f"http://json-schema.org/{DRAFTS[draft]}/schema#", **schema}
                tests = [(test, [t for t in itertools.islice(orders(test["data"]), ORDERS_MAX) if writable(t)])
                         for test in group["tests"]]
                answer = ask({"kind": "schema", "text": json.dumps(schema),
                              "cases": [text for _, texts in tests for text in texts]})
                where = f"{draft}/{path.name}: {group['description']}"
                if "error" in answer:
                    message = answer["error"]
                    nothing = "allows no text at all" in message
                    if nothing and not any(test["valid"] for test, _ in tests):
                        counts["right"] += len(tests)
                        continue
                    counts["refused"] += len(tests)
                    counts["refused schemas"] += 1
                    keyword = message.split(": ")[1] if message.startswith("JSON schema: ") else message
                    refused[keyword] += 1
                    if verbose:
                        print(f"refused  {where}\n         {message}")
                    placed = message.startswith("JSON schema: ") and "(at #" in message
                    if nothing or not (placed or message.startswith("the grammar takes more than")):
                        wrong.append(f"{where}: refused without a place: {message}")
                    continue
                # The same automaton, by the text of CANONICAL.md.
                texts = [text for _, texts in tests for text in texts]
                automaton = grammar.Grammar(bytes.fromhex(answer["bytes"]))
                for i in [i for i, yes in enumerate(answer["accepted"]) if yes][:40] + list(range(40)):
                    if i >= len(texts):
                        break
                    counts["texts read by the oracle"] += 1
                    if grammar.allows(automaton, texts[i].encode()) != answer["accepted"][i]:
                        wrong.append(f"{where}: the oracle reads {texts[i]} otherwise")
                accepted = iter(answer["accepted"])
                for test, texts in tests:
                    got = any([next(accepted) for _ in texts])
                    if got == test["valid"]:
                        counts["right"] += 1
                    elif formats and test["valid"]:
                        counts["valid by a format, left out"] += 1  # a format may be narrower
                    else:
                        wrong.append(f"{where}: {test['description']}: {texts[:1]} "
                                     f"{'cannot' if test['valid'] else 'can'} be generated")
        process.stdin.close()
    for line in wrong:
        print("WRONG", line)
    print("; ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    print("refused schemas by keyword:", ", ".join(f"{k} {n}" for k, n in refused.most_common()))
    print("wrong:", len(wrong))
    return 1 if wrong or counts["right"] < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
