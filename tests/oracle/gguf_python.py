"""Compares our GGUF reader and writer with the Python package `gguf`, both ways round.

Usage: gguf_python.py TOOL; the file that HEARTH_DEMO_MODEL names is read by both as well.
Exit 77: not run.
"""

import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy
except ImportError as missing:
    print(f"not run: {missing}")
    sys.exit(77)

SEED = 9
FILES = 60
IN_PARTS = 20
V = gguf.GGUFValueType
Q = gguf.GGMLQuantizationType
SCALARS = [V.UINT8, V.INT8, V.UINT16, V.INT16, V.UINT32, V.INT32, V.FLOAT32, V.BOOL, V.STRING,
           V.UINT64, V.INT64, V.FLOAT64]
BITS = {V.UINT8: 8, V.INT8: 8, V.UINT16: 16, V.INT16: 16, V.UINT32: 32, V.INT32: 32,
        V.UINT64: 64, V.INT64: 64}
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e-45, 3.4028234663852886e38, float("inf"), float("-inf")]
TEXTS = ["", "x", "Größe", "語 👩‍💻", "a\nb\x00c", "</s>", "é" * 300]
READ = [Q.F32, Q.F16, Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.Q2_K, Q.Q3_K, Q.Q4_K,
        Q.Q5_K, Q.Q6_K, Q.IQ4_NL, Q.IQ4_XS, Q.MXFP4, Q.IQ2_XXS, Q.IQ2_XS, Q.IQ2_S,
        Q.IQ3_XXS, Q.IQ3_S, Q.IQ1_S, Q.IQ1_M, Q.TQ1_0, Q.TQ2_0]
QUANTISED = [Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.MXFP4, Q.TQ1_0,
             Q.TQ2_0]  # by gguf.quants; others are raw bytes
ALIGNMENTS = [8, 16, 32, 64, 128, 256, 4096, 65536]

tool = sys.argv[1] if len(sys.argv) > 1 else None
rng = random.Random(SEED)


