"""What comparisons, sorting, fixed point, functions and shuffles send: `mpc.protocol.operations`, walked through."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

from mpc.arithmetic.chebyshev import Polynomial, steps_of
from mpc.arithmetic.field import ResidueField
from mpc.protocol.operations.bits import room_of
from mpc.protocol.operations.fixed_point import cut_of
from mpc.protocol.operations.functions import POWERS, Scales, mantissa_polynomial, sigmoid_end, sigmoid_polynomial
from mpc.protocol.operations.products import powers_of
from mpc.protocol.operations.selections import sorting_network
from mpc.traffic.shares import ShareTraffic


def random_parts(share: ShareTraffic, n_bits: int, n_values: int, sizes: Sequence[int]) -> None:
    """Walk through `Bits._random_parts`."""
    share.random_parts(n_bits, n_values, sizes)
    product(share, share.t + 1, n_bits)


def product(share: ShareTraffic, n_factors: int, n_values: int) -> None:
    """Walk through `Bits.prod`."""
    while n_factors > 1 and n_values:
        half = n_factors // 2
        share.reduce(half * n_values)
        n_factors -= half


def mask(share: ShareTraffic, n_values: int, n_bits: int, bound: int | None = None) -> None:
    """Walk through `Bits._mask` of an array of degree t, of at most this bound in size; of n_bits by default."""
    bound = (1 << n_bits) - 1 if bound is None else bound
    _, n_high_bits = room_of(ResidueField(share.n_primes), share.t, bound, n_bits)
    random_parts(share, n_bits * n_values, n_values, [n_high_bits])
    share.open_among_parties(n_values)


def is_below(share: ShareTraffic, n_values: int, n_bits: int) -> None:
    """Walk through `Bits._is_below`."""
    while n_bits > 1:
        n_pairs = n_bits // 2
        share.reduce((2 * n_pairs - (n_bits % 2 == 0)) * n_values)
        n_bits -= n_pairs


def low_bits(share: ShareTraffic, n_values: int, n_bits: int, bound: int | None = None) -> None:
    """Walk through `Computation.low_bits`, `floor_shift` and `less` of arrays of degree t; `bound` as of `mask`."""
    mask(share, n_values, n_bits, bound)
    is_below(share, n_values, n_bits)


less = low_bits


def is_zero(share: ShareTraffic, n_values: int, n_bits: int, bound: int | None = None) -> None:
    """Walk through `Computation.is_zero` and `equal` of arrays of degree t."""
    if share.t > 1 or share.proves_products:
        mask(share, n_values, n_bits, bound)
    else:
        room_of(ResidueField(share.n_primes), share.t, (1 << n_bits) - 1 if bound is None else bound, n_bits)
        share.inputs({1: 2 * n_values, 2: (1 + n_bits) * n_values})
        share.open_among_parties(n_values)
        share.inputs({1: n_bits * n_values})
        share.reduce(n_values)
    polynomial(share, n_values, n_bits)


def polynomial(share: ShareTraffic, n_values: int, degree: int) -> None:
    """Walk through `Products.polynomial` of an array of degree t, whose coefficients are all at hand."""
    for highest in (sizes := powers_of(degree)):
        done = 1
        while done < highest:
            share.reduce(min(done, highest - done) * n_values)
            done *= 2
    if sizes[1]:
        share.reduce((sizes[1] if share.proves_products else 1) * n_values)


def bits(share: ShareTraffic, n_values: int, n_bits: int) -> None:
    """Walk through `Computation.bits` of an array of degree t."""
    mask(share, n_values, n_bits)
    for step in range((n_bits - 1).bit_length()):
        upper = [place for place in range(n_bits) if place >> step & 1]
        with_p = sum(1 for place in upper if (place >> step << step) - 1 >> step)
        share.reduce((len(upper) + with_p) * n_values)
    share.reduce((n_bits - 1) * n_values)


def select(share: ShareTraffic, n_values: int) -> None:
    """Walk through `Computation.select`."""
    share.reduce(n_values)


def sort(share: ShareTraffic, n_rows: int, n_columns: int, n_bits: int) -> None:
    """Walk through `Computation.sort` of an array of degree t."""
    for lower, _ in sorting_network(n_rows):
        less(share, lower.size, n_bits)
        share.reduce(lower.size * n_columns)


def truncate(share: ShareTraffic, n_values: int, bound: int, n_bits: int, degree: int | None = None) -> None:
    """Walk through `Computation.truncate` of values of at most this bound in size; they have degree t by default."""
    share.traffic.has_intermediate_products = (
        True  # what is opened is the value, under a mask that may be dealt wrongly
    )
    *_, n_high_bits = cut_of(ResidueField(share.n_primes), share.t, bound, n_bits)
    if degree is None or degree <= share.t:
        random_parts(share, 0, n_values, [n_bits, n_high_bits])
    else:
        for each in (degree, share.t):
            share.inputs(dict.fromkeys(range(1, share.t + 2), n_values), each)
    share.open_among_parties(n_values)


def to_be_cut(share: ShareTraffic, n_values: int) -> int:
    """Walk through `FixedPoint._to_be_cut` of arrays of degree t; return the degree of the products."""
    if share.product_degree == share.t:
        share.reduce(n_values)
    return share.product_degree


def smooth(share: ShareTraffic, n_values: int, polynomial: Polynomial, scale_bits: int) -> int:
    """Walk through `Functions._evaluated` of an array of degree t; return the bound of its result."""
    one, errors = 1 << polynomial.inner_bits, polynomial.errors
    for h, several in steps_of(polynomial.degree):
        largest = 2 * (one + errors[h]) * (one + max(errors[k] for k in several))
        n_products = len(several) * n_values
        truncate(share, n_products, largest, polynomial.inner_bits, to_be_cut(share, n_products))
    first, *others = polynomial.coefficients
    bound = abs(first) * one + sum(abs(c) * (one + e) for c, e in zip(others, errors[1:], strict=True))
    truncate(share, n_values, bound, polynomial.cut_bits(scale_bits))
    return (bound >> polynomial.cut_bits(scale_bits)) + share.t + 2


def taken_apart(share: ShareTraffic, n_values: int, n_bits: int) -> None:
    """Walk through `Functions._taken_apart` of an array of degree t."""
    bits(share, n_values, n_bits)
    for step in range((n_bits - 1).bit_length()):
        share.reduce(sum(place >> step & 1 for place in range(n_bits)) * n_values)
    share.reduce(n_values)


def power(share: ShareTraffic, n_values: int, n_bits: int, exponent: Fraction, scales: Scales, factor: int = 0) -> None:
    """Walk through `Functions.power` of an array of degree t, and with a factor, of at most that size, `divide`."""
    taken_apart(share, n_values, n_bits)
    polynomial = mantissa_polynomial(POWERS[exponent], n_bits, scales.mantissa_bits, share.t)
    bound = smooth(share, n_values, polynomial, scales.mantissa_bits) * max(scales.constants)
    degree = to_be_cut(share, n_values)
    if factor:
        if degree > share.t:
            share.reduce(n_values)
        degree = to_be_cut(share, n_values)
    truncate(share, n_values, bound * (factor or 1), scales.mantissa_bits + scales.shift_bits, degree)


def log(share: ShareTraffic, n_values: int, n_bits: int, scale_bits: int) -> None:
    """Walk through `Functions.log` of an array of degree t."""
    taken_apart(share, n_values, n_bits)
    smooth(share, n_values, mantissa_polynomial(Decimal.ln, n_bits, scale_bits, share.t), scale_bits)


def sigmoid(share: ShareTraffic, n_values: int, bound: int, scale_bits: int) -> None:
    """Walk through `Functions.sigmoid` of an array of degree t, of at most this bound in size."""
    end = sigmoid_end(scale_bits)
    if bound > end:
        less(share, 2 * n_values, (bound + end).bit_length())
        share.reduce(n_values)
    smooth(share, n_values, sigmoid_polynomial(scale_bits, share.t), scale_bits)


def inverse(share: ShareTraffic, n_values: int) -> None:
    """Walk through `Modular.inverse` of an array of degree t."""
    share.inputs(dict.fromkeys(range(1, share.t + 2), n_values))
    product(share, share.t + 1, n_values)
    share.open_to_all(n_values, 2 * share.t)


def shuffle(share: ShareTraffic, n_values: int) -> None:
    """Walk through `Computation.shuffle` of an array of degree t."""
    for committee in combinations(share.parties, 2):
        share.inputs(dict.fromkeys(committee, n_values))
