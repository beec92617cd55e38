#!/usr/bin/env python3
"""Makes an object of a source of kernels/cuda for OpenCL: its host code, with OpenCL C of its
kernels in it.

    translate.py --clang CLANG --output OBJECT [--keep FOLDER] SOURCE [FLAG ...]

Clang compiles the source with kernels/opencl/opencl_device.cuh to LLVM code. Kernels, with the
functions that they call, become a module of their own, which clang optimises and kernel_text.py
writes as OpenCL C. In the host's module, a kernel's body hands name, text and arguments to the
launch under way (opencl_launch.h). --keep leaves the texts in the folder.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from kernel_text import Kernel  # noqa: E402
from llvm_text import NAME, Module, Unknown  # noqa: E402

ARITHMETIC = ["-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-fno-strict-aliasing",
              "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops"]
SECTION = ' section "hearth_kernel"'


def run(command):
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:1])} failed:\n{done.stderr}")


def reached(module, kernels):
    """Functions and globals that the kernels use, themselves included."""
    found, left = set(), list(kernels)
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        if name in module.functions:
            function = module.functions[name]
            left += re.findall(NAME, "\n".join([function.head, *function.lines]))
        elif name in module.globals:
            left += re.findall(NAME, module.globals[name])
    return found


def device_module(module, kernels):
    """The text of a module of the kernels alone, all that they call inlined."""
    names = reached(module, kernels)
    parts = [line for line in module.others if not line.startswith("$")] + module.type_lines
    for name, line in module.globals.items():
        if name in names:
            parts.append(re.sub(r", comdat(\([^)]*\))?|linkonce_odr |\binternal ", "", line).replace(
                " = ", " = internal ", 1).replace("internal private", "private"))
    for name, function in module.functions.items():
        if name not in names:
            continue
        head = re.sub(r" comdat(\([^)]*\))?", "", function.head).replace(SECTION, "")
        head = re.sub(r"define (internal|linkonce_odr|weak_odr|available_externally) ", "define ",
                      head)
        if name not in kernels:
            head = head.replace("define ", "define internal ", 1)
            head = re.sub(r" (#\d+)", r" alwaysinline \1", head, count=1)
        parts += [head, *function.lines, "}"]
    return "\n".join(parts) + "\n"


def escaped(text):
    return "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else f"\\{ord(c):02X}" for c in text)


def string_global(name, text):
    size = len(text) + 1
    return f'{name} = private unnamed_addr constant [{size} x i8] c"{escaped(text)}\\00", align 1'


def stub(index, kernel):
    """The body of a kernel in the host's module."""
    lines = [f"  call void @hearth_opencl_kernel(ptr @hearth_cl_name_{index}, "
             f"ptr @hearth_cl_text_{index}, i32 {max(kernel.slots, 1)})"]
    for i, (type, name, byval) in enumerate(kernel.parameters):
        if byval:
            lines.append(f"  call void @hearth_opencl_argument(ptr {name}, i64 {byval.size()})")
            continue
        words = {"int": f"i{type.bits}"}.get(type.kind, type.kind)
        if words == "i1":
            lines.append(f"  %hearth_wide_{i} = zext i1 {name} to i8")
            words, name = "i8", f"%hearth_wide_{i}"
        lines += [f"  %hearth_{i} = alloca {words}",
                  f"  store {words} {name}, ptr %hearth_{i}",
                  f"  call void @hearth_opencl_argument(ptr %hearth_{i}, i64 {type.size()})"]
    return [*lines, "  ret void"]


def host_module(text, kernels):
    """The module's text with other bodies for the kernels."""
    made, skipping = [], False
    numbers = {name: i for i, name in enumerate(kernels)}
    for line in text.splitlines():
        if skipping:
            skipping = line != "}"
            continue
        made.append(line)
        name = re.search(NAME, line).group(0) if line.startswith("define ") else None
        if name in numbers:
            made[-1] = line.replace(SECTION, "")
            made += ["hearth_entry:", *stub(numbers[name], kernels[name][0]), "}"]
            skipping = True
    for name, (_, text) in kernels.items():
        made.append(string_global(f"@hearth_cl_name_{numbers[name]}", name[1:]))
        made.append(string_global(f"@hearth_cl_text_{numbers[name]}", text))
    made += ["declare void @hearth_opencl_kernel(ptr, ptr, i32)",
             "declare void @hearth_opencl_argument(ptr, i64)", ""]
    return "\n".join(made)


def translate(options, folder):
    clang = [options.clang]
    whole = folder / "whole.ll"
    dependencies = (["-MMD", "-MF", options.dependencies, "-MT", options.output]
                    if options.dependencies else [])
    run([*clang, "-x", "c++", "-std=c++20", "-DHEARTH_OPENCL", f"-I{HERE}", "-O2", *ARITHMETIC,
         *options.flags,
         *dependencies, "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", "-o", str(whole), options.source])
    text = whole.read_text()
    module = Module(text)
    names = [n for n, f in module.functions.items() if SECTION in f.head]
    device, optimised = folder / "device.ll", folder / "optimised.ll"
    device.write_text(device_module(module, names))
    run([*clang, "-x", "ir", "-O2", *ARITHMETIC, "-S", "-emit-llvm", "-Wno-override-module", "-o",
         str(optimised), str(device)])
    module = Module(optimised.read_text())
    kernels = {}
    for name in names:
        kernel = Kernel(module.functions[name], module)
        kernels[name] = (kernel, kernel.write())
        if options.keep:
            (pathlib.Path(options.keep) / (name[1:] + ".cl")).write_text(kernels[name][1])
    host = folder / "host.ll"
    host.write_text(host_module(text, kernels))
    run([*clang, "-x", "ir", "-O2", *ARITHMETIC, "-Wno-override-module", "-fPIC", "-c", "-o",
         options.output, str(host)])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clang", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--dependencies", help="the makefile that names the headers")
    parser.add_argument("--keep")
    parser.add_argument("source")
    parser.add_argument("flags", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            translate(options, pathlib.Path(options.keep or folder))
        except Unknown as error:
            sys.exit(f"{options.source}: no translation to OpenCL: {error}")


if __name__ == "__main__":
    main()
