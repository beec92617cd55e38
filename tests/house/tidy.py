#!/usr/bin/env python3
"""The house rules, as a test.

Usage: tidy.py ROOT            checks the tree
       tidy.py --self-test     checks the checks: every rule must catch a planted breach

Rules: the layering table of ARCHITECTURE.md (with its because), fences around third parties, file
and function sizes, columns, markers of unfinished work, the mirror of the tests, a source's own
header first, formatting.
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
LIBRARIES = ["base", "kernels", "placement", "proto", "model", "ledger", "node", "coordinator",
             "cli"]
FORBIDDEN_FOLDERS = {"utils", "util", "common", "helpers", "helper", "misc"}
UNFINISHED = re.compile(r"\b(" + "|".join(["FIX" + "ME", "TO" + "DO", "XX" + "X", "HA" + "CK"]) + r")\b")

# What may include a third party, and why nobody else may.
FENCES = [
    (r"boost/(asio|beast)", ["proto/link/tcp_", "node/layers/peer_source", "coordinator/http/",
                             "coordinator/membership/dial_back", "cli/", "tests/"],
     "one room knows sockets; state machines must run in a simulation"),
    (r"(grpcpp/|grpc/|.*\.grpc\.pb\.h)", ["node/control/client", "node/control/channel",
                                          "node/control/description", "node/control/enrolment",
                                          "node/control/inquiry", "coordinator/control/service",
                                          "proto/link/grpc_tls", "tests/"],
     "gRPC owns threads; it stays in adapters without logic"),
    (r"sodium", ["base/crypto"], "one room chooses primitives"),
    (r"openssl/", ["proto/link/tls", "ledger/merkle", "tests/unit/proto/", "tests/unit/node/",
                    "tests/bench/"], "TLS belongs to the transport, and a log's hashes to its tree"),
    (r"sqlite3", ["coordinator/store/", "tests/unit/coordinator/store/"],
     "one room knows the database"),
    (r"curl/", ["cli/"], "only verbs download"),
    (r"histedit", ["cli/terminal/line_editor"], "one file knows the terminal's editor"),
    (r"CLI/", ["cli/", "tests/unit/cli/"], "only verbs parse flags"),
    (r"nlohmann/", ["coordinator/http/", "cli/", "tests/"],
     "JSON is for clients; nothing of ours travels as JSON"),
    (r"regex$", [], "std::regex backtracks without bound"),
]


def layering_table(architecture):
    """Rows of the table under '## Layering': {library: (allowed, because)}."""
    rows = {}
    section = architecture.split("## Layering", 1)[-1].split("\n## ", 1)[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and re.fullmatch(r"`[a-z]+`", cells[0]):
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


def allowed_include(include, library, allowed):
    target = include.split("/", 1)[0]
    if target == library or target not in LIBRARIES + ["tests"]:
        return True
    return any(include == entry or include.startswith(entry.rstrip("/") + "/") or entry == "all"
               for entry in allowed)


def check_layering(root, found):
    table = layering_table((root / "ARCHITECTURE.md").read_text())
    if set(table) != set(LIBRARIES) | {"tests"}:
        found.append(f"ARCHITECTURE.md: layering table has rows {sorted(table)}")
        return
    for path in code_files(root):
        name = path.relative_to(root).as_posix()
        library = name.split("/", 1)[0]
        allowed, because = table[library]
        for include in includes(path.read_text()):
            if library != "tests" and not allowed_include(include, library, allowed):
                found.append(f"{name}: includes {include}; {library} may include "
                             f"{', '.join(allowed) or 'nothing of ours'}, because {because}")
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


CHECKS = [check_layering, check_sizes, check_folders, check_mirror, check_own_header, check_ratio, check_format]


def self_test():
    """Every rule must fail on a tree that breaks it, and pass on one that does not."""
    table = "## Layering\n" + "\n".join(
        f"| `{name}` | {'`base`' if name != 'base' else '-'} | reason {name} |"
        for name in LIBRARIES + ["tests"])
    good = {"ARCHITECTURE.md": table, "base/a.h": "#pragma once\n",
            "tests/unit/base/a_test.cc": "int a;\n"}
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
        "mirror": ({"tests/unit/base/zzz_test.cc": "int b;\n"}, "mirrors no file"),
        "pragma": ({"base/b.h": "int x;\n"}, "pragma"),
        "folder": ({"base/utils/b.h": "#pragma once\n"}, "says nothing"),
        "full folder": ({f"base/b{n}.h": "#pragma once\n" for n in range(40)}, "at most 40"),
        "own header": ({"base/a.cc": '#include <vector>\n#include "base/a.h"\n'}, "first"),
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
