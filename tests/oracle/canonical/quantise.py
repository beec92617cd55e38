"""Sections 2 and 3: runs of values and activation rows to int8."""

import numpy as np

from .arithmetic import BLOCK, E_MIN, F, GRID, TINY, ceil_log2, pow2


def quantise(x):
    """x (..., n) finite -> (d (...), q (..., n) int8): one scale over the last axis."""
    a = np.abs(x).max(axis=-1)
    live = a >= TINY
    divisor = np.where(live, a, F(127))
    d = np.where(live, a / F(127), F(0)).astype(F)
    inverse = np.where(live, F(127) / divisor, F(0)).astype(F)
    return d, np.rint(x * inverse[..., None]).astype(np.int8)


class Activations:
    """Rows (tokens, cols) of section 3."""

    def __init__(self, x):
        finite = np.isfinite(x).all(axis=-1)
        x = np.where(finite[:, None], x, F(0))
        tokens, cols = x.shape
        a = np.abs(x).max(axis=-1)
        exponent = ceil_log2(np.where(a > 0, a, F(1)))
        self.failed = ~finite
        self.exponent = np.where(a > 0, np.maximum(exponent, E_MIN), E_MIN)
        d, self.q = quantise(x.reshape(tokens, cols // BLOCK, BLOCK))
        self.scale = d * pow2(GRID - self.exponent)[:, None]
        block_sum = self.q.sum(axis=-1, dtype=np.int32)
        self.sum = self.scale * block_sum.astype(F)
