"""Section 4: blocks of a file to scales, minima and integers; row exponents; dequantised rows."""

import math
import pathlib
import re
from fractions import Fraction

import numpy as np

from .arithmetic import B_MIN, BLOCK, F, NotCanonical, ceil_log2

N = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int32)
V = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int32)
E_MAX = 188


def _grids():
    """Name in grids.inc -> values (entries, 8 or 4)."""
    text = (pathlib.Path(__file__).parents[3] / "kernels" / "grids.inc").read_text()
    ascending = {"IQ2": [8, 25, 43], "IQ3_XXS": [4, 12, 20, 28, 36, 44, 52, 62],
                 "IQ3_S": [1, 3, 5, 7, 9, 11, 13, 15], "IQ1": [-1, 0, 1]}
    grids = {}
    for name, body in re.findall(r"kGrid(\w+)\[\d+\] = \{([^}]*)\}", text):
        values = next(v for prefix, v in ascending.items() if name.startswith(prefix))
        bits, count = (3, 4) if len(values) == 8 else (2, 8)
        entries = np.array(body.replace(",", " ").split(), np.int32)
        places = (entries[:, None] >> (bits * np.arange(count))) & (2**bits - 1)
        grids[name] = np.array(values, np.int32)[places]
    return grids


GRIDS = _grids()

