"""Section 6a: the choice of a position's experts, and the sum of what they give."""

import numpy as np

from .arithmetic import F, LOG2E
from .elementwise import exp2

EXPERT_MAX = 2.0**21


def choose(logits, k, to_one):
    """logits (tokens, n) -> (chosen (tokens, k) ascending, w (tokens, k), failed (tokens))"""
    failed = ~np.isfinite(logits).all(axis=1)
    logits = np.where(failed[:, None], F(0), logits)
    tokens, n = logits.shape
    chosen = np.empty((tokens, k), np.int64)
    w = np.empty((tokens, k), F)
    for row, l in enumerate(logits):
        order = sorted(range(n), key=lambda e: (-float(l[e]), e))
        chosen[row] = sorted(order[:k])
        p = exp2((l - l.max()) * LOG2E)
        units = np.rint(p * F(2**24)).astype(np.int64)
        den = sum(int(u) for u in (units[chosen[row]] if to_one else units))
        w[row] = p[chosen[row]] / (F(den) * F(2.0**-24))
    return chosen, w, failed


def shared_weight(s):
    """s (tokens) -> (w (tokens), failed (tokens))"""
    failed = ~np.isfinite(s)
    s = np.where(failed, F(0), s)
    return F(1) / (F(1) + exp2(s * -LOG2E)), failed


class Sum:
    """The outputs of (tokens, hidden), whatever the order in which experts are added."""

    def __init__(self, tokens, hidden):
        self.S = np.zeros((tokens, hidden), np.int64)
        self.failed = np.zeros(tokens, bool)

    def add(self, rows, w, y):
        """rows: indices of tokens; w (rows), y (rows, hidden)"""
        t = w[:, None] * y
        within = np.abs(t) <= F(EXPERT_MAX)
        self.failed[rows] |= ~within.all(axis=1)
        t = np.where(within, t, F(0))
        self.S[rows] += np.rint(t * F(2**26)).astype(np.int64)

    def outputs(self):
        return self.S.astype(F) * F(2.0**-26)
