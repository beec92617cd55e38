#!/usr/bin/env python3
"""The house rules, as a test.

Usage: tidy.py ROOT            checks the tree
       tidy.py --self-test     checks the checks: every rule must catch a planted breach

Rules: the layering table of ARCHITECTURE.md (with what a folder is) and no cycle between folders, fences
around third parties, sizes of files, functions, folders and classes, columns, markers of unfinished
work, the mirror of the tests, a source's own header first, assertions, words, the documents' lengths
and links, the form of commit subjects, formatting.
"""

import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
TEST_TO_CODE_MIN = 0.6
FOLDER_FILES_MAX = 40
CLASS_METHODS_MAX = 40
CLASS_SOURCES_MAX = 2
# Classes over the limits, with what each may have: (methods, sources). These numbers only fall.
LARGE_CLASSES = {}
# INVARIANT and static_assert for each 1,000 lines outside tests. The number only rises.
ASSERTIONS_MIN = 5.5
# Words that hide who does what, and the lines that may hold one. The normative texts and the texts
# of the rule itself are excepted.
RIDDLES = re.compile(r"\b([Nn]obody|[Ww]hoever|[Oo]f whom|[Ii]s none|[Ss]hall)\b")
RIDDLES_MAX = 0
RIDDLES_EXCEPTED = {"kernels/CANONICAL.md", "ledger/PROTOCOL.md", "tests/house/tidy.py", "STYLE.md",
                    "CONTRIBUTING.md"}
DOCUMENT_LINES_MAX = {"README.md": 120, "ARCHITECTURE.md": 150}
FOLDER_README_LINES_MAX = 15
# Subjects have a form since this commit.
SUBJECTS_SINCE = "cd976432e76510f7d848574d3cc69b3fc441ed8f"
SUBJECT = re.compile(r"[a-z0-9_/.-]+(, [a-z0-9_/.-]+)*: [^A-Z].*")
SUBJECT_COLUMNS_MAX = 72
LIBRARIES = ["base", "kernels", "placement", "proto", "model", "ledger", "node", "coordinator",
             "cli"]
FORBIDDEN_FOLDERS = {"utils", "util", "common", "helpers", "helper", "misc"}
UNFINISHED = re.compile(r"\b(" + "|".join(["FIX" + "ME", "TO" + "DO", "XX" + "X", "HA" + "CK"]) + r")\b")

# What may include a third party, and why nobody else may.
FENCES = [
    (r"boost/(asio|beast)", ["proto/link/tcp_", "proto/link/relay.", "node/layers/peer_source",
                             "node/ranks/rank_links", "coordinator/http/", "coordinator/membership/dial_back",
                             "coordinator/control/acceptor", "coordinator/control/service",
                             "cli/", "tests/"],
     "one room knows sockets; state machines must run in a simulation"),
    (r"(grpcpp/|grpc/|.*\.grpc\.pb\.h)", ["node/control/channel", "node/control/enrolment",
                                          "node/control/inquiry", "coordinator/control/service",
                                          "proto/link/grpc_tls", "tests/"],
     "gRPC owns threads; it stays in adapters without logic"),
    (r"sodium", ["base/crypto", "tests/sim/seeded_system"],  # the latter replaces its random source
     "one room chooses primitives"),
    (r"openssl/", ["proto/link/tls", "ledger/merkle", "tests/unit/proto/", "tests/unit/node/",
                    "tests/unit/coordinator/control/",
                    "tests/bench/"], "TLS belongs to the transport, and a log's hashes to its tree"),
    (r"sqlite3", ["coordinator/store/", "tests/unit/coordinator/store/"],
     "one room knows the database"),
    (r"libpq", ["coordinator/store/", "tests/unit/coordinator/store/"],
     "one room knows the database"),
    (r"curl/", ["coordinator/client/"], "one room knows the HTTP client's library"),
    (r"qrencode", ["coordinator/membership/qr_code"], "one file knows the library of QR codes"),
    (r"(miniupnpc/|natpmp\.h)", ["cli/worker/outside_port"],
     "one file knows the libraries that ask routers, and runs in a process of its own"),
    (r"histedit", ["cli/terminal/line_editor"], "one file knows the terminal's editor"),
    (r"CL/", ["kernels/opencl/"], "one room knows OpenCL"),
    (r"CLI/", ["cli/", "tests/unit/cli/", "tests/tools/"], "only verbs parse flags"),
    (r"nlohmann/", ["coordinator/http/", "coordinator/client/", "cli/", "model/grammar/json_text", "tests/"],
     "JSON is for clients; nothing of ours travels as JSON"),
    (r"regex$", [], "std::regex backtracks without bound"),
]


