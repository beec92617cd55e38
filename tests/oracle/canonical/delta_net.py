"""Section 8a: the gated delta net of one layer, one position after the other."""

from dataclasses import dataclass

import numpy as np

from . import angles
from .arithmetic import ATTENTION_MAX, F, LOG2E
from .elementwise import exp2, rms_norm, silu, sum_of_squares


@dataclass(frozen=True)
class Heads:
    keys: int
    values: int
    width: int  # d
    taps: int   # K
    tiled: bool  # value head h has the key head h mod keys

    @property
    def channels(self):
        return self.width * (2 * self.keys + self.values)

    def key_heads(self):
        """of each value head"""
        h = np.arange(self.values)
        return h % self.keys if self.tiled else h // (self.values // self.keys)


def sigmoid(x):
    return F(1) / (F(1) + exp2(x * -LOG2E))


def softplus(t):
    """t (heads)"""
    e = exp2(t * LOG2E)
    return np.array([F(angles.ln(1.0 + float(y))) if x <= 20 else x for x, y in zip(t, e)], F)


class State:
    def __init__(self, heads):
        self.heads = heads
        self.rows = np.zeros((heads.taps - 1, heads.channels), F)
        self.M = np.zeros((heads.values, heads.width, heads.width), F)

    def step(self, m, b, t, z, taps, A, norm, epsilon):
        """m (C), b and t (V), z (V, d), taps (C, K), A (V), norm (d) -> ((V, d), failed)"""
        heads, d = self.heads, self.heads.width
        failed = not (np.abs(m) <= ATTENTION_MAX).all()
        failed |= not (np.isfinite(b).all() and np.isfinite(t).all())
        rows = np.concatenate([self.rows, m[None]])
        s = np.zeros(heads.channels, F)
        for j in range(heads.taps):
            s = s + taps[:, j] * rows[j]
        failed |= not np.isfinite(s).all()
        self.rows = rows[1:]
        if failed:
            return np.zeros_like(z), True
        u = silu(s).reshape(-1, d)
        u_q, u_k, v = np.split(u, [heads.keys, 2 * heads.keys])
        squares = sum_of_squares(u_q), sum_of_squares(u_k)
        if not all(np.isfinite(sq).all() for sq in squares):
            return np.zeros_like(z), True
        r_q, r_k = (F(1) / np.sqrt(sq + epsilon) for sq in squares)
        q = (u_q * r_q[:, None]) * (F(1) / np.sqrt(F(d)))
        k = u_k * r_k[:, None]
        q, k = q[heads.key_heads()], k[heads.key_heads()]
        g = exp2((A * softplus(t)) * LOG2E)
        M = self.M * g[:, None, None]
        p = np.zeros_like(v)
        for i in range(d):
            p = p + M[:, i] * k[:, i, None]
        e = (v - p) * sigmoid(b)[:, None]
        M = M + k[:, :, None] * e[:, None, :]
        o = np.zeros_like(v)
        for i in range(d):
            o = o + M[:, i] * q[:, i, None]
        self.M = M
        n, bad = rms_norm(o, norm, epsilon)
        return n * silu(z), bool(bad.any())
