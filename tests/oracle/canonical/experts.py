"""Section 6a: the choice of a position's experts, and the sum of what they give."""

from dataclasses import dataclass

import numpy as np

from .arithmetic import F, LOG2E
from .elementwise import exp2

EXPERT_MAX = 2.0**21


@dataclass(frozen=True)
class Routing:
    sigmoid: bool = False
    to_one: bool = True
    scale: float = 1.0
    groups: int = 1
    groups_used: int = 1


def _candidates(s, routing):
    """s (n) -> the experts that may be chosen"""
    if routing.groups <= 1:
        return range(len(s))
    groups = s.reshape(routing.groups, -1)
    scores = []
    for group in groups:
        largest = sorted(group)[-2:]
        scores.append(float(largest[0] + largest[1]))
    order = sorted(range(routing.groups), key=lambda g: (-scores[g], g))
    size = groups.shape[1]
    return [g * size + i for g in order[:routing.groups_used] for i in range(size)]


def choose(logits, k, routing, bias=None):
    """logits (tokens, n) -> (chosen (tokens, k) ascending, w (tokens, k), failed (tokens))"""
    failed = ~np.isfinite(logits).all(axis=1)
    logits = np.where(failed[:, None], F(0), logits)
    tokens, n = logits.shape
    chosen = np.empty((tokens, k), np.int64)
    w = np.empty((tokens, k), F)
    for row, l in enumerate(logits):
        if routing.sigmoid:
            p = F(1) / (F(1) + exp2(l * -LOG2E))
            s = order_of = p if bias is None else p + bias
        else:
            s = p = exp2((l - l.max()) * LOG2E)
            order_of = l
        order = sorted(_candidates(s, routing), key=lambda e: (-float(order_of[e]), e))
        chosen[row] = sorted(order[:k])
        w[row] = _weights(p, chosen[row], routing)
    return chosen, w, failed


def _weights(p, chosen, routing):
    if routing.sigmoid and not routing.to_one:
        w = p[chosen]
    elif routing.sigmoid:
        den = sum(int(u) for u in np.rint(p[chosen] * F(2.0**40)))
        w = p[chosen] / (F(max(den, 2**26)) * F(2.0**-40))
    else:
        units = np.rint(p * F(2**24)).astype(np.int64)
        den = sum(int(u) for u in (units[chosen] if routing.to_one else units))
        w = p[chosen] / (F(den) * F(2.0**-24))
    return w * F(routing.scale)


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