def layering_table(architecture):
    """Rows of the table under '## Layering': {folder: (allowed, what it is)}."""
    rows = {}
    section = architecture.split("## Layering", 1)[-1].split("\n## ", 1)[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and re.fullmatch(r"`[a-z0-9_/]+`", cells[0]):
            allowed = re.findall(r"`([^`]+)`", cells[1])
            rows[cells[0].strip("`")] = (allowed, cells[2])
    return rows


def code_files(root):
    for library in LIBRARIES + ["tests"]:
        for path in sorted((root / library).rglob("*")):
            if path.suffix in (".cc", ".h", ".cu", ".cuh"):
                yield path


def includes(text):
    return re.findall(r'^\s*#\s*include\s*[<"]([^">]+)[">]', text, re.M)


def row_of(name, table):
    """The row of a file: the longest folder of the table that holds it."""
    folder = name.rpartition("/")[0]
    while folder and folder not in table:
        folder = folder.rpartition("/")[0]
    return folder


def allows(entry, row, include):
    """An entry allows a file, or a folder and its sub-folders; but one that contains the row's own
    folder allows only the files directly in it."""
    if entry == "all" or include == entry:
        return True
    if row.startswith(entry + "/"):
        return include.rpartition("/")[0] == entry
    return include.startswith(entry + "/")


def check_layering(root, found):
    table = layering_table((root / "ARCHITECTURE.md").read_text())
    if {row for row in table if "/" not in row} != set(LIBRARIES) | {"tests"}:
        found.append(f"ARCHITECTURE.md: layering table has rows {sorted(table)}")
        return
    for row, (allowed, _) in sorted(table.items()):
        for entry in [row, *allowed]:
            if entry != "all" and (root / row).exists() and not (root / entry).exists():
                found.append(f"ARCHITECTURE.md: row {row} names {entry}, which does not exist")
    for path in code_files(root):
        name = path.relative_to(root).as_posix()
        row = row_of(name, table)
        allowed, what = table[row]
        for include in includes(path.read_text()):
            if row != "tests" and row_of(include, table) not in ("", row) and not any(
                    allows(entry, row, include) for entry in allowed):
                found.append(f"{name}: includes {include}; {row} may include "
                             f"{', '.join(allowed) or 'nothing of ours'} ({row}: {what})")
            for pattern, rooms, why in FENCES:
                if re.match(pattern, include) and not any(name.startswith(r) for r in rooms):
                    found.append(f"{name}: includes {include}, because {why}")


def strip_code(text):
    """Comments, strings and character literals blanked, line breaks kept."""
    pattern = re.compile(
        r'R"([^(\s]*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])'",
        re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def function_lengths(text):
    """(first line, lines) of every brace block that follows a parameter list."""
    code = strip_code(text)
    stack = []
    for match in re.finditer(r"[{}]", code):
        at = match.start()
        if match.group() == "{":
            before = re.sub(r"\s+", " ", code[max(0, at - 400):at]).rstrip()
            head = re.split(r"[;{}]", before)[-1]
            is_function = bool(re.search(
                r"\)\s*(const|noexcept|override|final|mutable|&|&&|->[^;{}]*|:[^;{}]*|\s)*$", head))
            control = re.search(r"(^|[\s)])(if|for|while|switch|catch|namespace)\b", head)
            stack.append((at, is_function and not control))
        elif stack:
            start, is_function = stack.pop()
            if is_function:
                first = code.count("\n", 0, start) + 1
                yield first, code.count("\n", start, at) + 1


def check_sizes(root, found):
    for path in code_files(root):
        name = path.relative_to(root).as_posix()
        text = path.read_text()
        lines = text.splitlines()
        if len(lines) > FILE_LINES_MAX:
            found.append(f"{name}: {len(lines)} lines, at most {FILE_LINES_MAX}")
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                found.append(f"{name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}")
            if UNFINISHED.search(line):
                found.append(f"{name}:{number}: a marker of unfinished work")
        for first, length in function_lengths(text):
            if length > FUNCTION_LINES_MAX:
                found.append(f"{name}:{first}: a function of {length} lines, "
                             f"at most {FUNCTION_LINES_MAX}")
        if FORBIDDEN_FOLDERS & set(pathlib.PurePosixPath(name).parts + (path.stem,)):
            found.append(f"{name}: a name that says nothing")
        if path.suffix == ".h" and "#pragma once" not in text:
            found.append(f"{name}: no #pragma once")


def check_mirror(root, found):
    """tests/unit/<folder>/<name>_test.cc tests something in <folder> that exists under that name."""
    for path in sorted((root / "tests/unit").rglob("*_test.cc")):
        home = path.parent.relative_to(root / "tests/unit")
        stem = path.stem[:-len("_test")]
        if not (root / home).is_dir():
            found.append(f"{path.relative_to(root)}: there is no folder {home}/")
            continue
        names = {p.stem for p in (root / home).glob("*.*")}
        if not any(stem == n or stem.startswith(n + "_") or n.startswith(stem) for n in names):
            found.append(f"{path.relative_to(root)}: mirrors no file of {home}/")


def check_folders(root, found):
    """A folder that a reader can take in at a glance."""
    count = collections.Counter(path.parent for path in code_files(root))
    for folder, files in sorted(count.items()):
        if files > FOLDER_FILES_MAX:
            found.append(f"{folder.relative_to(root)}/: {files} code files, "
                         f"at most {FOLDER_FILES_MAX}; divide it into sub-folders")


def check_classes(root, found):
    """Methods by ctags over the headers, sources by the definitions in .cc files."""
    tool = shutil.which("ctags")
    if tool is None:
        print("tidy: ctags is not installed; classes not counted")
        return
    files = [path.relative_to(root).as_posix() for path in code_files(root)
             if not path.relative_to(root).as_posix().startswith("tests/")]
    listing = subprocess.run(
        [tool, "--languages=C++", "--langmap=C++:+.cu.cuh", "--kinds-C++=fp", "--fields=+s",
         "--sort=no", "-x", "--_xformat=%{scopeKind} %s %F %N", "-f", "-", "-L", "-"],
        cwd=root, input="\n".join(files), capture_output=True, text=True).stdout
    methods, sources = collections.defaultdict(set), collections.defaultdict(set)
    for line in listing.splitlines():
        kind, owner, file, name = line.split(" ", 3)
        if kind not in ("class", "struct"):
            continue
        if file.endswith(".h"):
            methods[owner].add(name)
        else:
            sources[owner].add(file)
    for owner in sorted(set(methods) | set(sources)):
        most = LARGE_CLASSES.get(owner.rsplit("::", 1)[-1], (CLASS_METHODS_MAX, CLASS_SOURCES_MAX))
        if len(methods[owner]) > most[0]:
            found.append(f"class {owner}: {len(methods[owner])} methods, at most {most[0]}; "
                         "divide it into objects with state of their own")
        if len(sources[owner]) > most[1]:
            found.append(f"class {owner}: {len(sources[owner])} sources "
                         f"({', '.join(sorted(sources[owner]))}), at most {most[1]}")


def check_cycles(root, found):
    """The folders of the product form no cycle by their includes."""
    edges = collections.defaultdict(dict)
    for path in code_files(root):
        name = path.relative_to(root).as_posix()
        folder = name.rpartition("/")[0]
        for include in includes(path.read_text()):
            target = include.rpartition("/")[0]
            if target and target != folder and (root / include).exists():
                edges[folder].setdefault(target, f"{name} includes {include}")
    done, trail = set(), []

    def visit(folder):
        if folder in trail:
            ring = trail[trail.index(folder):] + [folder]
            found.append("folders form a cycle: " +
                         "; ".join(edges[a][b] for a, b in zip(ring, ring[1:])))
        elif folder not in done:
            trail.append(folder)
            for target in sorted(edges[folder]):
                visit(target)
            trail.pop()
            done.add(folder)

    for folder in sorted(edges):
        if not folder.startswith("tests"):
            visit(folder)


def check_assertions(root, found):
    lines = asserted = 0
    for path in code_files(root):
        if not path.relative_to(root).as_posix().startswith("tests/"):
            text = path.read_text()
            lines += text.count("\n")
            asserted += len(re.findall(r"\b(?:INVARIANT|static_assert)\(", text))
    if lines > 1000 and 1000 * asserted / lines < ASSERTIONS_MIN:
        found.append(f"{asserted} assertions in {lines} lines, {1000 * asserted / lines:.2f} for each "
                     f"1,000, at least {ASSERTIONS_MIN}; assert state changes and preconditions")


def text_files(root):
    yield from code_files(root)
    for pattern in ("*.md", "*.py"):
        for path in sorted(root.rglob(pattern)):
            if not any(part.startswith((".", "build")) for part in path.relative_to(root).parts):
                yield path


def check_words(root, found):
    places = [f"{path.relative_to(root)}:{number}" for path in text_files(root)
              if path.relative_to(root).as_posix() not in RIDDLES_EXCEPTED
              for number, line in enumerate(path.read_text().splitlines(), 1)
              if RIDDLES.search(line)]
    if len(places) > RIDDLES_MAX:
        found.append(f"{len(places)} lines hold a word that hides who does what (RIDDLES in "
                     f"tests/house/tidy.py), at most {RIDDLES_MAX}; the last ones: "
                     f"{', '.join(places[-5:])}")


def check_documents(root, found):
    limits = dict(DOCUMENT_LINES_MAX)
    folders = {path.parent.relative_to(root).as_posix() for path in code_files(root)}
    for folder in sorted(f for f in folders if not f.startswith("tests/")):
        limits[folder + "/README.md"] = FOLDER_README_LINES_MAX
    for name, most in limits.items():
        path = root / name
        if not path.exists():
            found.append(f"{name} is missing; say in a few lines what is in the folder")
        elif len(path.read_text().splitlines()) > most:
            found.append(f"{name}: {len(path.read_text().splitlines())} lines, at most {most}")
        if name.endswith("/README.md") and path.exists() and path.read_text():
            heading = f"# {name.removesuffix('README.md')}"
            if path.read_text().splitlines()[0] != heading:
                found.append(f"{name}: the first line is not \"{heading}\"")
    for path in text_files(root):
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                continue
            if not (path.parent / target.split("#", 1)[0]).exists():
                found.append(f"{path.relative_to(root)}: the link {target} leads nowhere")


def check_subjects(root, found):
    """Since the rule began; a tree without its history has nothing to check."""
    log = subprocess.run(["git", "-C", str(root), "log", "--no-merges", "--format=%h %s",
                          f"{SUBJECTS_SINCE}..HEAD"], capture_output=True, text=True)
    for line in log.stdout.splitlines() if log.returncode == 0 else []:
        commit, subject = line.split(" ", 1)
        if len(subject) > SUBJECT_COLUMNS_MAX or not SUBJECT.fullmatch(subject):
            found.append(f"commit {commit}: the subject \"{subject}\" is not \"area: imperative\" in "
                         f"at most {SUBJECT_COLUMNS_MAX} columns")


def check_own_header(root, found):
    """X.cc includes X.h before all else: so its object proves that the header compiles alone, and
    tests/house/CMakeLists.txt compiles apart only the headers without such a source."""
    for path in code_files(root):
        own = path.with_suffix(".h").relative_to(root).as_posix()
        if path.suffix != ".cc" or own.startswith("tests/") or not (root / own).exists():
            continue
        if next(iter(includes(path.read_text())), None) != own:
            found.append(f"{path.relative_to(root)}: does not include {own} first")


def check_ratio(root, found):
    count = lambda paths: sum(len(p.read_text().splitlines()) for p in paths)
    code = count(p for p in code_files(root) if not p.relative_to(root).as_posix()
                 .startswith("tests/"))
    tests = count(p for p in (root / "tests").rglob("*") if p.suffix in (".cc", ".h", ".py"))
    if code and tests / code < TEST_TO_CODE_MIN:
        found.append(f"tests: {tests} lines for {code} of code, "
                     f"{tests / code:.2f}, at least {TEST_TO_CODE_MIN}")


def check_format(root, found):
    """With clang-format 14 only: other versions lay out differently."""
    for tool in ("clang-format-14", "clang-format"):
        if shutil.which(tool):
            version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout
            if " 14." in version:
                break
    else:
        print("tidy: clang-format 14 is not installed; layout not checked")
        return
    files = [str(p) for p in code_files(root)]
    done = subprocess.run([tool, "--dry-run", "--style=file", *files], capture_output=True,
                          text=True)
    bad = sorted({line.split(":", 1)[0] for line in done.stderr.splitlines() if "warning" in line})
    found.extend(f"{pathlib.Path(name).relative_to(root)}: not laid out by clang-format"
                 for name in bad)


def check_scripts(root, found):
    """Python looks for modules in the current folder first, which may be anybody's; -I does not."""
    for path in sorted(each for each in (root / "deploy").rglob("*") if each.is_file()):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\bpython3? (?!-I\b)-", line):
                found.append(f"{path.relative_to(root)}:{number}: python3 without -I")


CHECKS = [check_layering, check_cycles, check_sizes, check_folders, check_classes, check_mirror,
          check_own_header, check_ratio, check_assertions, check_words, check_documents,
          check_subjects, check_scripts, check_format]


def self_test():
    """Every rule must fail on a tree that breaks it, and pass on one that does not."""
    table = "## Layering\n" + "\n".join(
        f"| `{name}` | {'`base`' if name != 'base' else '-'} | reason {name} |"
        for name in LIBRARIES + ["tests"])
    good = {"ARCHITECTURE.md": table, "README.md": "", "base/README.md": "", "model/README.md": "",
            "base/a.h": "#pragma once\n", "model/a.h": "#pragma once\n",
            "tests/unit/base/a_test.cc": "int a;\nint b;\nint c;\n"}
    breaches = {
        "layering": ({"base/a.cc": '#include "kernels/k.h"\n'}, "reason base"),
        "fence": ({"model/a.cc": "#include <sodium.h>\n"}, "primitives"),
        "regex": ({"model/a.cc": "#include <regex>\n"}, "backtracks"),
        "columns": ({"base/a.cc": "//" + "x" * 110 + "\n"}, "columns"),
        "marker": ({"base/a.cc": "// TO" + "DO later\n"}, "unfinished"),
        "file": ({"base/a.cc": "\n" * 801}, "lines, at most"),
        "function": ({"base/a.cc": "void f() {\n" + "  g();\n" * 71 + "}\n"}, "a function of"),
        "member": ({"base/a.cc": "int T::f(int a) const {\n" + "  g();\n" * 71 + "}\n"},
                   "a function of"),
        "row": ({"model/gguf/a.cc": '#include "model/a.h"\n', "model/gguf/README.md": "",
                 "ARCHITECTURE.md": table + "\n| `model/gguf` | `base` | files first |"}, "files first"),
        "row of nothing": ({"ARCHITECTURE.md": table + "\n| `base/b` | `base/c` | why |",
                            "base/b/a.h": "#pragma once\n", "base/b/README.md": ""},
                           "does not exist"),
        "cycle": ({"base/b/b.h": '#pragma once\n#include "base/a.h"\n', "base/b/README.md": "",
                   "base/a.h": '#pragma once\n#include "base/b/b.h"\n'}, "form a cycle"),
        "methods": ({"base/c.h": "#pragma once\nclass C {\n" +
                     "".join(f"  void f{n}();\n" for n in range(41)) + "};\n"}, "41 methods"),
        "sources": ({f"base/c{n}.cc": f"void C::f{n}() {{}}\n" for n in range(3)} |
                    {"base/c.h": "#pragma once\nclass C {\n  void f0();\n};\n"}, "3 sources"),
        "assertions": ({"base/b.cc": "int x;\n" * 700, "base/c.cc": "int y;\n" * 700,
                        "tests/unit/base/a_test.cc": "int z;\n" * 900}, "assertions in"),
        "words": ({"base/b.md": ("it is no" + "body\n") * (RIDDLES_MAX + 1)}, "who does what"),
        "long document": ({"README.md": "line\n" * 121}, "at most 120"),
        "long folder document": ({"base/README.md": "line\n" * 16}, "at most 15"),
        "heading": ({"base/README.md": "#base /\n"}, "the first line is not"),
        "no folder document": ({"base/b/b.h": "#pragma once\n"}, "README.md is missing"),
        "link": ({"base/README.md": "[there](nowhere.md)\n"}, "leads nowhere"),
        "mirror": ({"tests/unit/base/zzz_test.cc": "int b;\n"}, "mirrors no file"),
        "pragma": ({"base/b.h": "int x;\n"}, "pragma"),
        "folder": ({"base/utils/b.h": "#pragma once\n"}, "says nothing"),
        "full folder": ({f"base/b{n}.h": "#pragma once\n" for n in range(40)}, "at most 40"),
        "own header": ({"base/a.cc": '#include <vector>\n#include "base/a.h"\n'}, "first"),
        "script": ({"deploy/x": "python3 -I -c 1\npython3 -m pip\n"}, "deploy/x:2: python3 without"),
        "ratio": ({"base/b.cc": "int x;\n" * 50}, "at least"),
    }
    failures = 0
    for name, (files, expected) in {"good": ({}, None), **breaches}.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {**good, **files}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            found = []
            for check in CHECKS[:-1]:
                check(root, found)
            hit = not found if expected is None else any(expected in line for line in found)
            if not hit:
                print(f"tidy self-test: {name}: found {found}")
                failures += 1
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(1 if self_test() else 0)
    root = pathlib.Path(sys.argv[1]).resolve()
    found = []
    for check in CHECKS:
        check(root, found)
    print("\n".join(found) if found else "the house is clean")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
