#!/usr/bin/env python3
"""Every command that the documents show exists.

Usage: commands.py HEARTH MEASURE ROOT

Reads the code of all .md files: fenced blocks, indented blocks and code spans. A word after `hearth`
or `hearth-measure` must be a verb, its flags must stand in the verb's help, and a script under
deploy/ or tests/ must exist.
"""

import functools
import pathlib
import re
import subprocess
import sys

# Texts that show what not to write, lines of files that are not commands, and measured results with
# the commands of their time.
EXCEPTED = ("STYLE.md", "ledger/PROTOCOL.md", "tests/bench/results/", "tests/gpu/results/")
SPAN = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"(?:^|[;&|(]\s*|\$\s+|sudo\s+)(?:build/(?:tests/tools/)?|/usr/bin/)?"
                     r"(hearth(?:-measure)?)\s+([a-z_-][^#;&|]*)")
SCRIPT = re.compile(r"(?<![\w./-])((?:deploy|tests)/[\w./-]*\w)")


def code_of(text):
    """(line number, code) of blocks and spans. A trailing backslash joins a line to the next."""
    fenced, joined, first = False, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if fenced or line.startswith("    "):
            first = first if joined else number
            if line.endswith("\\"):
                joined += line[:-1] + " "
                continue
            yield first, joined + line.strip()
            joined = ""
        else:
            for span in SPAN.findall(line):
                yield number, span


@functools.lru_cache(maxsize=None)
def help_of(hearth, *verb):
    """The help of a verb; None where there is no such verb."""
    done = subprocess.run([hearth, *verb, "--help"], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr if done.returncode == 0 else None


def check_command(name, hearth, words):
    """What is wrong with `NAME WORDS`, whose program is `hearth`, or an empty string."""
    verb = []
    text = help_of(hearth)
    for word in words:
        if not re.fullmatch(r"[a-z][a-z-]*", word) or not re.search(rf"(?m)^ +{word}\b", text):
            break
        deeper = help_of(hearth, *verb, word)
        if deeper is None:
            break
        verb.append(word)
        text = deeper
    if not verb and not words[0].startswith("-"):
        return f"{name} has no verb {words[0]}"
    for word in words:
        flag = re.match(r"--?[a-z][a-z-]*", word)
        if flag and not re.search(rf"(?<![\w-]){re.escape(flag.group())}(?![\w-])", text):
            return f"{name} {' '.join(verb)} has no flag {flag.group()}"
    return ""


def main():
    programs = {"hearth": sys.argv[1], "hearth-measure": sys.argv[2]}
    root = pathlib.Path(sys.argv[3]).resolve()
    found, commands = [], 0
    for path in sorted(root.rglob("*.md")):
        name = path.relative_to(root).as_posix()
        if name.startswith(EXCEPTED) or name.startswith(("build", ".")):
            continue
        for number, code in code_of(path.read_text()):
            for match in COMMAND.finditer(code):
                words = [word.strip("[]\"'") for word in match.group(2).split()]
                if "--" in words:  # what follows goes to another program
                    words = words[:words.index("--")]
                commands += 1
                if wrong := check_command(match.group(1), programs[match.group(1)], words):
                    found.append(f"{name}:{number}: {wrong}: {code}")
            for script in SCRIPT.findall(code):
                if not (root / script).exists() and not list(root.glob(script + "*")):
                    found.append(f"{name}:{number}: there is no {script}")
    print("\n".join(found) if found else f"{commands} commands of the documents exist")
    sys.exit(1 if found or not commands else 0)


if __name__ == "__main__":
    main()
