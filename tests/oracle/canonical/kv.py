"""Section 7: keys and values of one layer, one row a position."""

import numpy as np

from .arithmetic import ATTENTION_MAX, BLOCK, F
from .quantise import quantise


def refused(x):
    """(tokens, heads, head_dim) -> (tokens): not finite or above ATTENTION_MAX."""
    return ~((np.abs(x) <= ATTENTION_MAX).all(axis=(1, 2)))


class Latents:
    """Rows of which keys and values are made: section 7, latent attention."""

    def __init__(self, width):
        self.d = np.zeros((0, width // BLOCK), F)
        self.q = np.zeros((0, width // BLOCK, BLOCK), np.int8)

    def append(self, rows):
        """rows (tokens, width); returns the refused tokens."""
        failed = refused(rows[:, None])
        rows = np.where(failed[:, None], F(0), rows)
        d, q = quantise(rows.reshape(len(rows), -1, BLOCK))
        self.d, self.q = np.concatenate([self.d, d]), np.concatenate([self.q, q])
        return failed


class KvCache:
    def __init__(self, kv_heads, head_dim):
        self.dk = np.zeros((0, kv_heads, head_dim // BLOCK), F)
        self.qk = np.zeros((0, kv_heads, head_dim // BLOCK, BLOCK), np.int8)
        self.dv = np.zeros((0, kv_heads), F)
        self.qv = np.zeros((0, kv_heads, head_dim), np.int8)

    def append(self, k, v):
        """k, v (tokens, kv_heads, head_dim), k after RoPE; returns the refused tokens."""
        failed = refused(k) | refused(v)
        k = np.where(failed[:, None, None], F(0), k)
        v = np.where(failed[:, None, None], F(0), v)
        dk, qk = quantise(k.reshape(k.shape[:2] + (-1, BLOCK)))
        dv, qv = quantise(v)
        self.dk, self.qk = np.concatenate([self.dk, dk]), np.concatenate([self.qk, qk])
        self.dv, self.qv = np.concatenate([self.dv, dv]), np.concatenate([self.qv, qv])
        return failed
