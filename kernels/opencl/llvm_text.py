"""LLVM code as text: the types, constants and functions of a module that clang 15 or newer has
written (opaque pointers). Only what device code contains; anything else raises Unknown."""

import re
import struct


class Unknown(Exception):
    """What this program has no translation for."""


class Type:
    """An LLVM type: kind is int, float, double, ptr, void, array, struct, vector or metadata."""

    def __init__(self, kind, bits=0, parts=(), count=0, packed=False):
        self.kind, self.bits, self.parts = kind, bits, parts
        self.count, self.packed = count, packed

    def align(self):
        if self.kind in ("array", "vector"):
            return self.parts[0].align()
        if self.kind == "struct":
            return 1 if self.packed else max([p.align() for p in self.parts], default=1)
        return self.size()

    def size(self):
        if self.kind == "int":
            size = 1
            while size * 8 < self.bits:
                size *= 2
            return size
        if self.kind in ("array", "vector"):
            return self.count * self.parts[0].size()
        if self.kind == "struct":
            end = self.offset(len(self.parts))
            return end + -end % self.align()
        return {"float": 4, "double": 8, "ptr": 8}[self.kind]

    def offset(self, index):
        """Of part `index` of a struct; of the end, where index counts all parts."""
        at = 0
        for i, part in enumerate(self.parts):
            at += 0 if self.packed else -at % part.align()
            if i == index:
                return at
            at += part.size()
        return at

    def same(self, other):
        return (self.kind == other.kind and self.bits == other.bits and
                len(self.parts) == len(other.parts) and
                all(a.same(b) for a, b in zip(self.parts, other.parts)))


class Value:
    """kind: local, global, int, float, double, null, undef, zero, gep, or parts (of an array or a
    struct)."""

    def __init__(self, kind, type, data=None):
        self.kind, self.type, self.data = kind, type, data
        self.align = 1


TOKEN = re.compile(
    r'\s*(c"(?:[^"])*"|[%@]"[^"]*"|[%@$!][\w.$-]*|"[^"]*"|0x[0-9A-Fa-f]+|-?\d+\.\d+(?:e[+-]?\d+)?'
    r"|-?\d+|[\w.]+|\.\.\.|#\d+|[^\s])")
# Words before a type or a value that change nothing here.
NOISE = {
    "noundef", "nonnull", "zeroext", "signext", "noalias", "nocapture", "readonly", "readnone",
    "writeonly", "returned", "inbounds", "nuw", "nsw", "exact", "volatile", "immarg", "dso_local",
    "local_unnamed_addr", "unnamed_addr", "fast", "tail", "musttail", "notail", "allocalign",
    "internal", "constant", "global", "private", "linkonce_odr", "hidden", "nnan", "ninf", "nsz",
    "arcp", "contract", "afn", "reassoc", "disjoint", "nneg", "atomic", "monotonic", "noreturn", "mustprogress"}


class Reader:
    """Tokens of one line, from `at` on."""

    def __init__(self, text, types):
        self.tokens = [m.group(1) for m in TOKEN.finditer(text)]
        self.at, self.types, self.text = 0, types, text

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self):
        token = self.peek()
        self.at += 1
        return token

    def take(self, token):
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def expect(self, token):
        if not self.take(token):
            raise Unknown(f"'{token}' expected before '{self.peek()}' in: {self.text}")

    def skip_noise(self):
        """Attributes too; what an attribute in brackets says is returned by its name."""
        said = {}
        while True:
            word = self.peek()
            if word in NOISE:
                self.next()
            elif word in ("align", "dereferenceable", "dereferenceable_or_null", "byval", "sret",
                          "range", "captures", "initializes", "memory", "elementtype"):
                self.next()
                if self.take("("):
                    said[word] = self.type() if word in ("byval", "sret") else self.next()
                    depth = 1
                    while depth:
                        token = self.next()
                        depth += (token == "(") - (token == ")")
                else:
                    said[word] = self.next()
            else:
                return said

    def type(self):
        word = self.next()
        if re.fullmatch(r"i\d+", word):
            return Type("int", int(word[1:]))
        if word in ("float", "double", "ptr", "void", "metadata", "label"):
            return Type(word)
        if word.startswith("%"):
            return self.types[word]
        if word in ("[", "<"):
            if word == "<" and self.take("{"):
                made = self.struct(True)
                self.expect(">")
                return made
            count = int(self.next())
            self.expect("x")
            part = self.type()
            self.expect("]" if word == "[" else ">")
            return Type("array" if word == "[" else "vector", 0, (part,), count)
        if word == "{":
            return self.struct(False)
        raise Unknown(f"type '{word}' in: {self.text}")

    def struct(self, packed):
        parts = []
        while not self.take("}"):
            parts.append(self.type())
            self.take(",")
        return Type("struct", 0, tuple(parts), 0, packed)

    def typed_value(self):
        type = self.type()
        self.skip_noise()
        return self.value(type)

    def list_of_values(self, end):
        """Up to `end`, or to the end of the line where that is empty."""
        parts = []
        while not (self.take(end) if end else self.at >= len(self.tokens)):
            parts.append(self.typed_value())
            self.take(",")
        return parts

    def arguments(self):
        """Of a call, up to its bracket; each has its alignment where it is said."""
        parts = []
        while not self.take(")"):
            type = self.type()
            said = self.skip_noise()
            value = self.value(type) if type.kind != "metadata" else self.next()
            if type.kind != "metadata":
                value.align = int(said.get("align", 1))
            parts.append(value)
            self.take(",")
        return parts

    def value(self, type):
        word = self.next()
        if word.startswith("%"):
            return Value("local", type, word)
        if word.startswith("@"):
            return Value("global", type, word)
        if word in ("undef", "poison"):
            return Value("undef", type)
        if word in ("true", "false"):
            return Value("int", type, int(word == "true"))
        if word == "null":
            return Value("null", type)
        if word == "zeroinitializer":
            return Value("zero", type)
        if word.startswith('c"'):
            return Value("bytes", type, text_bytes(word[2:-1]))
        if word in ("[", "{", "<"):
            if word == "<" and self.take("{"):
                parts = self.list_of_values("}")
                self.expect(">")
            else:
                parts = self.list_of_values({"[": "]", "{": "}", "<": ">"}[word])
            return Value("parts", type, parts)
        if word == "getelementptr":
            self.skip_noise()
            self.expect("(")
            element = self.type()
            self.expect(",")
            return Value("gep", type, (element, self.list_of_values(")")))
        if type.kind == "int":
            return Value("int", type, int(word))
        if type.kind in ("float", "double"):
            number = (struct.unpack("<d", struct.pack("<Q", int(word, 16)))[0]
                      if word.startswith("0x") else float(word))
            return Value(type.kind, type, number)
        raise Unknown(f"value '{word}' in: {self.text}")


