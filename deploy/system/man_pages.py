#!/usr/bin/env python3
"""Writes the manual pages of a built hearth: hearth(1), and hearth-VERB(1) for each verb.

Usage: man_pages.py HEARTH FOLDER

All text is the program's own: `hearth VERB --help`, which the program prints from its tables of
options. An option that the program completes and that no page explains is an error.
"""

import datetime
import os
import pathlib
import re
import subprocess
import sys

# Where the help's second column begins.
COLUMN = 30
# Options that only tests need: a verb completes them, and its help omits them.
UNLISTED = {"--referee-rate"}
FILES = """.SH FILES
.TP
.I /etc/hearth/hearth.toml
Settings of the services
.BR hearth-server " and " hearth-worker ,
one table for each verb and its flags as keys.
.TP
.I /var/lib/hearth
Data folder of the services, with keys, models and logs.
.B hearth-service
.I VERB
runs a command as their user and with their folders.
.TP
.IR ~/.config/hearth/hearth.toml ", " ~/.local/share/hearth ", " ~/.cache/hearth
The same for commands that a user runs.
"""
EXIT_CODES = """.SH EXIT STATUS
.nf
  0  done
  1  failed
  2  wrong usage
  3  no server at this address
  4  no capacity
  5  refused
  6  verification failed
  7  the GPU failed
124  timeout
130  interrupted
.fi
"""


def output_of(*words):
    """What the program prints, whatever settings and variables this machine has."""
    home = "/nonexistent"
    clean = {"PATH": os.environ["PATH"], "HOME": home}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=clean,
                          timeout=60).stdout.replace(home, "~")


def parse_help(text):
    """A help as (title, usage, {section: [(term, description)]}). A term may go on for some lines;
    its description stands in the second column, beside it or below."""
    head, *rest = re.split(r"(?m)^(\w+):$", text)
    title, usage = head.split("Usage: ")
    sections = {}
    for name, body in zip(rest[::2], rest[1::2]):
        entries, described = sections.setdefault(name, []), True
        for line in body.splitlines():
            if not line.startswith("  "):
                continue  # blank, or the foot of the page
            begins = re.match(r"  \S", line) is not None
            term, words = line, ""
            if not begins:
                term, words = "", line.strip()
            elif len(line) > COLUMN and line[COLUMN - 2:COLUMN] == "  " and line[COLUMN] != " ":
                term, words = line[:COLUMN], line[COLUMN:]
            if begins and described:
                entries.append(["", ""])
            entry = entries[-1]
            entry[0] = " ".join((entry[0] + " " + term).split())
            entry[1] = " ".join((entry[1] + " " + words).split())
            described = bool(entry[1])
    return " ".join(title.split()), " ".join(usage.split()), sections


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def split_term(term):
    """Names, the rest of the term without its variable, and the variable."""
    variable = re.search(r" ?\(Env:(\w+)\)", term)
    if variable:
        term = term.replace(variable.group(), "")
    names = re.match(r"[^ =]*(, \w+)*", term).group()
    return names, term[len(names):].strip(), variable.group(1) if variable else ""


def entry_of(term, words):
    names, rest, variable = split_term(term)
    line = ".TP\n\\fB" + roff(names.replace(",", ", ")) + "\\fR"
    if rest:
        line += " " + roff(rest)
    line += "\n" + roff(words[:1].upper() + words[1:] + ".")
    if variable:
        line += "\nVariable: " + roff(variable) + "."
    return line + "\n"


def section_of(name, entries):
    entries = [entry for entry in entries if entry[0] != "--help-all"]
    if not entries:
        return ""
    return f".SH {name.upper()}\n" + "".join(entry_of(*entry) for entry in entries)


def check_complete(hearth, verb, sections):
    known = {name for term, _ in sections.get("Options", [])
             for name in split_term(term)[0].split(",")}
    asked = output_of(hearth, "__complete", "--", *verb, "--").split()
    missing = sorted(set(asked) - known - UNLISTED)
    if missing:
        raise SystemExit(f"the help of hearth {' '.join(verb)} does not explain {', '.join(missing)}")
    bare = [term for entries in sections.values() for term, words in entries if not words]
    if bare:
        raise SystemExit(f"the help of hearth {' '.join(verb)} says nothing about {', '.join(bare)}")


def body_of(hearth, verb):
    """The sections of a verb and, after them, those of its own verbs."""
    title, usage, sections = parse_help(output_of(hearth, *verb, "--help"))
    check_complete(hearth, verb, sections)
    verbs = [term.split(",")[0] for term, _ in sections.get("Subcommands", [])]
    text = "".join(section_of(name, entries) for name, entries in sections.items())
    if len(verb) > 0:
        for sub in verbs:
            deeper, deeper_usage, deeper_text, _ = body_of(hearth, [*verb, sub])
            name = " ".join(["hearth", *verb, sub])
            text += (f".SH {name.upper()}\n{roff(deeper)}.\n.PP\n.B {roff(deeper_usage)}\n"
                     + deeper_text.replace(".SH ", ".SS "))
    return title, usage, text, verbs


def page(hearth, verb, version, date):
    title, usage, text, verbs = body_of(hearth, verb)
    name = "-".join(["hearth", *verb])
    head = f'.TH {name.upper()} 1 {date} "hearth {version}" "Hearth"\n'
    summary = title.removeprefix("Hearth: ")
    see = "hearth(1)" if verb else ", ".join(f"hearth-{each}(1)" for each in sorted(verbs))
    return (head + f".SH NAME\n{roff(name)} \\- {roff(summary[:1].lower() + summary[1:])}\n"
            f".SH SYNOPSIS\n.B {roff(usage)}\n" + text +
            (EXIT_CODES + FILES if not verb else "") + f".SH SEE ALSO\n{roff(see)}\n"), verbs


def main():
    hearth, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    version = output_of(hearth, "--version").split()[1]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    date = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%d")
    text, verbs = page(hearth, [], version, date)
    (folder / "hearth.1").write_text(text)
    for verb in verbs:
        (folder / f"hearth-{verb}.1").write_text(page(hearth, [verb], version, date)[0])


if __name__ == "__main__":
    main()