def double_bits(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def scalar(kind):
    """A value of the type, edges included."""
    if kind == V.BOOL:
        return rng.random() < 0.5
    if kind == V.STRING:
        return rng.choice(TEXTS)
    if kind == V.FLOAT32:
        return float(numpy.float32(rng.choice(FLOATS + [rng.uniform(-1e6, 1e6)])))
    if kind == V.FLOAT64:
        return rng.choice(FLOATS + [rng.uniform(-1e300, 1e300), 5e-324])
    signed = kind in (V.INT8, V.INT16, V.INT32, V.INT64)
    low = -(1 << (BITS[kind] - 1)) if signed else 0
    high = (1 << (BITS[kind] - (1 if signed else 0))) - 1
    return rng.choice([low, high, rng.randint(low, high)])


def plain(kind, value):
    """A scalar as gguf_tool writes and takes it."""
    if kind == V.STRING:
        return value.encode().hex()
    return double_bits(value) if kind in (V.FLOAT32, V.FLOAT64) else value


def family(kind):
    if kind in (V.FLOAT32, V.FLOAT64):
        return "float"
    if kind in (V.BOOL, V.STRING):
        return "bool" if kind == V.BOOL else "text"
    return "signed" if kind in (V.INT8, V.INT16, V.INT32, V.INT64) else "unsigned"


class Tensor:
    def __init__(self, name, kind):
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        self.name, self.kind = name, kind
        self.dims = [block * rng.randint(1, 3)] + [rng.randint(1, 5)
                                                   for _ in range(rng.randint(0, 3))]
        rows = int(numpy.prod(self.dims[1:], dtype=numpy.int64))
        if kind == Q.F32 or kind == Q.F16:
            self.dims[0] = rng.randint(1, 70)
        shape = list(reversed(self.dims))
        values = numpy.random.default_rng(rng.getrandbits(32)).normal(size=shape)
        values = values.astype(numpy.float32)
        if kind == Q.F32:
            self.array = values
        elif kind == Q.F16:
            self.array = values.astype(numpy.float16)
        elif kind in QUANTISED:
            self.array = gguf.quants.quantize(values, kind)
        else:
            row = self.dims[0] // block * block_bytes
            self.array = numpy.frombuffer(rng.randbytes(rows * row), dtype=numpy.uint8)
            self.array = self.array.reshape(shape[:-1] + [row])
        self.bytes = self.array.tobytes()


class File:
    """What a file is to hold."""

    def __init__(self, index):
        self.alignment = ALIGNMENTS[index % len(ALIGNMENTS)]
        self.values = {"general.architecture": (V.STRING, None, "llama")}
        for kind in SCALARS:
            for _ in range(rng.randint(1, 2)):
                self.values[self.key()] = (kind, None, scalar(kind))
            items = [scalar(kind) for _ in range(rng.choice([1, 2, 33]))]
            self.values[self.key()] = (V.ARRAY, kind, items)
        kinds = rng.sample(READ, rng.randint(0, len(READ))) if index else READ
        self.tensors = [Tensor(f"t{i}.{'w' * rng.randint(0, 50)}", kind)
                        for i, kind in enumerate(kinds)]

    def key(self):
        return f"k{len(self.values)}.{rng.choice(['a', 'ä.b', 'x' * 200])}"

    def write_by_python(self, path, **split):
        writer = gguf.GGUFWriter(path, "llama", **split)
        if self.alignment != 32:
            writer.add_custom_alignment(self.alignment)
        for key, (kind, items, value) in self.values.items():
            if key != "general.architecture":
                writer.add_key_value(key, value, kind, sub_type=items)
        for tensor in self.tensors:
            raw = None if tensor.kind in (Q.F32, Q.F16) else tensor.kind
            writer.add_tensor(tensor.name, tensor.array, raw_dtype=raw)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def write_by_ours(self, path, **split):
        values = []
        for key, (kind, items, value) in self.values.items():
            if kind == V.ARRAY:
                entry = [[int(items)], [plain(items, item) for item in value]]
            else:
                entry = [int(kind), plain(kind, value)]
            values.append([key.encode().hex(), *entry])
        tensors = [[t.name, int(t.kind), t.dims, t.bytes.hex()] for t in self.tensors]
        wanted = {"alignment": self.alignment, "values": values, "tensors": tensors, **split}
        subprocess.run([tool, "write", path], input=json.dumps(wanted), text=True, check=True)

    def expected(self):
        values = {}
        if self.alignment != 32:
            values["general.alignment"] = ["unsigned", self.alignment]
        for key, (kind, items, value) in self.values.items():
            if kind == V.ARRAY:
                values[key] = ["array", [family(items), [plain(items, item) for item in value]]]
            else:
                values[key] = [family(kind), plain(kind, value)]
        return values


def read_by_ours(path):
    done = subprocess.run([tool, "dump", path], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if "values" in found:
        found["values"] = {bytes.fromhex(k).decode(): v for k, v in found["values"].items()}
    return found


def read_by_python(path):
    reader = gguf.GGUFReader(path)
    values = {}
    for key, field in reader.fields.items():
        if key.startswith("GGUF."):
            continue
        kind = field.types[0]
        value = field.contents()
        if kind == V.ARRAY:
            items = field.types[-1]
            values[key] = ["array", [family(items), [plain(items, item) for item in value]]]
        else:
            values[key] = [family(kind), plain(kind, value)]
    tensors = [{"name": t.name, "type": int(t.tensor_type), "dims": [int(d) for d in t.shape],
                "offset": int(t.data_offset), "bytes": int(t.n_bytes),
                "sha256": hashlib.sha256(t.data.tobytes()).hexdigest()} for t in reader.tensors]
    return {"values": values, "tensors": tensors}


def same(name, ours, theirs):
    """Stops with the first difference."""
    assert "error" not in ours, f"{name}: we refuse: {ours['error']}"
    assert list(sorted(ours["values"])) == list(sorted(theirs["values"])), f"{name}: other keys"
    for key, value in theirs["values"].items():
        assert ours["values"][key] == value, f"{name}: {key}: {ours['values'][key]} != {value}"
    assert len(ours["tensors"]) == len(theirs["tensors"]), f"{name}: other number of tensors"
    for one, two in zip(ours["tensors"], theirs["tensors"]):
        assert one == two, f"{name}: {one} != {two}"


def round_trips(folder):
    for index in range(FILES):
        file = File(index)
        for writer in ("python", "ours"):
            path = os.path.join(folder, f"{index}.{writer}.gguf")
            getattr(file, "write_by_" + writer)(path)
            ours, theirs = read_by_ours(path), read_by_python(path)
            same(f"file {index} by {writer}", ours, theirs)
            assert ours["values"] == file.expected(), f"file {index} by {writer}: not what was said"
            digests = [hashlib.sha256(t.bytes).hexdigest() for t in file.tensors]
            assert [t["sha256"] for t in ours["tensors"]] == digests, f"file {index} by {writer}"
            assert [t["dims"] for t in ours["tensors"]] == [t.dims for t in file.tensors]
            end = os.path.getsize(path)
            assert end % file.alignment == 0, f"file {index} by {writer}: {end} is not padded"
            os.remove(path)
    return 2 * FILES


def parts_of(path):
    return sorted(pathlib.Path(path).parent.glob(pathlib.Path(path).stem + "-*-of-*.gguf"))


def in_parts(folder):
    """Of models in parts: those of the package are to us the file that it writes without parts, and it
    reads each of ours as it is."""
    for number in range(IN_PARTS):
        file = File(2)  # with an alignment of 32: another one is in their first part alone
        file.tensors += [Tensor(f"more{i}", Q.F32) for i in range(3)]
        whole = os.path.join(folder, f"{number}.whole.gguf")
        file.write_by_python(whole)
        plain = read_by_ours(whole)
        for bare in (False, True):
            path = os.path.join(folder, f"{number}.{bare}.python.gguf")
            file.write_by_python(path, split_max_tensors=2, small_first_shard=bare)
            theirs = parts_of(path)
            count = (len(file.tensors) + 1) // 2 + bare
            assert len(theirs) == count, f"{len(theirs)} parts of {len(file.tensors)} tensors"
            read = read_by_ours(str(theirs[0]))
            same(f"parts {number} by python", read, plain)
            assert read["parts"] == count and read["fingerprint"] == plain["fingerprint"]
            assert "name the first part" in read_by_ours(str(theirs[1]))["error"]

            path = os.path.join(folder, f"{number}.{bare}.ours.gguf")
            file.write_by_ours(path, parts=count, bare_first=bare)
            ours = parts_of(path)
            assert len(ours) == count
            read = read_by_ours(str(ours[0]))
            same(f"parts {number} by ours", read, plain)
            assert read["fingerprint"] == plain["fingerprint"]
            tensors = []
            for index, part in enumerate(ours):
                found = read_by_python(part)
                says = {key: found["values"][key][1] for key in
                        ("split.no", "split.count", "split.tensors.count")}
                assert says == {"split.no": index, "split.count": count,
                                "split.tensors.count": len(file.tensors)}, says
                assert (len(found["values"]) > 3) == (index == 0), "only the first has the keys"
                tensors += [(t["name"], t["sha256"]) for t in found["tensors"]]
            assert tensors == [(t["name"], t["sha256"]) for t in plain["tensors"]]
    return 4 * IN_PARTS


def refused(folder):
    """What the package writes and we refuse on purpose, each with its reason in the sentence."""
    def write(change):
        path = os.path.join(folder, "refused.gguf")
        writer = gguf.GGUFWriter(path, "llama")
        change(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return read_by_ours(path).get("error", "accepted")

    def raw(kind):
        bytes_ = numpy.zeros((2, gguf.GGML_QUANT_SIZES[kind][1]), dtype=numpy.uint8)
        return lambda writer: writer.add_tensor("t", bytes_, raw_dtype=kind)

    cases = [(lambda w: w.add_array("nested", [[1, 2], [3]]), "array of arrays"),
             (lambda w: w.add_custom_alignment(4), "an alignment of 4"),
             (lambda w: w.add_tensor("t", numpy.zeros(3, dtype=numpy.int32)), "I32")]
    cases += [(raw(kind), kind.name) for kind in (Q.Q8_1, Q.Q8_K)]
    for change, word in cases:
        error = write(change)
        assert word in error, f"expected {word!r} in {error!r}"
    return len(cases)


def main():
    with tempfile.TemporaryDirectory() as folder:
        print(f"{round_trips(folder)} files equal, {in_parts(folder)} models in parts equal, "
              f"{refused(folder)} refused for their reason")
    model = os.environ.get("HEARTH_DEMO_MODEL")
    if model and pathlib.Path(model).is_file():
        same("the demo model", read_by_ours(model), read_by_python(model))
        print("the demo model is equal")


main()