# Fields of a block or super-block in the order of the file: (name, bytes).
LAYOUT = {
    "Q8_0": [("d", 2), ("x", 32)],
    "Q4_0": [("d", 2), ("x", 16)],
    "Q4_1": [("d", 2), ("m", 2), ("x", 16)],
    "Q5_0": [("d", 2), ("h", 4), ("x", 16)],
    "Q5_1": [("d", 2), ("m", 2), ("h", 4), ("x", 16)],
    "IQ4_NL": [("d", 2), ("x", 16)],
    "MXFP4": [("e", 1), ("x", 16)],
    "Q4_K": [("d", 2), ("dmin", 2), ("c", 12), ("x", 128)],
    "Q5_K": [("d", 2), ("dmin", 2), ("c", 12), ("h", 32), ("x", 128)],
    "IQ4_XS": [("d", 2), ("h", 2), ("l", 4), ("x", 128)],
    "Q2_K": [("y", 16), ("x", 64), ("d", 2), ("dmin", 2)],
    "Q3_K": [("g", 32), ("x", 64), ("y", 12), ("d", 2)],
    "Q6_K": [("x", 128), ("g", 64), ("y", 16), ("d", 2)],
    "IQ2_XXS": [("d", 2), ("z", 64)],
    "IQ2_XS": [("d", 2), ("x", 64), ("c", 8)],
    "IQ2_S": [("d", 2), ("x", 32), ("y", 32), ("f", 8), ("c", 8)],
    "IQ3_XXS": [("d", 2), ("x", 64), ("z", 32)],
    "IQ3_S": [("d", 2), ("x", 64), ("f", 8), ("y", 32), ("c", 4)],
    "IQ1_S": [("d", 2), ("x", 32), ("f", 16)],
    "IQ1_M": [("x", 32), ("f", 16), ("y", 8)],
    "TQ1_0": [("x", 48), ("y", 4), ("d", 2)],
    "TQ2_0": [("x", 64), ("d", 2)],
}
FLOATS = {"F32": 4, "F16": 2, "BF16": 2}
SUPER = set(LAYOUT) - {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4"}


def block_weights(kind):
    """Weights of one block of the file."""
    return 1 if kind in FLOATS else 256 if kind in SUPER else BLOCK


def block_bytes(kind):
    return FLOATS[kind] if kind in FLOATS else sum(size for _, size in LAYOUT[kind])


def _fields(kind, raw):
    """raw (rows, blocks, bytes) -> fields, uint8 as int32; fp16 fields widened to fp32."""
    fields, at = {}, 0
    for name, size in LAYOUT[kind]:
        part = np.ascontiguousarray(raw[..., at:at + size])
        at += size
        if name in ("d", "m", "dmin"):
            value = part.view(np.dtype("<f2"))[..., 0].astype(F)
            if not np.isfinite(value).all():
                raise NotCanonical(f"a {name} of {kind} is not finite")
            fields[name] = value
        elif name == "e":
            if part.max() > E_MAX:
                raise NotCanonical(f"an e of {kind} is above {E_MAX}")
            fields["d"] = np.ldexp(F(1), part[..., 0].astype(np.int32) - 128).astype(F)
        else:
            fields[name] = part.astype(np.int32)
    if kind == "IQ1_M":
        d = _integer(_shorts(fields["y"]) >> 12, 4).astype(np.uint16).view(np.float16).astype(F)
        if not np.isfinite(d).all():
            raise NotCanonical("a d of IQ1_M is not finite")
        fields["d"] = d
    return fields


def _nibbles(x):
    """n(x, k) for k in 0..31 over the last axis of 16 bytes."""
    return np.concatenate([x & 15, x >> 4], axis=-1)


def _integer(digits, bits=8):
    """Little-endian unsigned integer of the last axis."""
    return sum(digits[..., i].astype(np.int64) << (bits * i) for i in range(digits.shape[-1]))


def _shorts(octets):
    return _integer(octets.reshape(octets.shape[:-1] + (-1, 2)))


def _words(octets):
    return _integer(octets.reshape(octets.shape[:-1] + (-1, 4)))


def _halves(octets):
    """Nibbles of each byte, the low one first, over the last axis."""
    return np.stack([octets & 15, octets >> 4], axis=-1).reshape(octets.shape[:-1] + (-1,))


def _even(seven):
    ones = sum((seven >> i) & 1 for i in range(7))
    return seven | (ones % 2) << 7


def _signed_by(signs, values):
    """values (..., groups, 8), signs (..., groups)."""
    return np.where((signs[..., None] >> np.arange(8)) & 1, -values, values)


def _exponent(units):
    """B of a row whose sum is so many 2^-27."""
    return B_MIN if units == 0 else max(B_MIN, (units - 1).bit_length() - 27)


def _signed(octets):
    return octets - 256 * (octets >= 128)


class Quantised:
    """D (rows, blocks) fp32; M the same or None; q (rows, blocks, 32) int8 or int16.

    S, T (rows, blocks, 2): the integer scales and minima of halves, or None.
    """

    def __init__(self, kind, raw):
        self.kind = kind
        self.M = self.S = self.T = None
        rows = raw.shape[0]
        raw = raw.reshape(rows, -1, block_bytes(kind))
        fields = _fields(kind, raw)
        getattr(self, "_" + kind.lower())(fields)
        blocks = raw.shape[1] * block_weights(kind) // BLOCK
        self.q = self.q.reshape(rows, blocks, BLOCK).astype(np.int8)
        self.D = np.broadcast_to(self.D, self._shape(fields)).reshape(rows, blocks).astype(F)
        if self.M is not None:
            self.M = np.broadcast_to(self.M, self._shape(fields)).reshape(rows, blocks).astype(F)
        if self.S is not None:
            self.S = self.S.reshape(rows, blocks, 2)
        if self.T is not None:
            self.T = self.T.reshape(rows, blocks, 2)
        self.cols = blocks * BLOCK
        self.B = self._row_exponent()

    def _shape(self, fields):
        shape = fields["d"].shape
        return shape + (8,) if self.kind in SUPER else shape

    # One scale a block.
    def _q8_0(self, f):
        self.D, self.q = f["d"], _signed(f["x"])

    def _q4_0(self, f):
        self.D, self.q = f["d"], _nibbles(f["x"]) - 8

    def _q4_1(self, f):
        self.D, self.M, self.q = f["d"], f["m"], _nibbles(f["x"])

    def _q5_0(self, f):
        self.D, self.q = f["d"], _nibbles(f["x"]) + 16 * self._high_bits(f) - 16

    def _q5_1(self, f):
        self.D, self.M, self.q = f["d"], f["m"], _nibbles(f["x"]) + 16 * self._high_bits(f)

    def _iq4_nl(self, f):
        self.D, self.q = f["d"], N[_nibbles(f["x"])]

    def _mxfp4(self, f):
        self.D, self.q = f["d"], V[_nibbles(f["x"])]

    @staticmethod
    def _high_bits(f):
        return ((_integer(f["h"])[..., None] >> np.arange(32)) & 1).astype(np.int32)

    # One integer scale a block of a super-block.
    @staticmethod
    def _scales_and_minima(c):
        low = c[..., 0:4], c[..., 4:8]
        s = np.concatenate([low[0] % 64, c[..., 8:12] % 16 + 16 * (low[0] // 64)], axis=-1)
        t = np.concatenate([low[1] % 64, c[..., 8:12] // 16 + 16 * (low[1] // 64)], axis=-1)
        return s, t

    def _k4(self, f):
        s, t = self._scales_and_minima(f["c"])
        self.D = f["d"][..., None] * s.astype(F)
        self.M = -(f["dmin"][..., None] * t.astype(F))
        x = f["x"].reshape(f["x"].shape[:-1] + (4, 32))
        return np.stack([x & 15, x >> 4], axis=-2).reshape(x.shape[:-2] + (8, 32))

    def _q4_k(self, f):
        self.q = self._k4(f)

    def _q5_k(self, f):
        bits = (f["h"][..., None, :] >> np.arange(8)[:, None]) & 1
        self.q = self._k4(f) + 16 * bits

    def _iq4_xs(self, f):
        b = np.arange(8)
        nibble = (f["l"][..., b // 2] >> (4 * (b % 2))) & 15
        s = nibble + 16 * ((_integer(f["h"])[..., None] >> (2 * b)) & 3)
        self.D = f["d"][..., None] * (s - 32).astype(F)
        self.q = N[_nibbles(f["x"].reshape(f["x"].shape[:-1] + (8, 16)))]

    # Two integer scales a block: b = 4 h + c, e = 2 b + r.
    @staticmethod
    def _pairs(x):
        """x[64] -> x[32 h + k] / 4^c mod 4, shape (..., 8, 32)."""
        x = x.reshape(x.shape[:-1] + (2, 1, 32))
        pairs = (x >> (2 * np.arange(4))[:, None]) & 3
        return pairs.reshape(pairs.shape[:-3] + (8, 32))

    def _q2_k(self, f):
        self.D, self.M = f["d"][..., None], -f["dmin"][..., None]
        self.S, self.T = f["y"] % 16, f["y"] // 16
        self.q = self._pairs(f["x"])

    def _q3_k(self, f):
        e = np.arange(16)
        y = f["y"]
        low = np.where(e < 8, y[..., e % 8] & 15, y[..., e % 8] >> 4)
        self.D = f["d"][..., None]
        self.S = low + 16 * ((y[..., 8 + e % 4] >> (2 * (e // 4))) & 3) - 32
        bits = (f["g"][..., None, :] >> np.arange(8)[:, None]) & 1
        self.q = self._pairs(f["x"]) + 4 * bits - 4

    def _q6_k(self, f):
        x = f["x"].reshape(f["x"].shape[:-1] + (2, 2, 32))  # h, c mod 2, k
        z = np.stack([x & 15, x >> 4], axis=-3)             # h, c / 2, c mod 2, k
        self.D, self.S = f["d"][..., None], _signed(f["y"])
        self.q = z.reshape(z.shape[:-4] + (8, 32)) + 16 * self._pairs(f["g"]) - 32

    # Integer scales and a grid: groups of 8 (or 2 of 4), over the last axes of shape (32, 8).
    @staticmethod
    def _sevens(z):
        """z (..., 8) -> signs of 32 groups."""
        return _even((z[..., None] >> (7 * np.arange(4))) & 127).reshape(z.shape[:-1] + (32,))

    def _iq2_xxs(self, f):
        words = _words(f["z"]).reshape(f["z"].shape[:-1] + (8, 2))
        entries = (words[..., :1] >> (8 * np.arange(4))) & 255
        z = words[..., 1]
        self.D = (f["d"] / F(8))[..., None] * (2 * (z >> 28) + 1).astype(F)
        values = GRIDS["IQ2_XXS"][entries.reshape(z.shape[:-1] + (32,))]
        self.q = _signed_by(self._sevens(z), values)

    def _iq3_xxs(self, f):
        z = _words(f["z"])
        self.D = (f["d"] / F(4))[..., None] * (2 * (z >> 28) + 1).astype(F)
        values = GRIDS["IQ3_XXS"][f["x"]].reshape(z.shape[:-1] + (32, 8))
        self.q = _signed_by(self._sevens(z), values)

    def _iq3_s(self, f):
        self.D = f["d"][..., None] * (2 * _halves(f["c"]) + 1).astype(F)
        ninth = ((f["f"][..., None] >> np.arange(8)) & 1).reshape(f["x"].shape)
        values = GRIDS["IQ3_S"][f["x"] + 256 * ninth].reshape(f["y"].shape + (8,))
        self.q = _signed_by(f["y"], values)

    def _iq1_s(self, f):
        h = _shorts(f["f"])
        self.D = (f["d"] / F(8))[..., None] * (2 * (h // 2**12 % 8) + 1).astype(F)
        high = h[..., None] // 8 ** np.arange(4) % 8
        values = GRIDS["IQ1"][f["x"] + 256 * high.reshape(f["x"].shape)]
        plus = np.repeat(np.where(h >= 2**15, -1, 1), 4, axis=-1)
        self.q = 8 * values + plus[..., None]

    def _tq2_0(self, f):
        self.D, self.q = f["d"][..., None], self._pairs(f["x"]) - 1

    def _tq1_0(self, f):
        def three(v, count):
            digits = v[..., None, :] * (3 ** np.arange(count))[:, None] % 256 * 3 // 256 - 1
            return digits.reshape(v.shape[:-1] + (-1,))

        self.D = f["d"][..., None]
        self.q = np.concatenate([three(f["x"][..., :32], 5), three(f["x"][..., 32:], 5),
                                 three(f["y"], 4)], axis=-1)

    def _iq2_xs(self, f):
        x = _shorts(f["x"])
        self.D, self.S = (f["d"] / F(8))[..., None], 2 * _halves(f["c"]) + 1
        self.q = _signed_by(_even(x // 512), GRIDS["IQ2_XS"][x % 512])

    def _iq2_s(self, f):
        self.D, self.S = (f["d"] / F(8))[..., None], 2 * _halves(f["c"]) + 1
        high = (f["f"][..., None] // 4 ** np.arange(4) % 4).reshape(f["x"].shape)
        self.q = _signed_by(f["y"], GRIDS["IQ2_S"][f["x"] + 256 * high])

    def _iq1_m(self, f):
        y = _shorts(f["y"])
        self.D = (f["d"] / F(8))[..., None]
        self.S = 2 * (y[..., None] // 8 ** np.arange(4) % 8).reshape(y.shape[:-1] + (16,)) + 1
        w = _halves(f["f"])
        values = GRIDS["IQ1"][f["x"] + 256 * (w % 8)]
        self.q = 8 * values + np.where((w >> 3) & 1, -1, 1)[..., None]

    def _row_exponent(self):
        def units(x):  # of 2^-27, exact
            return np.abs(x.astype(np.float64) * 2.0**27).astype(np.int64)

        magnitude = np.abs(self.q.astype(np.int64))
        if self.kind == "MXFP4":  # each block rounded up to a unit
            sums = [sum(math.ceil(Fraction(float(d)) * 2**24 * int(m))
                        for d, m in zip(*row) if m)
                    for row in zip(self.D, magnitude.sum(axis=-1))]
            return np.array([_exponent(8 * s) for s in sums])
        if self.S is None:
            share = units(self.D) * magnitude.sum(axis=-1)
            if self.M is not None:
                share = share + 32 * units(self.M)
        else:
            halves = magnitude.reshape(magnitude.shape[:-1] + (2, 16)).sum(axis=-1)
            share = units(self.D) * (np.abs(self.S) * halves).sum(axis=-1)
            if self.M is not None:
                share = share + units(self.M) * 16 * self.T.sum(axis=-1)
        high, low = (share >> 32).sum(axis=-1), (share & 0xFFFFFFFF).sum(axis=-1)
        sums = [(int(h) << 32) + int(l) for h, l in zip(high, low)]
        return np.array([_exponent(s) for s in sums])

    def dequantised(self, rows):
        d = self.D[rows][..., None]
        if self.S is None:
            v = d * self.q[rows].astype(F)
            if self.M is not None:
                v = v + self.M[rows][..., None]
        else:
            product = np.repeat(self.S[rows], 16, axis=-1) * self.q[rows].astype(np.int32)
            v = d * product.astype(F)
            if self.M is not None:
                minimum = self.M[rows][..., None] * self.T[rows].astype(F)
                v = v + np.repeat(minimum, 16, axis=-1)
        return v.reshape(v.shape[0], self.cols)


class Floating:
    """w (rows, cols) fp32."""

    kind = "floating"

    def __init__(self, kind, raw):
        raw = np.ascontiguousarray(raw.reshape(raw.shape[0], -1))
        if kind == "BF16":
            self.w = (raw.view(np.dtype("<u2")).astype(np.uint32) << 16).view(F)
        else:
            self.w = raw.view(np.dtype("<f4" if kind == "F32" else "<f2")).astype(F)
        if not np.isfinite(self.w).all() or (np.abs(self.w) > F(2.0**64)).any():
            raise NotCanonical(f"a weight of {kind} is not finite or above 2^64")
        self.cols = self.w.shape[1]
        a = np.abs(self.w).max(axis=-1)
        f = ceil_log2(np.where(a > 0, a, F(1)))
        self.B = np.where(a > 0, np.maximum(B_MIN, f + ceil_log2(self.cols)), B_MIN)

    def dequantised(self, rows):
        return self.w[rows]


def matrix(kind, raw):
    """raw: (rows, bytes of a row) uint8."""
    if kind in FLOATS:
        return Floating(kind, raw)
    if kind not in LAYOUT:
        raise NotCanonical(f"weight type {kind}")
    return Quantised(kind, raw)
