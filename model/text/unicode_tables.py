"""Writes model/text/unicode_tables.inc: the general categories that the pre-tokenizers ask for.

Usage: pip install unicodedata2==15.1.0; python3 model/text/unicode_tables.py > model/text/unicode_tables.inc
"""

import unicodedata2

CLASSES = {"L": 1, "N": 2, "P": 8}
SPACES = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
          0x202F, 0x205F, 0x3000]  # White_Space


def main():
    spaces = set(SPACES)
    runs = []
    for point in range(0x110000):
        kind = CLASSES.get(unicodedata2.category(chr(point))[0], 0)
        if point in spaces:
            kind = 4
        if not runs or runs[-1][1] != kind:
            runs.append((point, kind))
    print(f"// Made by model/text/unicode_tables.py from Unicode {unicodedata2.unidata_version}:")
    print("// first code point of a run << 4 | CodePointClass of the run.")
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