def text_bytes(text):
    return re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m.group(1), 16)]),
                  text.encode("latin-1"))


def constant_bytes(value):
    """The bytes of an initialiser."""
    type = value.type
    if value.kind in ("zero", "undef", "null"):
        return bytes(type.size())
    if value.kind == "bytes":
        return value.data
    if value.kind == "int":
        return (value.data & (1 << 8 * type.size()) - 1).to_bytes(type.size(), "little")
    if value.kind in ("float", "double"):
        return struct.pack("<f" if value.kind == "float" else "<d", value.data)
    if value.kind == "parts":
        made = bytearray(type.size())
        for i, part in enumerate(value.data):
            at = type.offset(i) if type.kind == "struct" else i * type.parts[0].size()
            made[at:at + part.type.size()] = constant_bytes(part)
        return bytes(made)
    raise Unknown(f"initialiser of kind {value.kind}")


class Function:
    """name; head: the line that defines it; lines: those of its body."""

    def __init__(self, name, head, lines):
        self.name, self.head, self.lines = name, head, lines

    def parameters(self, types):
        """(type, name, byval type or None) of each."""
        text = self.head[self.head.index(self.name + "(") + len(self.name):]
        reader = Reader(text, types)
        reader.expect("(")
        found = []
        while not reader.take(")"):
            type = reader.type()
            said = reader.skip_noise()
            name = reader.next() if reader.peek().startswith("%") else f"%{len(found)}"
            found.append((type, name, said.get("byval")))
            reader.take(",")
        return found


NAME = r'@(?:"[^"]*"|[\w.$-]+)'


class Module:
    """functions and globals by name (the text of a global), types, and all other lines."""

    def __init__(self, text):
        self.functions, self.globals, self.types, self.others = {}, {}, {}, []
        self.type_lines = []
        lines = iter(text.splitlines())
        for line in lines:
            if line.startswith("define "):
                name = re.search(NAME, line).group(0)
                body = []
                for inner in lines:
                    if inner == "}":
                        break
                    body.append(inner)
                self.functions[name] = Function(name, line, body)
            elif re.match(NAME + " = ", line):
                self.globals[re.match(NAME, line).group(0)] = line
            elif re.match(r'%\S+ = type|%"[^"]*" = type', line):
                self.type_lines.append(line)
            else:
                self.others.append(line)
        self.read_types()

    def read_types(self):
        left = {}
        for line in self.type_lines:
            name, rest = re.match(r'(%"[^"]*"|%\S+) = type (.*)', line).groups()
            if rest != "opaque":
                left[name] = rest
        while left:  # a type's parts may stand behind it
            ready = {n: r for n, r in left.items()
                     if not any(w in left for w in re.findall(r'%"[^"]*"|%[\w.$-]+', r))}
            if not ready:
                raise Unknown(f"types that contain each other: {', '.join(left)}")
            for name, rest in ready.items():
                try:
                    self.types[name] = Reader(rest, self.types).type()
                except (Unknown, KeyError):
                    pass  # of the host alone
                del left[name]
