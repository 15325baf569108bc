"""Shamir sharing of 32-byte secrets (keys and seeds) over one prime of 257 bits [Sha79].

Python integers suffice: a secret costs some microseconds, because the Lagrange weights depend on the set of holders
only and are computed once for all secrets that a set holds. They are not constant-time: who can measure single
operations inside a member's machine is outside the threat model.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

from entropy import KeyStream
from mpc.errors import LocalFaultError, OutOfRangeError, TooFewSharesError

PRIME = (1 << 256) + 297
"""The smallest prime above 2^256: every 32-byte string is a residue."""

SECRET_BYTES = 32
SHARE_BYTES = 33


def split_secret(secret: bytes, n_required: int, holders: Sequence[int], stream: KeyStream) -> dict[int, bytes]:
    """Return one share of a secret per holder; any `n_required` of them determine it, fewer say nothing.

    Holder x gets f(x), f a uniform polynomial of degree n_required - 1 with f(0) = secret.

    Args:
        secret: 32 bytes.
        n_required: 1 .. len(holders).
        holders: distinct member numbers, at least 1.
        stream: where the coefficients come from.

    Returns:
        Holder to 33 bytes, big-endian.
    """
    if len(secret) != SECRET_BYTES:
        raise LocalFaultError(f"a shared secret has {SECRET_BYTES} bytes, not {len(secret)}")
    if not 1 <= n_required <= len(holders) or len(set(holders)) != len(holders) or min(holders) < 1:
        raise LocalFaultError(f"{len(holders)} holders cannot share a secret that needs {n_required} of them")
    coefficients = [_uniform(stream) for _ in range(n_required - 1)]
    constant = int.from_bytes(secret, "big")
    shares = {}
    for x in holders:
        value = 0
        for coefficient in coefficients:
            value = (value + coefficient) * x
        shares[x] = ((value + constant) % PRIME).to_bytes(SHARE_BYTES, "big")
    return shares


def recombine_secret(shares: Mapping[int, bytes], n_required: int) -> bytes | None:
    """Return the secret that the first `n_required` shares determine, or None where they determine no 32 bytes.

    Args:
        shares: holder to share; checked before by `check_share`.
        n_required: number of shares that the split required.

    Raises:
        TooFewSharesError: fewer shares are there.
    """
    if len(shares) < n_required:
        raise TooFewSharesError(f"{len(shares)} shares are available, but {n_required} are needed")
    holders = tuple(sorted(shares)[:n_required])
    weights = lagrange_weights(holders)
    value = sum(w * int.from_bytes(shares[x], "big") for x, w in zip(holders, weights, strict=True)) % PRIME
    return value.to_bytes(SHARE_BYTES, "big")[1:] if value < 1 << 256 else None


def check_share(share: bytes) -> None:
    """Accept only what can be a share.

    Raises:
        OutOfRangeError: not 33 bytes that stand for a residue.
    """
    if len(share) != SHARE_BYTES or int.from_bytes(share, "big") >= PRIME:
        raise OutOfRangeError(f"a share of a key must have {SHARE_BYTES} bytes and must be below the prime")


@functools.lru_cache(maxsize=4096)
def lagrange_weights(holders: tuple[int, ...]) -> tuple[int, ...]:
    """Return the weights with which shares at these abscissas add up to the value at 0; remembered per set."""
    # lambda_x = prod_{y != x} y / (y - x) = P / (x prod_{y != x} (y - x)), P the product of all: exact in small
    # integers; all divisions at once, by one inverse.
    product = math.prod(holders) % PRIME
    divisors = [x * math.prod(y - x for y in holders if y != x) % PRIME for x in holders]
    before = list(accumulate(divisors, lambda a, b: a * b % PRIME, initial=1))
    inverse = product * pow(before[-1], -1, PRIME) % PRIME
    weights = []
    for divisor, product_before in zip(reversed(divisors), reversed(before[:-1]), strict=True):
        weights.append(inverse * product_before % PRIME)
        inverse = inverse * divisor % PRIME
    return tuple(reversed(weights))


def _uniform(stream: KeyStream) -> int:
    """Return a uniform residue: 257 bits, drawn again while they are not below the prime (about every second time)."""
    while True:
        value = int.from_bytes(stream.read(SHARE_BYTES), "big") & ((1 << 257) - 1)
        if value < PRIME:
            return value
