"""The metadata of a GGUF file, read with struct: the gguf package takes seconds for a vocabulary."""

import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


def metadata(path, prefix):
    """{key less `prefix`: value} of the keys that begin with it."""
    with open(path, "rb") as file:
        def number(code):
            return struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]

        def value(kind):
            if kind == STRING:
                return file.read(number("Q")).decode()
            if kind == ARRAY:
                inner, count = number("I"), number("Q")
                if inner in SCALARS:
                    code = f"<{count}{SCALARS[inner]}"
                    return list(struct.unpack(code, file.read(struct.calcsize(code))))
                return [value(inner) for _ in range(count)]
            return number(SCALARS[kind])

        assert file.read(4) == b"GGUF" and number("I") == 3, path
        number("Q")  # tensors
        found = {}
        for _ in range(number("Q")):
            key = value(STRING)
            found[key] = value(number("I"))
    return {key.removeprefix(prefix): what for key, what in found.items() if key.startswith(prefix)}
