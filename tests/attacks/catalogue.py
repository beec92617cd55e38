#!/usr/bin/env python3
"""The table of attacks against the tests that it names.

Usage: catalogue.py ROOT           every attack has its row, every test that is named exists, every
                                   test of an attack is named, and the sum above is the table's
       catalogue.py --self-test    every rule must catch a planted breach
"""

import collections
import pathlib
import re
import sys
import tempfile

FAMILIES = {"A": 23, "V": 8, "K": 9, "U": 7, "N": 6, "X": 10}
ATTACKS = [f"{family}{number}" for family, count in FAMILIES.items()
           for number in range(1, count + 1)]
OUTCOMES = ("as stated", "otherwise", "not defended")
TABLE = "tests/attacks/CATALOGUE.md"


def gtests(root):
    """"folder.Suite.Test" of every GoogleTest, with any folder on its path below tests/unit; of one
    with parameters without its parameters."""
    names = set()
    for path in sorted((root / "tests").rglob("*_test.cc")):
        folders = path.relative_to(root / "tests").parts[:-1]
        folders = folders[1:] if folders[0] == "unit" else folders[:1]
        for suite, name in re.findall(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)",
                                      path.read_text()):
            names.update(f"{folder}.{suite}.{name}" for folder in folders)
    return names


def python_tests(root):
    """"e2e.file/Class.test" of every test method."""
    names = set()
    for path in sorted((root / "tests").rglob("*_test.py")):
        owner = None
        for line in path.read_text().splitlines():
            if found := re.match(r"class (\w+)", line):
                owner = found.group(1)
            elif found := re.match(r"    def (test_\w+)", line):
                names.add(f"e2e.{path.stem}/{owner}.{found.group(1)}")
    return names


def whole_tests(root):
    """What CMake files add by name, and the fuzz targets."""
    names = set()
    for path in (root / "tests").rglob("CMakeLists.txt"):
        text = path.read_text()
        names.update(re.findall(r"\bNAME ((?:sim|e2e)\.\w+)", text))
        names.update(f"oracle.{name}" for name in re.findall(r"\bhearth_oracle\((\w+)", text))
    names.update(f"fuzz.{path.stem[:-len('_fuzz')]}"
                 for path in (root / "tests").rglob("*_fuzz.cc"))
    return names


def rows(text):
    """(id, what is tried, tests, outcome) of every row of an attack."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 4 and re.fullmatch(r"[A-Z]\d+", cells[0]):
            yield cells[0], cells[1], re.findall(r"`([^`]+)`", cells[2]), cells[3]


def check(root):
    found = []
    text = (root / TABLE).read_text()
    table = list(rows(text))
    seen = collections.Counter(row[0] for row in table)
    found += [f"attack {one} has {seen[one]} rows" for one in ATTACKS if seen[one] != 1]
    found += [f"there is no attack {one}" for one in seen if one not in ATTACKS]
    known = gtests(root) | python_tests(root) | whole_tests(root)
    sums = collections.Counter()
    named = set()
    for attack, _, tests, outcome in table:
        kind = next((one for one in OUTCOMES if outcome.startswith(f"**{one}**")), None)
        sums[kind] += 1
        if kind is None:
            found.append(f"attack {attack}: an outcome begins with one of {', '.join(OUTCOMES)}")
        elif len(outcome) < len(kind) + 20:
            found.append(f"attack {attack}: its outcome is not said")
        if not tests:
            found.append(f"attack {attack} names no test")
        found += [f"attack {attack}: there is no test {one}" for one in tests if one not in known]
        named.update(tests)
    for one in sorted(known):
        if found_id := re.match(r"attacks\.Attack\.([A-Z])0?(\d+)_", one):
            attack = "".join(found_id.groups())
            tests = [row[2] for row in table if row[0] == attack]
            if not tests or one not in tests[0]:
                found.append(f"{one} is not in the row of {attack}")
    total = ", ".join(f"{sums[one]} {one}" for one in OUTCOMES)
    if f"{len(ATTACKS)} attacks: {total}." not in text:
        found.append(f"the sum above the table is not: {len(ATTACKS)} attacks: {total}.")
    return found


def self_test():
    """On a small tree: right as it is, wrong with each breach."""
    row = "| {} | tried | `attacks.Attack.{}_X` | **as stated**: what comes of it is written here |"

    def tree(folder, change=lambda text: text, extra=""):
        root = pathlib.Path(folder)
        (root / "tests/attacks").mkdir(parents=True)
        full = [f"{one[0]}{int(one[1:]):02}" for one in ATTACKS]
        (root / "tests/attacks/a_test.cc").write_text(
            "".join(f"TEST_F(Attack, {one}_X) {{\n}}\n" for one in full) + extra)
        text = "63 attacks: 63 as stated, 0 otherwise, 0 not defended.\n" + "\n".join(
            row.format(one, long) for one, long in zip(ATTACKS, full))
        (root / TABLE).write_text(change(text))
        return check(root)

    breaches = {
        "a row is missing": (lambda t: t.replace(row.format("K3", "K03"), ""), "K3 has 0 rows"),
        "twice": (lambda t: t + "\n" + row.format("K3", "K03"), "K3 has 2 rows"),
        "a test that is not": (lambda t: t.replace("A07_X", "A07_Y"), "no test attacks.Attack.A07_Y"),
        "no test": (lambda t: t.replace("`attacks.Attack.V01_X`", "-"), "V1 names no test"),
        "an outcome": (lambda t: t.replace("**as stated**", "**fine**", 1), "A1: an outcome"),
        "the sum": (lambda t: t.replace("63 as", "62 as"), "the sum above"),
        "a stranger": (lambda t: t + "\n" + row.format("Z1", "A01"), "no attack Z1"),
    }
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        if found := tree(folder):
            print(f"self-test: a right table: {found}")
            failures += 1
    with tempfile.TemporaryDirectory() as folder:
        if not any("A09_More is not in" in one
                   for one in tree(folder, extra="TEST_F(Attack, A09_More) {}\n")):
            print("self-test: a test that no row names was not found")
            failures += 1
    for what, (change, expected) in breaches.items():
        with tempfile.TemporaryDirectory() as folder:
            if not any(expected in one for one in tree(folder, change)):
                print(f"self-test: {what}: not found")
                failures += 1
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(1 if self_test() else 0)
    found = check(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(found) if found else "the table names what is there")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
