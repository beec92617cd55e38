#!/usr/bin/env python3
"""Names in anonymous namespaces do not collide inside a library.

unity_names.py ROOT      prints each collision and exits with 1 where there is one
unity_names.py --self-test

A build without a compiler cache joins up to 52 sources of a library into one unit
(cmake/HearthColdBuild.cmake), where two anonymous namespaces become one. Two functions of one
name do no harm while a call of one cannot reach the other: text and text, or number and number in
the same place, can. One alias that is written twice alike does no harm either.
"""

import collections
import pathlib
import re
import sys

# Folders whose sources one library or test binary holds: the longest that a path begins with.
LIBRARIES = ("base", "kernels", "proto", "model", "placement", "ledger", "node", "node/engine",
             "node/engine/card", "node/proof", "node/runner", "coordinator", "coordinator/http",
             "coordinator/proof", "cli", "tests/unit/base", "tests/unit/kernels",
             "tests/unit/proto", "tests/unit/model", "tests/unit/placement", "tests/unit/ledger",
             "tests/unit/node", "tests/unit/node/engine", "tests/unit/coordinator",
             "tests/unit/coordinator/http", "tests/unit/cli", "tests/tools", "tests/attacks")
# Compiled one by one: each instruction set has its own flags.
ALONE = ("kernels/arm/", "kernels/simd/", "kernels/x86/", "kernels/cuda/")

NAMED = re.compile(r"^namespace ([\w:]+) \{$")
TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (\w+)")
ALIAS = re.compile(r"using (\w+) = (.*);$")
USED = re.compile(r"using ((?:\w+::)+(\w+));$")
CONSTANT = re.compile(r"(?:inline )?constexpr [^({=]*?\b(\w+)(?:\[[^\]]*\])*(?: =|\{)")
GIVEN = re.compile(r"(?!return|using|static_assert|friend)[A-Za-z_][^=({;]*[ &*>](\w+)\(")
FUNCTION = re.compile(r"[^=({]*?\b(\w+)\(([^)]*)\)")
VALUE = re.compile(r"[^({=]*?\b(\w+)(?:\[[^\]]*\])*(?: =|\{|;)")


def parameter_types(text):
    """The types of a parameter list, without names and default values."""
    types = []
    for part in re.sub(r"\s+", " ", text).split(","):
        part = part.split("=")[0].strip()
        types.append(re.sub(r"(?<=[\s&*>])\w+$", "", part).strip() if " " in part else part)
    return ", ".join(types)


def declaration(text):
    """(name, what tells it from others of that name) of one declaration, or None."""
    alias = ALIAS.match(text)
    if alias:
        return alias.group(1), "= " + alias.group(2)
    if text.startswith("using "):
        used = USED.match(text)
        return (used.group(2), "=: " + used.group(1)) if used else None
    kind = TYPE.match(text)
    if kind:
        return kind.group(1), "type"
    function = FUNCTION.match(text)
    if function and text[:function.start(1)].endswith("::"):
        return None  # a member, defined outside its class
    value = VALUE.match(text)
    if re.match(r"[^=({]*\w::\w+ ?[({=;]", text):  # a member of a class
        return None
    if value and not (function and function.end(1) < value.end(1)):
        return value.group(1), "value"
    return (function.group(1), f"({parameter_types(function.group(2))})") if function else None


def anonymous_names(text):
    """{(namespace, name): what} of all anonymous namespaces at the top of a source."""
    found = {}
    space, inside, pending = [], False, ""
    for line in text.splitlines():
        line = re.sub(r"\s*//(?!  ?namespace|.*\").*$", "", line) if inside and line != "}  // namespace" else line
        named = NAMED.match(line)
        if named:
            space.append(named.group(1))
        elif line == "namespace {":
            inside = True
        elif line.startswith("}  // namespace"):
            if inside and line == "}  // namespace":
                inside = False
            elif space:
                space.pop()
        elif inside:
            starts = re.match(r"[A-Za-z_]", line) and not line.startswith(
                ("template", "namespace", "public", "private", "static_assert", "TEST", "INSTANTIATE"))
            if starts or pending:
                pending = (pending + " " + line.strip()).strip()
                if re.search(r"[;{}]$", line) or len(pending) > 2000:
                    what = declaration(pending)
                    if what:
                        found.setdefault(("::".join(space), what[0]), set()).add(what[1])
                    pending = ""
    return found


def header_names(text):
    """((namespace, name), whether it is a constant) of the types, aliases and constants that a
    header gives at the top of a namespace."""
    space = []
    for line in text.splitlines():
        named = NAMED.match(line)
        if named:
            space.append(named.group(1))
        elif line.startswith("}  // namespace") and space:
            space.pop()
        else:
            kind = TYPE.match(line) if not line.endswith(";") else None
            local = CONSTANT.match(line) or GIVEN.match(line)
            kind = kind or ALIAS.match(line) or local
            if kind:
                yield ("::".join(space), kind.group(1)), local is not None


def hidden(sources, headers):
    """Sentences: a name of an anonymous namespace that hides a name of a header around it."""
    names = {}
    for path, text in sorted(headers.items()):
        for found, constant in header_names(text):
            names.setdefault(found, (path, constant))
    for path, text in sorted(sources.items()):
        if library_of(path) is None:
            continue
        for (space, name), whats in sorted(anonymous_names(text).items()):
            parts = space.split("::")
            around = ("::".join(parts[:n]) for n in range(len(parts), 0, -1))
            header, constant = next((names[o, name] for o in around if (o, name) in names),
                                    (None, False))
            # Outside the header's library, one that means something else stands in its own unit.
            apart = constant or all(w.startswith("=:") for w in whats)
            if header and not (apart and library_of(header) != library_of(path)):
                yield f"{path}: {name} is also a name of {header}: rename it"


