"""Section 9: sines, cosines and powers in binary64, + - * / only (Python's float)."""

import math
import struct

import numpy as np

_h = float.fromhex


def _series(z, a0):
    f = 1.0
    for a in range(a0 + 14, a0 - 1, -2):
        f = 1.0 + f * (z / (float(a) * (float(a) + 1.0)))
    return f


def cos_sin(position, frequency):
    """(cos, sin) of position * frequency as fp32."""
    angle = float(position) * frequency
    t = angle * _h("0x1.45f306dc9c883p-1") + _h("0x1.8p52")
    quadrant = struct.unpack("<Q", struct.pack("<d", t))[0] & 3
    k = t - _h("0x1.8p52")
    r = (angle - k * _h("0x1.921fb544p+0")) - k * _h("0x1.0b4611a626331p-34")
    z = -(r * r)
    S, C = r * _series(z, 2), _series(z, 1)
    c, s = ((C, S), (-S, C), (-C, -S), (S, -C))[quadrant]
    return np.float32(c), np.float32(s)


def power(base, e):
    if not (math.isfinite(base) and math.isfinite(e) and base > 0):
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
    log2 = x + ((2.0 * v) * q) * _h("0x1.71547652b82fep+0")
    y = (log2 + c) * e
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


def frequencies(head_dim, base, factors=None, scale=1.0):
    """Section 12: one binary64 number a pair."""
    out = []
    for i in range(head_dim // 2):
        f = power(base, float(-2 * i) / float(head_dim))
        if factors is not None:
            f = f / float(factors[i])
        out.append(f / scale)
    return out


def table(positions, frequencies_):
    """(cos, sin), each (positions, pairs) fp32."""
    pairs = np.array([[cos_sin(p, f) for f in frequencies_] for p in positions], np.float32)
    return pairs[..., 0], pairs[..., 1]
