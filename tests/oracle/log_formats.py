#!/usr/bin/env python3
"""The ledger's log against an implementation of its formats that shares no code with it: RFC 6962
hashing, C2SP tlog-tiles, signed-note, tlog-checkpoint and tlog-cosignature, written from those
texts with hashlib and integers alone. Ours is read and verified by it, and its logs by ours.

Usage: log_formats.py LOG_TOOL
"""

import base64
import hashlib
import pathlib
import subprocess
import sys
import tempfile

import ed25519

WIDTH = 256
DASH = "\u2014 "
SEED = bytes(range(32))
WITNESSES = [bytes([n]) * 32 for n in (41, 42)]


# RFC 6962, section 2.1, as it is written there.

def leaf(entry):
    return hashlib.sha256(b"\x00" + entry).digest()


def node(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def split(n):
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def root(leaves):
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return node(root(leaves[:k]), root(leaves[k:]))


def path(m, leaves):
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if m < k:
        return path(m, leaves[:k]) + [root(leaves[k:])]
    return path(m - k, leaves[k:]) + [root(leaves[:k])]


def subproof(m, leaves, whole):
    if m == len(leaves):
        return [] if whole else [root(leaves)]
    k = split(len(leaves))
    if m <= k:
        return subproof(m, leaves[:k], whole) + [root(leaves[k:])]
    return subproof(m - k, leaves[k:], False) + [root(leaves[:k])]


# tlog-tiles.

def tile_path(level, index, width):
    groups = [f"{index % 1000:03d}"]
    index //= 1000
    while index:
        groups.insert(0, f"x{index % 1000:03d}")
        index //= 1000
    return f"tile/{level}/{'/'.join(groups)}" + (f".p/{width}" if width < WIDTH else "")


def tiles_of(size):
    """(level, index, width) of every tile that a log of this size serves; "entries" as well."""
    for level in range(6):
        hashes = size // WIDTH**level
        for index in range(hashes // WIDTH):
            yield level, index, WIDTH
        if hashes % WIDTH:
            yield level, hashes // WIDTH, hashes % WIDTH


def tile_hashes(level, index, width, leaves):
    step = WIDTH**level
    return b"".join(root(leaves[i * step:(i + 1) * step])
                    for i in range(index * WIDTH, index * WIDTH + width))


def bundle_of(entries):
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def read_bundle(data):
    entries = []
    while data:
        size = int.from_bytes(data[:2], "big")
        assert len(data) >= 2 + size, "a bundle ends inside an entry"
        entries.append(data[2:2 + size])
        data = data[2 + size:]
    return entries


# signed-note, tlog-checkpoint, tlog-cosignature.

def key_id(name, kind, key):
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + key).digest()[:4]


def read_note(data):
    text, signatures = data.decode().rsplit("\n\n", 1)
    assert signatures.endswith("\n")
    lines = []
    for line in signatures[:-1].split("\n"):
        assert line.startswith(DASH)
        name, encoded = line[len(DASH):].split(" ")
        raw = base64.b64decode(encoded, validate=True)
        lines.append((name, raw[:4], raw[4:]))
    return text + "\n", lines


def note_line(name, kind, key, signature):
    return f"{DASH}{name} {base64.b64encode(key_id(name, kind, key) + signature).decode()}\n"


def cosigned(time, text):
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def read_checkpoint(data, log_key, witness_keys):
    """(size, root) after the log's signature and one of every witness."""
    text, lines = read_note(data)
    origin, size, encoded = text[:-1].split("\n")
    assert origin == f"hearth-log/{log_key.hex()}", origin
    verified = set()
    for name, identifier, signature in lines:
        if (name, identifier) == (origin, key_id(origin, 1, log_key)):
            assert ed25519.verify(log_key, text.encode(), signature), "the log's signature"
            verified.add(name)
        for key in witness_keys:
            wanted = f"hearth-node/{key.hex()}"
            if (name, identifier) == (wanted, key_id(wanted, 4, key)):
                time = int.from_bytes(signature[:8], "big")
                assert ed25519.verify(key, cosigned(time, text), signature[8:]), "a witness"
                verified.add(name)
    assert len(verified) == 1 + len(witness_keys), verified
    assert str(int(size)) == size
    return int(size), base64.b64decode(encoded, validate=True)


def read_log(folder, log_key, witness_keys):
    """The entries of a log, every served file checked."""
    size, signed = read_checkpoint((folder / "checkpoint").read_bytes(), log_key, witness_keys)
    entries = []
    for level, index, width in tiles_of(size):
        if level == 0:
            entries += read_bundle((folder / tile_path("entries", index, width)).read_bytes())
    assert len(entries) == size
    leaves = [leaf(entry) for entry in entries]
    for level, index, width in tiles_of(size):
        data = (folder / tile_path(level, index, width)).read_bytes()
        assert data == tile_hashes(level, index, width, leaves), (level, index, width)
    assert root(leaves) == signed, "the root"
    return entries


def write_log(folder, entries, seed, witness_seeds):
    leaves = [leaf(entry) for entry in entries]
    for level, index, width in tiles_of(len(entries)):
        files = {tile_path(level, index, width): tile_hashes(level, index, width, leaves)}
        if level == 0:
            part = entries[index * WIDTH:index * WIDTH + width]
            files[tile_path("entries", index, width)] = bundle_of(part)
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
    key = ed25519.public(seed)
    origin = f"hearth-log/{key.hex()}"
    text = f"{origin}\n{len(entries)}\n{base64.b64encode(root(leaves)).decode()}\n"
    note = text + "\n" + note_line(origin, 1, key, ed25519.sign(seed, text.encode()))
    for witness in witness_seeds:
        time = 1_600_000_000
        signature = time.to_bytes(8, "big") + ed25519.sign(witness, cosigned(time, text))
        own = ed25519.public(witness)
        note += note_line(f"hearth-node/{own.hex()}", 4, own, signature)
    (folder / "checkpoint").write_text(note)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def check_known_answers():
    """The oracle itself: RFC 8032's second test, the note of Go's sumdb."""
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    assert ed25519.sign(seed, b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00")
    data = ("If you think cryptography is the answer to your problem,\n"
            "then you don't know what your problem is.\n\n"
            f"{DASH}PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZ"
            "SNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n").encode()
    key = base64.b64decode("ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")[1:]
    text, [(name, identifier, signature)] = read_note(data)
    assert identifier == key_id(name, 1, key)
    assert ed25519.verify(key, text.encode(), signature)
    assert not ed25519.verify(key, text.encode() + b"x", signature)


def check_ours(tool, folder):
    """Logs of the product, at the borders of tiles."""
    log_key = ed25519.public(SEED)
    witness_keys = [ed25519.public(seed) for seed in WITNESSES]
    for number, sizes in enumerate(["1", "255", "1,1,254", "257", "100,200,300,1", "1024", "1023"]):
        place = folder / f"ours{number}"
        run(tool, "write", place, SEED.hex(), sizes, *(seed.hex() for seed in WITNESSES))
        entries = read_log(place, log_key, witness_keys)
        total = sum(map(int, sizes.split(",")))
        assert entries == [b"entry %d" % i for i in range(total)]
        leaves = [leaf(entry) for entry in entries]
        for line in run(tool, "proofs", place, SEED.hex()).splitlines():
            what, at, *hashes = line.split()
            right = (path(int(at), leaves) if what == "inclusion"
                     else subproof(int(at), leaves, True))
            assert hashes == [h.hex() for h in right], f"{sizes}: {what} {at}"


def check_theirs(tool, folder):
    """Logs of the oracle; and each with one thing changed is refused."""
    for number, total in enumerate([0, 1, 256, 300, 700]):
        place = folder / f"theirs{number}"
        place.mkdir()
        entries = [b"entry %d" % i for i in range(total)]
        write_log(place, entries, SEED, WITNESSES)
        lines = run(tool, "read", place).splitlines()
        assert lines == [f"{i} entry {i}" for i in range(total)] + [f"cosigned {len(WITNESSES)}"]
        for file in [place / "checkpoint", *place.glob("tile/*/*"), *place.glob("tile/*/*.p/*")]:
            if file.is_dir():
                continue
            data = file.read_bytes()
            file.write_bytes(data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) +
                             data[len(data) // 2 + 1:])
            done = subprocess.run([tool, "read", place], capture_output=True, text=True)
            assert done.returncode == 1, f"{file} changed and accepted"
            file.write_bytes(data)


def check_draws(tool):
    """The verifiable random function of audits, against that of ed25519.py."""
    for number in range(24):
        seed, message = hashlib.sha256(bytes([number])).digest(), b"m" * number
        proof = bytes.fromhex(run(tool, "vrf", seed.hex(), message.hex()))
        assert proof == ed25519.vrf_prove(seed, message), number
        assert ed25519.vrf_verify(ed25519.public(seed), message, proof), number


def main():
    tool = sys.argv[1]
    check_known_answers()
    with tempfile.TemporaryDirectory() as name:
        check_ours(tool, pathlib.Path(name))
        check_theirs(tool, pathlib.Path(name))
    check_draws(tool)
    print("both implementations read and verify each other's logs")


if __name__ == "__main__":
    main()
