"""Section 5: the matrix product."""

import numpy as np

from .arithmetic import BLOCK, F, GRID, fma, pow2
from .weights import Floating

ROWS = 4096  # of weights at a time: bounds memory only


def _dots(q_w, q_a):
    """Exact sums over the last axis, as (blocks, rows, tokens).

    q_w: (rows, blocks, n), q_a: (tokens, blocks, n). By way of fp32 products and sums, every one of
    which is an integer below 2^24.
    """
    w = np.ascontiguousarray(q_w.transpose(1, 0, 2)).astype(F)
    a = np.ascontiguousarray(q_a.transpose(1, 2, 0)).astype(F)
    return np.matmul(w, a)


def _columns(per_row_block):
    """(rows, blocks) -> (blocks, rows, 1)"""
    return per_row_block.T[:, :, None]


def _tokens(per_token_block):
    """(tokens, blocks) -> (blocks, 1, tokens)"""
    return per_token_block.T[:, None, :]


def _floating(w, G, a):
    w = w.reshape(w.shape[0], -1, BLOCK) * G[:, None, None]
    s = np.zeros((w.shape[1], w.shape[0], a.q.shape[0]), F)
    for k in range(BLOCK):
        s = fma(_columns(w[:, :, k]), _tokens(a.q[:, :, k].astype(F)), s)
    return s * _tokens(a.scale)


def _one_scale(W, rows, G, a):
    scale = _columns(W.D[rows] * G[:, None]) * _tokens(a.scale)
    dot = _dots(W.q[rows], a.q)
    if W.M is None:
        return scale * dot
    return fma(scale, dot, _columns(W.M[rows] * G[:, None]) * _tokens(a.sum))


def _two_scales(W, rows, G, a):
    scale = _columns(W.D[rows] * G[:, None]) * _tokens(a.scale)
    dot, low = 0, 0
    for r in range(2):
        half = slice(16 * r, 16 * r + 16)
        part = _dots(W.q[rows][:, :, half], a.q[:, :, half]).astype(np.int32)
        dot = dot + _columns(W.S[rows][:, :, r]) * part
        if W.T is not None:
            asum = a.q[:, :, half].sum(axis=-1, dtype=np.int32)
            low = low + _columns(W.T[rows][:, :, r]) * _tokens(asum)
    if W.M is None:
        return scale * dot.astype(F)
    minimum = _tokens(a.scale) * low.astype(F)
    return fma(scale, dot.astype(F), _columns(W.M[rows] * G[:, None]) * minimum)


def product(W, a):
    """W: (rows, cols) weights, a: Activations (tokens, cols) -> y (tokens, rows) fp32."""
    out = []
    for begin in range(0, len(W.B), ROWS):
        rows = slice(begin, begin + ROWS)
        B = W.B[rows]
        G = pow2(-B)
        if isinstance(W, Floating):
            p = _floating(W.w[rows], G, a)
        elif W.S is None:
            p = _one_scale(W, rows, G, a)
        else:
            p = _two_scales(W, rows, G, a)
        acc = np.rint(p).astype(np.int64).sum(axis=0)
        if np.abs(acc).max() >= 2**31:
            raise AssertionError("an int32 accumulator overflows")
        y = (acc.astype(F) * pow2(B)[:, None]) * pow2(a.exponent - GRID)[None, :]
        out.append(y.T)
    return np.concatenate(out, axis=1)
