"""Section 9: sines, cosines and powers in binary64, + - * / only (Python's float)."""

import functools
import math
import struct
from dataclasses import dataclass

import numpy as np

_h = float.fromhex


def _series(z, a0):
    f = 1.0
    for a in range(a0 + 14, a0 - 1, -2):
        f = 1.0 + f * (z / (float(a) * (float(a) + 1.0)))
    return f


@functools.lru_cache(maxsize=2**17)
def cos_sin(position, frequency, magnitude):
    """(cos, sin) of position * frequency, times the magnitude, as fp32."""
    angle = float(position) * frequency
    t = angle * _h("0x1.45f306dc9c883p-1") + _h("0x1.8p52")
    quadrant = struct.unpack("<Q", struct.pack("<d", t))[0] & 3
    k = t - _h("0x1.8p52")
    r = (angle - k * _h("0x1.921fb544p+0")) - k * _h("0x1.0b4611a626331p-34")
    z = -(r * r)
    S, C = r * _series(z, 2), _series(z, 1)
    c, s = ((C, S), (-S, C), (-C, -S), (S, -C))[quadrant]
    return np.float32(c * magnitude), np.float32(s * magnitude)


def log2(base):
    if not (math.isfinite(base) and base > 0):
        return math.nan
    c = 0.0
    if base < 2.0**-1022:
        base, c = base * 2.0**64, -64.0
    m, x = math.frexp(base)
    m, x = m * 2.0, float(x - 1)
    if m > _h("0x1.6a09e667f3bcdp+0"):
        m, x = m * 0.5, x + 1.0
    v = (m - 1.0) / (m + 1.0)
    z = v * v
    q = 0.0
    for a in range(25, 0, -2):
        q = q * z + 1.0 / a
    return (x + ((2.0 * v) * q) * _h("0x1.71547652b82fep+0")) + c


def ln(base):
    return log2(base) * _h("0x1.62e42fefa39efp-1")


def power(base, e):
    if not (math.isfinite(base) and math.isfinite(e) and base > 0):
        return math.nan
    y = log2(base) * e
    if y < -1022.0:
        return 0.0
    if y >= 1023.0:
        return math.inf
    k = (y + _h("0x1.8p52")) - _h("0x1.8p52")
    f = (y - k) * _h("0x1.62e42fefa39efp-1")
    q = 1.0
    for a in range(16, 0, -1):
        q = 1.0 + q * (f / a)
    return math.ldexp(q, int(k))


@dataclass(frozen=True)
class Yarn:
    context: int
    fast: float
    slow: float

    def index(self, n, d, base):
        return (d * log2(self.context / (n * _h("0x1.921fb54442d18p+2")))) / (2.0 * log2(base))

    def scaled(self, f, i, d, base, s):
        low = max(0.0, float(math.floor(self.index(self.fast, d, base))))
        high = min(d - 1.0, float(math.ceil(self.index(self.slow, d, base))))
        t = min(max((i - low) / max(0.001, high - low), 0.0), 1.0)
        return (f / s) * t + f * (1.0 - t)


def yarn_magnitude(s, multiplier):
    def m(x):
        return 1.0 if s <= 1 else 1.0 + (0.1 * x) * ln(s)
    return m(1.0) / m(multiplier)


def frequencies(d, base, factors=None, scale=1.0, yarn=None):
    """Section 12: one binary64 number a pair."""
    out = []
    for i in range(d // 2):
        f = power(base, float(-2 * i) / float(d))
        if factors is not None:
            f = f / float(factors[i])
        out.append(yarn.scaled(f, i, d, base, scale) if yarn else f / scale)
    return out


def table(positions, frequencies_, magnitude=1.0):
    """(cos, sin), each (positions, pairs) fp32."""
    pairs = np.array([[cos_sin(p, f, magnitude) for f in frequencies_] for p in positions],
                     np.float32)
    return pairs[..., 0], pairs[..., 1]
