"""Sections 2, 3 and 13: runs of values, activation rows and the ranges of ranks to int8."""

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


def joined(x, ranks):
    """The rows x as a group of ranks puts them together, each of which quantises its own columns.
    The ranges grow, and some of the first are empty."""
    blocks = x.shape[1] // BLOCK
    ends = [BLOCK * (blocks * (rank + 1) ** 2 // ranks ** 2) for rank in range(ranks)]
    parts = [Activations(x[:, begin:end]) for begin, end in zip([0] + ends, ends) if end > begin]
    whole = Activations.__new__(Activations)
    whole.failed = np.any([part.failed for part in parts], axis=0)
    good = ~whole.failed[:, None]
    whole.exponent = np.max([part.exponent for part in parts], axis=0)
    scales = [part.scale * factor(part.exponent - whole.exponent)[:, None] for part in parts]
    whole.exponent = np.where(whole.failed, E_MIN, whole.exponent)
    whole.scale = np.concatenate(scales, axis=1) * good
    whole.q = np.concatenate([part.q for part in parts], axis=1) * good[:, :, None]
    whole.sum = whole.scale * whole.q.sum(axis=-1, dtype=np.int32).astype(F)
    return whole


def factor(exponent):
    """What a rank's scales are multiplied by, given its exponent less that of the whole row."""
    return pow2(np.maximum(exponent, -126))
