"""Section 10: logits to one token, in integers."""

from dataclasses import dataclass, field
import functools
import math
from typing import Optional

import numpy as np

from .arithmetic import NotCanonical

LIMIT = 2**30


@dataclass
class Params:
    """As asked for; numbers are the fp32 ones."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    seed: int = 0
    bias: list = field(default_factory=list)  # (token, number or None: excluded)
    max_tokens: int = 16
    stop: list = field(default_factory=list)
    top_logprobs: Optional[int] = None
    embedding: int = 0  # values of the prompt's embedding; 0: none is wanted


def _fixed(p, bits, low, high):
    return min(max(round(float(np.float32(p)) * 2.0**bits), low), high)


def _held(value):
    return min(max(value, -LIMIT), LIMIT)


@functools.lru_cache(maxsize=64)  # four tokens in turn ask for the same numbers
def philox(counter, key):
    """Philox4x32-10."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def _e(y):
    s = 118043
    for c in (1371676, 10288824, 59584400, 257939319, 744261020):
        s = c - ((s * y) >> 30)
    return 2**30 - ((s * y) >> 30)


HIGH = [_e(f * 2**20) for f in range(2**10)]
LOW = [_e(f * 2**10) for f in range(2**10)]


def _fraction(f):
    return (HIGH[f >> 10] * LOW[f % 2**10]) >> 30


def weight(x):
    n, f = x >> 20, x % 2**20
    return 0 if n > 40 else (_fraction(f) << 10) >> n


def _distance_weight(distance, temperature):
    F = 406082553034801 // temperature
    if distance * F >= 41 * 2**48:
        return 0
    return weight((distance * F) >> 28)


def fixed_logits(logits):
    if not np.isfinite(logits).all():
        raise NotCanonical("a logit is not finite")
    held = np.clip(logits.astype(np.float64), -(2.0**14), 2.0**14)
    return [int(x) for x in np.rint(held * 65536.0)]


def _penalised(L, params, history, prompt_tokens):
    """Steps 1 to 4: L in place; the set of excluded tokens."""
    excluded = set()
    for token, number in params.bias:
        if number is None:
            excluded.add(token)
        else:
            L[token] = _held(L[token] + _fixed(number, 16, -100 * 2**16, 100 * 2**16))
    R = _fixed(params.repetition, 16, 1, 100 * 2**16)
    for token in set(history):
        scaled = (L[token] * 2**16) // R if L[token] > 0 else (L[token] * R) >> 16
        L[token] = _held(scaled)
    f = _fixed(params.frequency, 16, -100 * 2**16, 100 * 2**16)
    p = _fixed(params.presence, 16, -100 * 2**16, 100 * 2**16)
    generated = history[prompt_tokens:]
    for token in set(generated):
        L[token] = _held(L[token] - (f * generated.count(token) + p))
    if len(excluded) == len(L):
        raise NotCanonical("every token is excluded")
    return excluded


def _kept(candidates, params):
    """Step 7 of (D, id, w) in order."""
    threshold = round(float(np.float32(params.min_p)) * 2.0**40)
    candidates = [c for c in candidates if c[2] >= threshold]
    if params.top_k:
        candidates = candidates[:params.top_k]
    top_p = round(float(np.float32(params.top_p)) * 2.0**32)
    if top_p < 2**32:
        total = sum(c[2] for c in candidates)
        wanted = max(1, -((-total * top_p) >> 32))
        running = 0
        for count, c in enumerate(candidates, 1):
            running += c[2]
            if running >= wanted:
                return candidates[:count]
    return candidates


def sample(logits, params, history, prompt_tokens):
    """history: the tokens at positions 0..row; the new token's position is len(history)."""
    L = fixed_logits(logits)
    excluded = _penalised(L, params, history, prompt_tokens)
    allowed = [i for i in range(len(L)) if i not in excluded] if excluded else range(len(L))
    M = max(L[i] for i in allowed)
    if np.float32(params.temperature) == 0:
        return next(i for i in allowed if L[i] == M)
    T = _fixed(params.temperature, 16, 1, 100 * 2**16)
    weighed = ((M - L[i], i, _distance_weight(M - L[i], T)) for i in allowed)
    kept = _kept(sorted(c for c in weighed if c[2] > 0), params)
    key = (params.seed & 0xFFFFFFFF, params.seed >> 32)

    def time(D, token):
        R = philox((len(history), token // 4, 0, 0), key)[token % 4]
        return _exponential(R) * _slowness((D * (406082553034801 // T)) >> 28)

    return min((time(D, token), token) for D, token, _ in kept)[1]


def _exponential(R):
    Z = 32 - (R | 1).bit_length()
    y = (R * 2**(Z + 1) + 2**Z) % 2**32
    s = 7010891
    for c in (-12538354, 18264364, 2340956, 26186944, 64288226, 193647710, 774540904):
        s = c + ((s * y) >> 32)
    return float(Z) + float(y * s) * 2.0**-62


def _slowness(x):
    n = -(-x >> 20)
    return float(_fraction(n * 2**20 - x) * 2**n)


def _ln(t):
    """ln(t * 2^-40), t > 0."""
    m, e = math.frexp(float(t))
    m, e = m * 2.0, e - 1
    if m > float.fromhex("0x1.6a09e667f3bcdp+0"):
        m, e = m * 0.5, e + 1
    s = (m - 1.0) / (m + 1.0)
    q = 1.0 / 23.0
    for k in range(21, 0, -2):
        q = q * (s * s) + 1.0 / k
    return float(e - 40) * float.fromhex("0x1.62e42fefa39efp-1") + (2.0 * s) * q


def log_probabilities(logits, token, top):
    """(of the token, [(alternative, its), ...])"""
    L = fixed_logits(logits)
    M = max(L)
    log_sum = _ln(sum(_distance_weight(M - x, 2**16) for x in L))
    order = sorted(range(len(L)), key=lambda i: (M - L[i], i))[:top]

    def of(i):
        return np.float32(float(L[i] - M) * 2.0**-16 - log_sum)

    return of(token), [(i, of(i)) for i in order]


def finish(token, params, generated, position, context):
    """generated: tokens of the answer with this one; position: of the new token."""
    if token in params.stop:
        return "stop"
    return "length" if generated >= params.max_tokens or position + 1 >= context else None
