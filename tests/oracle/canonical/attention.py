"""Section 8: attention of all heads of one position over the visible positions."""

import numpy as np

from .arithmetic import BLOCK, F, LOG2E, TINY, fma
from .elementwise import exp2, softcap
from .quantise import quantise


def attention(query, kv, begin, end, score_scale, cap=None, sinks=None):
    """query (heads, head_dim), sinks (heads) or none -> (heads, head_dim); cap: of the scores"""
    heads, head_dim = query.shape
    group = np.arange(heads) // (heads // kv.dk.shape[1])
    dq, qq = quantise(query.reshape(heads, -1, BLOCK))
    dq = dq * (F(score_scale) * LOG2E)
    dk, qk = kv.dk[begin:end][:, group], kv.qk[begin:end][:, group]
    dots = (qq[None].astype(np.int32) * qk).sum(axis=-1, dtype=np.int32)
    s = np.zeros((end - begin, heads), F)
    for b in range(head_dim // BLOCK):
        s = fma(dots[..., b].astype(F), dq[:, b] * dk[..., b], s)
    if cap is not None:
        s = softcap(s, F(cap) * LOG2E)
    m = s.max(axis=0)
    if sinks is not None:
        z = sinks * LOG2E
        m = np.maximum(m, z)
    w = exp2(s - m)
    den = np.rint(w * F(2.0**24)).astype(np.int64).sum(axis=0)
    if sinks is not None:
        den = den + np.rint(exp2(z - m) * F(2.0**24)).astype(np.int64)
    x = w * kv.dv[begin:end][:, group]
    M = x.max(axis=0)
    live = M >= TINY
    divisor = np.where(live, M, F(1))
    P = np.rint(x * (F(65535) / divisor)).astype(np.int64)
    acc = np.einsum("ih,ihk->hk", P, kv.qv[begin:end][:, group].astype(np.int64))
    r = (M / F(65535)) / (den.astype(F) * F(2.0**-24))
    return np.where(live[:, None], acc.astype(F) * r[:, None], F(0))


def latent_attention(query, latents, end, values, score_scale):
    """query (heads, width) -> (heads, values), of the rows of positions [0, end)"""
    heads = query.shape[0]
    dq, qq = quantise(query.reshape(heads, -1, BLOCK))
    dq = dq * (F(score_scale) * LOG2E)
    d, q = latents.d[:end], latents.q[:end]
    out = np.zeros((heads, values), F)
    for h in range(heads):
        s = np.zeros(end, F)
        for b in range(q.shape[1]):
            dot = (q[:, b].astype(np.int32) * qq[h, b].astype(np.int32)).sum(axis=1)
            s = fma(dot.astype(F), dq[h, b] * d[:, b], s)
        w = exp2(s - s.max())
        den = int(np.rint(w * F(2.0**24)).astype(np.int64).sum())
        for b in range(values // BLOCK):
            x = w * d[:, b]
            M = x.max()
            if M < TINY:
                continue
            P = np.rint(x * (F(65535) / M)).astype(np.int64)
            acc = (P[:, None] * q[:, b].astype(np.int64)).sum(axis=0)
            out[h, b * BLOCK:(b + 1) * BLOCK] = \
                acc.astype(F) * ((M / F(65535)) / (F(den) * F(2.0**-24)))
    return out
