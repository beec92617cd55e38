"""Section 11: hashes at the boundaries of stages."""

import hashlib
import struct


def _hash(tag, words, data=b""):
    packed = struct.pack(f"<{len(words)}I", *words)
    return hashlib.blake2b(tag + packed + data, digest_size=32).hexdigest()


def token_in(position, token):
    return _hash(b"hearth.tok", (position, token))


def boundary(b, position, h):
    return _hash(b"hearth.act", (b, position), h.astype("<f2").tobytes())


def token_out(position, token):
    return _hash(b"hearth.out", (position, 0xFFFFFFFF if token is None else token))
