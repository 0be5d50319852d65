"""RFC 6962, section 2.1, as its text defines it: recursive, slow, and written from the RFC alone."""

from hashlib import sha256


def k_of(n):
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def mth(d):
    if not d:
        return sha256(b"").digest()
    if len(d) == 1:
        return sha256(b"\0" + d[0]).digest()
    k = k_of(len(d))
    return sha256(b"\1" + mth(d[:k]) + mth(d[k:])).digest()


def path(m, d):
    if len(d) == 1:
        return []
    k = k_of(len(d))
    if m < k:
        return [*path(m, d[:k]), mth(d[k:])]
    return [*path(m - k, d[k:]), mth(d[:k])]


def proof(m, d):
    return subproof(m, d, True)


def subproof(m, d, b):
    n = len(d)
    if m == n:
        return [] if b else [mth(d)]
    k = k_of(n)
    if m <= k:
        return [*subproof(m, d[:k], b), mth(d[k:])]
    return [*subproof(m - k, d[k:], False), mth(d[:k])]