def library_of(path):
    if path.startswith(ALONE):
        return None
    fits = [lib for lib in LIBRARIES if path.startswith(lib + "/")]
    return max(fits, key=len) if fits else None


def collisions(sources):
    """sources: {path: text}. Sentences, one for each name that two sources of a library share."""
    seen = collections.defaultdict(dict)  # (library, namespace, name) -> {path: {what}}
    for path, text in sorted(sources.items()):
        library = library_of(path)
        if library is None:
            continue
        for (space, name), whats in anonymous_names(text).items():
            seen[library, space, name][path] = whats
    for (_, _, name), places in sorted(seen.items()):
        paths = sorted(places)
        for i, path in enumerate(paths):
            other = next((o for o in paths[:i] if clash(places[o], places[path])), None)
            if other:
                yield f"{path}: {name} is also a name of {other}: rename one"


def clash(first, second):
    aliases = {w for w in first | second if w.startswith("=")}
    functions = {w for w in first | second if w.startswith("(")}
    if first | second == aliases:
        return len({w.lstrip("=: ") for w in aliases}) > 1
    if first | second == functions:
        return any(alike(one, other) for one in first for other in second)
    return True


def kind_of(parameter):
    """What may convert to what: text, numbers, and JSON, which takes anything."""
    plain = re.sub(r"\b(const|std::|fs::|filesystem::)|[&\s]", "", parameter).lstrip(":")
    if plain in ("string", "string_view", "char*", "path", "ByteSpan"):
        return "text"
    if plain in ("Json", "OrderedJson", "nlohmann::json", "nlohmann::ordered_json", "auto"):
        return "anything"
    if re.fullmatch(r"(u?int\d+_t|size_t|unsigned|int|long|double|float|bool|unsignedchar|char)", plain):
        return "number"
    return plain


def alike(one, other):
    """Whether a call of one function could reach the other."""
    first, second = (re.split(r", ", f[1:-1]) for f in (one, other))
    return len(first) == len(second) and all(
        a == b or "anything" in (a, b) for a, b in zip(map(kind_of, first), map(kind_of, second)))


def self_test():
    def source(body):
        return "namespace hearth {\nnamespace {\n\n" + body + "\n\n}  // namespace\n}  // namespace hearth\n"

    def count(first, second, where="base/b.cc"):
        return len(list(collisions({"base/a.cc": source(first), where: source(second)})))

    assert count("constexpr int kWait = 1;", "constexpr auto kWait = 2;") == 1
    assert count("constexpr int kWait = 1;", "constexpr auto kWait = 2;", "ledger/b.cc") == 0
    assert count("struct Reader {\n  int kWait = 1;\n};", "constexpr int kWait = 1;") == 0
    assert count("int f(int a) {\n  return a;\n}", "int f(int b) {\n  return b;\n}") == 1
    assert count("int f(int a) {\n  return a;\n}", "int f(const int* b) {\n  return *b;\n}") == 0
    assert count("int f(std::size_t a) {\n}", "int f(double b) {\n}") == 1
    assert count("int f(const char* a) {\n}", "int f(const std::string& b) {\n}") == 1
    assert count("int f(const Case& a) {\n}", "int f(const Json& b) {\n}") == 1
    assert count("int f(const Case& a) {\n}", "int f(const Reply& b) {\n}") == 0
    assert count("int f(int a,\n      long b) {\n}", "int f(int c, long d) {\n}") == 1
    assert count("using Json = nlohmann::json;", "using Json = nlohmann::json;") == 0
    assert count("using Json = nlohmann::json;", "using Json = nlohmann::ordered_json;") == 1
    assert count("using std::chrono::seconds;", "using std::chrono::seconds;") == 0
    assert count("using std::chrono::seconds;", "std::string seconds(double s) {\n}") == 1
    assert count("constexpr int kWait = 1;  // of one", "constexpr int kTurn = 2;  // of two") == 0
    assert count("int a();  // one\nint f(int a) {\n}", "int f(int b) {\n}") == 1
    assert count("Bytes* One::bytes_ = nullptr;", "Bytes* Two::bytes_ = nullptr;") == 0
    assert count("int One::f(int a) {\n}", "int Two::f(int a) {\n}") == 0
    assert count("std::size_t f(int a) {\n}", "std::size_t f(int a) {\n}") == 1
    assert count("struct Slot {};", "constexpr int kWait = 1;") == 0
    assert count("constexpr std::array<int, 2> kTypes = {1, 2};", "int kTypes[2] = {1, 2};") == 1

    def hides(header, body):
        return len(list(hidden({"base/a.cc": source(body)}, {"base/c.h": header})))

    outer = "namespace hearth {\n\nclass Clock {\n};\n\n}  // namespace hearth\n"
    assert hides(outer, "using Clock = std::chrono::steady_clock;") == 1
    assert hides(outer, "using Watch = std::chrono::steady_clock;") == 0
    constant = "namespace hearth {\n\nconstexpr int kNone = 3;\n\n}  // namespace hearth\n"
    assert hides(constant, "constexpr int kNone = 0;") == 1
    assert hides(constant, "constexpr int kSome = 0;") == 0
    assert hides("namespace hearth {\n\nclass Clock;\n\n}  // namespace hearth\n", "struct Clock {};") == 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    root = pathlib.Path(sys.argv[1])
    paths = [p for lib in LIBRARIES for p in (root / lib).rglob("*.cc")]
    sources = {str(p.relative_to(root)): p.read_text() for p in paths}
    headers = {str(p.relative_to(root)): p.read_text()
               for lib in LIBRARIES for p in (root / lib).rglob("*.h")}
    found = list(collisions(sources)) + list(hidden(sources, headers))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
