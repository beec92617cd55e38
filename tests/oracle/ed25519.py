"""Ed25519 (RFC 8032) and ECVRF-EDWARDS25519-SHA512-TAI (RFC 9381) over Python's integers, for the
oracles: slow, short, and sharing nothing with the library that the product uses."""

import hashlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def sha512(*parts):
    return hashlib.sha512(b"".join(parts)).digest()


def add(p, q):
    """The complete addition of a twisted Edwards curve, projective (x, y, z, t)."""
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def negated(p):
    return -p[0] % P, p[1], p[2], -p[3] % P


IDENTITY = (0, 1, 1, 0)


def times(n, p):
    out = IDENTITY
    while n:
        if n & 1:
            out = add(out, p)
        p = add(p, p)
        n >>= 1
    return out


def encode(p):
    inverse = pow(p[2], P - 2, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decode(data):
    """The point, or None (RFC 8032, section 5.1.3)."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    if len(data) != 32 or y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


BASE = decode((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def expand(seed):
    digest = sha512(seed)
    scalar = int.from_bytes(digest[:32], "little")
    return scalar & ((1 << 254) - 8) | 1 << 254, digest[32:]


def public(seed):
    return encode(times(expand(seed)[0], BASE))


def number(data):
    return int.from_bytes(data, "little")


def sign(seed, message):
    scalar, prefix = expand(seed)
    key = public(seed)
    r = number(sha512(prefix, message)) % L
    point = encode(times(r, BASE))
    k = number(sha512(point, key, message)) % L
    return point + ((r + k * scalar) % L).to_bytes(32, "little")


def verify(key, message, signature):
    a, r = decode(key), decode(signature[:32])
    s = number(signature[32:])
    if len(signature) != 64 or a is None or r is None or s >= L:
        return False
    k = number(sha512(signature[:32], key, message)) % L
    return encode(times(s, BASE)) == encode(add(r, times(k, a)))


SUITE = b"\x03"


def vrf_point(key, alpha):
    for counter in range(256):
        digest = sha512(SUITE, b"\x01", key, alpha, bytes([counter]), b"\x00")
        point = decode(digest[:32])
        if point is not None and encode(times(8, point)) != encode(IDENTITY):
            return times(8, point)
    raise ValueError("no point")


def vrf_challenge(*points):
    return number(sha512(SUITE, b"\x02", *points, b"\x00")[:16])


def vrf_prove(seed, alpha):
    scalar, prefix = expand(seed)
    key = public(seed)
    h = vrf_point(key, alpha)
    gamma = encode(times(scalar, h))
    k = number(sha512(prefix, encode(h))) % L
    c = vrf_challenge(key, encode(h), gamma, encode(times(k, BASE)), encode(times(k, h)))
    return gamma + c.to_bytes(16, "little") + ((k + c * scalar) % L).to_bytes(32, "little")


def vrf_output(proof):
    return sha512(SUITE, b"\x03", encode(times(8, decode(proof[:32]))), b"\x00")


def vrf_verify(key, alpha, proof):
    """The output, or None."""
    y, gamma = decode(key), decode(proof[:32])
    c, s = number(proof[32:48]), number(proof[48:])
    if len(proof) != 80 or y is None or gamma is None or s >= L:
        return None
    h = vrf_point(key, alpha)
    u = add(times(s, BASE), negated(times(c, y)))
    v = add(times(s, h), negated(times(c, gamma)))
    right = c == vrf_challenge(key, encode(h), proof[:32], encode(u), encode(v))
    return vrf_output(proof) if right else None
