#!/usr/bin/env python3
"""The engine's program links no network library, and its preset asks for none.

Usage: engine_links.py ENGINE WHOLE ROOT

ENGINE may need nothing beyond the list below. WHOLE, the program with all verbs, must be refused by
the same check, or the check sees nothing. Then the preset `engine` is configured in a folder of its
own, with every package of the network hidden, and no line of its build may name one.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# The C and C++ runtimes, hashes and random bytes (base/crypto), the tokenizer's patterns (model),
# and what a sanitized build adds.
ALLOWED = re.compile(r"(libc|libm|libgcc_s|libstdc\+\+|ld-linux-[\w-]+|libsodium|libpcre2-8|libdl|"
                     r"librt|libpthread|libasan|libubsan|libtsan|liblsan)\.so(\.\d+)*")
NETWORK = re.compile(r"grpc|protobuf|boost|openssl|-lssl|-lcrypto|libssl|libcrypto|curl|prometheus|"
                     r"spdlog|sqlite|libpq|libedit|abseil|absl", re.I)
HIDDEN = ("OpenSSL", "Boost", "Protobuf", "prometheus-cpp")


def needed(program):
    said = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True)
    return re.findall(r"\(NEEDED\).*\[(.+)\]", said.stdout)


def refused(program):
    return [name for name in needed(program) if not ALLOWED.fullmatch(name)]


def configured_lines(root):
    with tempfile.TemporaryDirectory() as folder:
        command = ["cmake", "-S", root, "--preset", "engine", "-B", folder, "-DHEARTH_CUDA=OFF",
                   *[f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in HIDDEN]]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"the preset engine does not configure:\n{done.stdout}{done.stderr}")
        return (pathlib.Path(folder) / "build.ninja").read_text().splitlines()


def main():
    engine, whole, root = sys.argv[1:]
    wrong = [f"{engine} needs {name}" for name in refused(engine)]
    if not refused(whole):
        wrong.append(f"{whole} has network libraries, and the check does not see them")
    wrong += [f"the preset's build says: {line.strip()[:160]}" for line in configured_lines(root)
              if NETWORK.search(line.replace(root, ""))]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
