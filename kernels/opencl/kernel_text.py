"""OpenCL C of one kernel, from its LLVM code.

Every value becomes a variable, every block a label. What the threads of a block or the lanes of a
warp do together becomes a place where a thread stops: it notes the place and goes to the one
barrier of the kernel, at the end of a loop. After the barrier it goes on there. So warps may part
ways, and wait for their own lanes or for the block, where OpenCL knows only barriers at which all
threads of a block meet at the same place. A loop with such a place in it goes back by way of the
loop's beginning too: it would have two entries otherwise, which some compilers do not take.
"""

import re
import struct

from llvm_text import Reader, Type, Unknown, constant_bytes

INTEGERS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}
SPACES = {"private": "__private", "local": "__local", "global": "__global",
          "constant": "__constant"}
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<",
              "lshr": ">>", "udiv": "/", "urem": "%"}
SIGNED_ARITHMETIC = {"sdiv": "/", "srem": "%", "ashr": ">>"}
FLOATING = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}
COMPARISONS = {"eq": "==", "ne": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
# Builtins of opencl_device.cuh that name a value.
NAMED = {"thread_index": "hearth_thread", "block_x": "(uint)get_group_id(0)",
         "block_y": "(uint)get_group_id(1)", "block_threads": "(uint)get_local_size(0)",
         "grid_x": "(uint)get_num_groups(0)"}
FUNCTIONS = {"fma": "fma", "sqrt": "sqrt", "fabs": "fabs", "nearbyint": "rint", "rint": "rint",
             "floor": "floor", "ceil": "ceil", "trunc": "trunc", "minnum": "fmin",
             "maxnum": "fmax", "copysign": "copysign", "umax": "max", "umin": "min",
             "ctpop": "popcount"}
IGNORED = ("llvm.lifetime", "llvm.assume", "llvm.experimental.noalias", "llvm.dbg",
           "llvm.donothing", "llvm.stackrestore")


def dominators_of(labels, before):
    """By block, the blocks that every way to it passes, itself included."""
    everything = set(labels)
    found = {label: everything for label in labels}
    found[labels[0]] = {labels[0]}
    changed = True
    while changed:
        changed = False
        for label in labels[1:]:
            ways = [found[each] for each in before[label]]
            passed = {label} | (set.intersection(*ways) if ways else set())
            changed = changed or passed != found[label]
            found[label] = passed
    return found


class Kernel:
    """Writes one function; `module` has the types and constants."""

    def __init__(self, function, module):
        self.function, self.module = function, module
        self.variables = {}  # C names by LLVM names
        self.types = {}      # of LLVM names
        self.spaces = {}     # of pointers
        self.constants = {}  # C text by name of a global
        self.lines = []
        self.places = ["hearth_unused"]  # labels at which a turn may begin, but for the first
        self.slots = 0
        self.parameters = function.parameters(module.types)
        self.blocks = self.read_blocks()

    # What the function says.

    def read_blocks(self):
        """[(label, [line])]: the label of a first block without one counts on from the
        parameters."""
        blocks = []
        first = f"%{len([p for p in self.parameters if re.fullmatch('%[0-9]+', p[1])])}"
        current = None
        lines = [re.sub(r", ![\w.]+ ![\w.]+|, !srcloc.*|\s*;.*$", "", line)
                 for line in self.function.lines]
        joined = []
        for line in lines:  # a switch stands on several lines
            if joined and joined[-1].lstrip().startswith("switch") and "]" not in joined[-1]:
                joined[-1] += line
            else:
                joined.append(line)
        for line in joined:
            label = re.match(r'([\w.$-]+|"[^"]*"):', line)
            if label:
                current = ("%" + label.group(1), [])
                blocks.append(current)
            elif line.strip():
                if current is None:
                    current = (first, [])
                    blocks.append(current)
                current[1].append(line.strip())
        return blocks

    def read(self, line):
        """(result, operation, reader after it)."""
        match = re.match(r'(%"[^"]*"|%[\w.$-]+) = (.*)', line)
        result, rest = match.groups() if match else (None, line)
        reader = Reader(rest, self.module.types)
        reader.skip_noise()
        return result, reader.next(), reader

    # Names and types.

    def name(self, local):
        if local not in self.variables:
            plain = re.sub(r"\W", "_", local)
            name = "v" + plain
            while name in self.variables.values():
                name += "_"
            self.variables[local] = name
        return self.variables[local]

    def c_type(self, type, local=None):
        if type.kind == "int":
            return "uint" if type.bits == 1 else INTEGERS[type.size()]
        if type.kind == "ptr":
            return SPACES[self.spaces.get(local, "global")] + " uchar*"
        if type.kind in ("float", "double"):
            return type.kind
        if type.kind == "vector":
            return self.c_type(type.parts[0]) + str(type.count)
        raise Unknown(f"a value of type {type.kind} in {self.function.name}")

    def space_of(self, value):
        """None: not known yet, or any."""
        if value.kind == "local":
            return self.spaces.get(value.data)
        if value.kind == "global":
            return "constant"
        if value.kind == "gep":
            return self.space_of(value.data[1][0])
        return None

    def find_spaces(self):
        for type, name, byval in self.parameters:
            self.types[name] = type
            if type.kind == "ptr":
                self.spaces[name] = "private" if byval else "global"
        changed = True
        while changed:
            before = dict(self.spaces)
            for _, lines in self.blocks:
                for line in lines:
                    self.note_result(line)
            changed = before != self.spaces

    def note_result(self, line):
        result, operation, reader = self.read(line)
        if result is None:
            return
        space = None
        if operation == "alloca":
            self.types[result], space = Type("ptr"), "private"
        elif operation == "getelementptr":
            reader.skip_noise()
            reader.type()
            reader.expect(",")
            pointer = reader.typed_value()
            self.types[result], space = Type("ptr"), self.space_of(pointer)
        elif operation == "call":
            self.types[result] = self.call_type(reader)
            space = "local" if "@hearth_cl_shared(" in line else "global"
        elif operation in ("icmp", "fcmp"):
            self.types[result] = Type("int", 1)
        elif operation == "phi":
            type = reader.type()
            self.types[result] = type
            for value, _ in self.phi_values(reader, type):
                space = space or self.space_of(value)
        elif operation == "select":
            reader.typed_value()
            reader.expect(",")
            first = reader.typed_value()
            reader.expect(",")
            self.types[result] = first.type
            space = self.space_of(first) or self.space_of(reader.typed_value())
        elif operation == "load":
            reader.skip_noise()
            self.types[result], space = reader.type(), "global"
        elif operation == "extractvalue":
            self.types[result] = reader.typed_value().type.parts[int(reader.tokens[-1])]
        elif operation == "shufflevector":
            first = reader.typed_value()
            count = Reader(line[line.rindex("<", 0, line.rindex("x i32>")):],
                           self.module.types).type().count
            self.types[result] = Type("vector", 0, first.type.parts, count)
        elif operation == "extractelement":
            self.types[result] = reader.typed_value().type.parts[0]
        elif " to " in line and operation not in FLOATING:
            self.types[result] = Reader(line[line.rindex(" to ") + 4:], self.module.types).type()
            value = reader.typed_value()
            space = "global" if operation == "inttoptr" else self.space_of(value)
        else:
            reader.skip_noise()
            self.types[result] = reader.type()
        if self.types[result].kind == "ptr" and space:
            known = self.spaces.setdefault(result, space)
            if known != space:
                raise Unknown(f"a pointer to {known} or {space}: {line}")

    @staticmethod
    def phi_values(reader, type):
        found = []
        while reader.take("["):
            value = reader.value(type)
            reader.expect(",")
            found.append((value, reader.next()))
            reader.expect("]")
            reader.take(",")
        return found

    @staticmethod
    def call_type(reader):
        reader.skip_noise()
        return reader.type()

    # Values.

    def value(self, value, space=None):
        type = value.type
        if value.kind == "local":
            return self.name(value.data)
        if value.kind == "int":
            return self.integer(value.data, type)
        if type.kind == "vector" and value.kind in ("undef", "zero"):
            return f"({self.c_type(type)})(0)"
        if value.kind == "parts" and type.kind == "vector":
            return f"({self.c_type(type)})({', '.join(self.value(v) for v in value.data)})"
        if value.kind in ("undef", "zero"):
            return f"({SPACES[space or 'global']} uchar*)0" if type.kind == "ptr" else "0"
        if value.kind == "null":
            return f"({SPACES[space or 'global']} uchar*)0"
        if value.kind == "float":
            return f"as_float(0x{struct.unpack('<I', struct.pack('<f', value.data))[0]:08x}u)"
        if value.kind == "double":
            return f"as_double(0x{struct.unpack('<Q', struct.pack('<d', value.data))[0]:016x}ul)"
        if value.kind == "global":
            return f"((__constant uchar*){self.constant(value.data)})"
        if value.kind == "gep":
            element, values = value.data
            return self.address(element, values)
        raise Unknown(f"a constant of kind {value.kind} in {self.function.name}")

    @staticmethod
    def integer(number, type):
        number &= (1 << type.bits) - 1
        return f"{number}{'ul' if type.bits > 32 else 'u'}"

    def constant(self, name):
        if name not in self.constants:
            line = self.module.globals[name]
            match = re.match(r"\S+ = .*?\bconstant (.*)", line)
            if not match:
                raise Unknown(f"{self.function.name} uses {name}, which is no constant")
            reader = Reader(match.group(1), self.module.types)
            data = constant_bytes(reader.typed_value())
            words = ", ".join(str(byte) for byte in data)
            plain = "c" + re.sub(r"\W", "_", name)
            self.constants[name] = (plain, f"__constant uchar {plain}[{len(data)}] "
                                    f"__attribute__((aligned(16))) = {{{words}}};")
        return self.constants[name][0]

    def signed(self, text, type):
        """The number as a signed one, sign extended from its bits."""
        size = type.size()
        gap = 8 * max(size, 4) - type.bits
        if type.bits == 8 * size:
            return f"({SIGNED[size]}){text}"
        wide = "long" if size == 8 else "int"
        return f"(({wide})((u{wide}){text} << {gap}) >> {gap})"

    def address(self, element, values):
        pointer, *indices = values
        terms, fixed = [], 0
        type = element
        for i, index in enumerate(indices):
            if i > 0 and type.kind == "struct":
                fixed += type.offset(index.data)
                type = type.parts[index.data]
                continue
            if i > 0:
                type = type.parts[0]
            if index.kind == "int":
                fixed += index.data * type.size()
            elif index.kind not in ("zero", "undef"):
                terms.append(f"(long){self.signed(self.value(index), index.type)} * {type.size()}")
        terms += [str(fixed)] if fixed else []
        text = self.value(pointer)
        return f"({text} + ({' + '.join(terms)}))" if terms else text

    # Statements.

    def say(self, line):
        self.lines.append("  " + line)

    def set(self, result, text):
        type = self.types[result]
        if type.kind == "int":
            if type.bits == 1:
                text = f"({text}) & 1u"
            elif type.bits != 8 * type.size():
                text = f"({text}) & {self.integer(-1, type)}"
            elif type.size() < 4:
                text = f"({self.c_type(type)})({text})"
        self.say(f"{self.name(result)} = {text};")

    def write(self):
        """The whole text; raises Unknown."""
        self.find_spaces()
        self.phis = self.find_phis()
        self.returns = self.find_returns()
        for label, lines in self.blocks:
            self.label = label
            self.say(f"{self.place(label)}:;")
            for line in lines:
                self.statement(line)
        return self.frame()

    def find_phis(self):
        """By block and by block before it: [(result, value)]."""
        phis = {}
        for label, lines in self.blocks:
            for line in lines:
                result, operation, reader = self.read(line)
                if operation != "phi":
                    continue
                for value, before in self.phi_values(reader, reader.type()):
                    phis.setdefault((label, before), []).append((result, value))
        return phis

    def targets(self, lines):
        return re.findall(r'label (%"[^"]*"|%[\w.$-]+)', " ".join(lines))

    def find_returns(self):
        """The edges that end a turn of a loop with a stop in it: (block, header)."""
        after = {label: self.targets(lines) for label, lines in self.blocks}
        before = {label: [] for label in after}
        for label, nexts in after.items():
            for to in nexts:
                before[to].append(label)
        stops = {label for label, lines in self.blocks
                 if any("@hearth_cl_sync_" in line for line in lines)}
        dominators = dominators_of([label for label, _ in self.blocks], before)
        found = set()
        for label, nexts in after.items():
            for header in nexts:
                if header not in dominators[label]:
                    continue
                body, left = {header}, [label]
                while left:
                    each = left.pop()
                    if each not in body:
                        body.add(each)
                        left += before[each]
                if body & stops:
                    found.add((label, header))
        return found

    def resume(self, place):
        """The number by which a turn begins at the label."""
        self.places.append(place)
        return len(self.places) - 1

    def place(self, label):
        return "b" + re.sub(r"\W", "_", label)

    def edge(self, to):
        """Sets what the next block takes from this one, and goes there."""
        moves = [(result, self.value(value, self.spaces.get(result)), value)
                 for result, value in self.phis.get((to, self.label), [])
                 if value.kind != "undef"]
        targets = {result for result, _, _ in moves}
        at_once = any(v.kind == "local" and v.data in targets for _, _, v in moves)
        parts = []
        if at_once:  # one may be another's new value
            for i, (result, text, _) in enumerate(moves):
                parts.append(f"{self.c_type(self.types[result], result)} t{i} = {text};")
            parts += [f"{self.name(r)} = t{i};" for i, (r, _, _) in enumerate(moves)]
        else:
            parts = [f"{self.name(result)} = {text};" for result, text, _ in moves]
        go = f"goto {self.place(to)};"
        if (self.label, to) in self.returns:
            go = f"hearth_at = {self.resume(self.place(to))}; goto hearth_go;"
        return "{ " + " ".join([*parts, go]) + " }"

    def statement(self, line):
        result, operation, reader = self.read(line)
        if operation == "phi":
            return
        method = getattr(self, "on_" + operation, None)
        if method:
            method(result, reader)
        elif operation in ARITHMETIC or operation in SIGNED_ARITHMETIC:
            self.on_arithmetic(result, operation, reader)
        elif operation in FLOATING:
            first, second = self.pair(reader)
            self.set(result, f"{self.value(first)} {FLOATING[operation]} {self.value(second)}")
        elif " to " in line:
            self.on_conversion(result, operation, reader)
        else:
            raise Unknown(f"operation '{operation}' in {self.function.name}: {line}")

    @staticmethod
    def pair(reader):
        reader.skip_noise()
        first = reader.typed_value()
        reader.expect(",")
        return first, reader.value(first.type)

    def on_arithmetic(self, result, operation, reader):
        first, second = self.pair(reader)
        a, b = self.value(first), self.value(second)
        if operation in SIGNED_ARITHMETIC:
            left = self.signed(a, first.type)
            right = b if operation == "ashr" else self.signed(b, first.type)
            text = f"{left} {SIGNED_ARITHMETIC[operation]} {right}"
            return self.set(result, f"({self.c_type(first.type)})({text})")
        if first.type.size() < 4:  # no overflow of signed ints
            a, b = f"(uint){a}", f"(uint){b}"
        self.set(result, f"{a} {ARITHMETIC[operation]} {b}")

    def on_fneg(self, result, reader):
        reader.skip_noise()
        self.set(result, f"-{self.value(reader.typed_value())}")

    def on_freeze(self, result, reader):
        self.set(result, self.value(reader.typed_value()))

    def on_icmp(self, result, reader):
        how = reader.next()
        first, second = self.pair(reader)
        space = self.space_of(first) or self.space_of(second)
        a, b = self.value(first, space), self.value(second, space)
        if first.type.kind == "ptr":
            a, b = f"(ulong){a}", f"(ulong){b}"
        elif how[0] == "s":
            a, b = self.signed(a, first.type), self.signed(b, first.type)
        self.set(result, f"{a} {COMPARISONS[how[-2:]]} {b}")

    def on_fcmp(self, result, reader):
        reader.skip_noise()
        how = reader.next()
        first, second = self.pair(reader)
        a, b = self.value(first), self.value(second)
        nan = f"({a} != {a} || {b} != {b})"
        if how in ("ord", "uno"):
            return self.set(result, nan if how == "uno" else f"!{nan}")
        plain = f"{a} {COMPARISONS[how[1:]]} {b}"
        if how == "one":
            return self.set(result, f"{plain} && !{nan}")
        if how[0] == "u" and how != "une":
            plain = f"{plain} || {nan}"
        self.set(result, plain)

    def on_select(self, result, reader):
        reader.skip_noise()
        condition = reader.typed_value()
        reader.expect(",")
        first = reader.typed_value()
        reader.expect(",")
        second = reader.typed_value()
        space = self.spaces.get(result)
        self.set(result, f"{self.value(condition)} ? {self.value(first, space)} : "
                         f"{self.value(second, space)}")

    def on_conversion(self, result, operation, reader):
        value = reader.typed_value()
        text, type, to = self.value(value), value.type, self.types[result]
        c = self.c_type(to, result)
        if operation in ("trunc", "zext", "uitofp", "fpext", "fptrunc", "fptoui"):
            text = f"({c}){text}"
        elif operation == "sext":
            text = f"({c})({SIGNED[to.size()]}){self.signed(text, type)}"
        elif operation == "sitofp":
            text = f"({c}){self.signed(text, type)}"
        elif operation == "fptosi":
            text = f"({c})({SIGNED[to.size()]}){text}"
        elif operation == "bitcast":
            text = text if to.same(type) else f"as_{c}({text})"
        elif operation not in ("ptrtoint", "inttoptr"):
            raise Unknown(f"conversion {operation} in {self.function.name}")
        else:
            text = f"({c}){text}"
        self.set(result, text)

    def on_alloca(self, result, reader):
        type = reader.type()
        plain = self.name(result)
        self.allocated.append(f"__private uchar {plain}_[{type.size()}] "
                              "__attribute__((aligned(16)));")
        self.say(f"{plain} = {plain}_;")

    def on_getelementptr(self, result, reader):
        reader.skip_noise()
        element = reader.type()
        reader.expect(",")
        self.set(result, self.address(element, reader.list_of_values("")))

    def access(self, pointer, type, align, offset=0):
        """The value at a pointer, as a place to read and write: aligned as it is."""
        space = SPACES[self.space_of(pointer) or "global"]
        at = self.value(pointer) + (f" + {offset}" if offset else "")
        if align < type.size():
            raise Unknown(f"a value of {type.size()} bytes at a multiple of {align} in "
                          f"{self.function.name}")
        c = "ulong" if type.kind == "ptr" else INTEGERS.get(type.size(), "")
        return f"*({space} {c}_*)({at})"

    def on_load(self, result, reader):
        reader.skip_noise()
        type = reader.type()
        reader.expect(",")
        pointer = reader.typed_value()
        align = self.align_of(reader, type)
        if type.kind == "vector":
            return self.load_vector(result, pointer, type)
        if align < type.size():
            return self.load_parts(result, pointer, type, align)
        text = self.access(pointer, type, align)
        if type.kind in ("float", "double"):
            text = f"as_{type.kind}({text})"
        elif type.kind == "ptr":
            text = f"(__global uchar*){text}"
        self.set(result, text)

    def load_parts(self, result, pointer, type, align):
        if type.kind != "int":
            raise Unknown(f"a {type.kind} at a multiple of {align} in {self.function.name}")
        c = self.c_type(type)
        part = Type("int", 8 * align)
        self.set(result, " | ".join(
            f"({c}){self.access(pointer, part, align, at)} << {8 * at}"
            for at in range(0, type.size(), align)))

    def load_vector(self, result, pointer, type):
        part = type.parts[0]
        loads = [self.access(pointer, part, part.align(), i * part.size())
                 for i in range(type.count)]
        if part.kind != "int":
            loads = [f"as_{part.kind}({load})" for load in loads]
        self.set(result, f"({self.c_type(type)})({', '.join(loads)})")

    def store_vector(self, text, pointer, type):
        part = type.parts[0]
        for i in range(type.count):
            value = f"{text}.s{i:x}"
            if part.kind != "int":
                value = f"as_{INTEGERS[part.size()]}({value})"
            self.say(f"{self.access(pointer, part, part.align(), i * part.size())} = {value};")

    def on_store(self, _, reader):
        reader.skip_noise()
        value = reader.typed_value()
        reader.expect(",")
        pointer = reader.typed_value()
        type = value.type
        align = self.align_of(reader, type)
        text = self.value(value)
        if type.kind == "vector":
            return self.store_vector(text, pointer, type)
        if type.kind == "ptr":
            if self.space_of(value) not in (None, "global"):
                raise Unknown(f"{self.function.name} stores a pointer to {self.space_of(value)}")
            text = f"(ulong){text}"
        elif type.kind in ("float", "double"):
            text = f"as_{INTEGERS[type.size()]}({text})"
        if align >= type.size():
            return self.say(f"{self.access(pointer, type, align)} = {text};")
        part = Type("int", 8 * align)
        for at in range(0, type.size(), align):
            self.say(f"{self.access(pointer, part, align, at)} = "
                     f"({INTEGERS[align]})({text} >> {8 * at});")

    @staticmethod
    def align_of(reader, type):
        if "align" in reader.tokens:
            return int(reader.tokens[reader.tokens.index("align") + 1])
        return type.align()

    def on_br(self, _, reader):
        if reader.take("label"):
            return self.say(self.edge(reader.next()))
        condition = reader.typed_value()
        targets = re.findall(r'label (%"[^"]*"|%[\w.$-]+)', reader.text)
        self.say(f"if ({self.value(condition)}) {self.edge(targets[0])} "
                 f"else {self.edge(targets[1])}")

    def on_switch(self, _, reader):
        value = reader.typed_value()
        reader.expect(",")
        reader.expect("label")
        default = reader.next()
        reader.expect("[")
        self.say(f"switch ({self.value(value)}) {{")
        while not reader.take("]"):
            case = reader.typed_value()
            reader.expect(",")
            reader.expect("label")
            self.say(f"  case {self.value(case)}: {self.edge(reader.next())}")
        self.say(f"  default: {self.edge(default)}")
        self.say("}")

    def on_ret(self, _, reader):
        self.say("hearth_stop = HEARTH_DONE; goto hearth_wait;")

    def on_unreachable(self, _, reader):
        self.on_ret(_, reader)

    def stop(self, kind):
        label = f"s{len(self.places)}"
        self.say(f"hearth_stop = {kind}; hearth_at = {self.resume(label)}; goto hearth_wait; "
                 f"{label}:;")

    def on_extractelement(self, result, reader):
        value = reader.typed_value()
        reader.expect(",")
        self.set(result, f"{self.value(value)}.s{reader.typed_value().data:x}")

    def on_insertelement(self, result, reader):
        value = reader.typed_value()
        reader.expect(",")
        part = reader.typed_value()
        reader.expect(",")
        name = self.name(result)
        self.set(result, self.value(value))
        self.say(f"{name}.s{reader.typed_value().data:x} = {self.value(part)};")

    def on_shufflevector(self, result, reader):
        first, second = reader.typed_value(), reader.take(",") and reader.typed_value()
        reader.expect(",")
        mask = reader.typed_value()
        count = first.type.count
        parts = [part.data or 0 for part in mask.data] if mask.kind == "parts" else (
            [0] * mask.type.count)
        texts = [f"{self.value(first if i < count else second)}.s{i % count:x}" for i in parts]
        self.set(result, f"({self.c_type(self.types[result])})({', '.join(texts)})")

    def on_extractvalue(self, result, reader):
        value = reader.typed_value()
        self.set(result, f"{self.name(value.data)}_{reader.tokens[-1]}")

    # Calls.

    def on_call(self, result, reader):
        type = self.call_type(reader)
        called = reader.next()
        reader.expect("(")
        name = called[1:]
        if name.startswith(IGNORED):
            return
        values = reader.arguments()
        if name.startswith("hearth_cl_"):
            return self.on_builtin(result, name[len("hearth_cl_"):], values)
        if not name.startswith("llvm."):
            raise Unknown(f"{self.function.name} calls {name}")
        self.on_intrinsic(result, name.split(".")[1:], type, values)

    def on_builtin(self, result, name, values):
        texts = [self.value(value) for value in values]
        if name in NAMED:
            self.set(result, NAMED[name])
        elif name == "shared":
            self.set(result, "hearth_shared")
        elif name == "sync_threads":
            self.stop("HEARTH_BLOCK")
        elif name == "sync_warp":
            self.stop("HEARTH_WARP")
        elif name == "fence":
            self.say("hearth_fence();")
        elif name == "put":
            self.slots = max(self.slots, values[0].data + 1)
            self.say(f"HEARTH_SLOT(hearth_turn, {texts[0]}, hearth_thread) = {texts[1]};")
        elif name == "seen":
            if values[0].kind == "int":
                self.slots = max(self.slots, values[0].data + 1)
            self.set(result, f"HEARTH_SLOT(hearth_turn - 1u, {texts[0]}, "
                             f"(hearth_thread & ~31u) + {texts[1]})")
        elif name.startswith("atomic_"):
            self.on_atomic(result, name, values)
        else:
            self.set(result, f"(uint)hearth_{name}({', '.join(texts)})")

    def on_atomic(self, result, name, values):
        wide = name.endswith("_long")
        operation = {"add": "add", "exchange": "xchg", "max": "max", "or": "or"}[
            name.split("_")[1]]
        c = "ulong" if wide else "int" if name.endswith("_signed") else "uint"
        space = SPACES[self.space_of(values[0]) or "global"]
        text = (f"{'atom' if wide else 'atomic'}_{operation}((volatile {space} {c}*)"
                f"{self.value(values[0])}, ({c}){self.value(values[1])})")
        if result:
            self.set(result, f"({'ulong' if wide else 'uint'}){text}")
        else:
            self.say(text + ";")

    def on_intrinsic(self, result, words, type, values):
        name = words[0]
        if name in ("memcpy", "memmove", "memset"):
            return self.on_memory(name, values)
        texts = [self.value(value) for value in values]
        c = self.c_type(type) if type.kind in ("int", "float", "double") else ""
        if name in ("smax", "smin"):
            signed = [f"({SIGNED[type.size()]}){text}" for text in texts]
            self.set(result, f"({c}){name[1:]}({', '.join(signed)})")
        elif name == "abs":
            self.set(result, f"({c})abs(({SIGNED[type.size()]}){texts[0]})")
        elif name in ("ctlz", "cttz"):
            one = texts[0] if name == "ctlz" else f"({c})({texts[0]} & (0 - {texts[0]}))"
            count = f"clz({one})"
            if name == "cttz":
                count = f"{texts[0]} == 0 ? {type.bits} : {type.bits - 1} - {count}"
            self.set(result, count)
        elif name in ("fshl", "fshr"):
            if values[2].kind != "int" or values[2].data % type.bits == 0:
                raise Unknown(f"a funnel shift by a variable in {self.function.name}")
            left = values[2].data % type.bits
            left = left if name == "fshl" else type.bits - left
            self.set(result, f"{texts[0]} << {left} | {texts[1]} >> {type.bits - left}")
        elif name in ("uadd", "usub", "umul") and words[1] == "sat":
            self.set(result, f"{name[1:]}_sat(({c}){texts[0]}, ({c}){texts[1]})")
        elif name in FUNCTIONS:
            casts = [f"({c}){text}" for text in texts]
            self.set(result, f"({c}){FUNCTIONS[name]}({', '.join(casts)})")
        else:
            raise Unknown(f"{self.function.name} calls llvm.{'.'.join(words)}")

    def on_memory(self, name, values):
        to, source, size = values[:3]
        if size.kind != "int":
            raise Unknown(f"{name} of a varying size in {self.function.name}")
        step = 4 if size.data % 4 == 0 and self.aligned(to) and (
            name == "memset" or self.aligned(source)) else 1
        part = Type("int", 8 * step)
        for at in range(0, size.data, step):
            text = ("0" if name == "memset" and source.data == 0 else
                    None if name == "memset" else self.access(source, part, step, at))
            if text is None:
                raise Unknown(f"memset of other than zero in {self.function.name}")
            self.say(f"{self.access(to, part, step, at)} = {text};")

    @staticmethod
    def aligned(value):
        return value.align >= 4

    # The frame around the statements.

    def frame(self):
        self.declare()
        name = self.function.name[1:]
        arguments, copies = [], []
        for i, (type, local, byval) in enumerate(self.parameters):
            v = self.name(local)
            if byval:
                arguments.append(f"hearth_bytes_{byval.size()} a{i}")
                copies.append(f"{v} = (__private uchar*)&a{i};")
            elif type.kind == "ptr":
                arguments.append(f"ulong a{i}")
                copies.append(f"{v} = (__global uchar*)a{i};")
            else:
                small = type.kind == "int" and type.bits == 1
                arguments.append(f"{'uchar' if small else self.c_type(type)} a{i}")
                copies.append(f"{v} = a{i};")
        sizes = sorted({byval.size() for _, _, byval in self.parameters if byval})
        resumes = " ".join(f"case {i}: goto {place};"
                           for i, place in enumerate(self.places) if i > 0)
        start = self.place(self.blocks[0][0])
        return "\n".join([
            *[f"typedef struct {{ {'ulong' if size % 8 == 0 else 'uchar'} "
              f"w[{size // 8 if size % 8 == 0 else size}]; }} "
              f"__attribute__((aligned(8))) hearth_bytes_{size};" for size in sizes],
            *[text for _, text in self.constants.values()],
            f"__kernel void {name}({', '.join([*arguments, 'HEARTH_LOCALS'])}) {{",
            *["  " + line for line in self.allocated],
            *["  " + line for line in self.declarations],
            f"  HEARTH_BEGIN({max(self.slots, 1)})",
            *["  " + line for line in copies],
            "  HEARTH_LOOP",
            f"  switch (hearth_at) {{ case 0: goto {start}; {resumes} }}",
            *self.lines,
            "  HEARTH_MEET",
            "}", ""])

    def declare(self):
        self.declarations = []
        by_type = {}
        for local, name in self.variables.items():
            if local in self.types:
                c = self.c_type(self.types[local], local)
                by_type.setdefault(c, []).append(name)
        for c, names in by_type.items():
            star = "*" if c.endswith("*") else ""
            plain = c[:-1] if star else c
            self.declarations.append(
                f"{plain} {', '.join(star + name for name in names)};")

    @property
    def allocated(self):
        return self.__dict__.setdefault("allocated_", [])
