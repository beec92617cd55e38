"""Section 1: fp32 with one rounding an operation, and a correctly rounded fused multiply-add.

numpy's float32 + - * / sqrt rint and its conversions are IEEE operations; self_check() proves that
of this machine, subnormals included.
"""

from fractions import Fraction
import random

import numpy as np

F = np.float32
BLOCK = 32
GRID = 30
TINY = F(2.0**-100)
E_MIN = -90
B_MIN = -24
LOG2E = F(float.fromhex("0x1.715476p+0"))
ATTENTION_MAX = F(2.0**40)


class NotCanonical(Exception):
    """The text refuses what it was given."""


def pow2(n):
    """2^n as fp32."""
    n = np.asarray(n)
    if n.size and (n.min() < -126 or n.max() > 127):
        raise AssertionError(f"factor 2^{n} is outside of the text's range")
    return np.ldexp(F(1), n).astype(F)


def fma(a, b, c):
    """RNE(a * b + c) of fp32 numbers.

    The product of two fp32 numbers is exact in binary64. The sum is rounded to odd there (the error
    of the sum says which way), and 53 bits rounded to odd round to 24 as the exact value would. So
    does the nearest sum, where it is not itself halfway between two fp32 numbers.
    """
    product = np.multiply(a, b, dtype=np.float64)
    c = np.asarray(c, dtype=np.float64)
    total = np.asarray(product + c)
    halfway = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    subnormal = (np.abs(total) < 2.0**-126) & (total != 0)
    if not (halfway | subnormal).any():
        return total.astype(F)
    head = total - product
    error = (product - (total - head)) + (c - head)
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(error) & ((bits & 1) == 0)
    towards = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where(inexact, bits + towards, bits).view(np.float64)
    return odd.astype(F)


def ceil_log2(x):
    """The smallest integer e with x <= 2^e, of x > 0."""
    mantissa, exponent = np.frexp(np.asarray(x, dtype=np.float64))
    return np.where(mantissa == 0.5, exponent - 1, exponent).astype(np.int64)


def _exact_fp32(value):
    """RNE of a fraction to fp32, by integers."""
    if value == 0:
        return F(0)
    sign, value = (-1, -value) if value < 0 else (1, value)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - 23, -149)
    return F(sign * float(round(value / unit) * unit))


def self_check(count=3000):
    """Raises unless numpy keeps subnormals, rounds to nearest even and fma is exact."""
    rng = random.Random(7)

    def draw():
        if rng.random() < 0.2:
            return float(F(rng.randrange(-4, 5)) * F(2.0 ** -149))
        return float(F(rng.choice([-1, 1]) * rng.randrange(1, 1 << 24)
                       * 2.0 ** rng.randrange(-100, 10)))

    for _ in range(count):
        a, b = draw(), draw()
        product = Fraction(a) * Fraction(b)
        c = float(_exact_fp32(-product * Fraction(rng.choice([1, 2, 3]), 2)))
        c = rng.choice([c, draw()])
        want = _exact_fp32(product + Fraction(c))
        if fma(F(a), F(b), F(c)).tobytes() != want.tobytes() and want != 0:
            raise AssertionError(f"fma({a.hex()}, {b.hex()}, {c.hex()})")
        if F(a) * F(b) != _exact_fp32(product):
            raise AssertionError(f"{a.hex()} * {b.hex()}")
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5], dtype=F)
    if np.rint(halves).tolist() != [0, 2, 2, 0, -2]:
        raise AssertionError("rint does not round halves to even")
    if F(2.0**-126) / F(2) != F(2.0**-127) or F(2.0**-127) == 0:
        raise AssertionError("subnormal numbers are flushed")
