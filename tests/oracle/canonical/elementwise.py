"""Section 6: exp2, silu, gelu, RMSNorm, RoPE, the residual."""

import numpy as np

from .arithmetic import F, LOG2E, fma, pow2


def _hex(*texts):
    return [F(float.fromhex(text)) for text in texts]


EXP2 = _hex("0x1.41fbbcp-13", "0x1.5f3e54p-10", "0x1.3b2d4cp-7", "0x1.c6aee8p-5",
            "0x1.ebfbdcp-3", "0x1.62e43p-1", "0x1p0")
SLOPE, = _hex("-0x1.3a4cbep+1")
G1, G2 = _hex("-0x1.26aec2p+1", "-0x1.a5a7dp-4")
LANES = 256


def exp2(x):
    x = np.asarray(x, dtype=F)
    held = np.where(np.isnan(x), F(0), np.clip(x, F(-126), F(127)))
    n = np.rint(held)
    f = held - n
    p = np.broadcast_to(EXP2[0], x.shape)
    for c in EXP2[1:]:
        p = fma(p, f, c)
    result = (p.view(np.int32) + (n.astype(np.int32) << 23)).view(F)
    return np.where(np.isnan(x), x, np.where(x < F(-126), F(0), result))


def silu(x):
    return x / (F(1) + exp2(x * -LOG2E))


def swiglu(gate, up):
    return silu(gate) * up


def clamped_swiglu(gate, up):
    g = np.where(gate > F(7), F(7), gate)
    u = np.where(up > F(7), F(7), np.where(up < F(-7), F(-7), up))
    product = (g / (F(1) + exp2(g * SLOPE))) * (u + F(1))
    return np.where(np.isfinite(gate) & np.isfinite(up), product, F(np.nan))


def gelu(x):
    z = fma(G2, x * x, G1)
    return x / (F(1) + exp2(x * z))


def geglu(gate, up):
    return gelu(gate) * up


def softcap(x, c):
    k = (F(2) * LOG2E) / c
    return c - (c + c) / (F(1) + exp2(x * k))


def sum_of_squares(x):
    """x (..., n) -> (...), in the order of RMSNorm"""
    n = x.shape[-1]
    lane = np.zeros(x.shape[:-1] + (LANES,), F)
    for begin in range(0, n, LANES):
        part = x[..., begin:begin + LANES]
        width = part.shape[-1]
        lane[..., :width] = fma(part, part, lane[..., :width])
    h = LANES // 2
    while h:
        lane = lane[..., :h] + lane[..., h:2 * h]
        h //= 2
    return lane[..., 0]


def rms_norm(x, w, epsilon):
    """x (..., n), w (n) -> (y (..., n), failed (...))"""
    n = x.shape[-1]
    s = sum_of_squares(x)
    failed = ~np.isfinite(s)
    s = np.where(failed, F(1), s)
    r = F(1) / np.sqrt(s / F(n) + F(epsilon))
    return np.where(failed[..., None], F(0), (x * r[..., None]) * w), failed


def rope(x, c, s, halves):
    """x (tokens, heads, head_dim); c, s (tokens, pairs) of the values that turn."""
    c, s = c[:, None, :], s[:, None, :]
    pairs = c.shape[-1]
    first = slice(0, pairs) if halves else slice(0, 2 * pairs, 2)
    second = slice(pairs, 2 * pairs) if halves else slice(1, 2 * pairs, 2)
    out = x.copy()
    out[..., first] = x[..., first] * c - x[..., second] * s
    out[..., second] = x[..., first] * s + x[..., second] * c
    return out


def residual(x, shift):
    """x (tokens, hidden) -> (h fp16, x fp32, failed (tokens))"""
    h = (x * pow2(-shift)).astype(np.float16)
    failed = ~np.isfinite(h).all(axis=-1)
    h[failed] = 0
    return h, h.astype(F) * pow2(shift), failed
