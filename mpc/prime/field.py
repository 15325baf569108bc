"""The integers modulo the prime p = 2^64 - 2^32 + 1: random elements, roots of unity, values of polynomials.

p - 1 is a multiple of 2^32, so polynomials are taken apart and put together by fast transforms. It is the field
`Field64` of [VDAF].
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.prime import kernels as prime_kernels
from mpc.prime.kernels import PRIME

Words = NDArray[np.uint64]

GENERATOR = 7


def element(integer: int) -> np.uint64:
    """Return what stands for an integer."""
    return np.uint64(integer % PRIME)


def elements(integers: list[int]) -> Words:
    """Return what stands for integers, shape (n,)."""
    return np.array([integer % PRIME for integer in integers], dtype=np.uint64)


def inverse(integer: int) -> int:
    """Return 1 / integer modulo p."""
    return pow(integer, -1, PRIME)


def draw(stream: KeyStream, out: Words) -> None:
    """Overwrite a contiguous vector with uniform elements.

    Words of p and above, one in 2^32, are replaced by the next words of the stream that are below, in their order.
    """
    stream.fill(out)
    wrong = np.flatnonzero(out >= np.uint64(PRIME))
    for place in wrong:
        while out[place] >= np.uint64(PRIME):
            out[place] = stream.words(1)[0]


def random(stream: KeyStream, *shape: int) -> Words:
    """Return uniform elements of a shape."""
    out = np.empty(shape, dtype=np.uint64)
    draw(stream, out.reshape(-1))
    return out


@cache
def roots_of_unity(order: int) -> Words:
    """Return the powers 0 .. order - 1 of a primitive root of unity, order a power of 2 up to 2^32."""
    root = pow(GENERATOR, (PRIME - 1) // order, PRIME)
    found = [1]
    while len(found) < order:
        found.append(found[-1] * root % PRIME)
    return elements(found)


@cache
def _bit_reversed(order: int) -> NDArray[np.intp]:
    places = np.zeros(1, dtype=np.intp)
    while len(places) < order:
        places = np.concatenate([2 * places, 2 * places + 1])
    return places


def values_of(coefficients: Words) -> Words:
    """Return the values of polynomials at all roots of unity of an order, one polynomial in each column.

    Args:
        coefficients: shape (order, columns), order a power of 2, 2 and up.
    """
    order = len(coefficients)
    out = np.ascontiguousarray(coefficients[_bit_reversed(order)])
    prime_kernels.transform(out, np.ascontiguousarray(roots_of_unity(order)[: order // 2]))
    return out


def coefficients_of(values: Words) -> Words:
    """Return the polynomials that have these values at all roots of unity of an order; see `values_of`."""
    order = len(values)
    out = values_of(values)
    out[1:] = out[:0:-1].copy()  # at the inverse roots
    prime_kernels.scale_rows(out, np.full(order, element(inverse(order))))
    return out


def signed(integers: NDArray[np.int64]) -> Words:
    """Return what stands for integers of any sign, of the same shape."""
    words = integers.view(np.uint64)
    return np.where(integers < 0, words + np.uint64(PRIME), words)


def shifts(n: int) -> list[int]:
    """Return the shifts of n cosets of roots of unity of one order, disjoint from each other and from the roots.

    Args:
        n: below 2^24.
    """
    return [pow(GENERATOR, i, PRIME) for i in range(1, n + 1)]


def weights_at(point: int, order: int, coset_shifts: list[int]) -> Words:
    """Return with which weights values on cosets of the roots of unity add up to the polynomial's value at a point.

    The polynomial has a degree below the number of values. With a_i = s_i^m the vanishing polynomial of coset i is
    t^m - a_i, so the weight of its point u is u (r^m - a_i) / (m a_i (r - u)) times, for all other cosets j,
    (r^m - a_j) / (a_i - a_j).

    Args:
        point: r, on none of the cosets.
        order: m.
        coset_shifts: s_i of each coset.

    Returns:
        Shape (cosets, order).
    """
    power = pow(point, order, PRIME)
    levels = [pow(shift, order, PRIME) for shift in coset_shifts]
    roots = [int(root) for root in roots_of_unity(order)]
    found = []
    for level, shift in zip(levels, coset_shifts, strict=True):
        scale = (power - level) * inverse(order * level)
        for other in levels:
            if other != level:
                scale = scale * (power - other) * inverse(level - other) % PRIME
        points = [shift * root % PRIME for root in roots]
        found.append([u * scale * inverse(point - u) for u in points])
    return np.stack([elements(weights) for weights in found])
