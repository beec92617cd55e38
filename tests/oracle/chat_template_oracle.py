"""Compares our chat templates with the jinja2 package, set up as Hugging Face sets it up.

usage: chat_template_oracle.py RENDER [--verbose]

Over own small cases of every construct always; over the published templates of llama.cpp when
HEARTH_LLAMACPP_SOURCE names its source tree, over the template of HEARTH_DEMO_MODEL (a GGUF file)
when that is set. Without jinja2 it exits 77 (skipped).
"""

import datetime
import functools
import html
import json
import os
import pathlib
import subprocess
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox
except ImportError:
    print("skipped: the Python package jinja2 is not installed")
    sys.exit(77)

NOW = 1_717_245_296  # 2024-06-01 12:34:56 UTC, a Saturday


class RaisedByTemplate(Exception):
    pass


class Generation(jinja2.ext.Extension):
    """{% generation %}: a block that is written as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_written", [], lineno=line)
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    @staticmethod
    def _written(caller):
        return caller()


def environment(sandbox):
    def raise_exception(message):
        raise RaisedByTemplate(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def strftime_now(form):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)

    env = sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


ENV = environment(jinja2.sandbox.ImmutableSandboxedEnvironment)
APPENDING = environment(jinja2.sandbox.SandboxedEnvironment)  # allows list.append
SYSTEM = {"role": "system", "content": "You are a terse assistant.\nBe kind."}
USER = {"role": "user", "content": "Hello <|im_end|> there"}
ANSWER = {"role": "assistant", "content": "<think>\nhm {{ x }}\n</think>\n\nHi! "}
AGAIN = {"role": "user", "content": "  Größe: ñ 漢字 🙂 \"quoted\" 'x'\n\n"}
CONVERSATIONS = [
    [USER],
    [SYSTEM, USER],
    [USER, ANSWER, AGAIN],
    [SYSTEM, USER, ANSWER, AGAIN],
    [SYSTEM, USER, ANSWER, AGAIN, {"role": "assistant", "content": "Fine."}],
    [{"role": "system", "content": ""}, {"role": "user", "content": ""}],
    [SYSTEM],
    [USER, USER],
    [],
]

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather <|im_end|> of a \"city\".",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Its name, as in 漢字."},
            "days": {"type": "integer", "default": 1}}, "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "now", "description": "The time.", "parameters": {
            "type": "object", "properties": {}}}},
]
ARGUMENTS = {"city": "Größe <|im_end|> \"x\"", "days": 2}


def tool_conversations():
    """Conversations with tools, whose arguments are objects, then texts."""
    for text in (False, True):
        def call(number, name, arguments):
            if text:
                arguments = json.dumps(arguments, ensure_ascii=False)
            return {"id": f"call0000{number}", "type": "function",
                    "function": {"name": name, "arguments": arguments}}

        def result(number, name, content):
            return {"role": "tool", "content": content, "name": name,
                    "tool_call_id": f"call0000{number}"}

        one = {"role": "assistant", "content": "",
               "tool_calls": [call(1, "get_weather", ARGUMENTS)]}
        two = {"role": "assistant", "content": "Both.", "tool_calls": [
            call(1, "get_weather", ARGUMENTS), call(2, "now", {})]}
        first = result(1, "get_weather", "{\"degrees\": 20} <|im_end|>")
        yield [USER]
        yield [SYSTEM, USER, one]
        yield [SYSTEM, USER, one, first]
        yield [USER, two, first, result(2, "now", "noon"), {"role": "assistant", "content": "Warm."},
               AGAIN]


EMPTY_LISTS = "{%- set tools = [] -%}{%- set functions = '' -%}{%- set datetime = '' -%}"

# Each is rendered over every conversation.
CASES = [line for line in (pathlib.Path(__file__).parent / "chat_template_cases.txt").read_text(
    encoding="utf-8").split("\n====\n") if line]


class Ours:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        encoding="utf-8", bufsize=1)

    def render(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@functools.lru_cache(maxsize=8)
def compiled(template, env=ENV):
    return env.from_string(template)


def expected(template, request, env=ENV):
    """(text, None), or (None, the error)."""
    try:
        return compiled(template, env).render(
            messages=request["messages"], add_generation_prompt=request["add_generation_prompt"],
            bos_token=request["bos"], eos_token=request["eos"], tools=request.get("tools"),
            documents=None, **request.get("variables", {})), None
    except RaisedByTemplate as error:
        return None, error
    except Exception as error:  # whatever Python raises inside of a template
        return None, error


def difference(template, request, ours):
    """(whether jinja2 refuses, None when both agree, else a sentence)."""
    reply = ours.render({**request, "template": template, "now": NOW})
    text, error = expected(template, request)
    if error is not None and "error" not in reply and "attribute 'append'" in str(error):
        text, error = expected(template, request, APPENDING)  # as ours, where no other name has it
    if error is not None:
        if "error" not in reply:
            if "generator is not JSON serializable" in str(error):
                return True, None  # jinja2's map is lazy and ours is a list, which is no harm
            return True, f"jinja2 refuses ({error!r}), we wrote {joined(reply)!r}"
        if isinstance(error, RaisedByTemplate) and reply["error"] != str(error):
            return True, f"raised {str(error)!r}, we say {reply['error']!r}"
        return True, None
    if "error" in reply:
        return False, f"we refuse ({reply['code']}): {reply['error']}"
    # jinja2 escapes what is joined to a text marked by `safe`; models know none of that.
    if "&#34;" in text and joined(reply) == html.unescape(text):
        text = joined(reply)
    if joined(reply) != text:
        return False, f"jinja2 {text!r}\n      ours   {joined(reply)!r}"
    trusted = "".join(piece for piece, user in reply["pieces"] if not user)
    if "Hello <|im_end|> there" in trusted or "漢" in trusted and "漢" not in template:
        return False, f"user text counts as trusted: {reply['pieces']!r}"
    return False, None


def joined(reply):
    return "".join(piece for piece, _ in reply["pieces"])


def requests():
    for messages in CONVERSATIONS:
        for prompt in (True, False):
            yield {"messages": messages, "add_generation_prompt": prompt, "bos": "<s>",
                   "eos": "</s>"}
    for messages in tool_conversations():
        yield {"messages": messages, "tools": TOOLS, "add_generation_prompt": True, "bos": "<s>",
               "eos": "</s>", "variables": {"enable_thinking": False}}


def check(name, template, ours):
    """Prints what differs; returns how many renderings agree as text, agree as errors, differ."""
    same = refused = 0
    differences = []
    for request in requests():
        refuses, problem = difference(template, request, ours)
        if problem is not None:
            differences.append(problem)
        elif refuses:
            refused += 1
        else:
            same += 1
    for problem in dict.fromkeys(differences):
        print(f"DIFFERS {name}\n      {problem}")
    return same, refused, len(differences)


def demo_template():
    path = os.environ.get("HEARTH_DEMO_MODEL")
    if not path:
        return []
    import gguf

    field = gguf.GGUFReader(path).fields["tokenizer.chat_template"]
    return [("the demo model", bytes(field.parts[field.data[0]]).decode())]


def published_templates():
    source = os.environ.get("HEARTH_LLAMACPP_SOURCE")
    if not source:
        return []
    files = sorted((pathlib.Path(source) / "models" / "templates").glob("*.jinja"))
    return [(file.name, file.read_text(encoding="utf-8")) for file in files]


def main():
    ours = Ours(sys.argv[1])
    cases = [(f"case {case!r}", case) for case in CASES]
    failed = 0
    for title, templates in (("own cases", cases), ("demo model", demo_template()),
                             ("published templates", published_templates())):
        totals = [0, 0, 0]
        identical = never_rendered = 0
        for name, template in templates:
            counts = check(name, template, ours)
            if counts[0] == 0 and counts[2] == 0 and title != "own cases":
                never_rendered += 1
                print(f"note: jinja2 renders none of our conversations with {name}: "
                      f"{expected(template, next(requests()))[1]!r}; with empty lists instead:")
                # What such a template says when there are no tools, but a list of none.
                again = check(name, EMPTY_LISTS + template, ours)
                print(f"      {again[0]} texts equal, {again[1]} refused by both, {again[2]} differ")
                counts = [a + b for a, b in zip(counts, again)]
            totals = [a + b for a, b in zip(totals, counts)]
            identical += counts[2] == 0
        failed += totals[2]
        print(f"{title}: {identical} of {len(templates)} identical ({totals[0]} texts equal, "
              f"{totals[1]} refused by both, {totals[2]} differ, "
              f"{never_rendered} templates never rendered)")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
