"""Weights of shares of a vector that some of its parties can open without the others: Shamir's polynomials [Shamir79].

N parties, m of which may be missing: the party at position i holds f(i + 1), f of degree N - 1 - m modulo the prime of
`mpc.prime` and f(0) the vector. So N - 1 - m shares are uniform, and may be drawn from seeds; they and f(0) give the
others. Any N - m parties, each of which weighs its share by `opening_weight`, hold additive shares of the vector.
"""

from collections.abc import Sequence

from mpc.prime.field import inverse
from mpc.prime.kernels import PRIME


def lagrange_weights(places: Sequence[int], at: int) -> list[int]:
    """Return with which weights values at distinct places add up to that of their polynomial elsewhere, mod p."""
    found = []
    for place in places:
        top, bottom = 1, 1
        for other in places:
            if other != place:
                top, bottom = top * (at - other) % PRIME, bottom * (place - other) % PRIME
        found.append(top * inverse(bottom) % PRIME)
    return found


def dealing_weights(n_seeds: int, position: int) -> list[int]:
    """Return with which weights a vector, then the shares of the first parties, add up to the share of another.

    Args:
        n_seeds: N - 1 - m.
        position: position of the other one, n_seeds and up.
    """
    return lagrange_weights(range(n_seeds + 1), position + 1)


def opening_weight(position: int, openers: Sequence[int]) -> int:
    """Return with which weight a share counts when the parties at some positions open, its own among them."""
    weights = lagrange_weights([opener + 1 for opener in openers], 0)
    return weights[list(openers).index(position)]
