"""Fractions as integers of a declared scale: an integer x of `scale_bits` stands for x / 2^scale_bits.

A product of two has twice the scale. `truncate` brings it back. For each element t + 1 parties deal l_i, uniform in
[0, 2^m), and h_i, uniform in [0, H), which make a mask r_i = l_i + 2^m h_i. What is opened among the compute parties
is c = x + o + r_1 + ... + r_{t+1}, o public, and the result is floor(c / 2^m) - h_1 - ... - h_{t+1} - k. Source:
[CdH10], section 3, with masks dealt where they draw bits. A product of shares is masked and opened as it is: it takes
no reduction.

Polynomials. A product of degree d > t is opened under l_i that are dealt with degree d, and h_i with degree t, as the
result keeps these. A coalition of t knows t points of the honest dealer's polynomial of l_i, which is uniform but for
its value at 0: so it is at d - t further points, given those t and l_i. What is opened is the sum of that polynomial
and of others, hence uniform but for c and the t points that the coalition has anyway. So the mask hides the product's
polynomial, too, and no sharing of zero is needed (`Openings.open`). Where d = N - 1 nothing of l_i travels: all
receivers derive their shares.

Error. With o = k 2^m - t 2^(m-1) the result is y = x / 2^m + e with
e = (l_1 + ... + l_{t+1} - c mod 2^m) / 2^m - t / 2, so -1 - t / 2 < e < 1 + t / 2 units of the last place, always.

Secrecy. One r_i is uniform and unknown to a coalition of t, as in `mpc.protocol.operations.bits`, with the same H.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.words import Words
from mpc.errors import LocalFaultError
from mpc.protocol.operations.bits import MOST_BITS, Bits, bounded, high_bits
from mpc.protocol.shared import Public, SharedArray


class FixedPoint(Bits):
    """The part of `Computation` that works with fractions."""

    async def truncate(self, x: SharedArray, n_bits: int) -> SharedArray:
        """Return x / 2^n_bits, rounded up or down with an error of less than 1 + t / 2, whatever x is.

        Args:
            x: integers; products that were not reduced, too.
            n_bits: 1 to 62.

        Raises:
            LocalFaultError: x has no bound, or `n_bits` is out of range.
            FieldTooSmallError: the mask does not fit beside x into the field: use more primes or a coarser scale.
            PeerError: a party drops out, is silent or sent an invalid share.

        Privacy: an advantage of at most 2^-40 per value.
        Cost: 2 rounds, 3 for products where N > 2t + 1; per value t + 1 parties deal 2 elements, and 1 is opened to all
            parties.
        """
        if not 1 <= n_bits <= MOST_BITS:
            raise LocalFaultError(f"1 to {MOST_BITS} bits can be cut off, not {n_bits}")
        self._check(x)
        bound = bounded(x)
        blocks, offset, n_high_bits = cut_of(self.field, self.t, bound, n_bits)
        is_product = x.degree > self.t
        if is_product:
            low = await self._random_sums(x.size, n_bits, x.degree)
            high = await self._random_sums(x.size, n_high_bits, self.t)
        else:
            _, (low, high) = await self._random_parts(0, x.size, [n_bits, n_high_bits])
        hidden = x + offset + (low + high * (1 << n_bits)).reshape(*x.shape)
        words = await self._opened_words(replace(hidden, bound=None), self._parties, is_fresh=is_product)
        result = -high.reshape(*x.shape) - blocks
        if words is not None:
            result = result + await self._exchange.compute(words.size, self._floor_shift_of_public, words, n_bits)
        return replace(result, bound=(bound >> n_bits) + self.t + 2)

    async def multiply_fixed(self, x: SharedArray, y: SharedArray | Public, scale_bits: int) -> SharedArray:
        """Return the products, element by element, at the scale of the factors. See `truncate`."""
        a, b = x.aligned(y)
        return await self.truncate(await self._to_be_cut(a, b), scale_bits)

    async def matmul_fixed(self, x: SharedArray, y: SharedArray, scale_bits: int) -> SharedArray:
        """Return the matrix product at the scale of the factors; each entry is truncated once. See `truncate`."""
        return await self.truncate(await self._matrix_to_be_cut(x, y), scale_bits)

    def _floor_shift_of_public(self, words: Words, n_bits: int) -> SharedArray:
        """Return floor(c / 2^n_bits) of public integers c from 0 to Q - 1: without its last bits c can be divided."""
        c = SharedArray(self.field, words.shape[1:], 0, None, words)
        return self._exact_quotient(c - self.field.last_bits(words, n_bits), 1 << n_bits, 0)

    async def _to_be_cut(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the products that are cut off next: of degree 2t, as the mask hides their polynomials as well."""
        return await self._local(lambda: x * y)

    async def _matrix_to_be_cut(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the product of two matrices, or vectors as in NumPy, of which each entry is cut off next."""
        return await self._local(lambda: x @ y)


def cut_of(field: ResidueField, t: int, bound: int, n_bits: int) -> tuple[int, int, int]:
    """Return k, o and the bits of each h_i, for integers of at most this bound in size; errors as `high_bits`."""
    centre = t << (n_bits - 1)
    blocks = -(-(bound + centre) >> n_bits) + 1
    offset = (blocks << n_bits) - centre
    return blocks, offset, high_bits(field, t, offset + bound, n_bits)


def to_fixed(values: ArrayLike, scale_bits: int) -> NDArray[np.int64]:
    """Return real numbers as integers of a scale, rounded to the nearest one.

    Raises:
        LocalFaultError: a number is not finite, or beyond 2^62 at this scale.
    """
    scaled = np.rint(np.ldexp(np.asarray(values, dtype=np.float64), scale_bits))
    if scaled.size and not np.abs(scaled).max() <= 1 << MOST_BITS:
        raise LocalFaultError(f"a number is not finite or has more than {MOST_BITS} bits at this scale")
    return scaled.astype(np.int64)


def from_fixed(integers: ArrayLike, scale_bits: int) -> NDArray[np.float64]:
    """Return the real numbers that integers of a scale stand for."""
    return np.ldexp(np.asarray(integers, dtype=np.float64), -scale_bits)
