"""Whether several shared values are all zero, as a shared bit; nothing is opened.

Modulo each prime p of the field by itself:

1. For a number g that is no square modulo p, a^2 - g b^2 = 0 only if a = b = 0: else g would be the square of a / b. So
   k values become one, which is zero where they all are, in a tree of k - 1 products.
2. By Fermat x^(p - 1) is 1 where x is not zero, and 0 where it is. Exponents of all primes are read three bits at a
   time: x^0 .. x^7 are made once, then three squarings and one product go with each digit. Which power is taken is
   public and differs between primes; by the Chinese remainder theorem it is one combination of the powers with public
   factors.

The bit is 1 - x^(p - 1). With primes of 21 bits it takes k + 29 products per bit, in 27 + log2(k) rounds.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from mpc.arithmetic.field import ResidueField
from mpc.protocol.computation import Computation
from mpc.protocol.shared import SharedArray, concatenate

T = TypeVar("T")

DIGIT_BITS = 3
_BASE = 1 << DIGIT_BITS

BITS_AT_ONCE = 1 << 16
"""Bits that are computed together: some 25 words each are in memory, and they go through all rounds together."""


async def all_zero(c: Computation, values: SharedArray) -> SharedArray:
    """Return for each row of values whether all are zero modulo each prime: 1 or 0, degree t.

    Args:
        c: the computation; all its members call this.
        values: shape (n, k), degree t, k >= 1.

    Returns:
        Shape (n,), bound 1. Where values are zero modulo some primes and not modulo others, the bit is 1 modulo those
        and 0 modulo these, so it is neither: callers see to it that this has no weight.

    Raises:
        PeerError: see `Computation.reduce_all`.

    Privacy: any t parties see uniform elements. Cost: (k + 29) n products, 27 + log2(k) rounds for each `BITS_AT_ONCE`.
    """
    parts = []
    for start in range(0, values.shape[0], BITS_AT_ONCE):
        part = values[start : start + BITS_AT_ONCE]
        one = await _zero_only_if_all_are(c, replace(part, bound=None))
        parts.append(1 - await _fermat_power(c, one))
    if not parts:
        return c.public([])
    return replace(concatenate(parts), bound=1)


def products_of_rounds(primes: Sequence[int], n_values: int) -> list[int]:
    """Return of each round of `all_zero` how many products it takes per row, with so many values in a row."""
    rounds = []
    while n_values > 1:
        rounds.append(n_values // 2)
        n_values -= n_values // 2
    rounds += [1, 2, 3]
    for chosen in _digits([p - 1 for p in primes])[1:]:
        rounds += [1] * (DIGIT_BITS + any(chosen))
    return rounds


async def _zero_only_if_all_are(c: Computation, values: SharedArray) -> SharedArray:
    """Return one value per row, shape (n,)."""
    factor = -of_residues(c.field, [_non_square(p) for p in c.field.primes])
    while values.shape[1] > 1:
        half = values.shape[1] // 2
        left, right, rest = values[:, :half], values[:, half : 2 * half], values[:, 2 * half :]
        formed = await c.reduce(await _local(c, lambda a=left, b=right: a * a + b * b * factor))  # type: ignore[misc]
        values = concatenate([formed, rest], axis=1) if rest.shape[1] else formed
    return values.reshape(-1)


async def _fermat_power(c: Computation, x: SharedArray) -> SharedArray:
    """Return x^(p - 1) modulo each prime p, shape as x."""
    powers = {1: x}
    powers[2] = await c.multiply(x, x)
    for made in ({3: (1, 2), 4: (2, 2)}, {5: (1, 4), 6: (2, 4), 7: (3, 4)}):
        factors = [(powers[a], powers[b]) for a, b in made.values()]
        products = await _local(c, lambda factors=factors: [a * b for a, b in factors])  # type: ignore[misc]
        powers |= dict(zip(made, await c.reduce_all(products), strict=True))
    digits = _digits([p - 1 for p in c.field.primes])
    result = await _local(c, lambda: _chosen(c.field, powers, digits[0]))
    for chosen in digits[1:]:
        for _ in range(DIGIT_BITS):
            result = await c.multiply(result, result)
        if any(chosen):
            factor = await _local(c, lambda chosen=chosen: _chosen(c.field, powers, chosen))  # type: ignore[misc]
            result = await c.multiply(result, factor)
    return result


def _chosen(field: ResidueField, powers: dict[int, SharedArray], exponents: list[int]) -> SharedArray:
    """Return the power with one exponent modulo the first prime, with another one modulo the second, and so on."""
    if len(set(exponents)) == 1 and exponents[0]:
        return powers[exponents[0]]
    total = powers[1] * 0 + of_residues(field, [int(e == 0) for e in exponents])
    for exponent in set(exponents) - {0}:
        total = total + powers[exponent] * of_residues(field, [int(e == exponent) for e in exponents])
    return replace(total, bound=None)


def _digits(exponents: list[int]) -> list[list[int]]:
    """Return the digits of all exponents in base 8, the highest first; as many as the largest needs."""
    n_digits = max(1, -(-max(exponents).bit_length() // DIGIT_BITS))
    return [[e >> (DIGIT_BITS * place) & (_BASE - 1) for e in exponents] for place in reversed(range(n_digits))]


def of_residues(field: ResidueField, residues: list[int]) -> int:
    """Return the integer of at most half the order in size with these residues modulo the primes of the field."""
    total = 0
    for prime, residue in zip(field.primes, residues, strict=True):
        others = field.order // prime
        total += residue * others * pow(others, -1, prime)
    total %= field.order
    return total - field.order if total > field.half_order else total


def _non_square(prime: int) -> int:
    return next(g for g in range(2, prime) if pow(g, (prime - 1) // 2, prime) == prime - 1)


async def _local(c: Computation, work: Callable[[], T]) -> T:
    return await c.exchange.session.compute(work)
