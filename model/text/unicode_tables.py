"""Writes model/text/unicode_tables.inc: the general categories that the pre-tokenizers ask for; with
"cases" as its argument model/text/unicode_cases.inc, which letters and marks begin and end a word.

Usage: pip install unicodedata2==15.1.0; python3 model/text/unicode_tables.py > model/text/unicode_tables.inc
"""

import sys

import unicodedata2

CLASSES = {"L": 1, "N": 2, "S": 3, "P": 8}
SPACES = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
          0x202F, 0x205F, 0x3000]  # White_Space


CASES = {"Lu": 1, "Lt": 1, "Ll": 2, "Lm": 3, "Lo": 3, "Mn": 3, "Mc": 3, "Me": 3}


def class_of(point):
    if point in SPACES:
        return 4
    return CLASSES.get(unicodedata2.category(chr(point))[0], 0)


def case_of(point):
    return CASES.get(unicodedata2.category(chr(point)), 0)


def main():
    cases = sys.argv[1:] == ["cases"]
    runs = []
    for point in range(0x110000):
        kind = case_of(point) if cases else class_of(point)
        if not runs or runs[-1][1] != kind:
            runs.append((point, kind))
    print(f"// Made by model/text/unicode_tables.py from Unicode {unicodedata2.unidata_version}:")
    name = "LetterCase" if cases else "CodePointClass"
    print(f"// first code point of a run << 4 | {name} of the run.")
    line = ""
    for point, kind in runs:
        item = f"0x{point << 4 | kind:X},"
        if len(line) + len(item) + 1 > 100:
            print(line.rstrip())
            line = ""
        line += item + " "
    print(line.rstrip())


if __name__ == "__main__":
    main()
