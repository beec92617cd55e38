#!/usr/bin/env python3
"""Writes a GGUF file with the matrices of its layers requantised by the Python package gguf: a draft
model for tests/bench/lone.py that is close to its target and has its vocabulary.

    pip install gguf==0.19.0
    tests/bench/requantise.py MODEL.gguf DRAFT.gguf [--type Q4_0]
"""

import argparse

import gguf
import numpy as np


def copy_metadata(reader, writer):
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, inner)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("draft")
    parser.add_argument("--type", default="Q4_0")
    options = parser.parse_args()
    wanted = gguf.GGMLQuantizationType[options.type]
    reader = gguf.GGUFReader(options.model)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(options.draft, architecture)
    copy_metadata(reader, writer)
    changed = 0
    for tensor in reader.tensors:
        data, kind = tensor.data, tensor.tensor_type
        if tensor.name.startswith("blk.") and len(tensor.shape) == 2:
            values = gguf.quants.dequantize(data, kind).astype(np.float32)
            data, kind = gguf.quants.quantize(values, wanted), wanted
            changed += 1
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{changed} of {len(reader.tensors)} tensors are {options.type} now")


if __name__ == "__main__":
    main()
