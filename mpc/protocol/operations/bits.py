"""Bits that nobody knows, the masks made of them, and the bits of a secret integer.

An integer x of at most B in size, B < 2^w, is never opened. What is opened among the compute parties is

    c = x + 2^w + r + 2^m (h_1 + ... + h_{t+1}),    r = sum_j 2^j r_j

where the m bits r_j are each the exclusive or of one bit from each of t + 1 parties, and party i draws h_i uniformly
from [0, H). Then x mod 2^m follows from c and the shared r_j by a circuit of bits. Source: [CdH10], sections 3 and 4.

Secrecy. One of the t + 1 parties is outside any coalition of t, so for the coalition r is uniform and independent of
its part of the sum, and so is one h_i. Given c mod 2^m, which is uniform whatever x is, c div 2^m is h_i shifted by
what the coalition knows and by (x + 2^w + r) div 2^m, an integer from 0 to S = (2^w + B + 2^m - 1) div 2^m. Two uniform
distributions on H neighbouring integers that are shifted by at most S differ by at most S / H. H is the least power of
two with S / H <= 2^-40, and where c could then reach Q the operation is refused: it never wraps. Over n values the
distances add up to at most n 2^-40. This is for parties that follow the protocol: a dealer of what is no bit makes the
result wrong, and nobody notices. Where members may deviate, bits are proven (`mpc.proofs.proven_bits`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.words import Words
from mpc.errors import FieldTooSmallError, LocalFaultError, ShapeError
from mpc.protocol.operations.inputs import Inputs
from mpc.protocol.operations.openings import Openings
from mpc.protocol.operations.products import Products
from mpc.protocol.shared import SharedArray, combination, concatenate, stack

STATISTICAL_BITS = 40
"""A masked opening of one value tells two values apart with an advantage of at most 2^-40."""

MOST_BITS = 62
"""Bits of an integer that are handled at once: they fit int64."""


@dataclass(frozen=True, repr=False)
class Masked:
    """What is known of secret integers after their masked opening.

    Attributes:
        low: c mod 2^m, int64, at a member that holds shares; public to the compute parties.
        mask: the bits r_j, shape (m, *shape), the least significant first.
    """

    low: NDArray[np.int64] | None
    mask: SharedArray

    def low_bits(self) -> NDArray[np.bool_] | None:
        """Return the bits of `low`, shape (m, *shape)."""
        return None if self.low is None else bits_of(self.low, self.mask.shape[0]).astype(bool)

    def generated(self) -> SharedArray:
        """Return for each bit whether r_j = 1 and c_j = 0, shape (m, *shape)."""
        bits, r = self.low_bits(), self.mask
        share = None if r.share is None or bits is None else np.where(bits, np.uint64(0), r.share)
        return replace(r, share=share)

    def agreeing(self) -> SharedArray:
        """Return for each bit whether r_j = c_j, shape (m, *shape)."""
        bits, r = self.low_bits(), self.mask
        other = 1 - r
        share = None if r.share is None or other.share is None or bits is None else np.where(bits, r.share, other.share)
        return replace(r, share=share)


def high_bits(field: ResidueField, t: int, largest: int, n_bits: int) -> int:
    """Return how many bits each h_i has: the least number that keeps the distance below 2^-STATISTICAL_BITS.

    Args:
        field: the field of the shares.
        t: number of colluding parties; t + 1 deal.
        largest: the largest integer that is masked; the smallest is 0.
        n_bits: m.

    Raises:
        FieldTooSmallError: the field has no room for it.
    """
    shifts = largest + (1 << n_bits) - 1 >> n_bits
    n_high_bits = STATISTICAL_BITS + (shifts - 1).bit_length()
    if largest + (1 << n_bits) + (t + 1 << n_bits + n_high_bits) > field.order:
        raise FieldTooSmallError(
            f"integers of {largest.bit_length() - 1} bits and a mask of {STATISTICAL_BITS} bits more do not fit "
            f"into a field of {field.order.bit_length()} bits: use more primes or tighter bounds"
        )
    return n_high_bits


def room_of(field: ResidueField, t: int, bound: int, n_bits: int) -> tuple[int, int]:
    """Return 2^w and the bits of each h_i, for integers of at most this bound in size.

    Raises:
        LocalFaultError: m is not from 1 to 62.
        FieldTooSmallError: see `high_bits`.
    """
    if not 1 <= n_bits <= MOST_BITS:
        raise LocalFaultError(f"1 to {MOST_BITS} bits of an integer can be taken, not {n_bits}")
    offset = 1 << max(bound.bit_length(), n_bits)
    return offset, high_bits(field, t, offset + bound, n_bits)


def pieces_of(size: int) -> list[int]:
    """Return the numbers of bits, at most `MOST_BITS`, in which a draw of more bits is made."""
    whole, rest = divmod(size, MOST_BITS)
    return [MOST_BITS] * whole + [rest] * (rest > 0)


def bits_of(integers: NDArray[np.int64], n_bits: int) -> NDArray[np.int64]:
    """Return the last bits of public integers, or of one's own, shape (n_bits, *shape), the least significant first."""
    return integers[None] >> np.arange(n_bits).reshape(-1, *(1,) * integers.ndim) & 1


def as_bits(x: SharedArray) -> SharedArray:
    """Return an array of which is known that it holds 0 and 1 only."""
    return replace(x, bound=1)


def bounded(x: SharedArray) -> int:
    """Return the bound of an array.

    Raises:
        LocalFaultError: it has none.
    """
    if x.bound is None:
        raise LocalFaultError("uniform elements of the field have no size: only integers with a bound can be compared")
    return x.bound


class Bits(Inputs, Products, Openings):
    """The part of `Computation` that works with bits."""

    async def random_bits(self, shape: tuple[int, ...]) -> SharedArray:
        """Return uniform bits that no t parties and nobody else know.

        Raises:
            PeerError: a party drops out, is silent or sent an invalid share. None may drop out while it deals.

        Cost: 1 + ceil(log2(t + 1)) rounds; t + 1 parties deal an element per bit; t products per bit.
        """
        bits, _ = await self._random_parts(prod(shape), 0, [])
        return bits.reshape(*shape)

    async def prepare_bits(self, n_bits: int) -> None:
        """Deal so many bits of masks beforehand, where they are proven: one proof is about all of them; else nothing.

        Args:
            n_bits: bits that the masks of what follows have, high parts included.
        """

    async def low_bits(self, x: SharedArray, n_bits: int) -> SharedArray:
        """Return x mod 2^n_bits, from 0 to 2^n_bits - 1, exactly; of negative integers as in Python.

        Raises:
            LocalFaultError: x has no bound, or `n_bits` is not from 1 to 62.
            FieldTooSmallError: the mask does not fit beside x into the field: use more primes or tighter bounds.

        Privacy: an advantage of at most 2^-40 per value, see the module.
        Cost: 2 + ceil(log2(t + 1)) + ceil(log2(n_bits)) rounds; per value less than (t + 2) n_bits products.
        """
        return await self._low_bits(await self._mask(x, n_bits))

    async def floor_shift(self, x: SharedArray, n_bits: int) -> SharedArray:
        """Return floor(x / 2^n_bits), exactly. Errors and cost are those of `low_bits`."""
        low = await self.low_bits(x, n_bits)
        x = await self.reduce(x)
        return self._exact_quotient(x - low, 1 << n_bits, (bounded(x) >> n_bits) + 1)

    async def bits(self, x: SharedArray, n_bits: int) -> SharedArray:
        """Return the bits of x mod 2^n_bits, shape (n_bits, *x.shape), the least significant first.

        Of an integer from 0 to 2^n_bits - 1 these are its bits; of negative ones those of two's complement.

        Errors and privacy are those of `low_bits`.

        Cost: 3 + ceil(log2(t + 1)) + ceil(log2(n_bits)) rounds; per value at most
            n_bits (t + 1 + log2(n_bits)) products.
        """
        masked = await self._mask(x, n_bits)
        generated, agreeing = masked.generated(), masked.agreeing()
        # Sklansky's scan: after step k a place knows of the 2^k-aligned block below it and of itself.
        for step in range((n_bits - 1).bit_length()):
            upper = [j for j in range(n_bits) if j >> step & 1]
            below = [(j >> step << step) - 1 for j in upper]
            of_p = [i for i, j in enumerate(below) if j >> step]  # a block at the bottom is complete: no p is needed
            p = take(agreeing, upper)
            pairs = [(p, take(generated, below))]
            if of_p:
                pairs.append((take(p, of_p), take(agreeing, [below[i] for i in of_p])))
            reduced = await self.multiply_all(pairs)
            generated = put(generated, upper, as_bits(take(generated, upper) + reduced[0]))
            if of_p:
                agreeing = put(agreeing, [upper[i] for i in of_p], as_bits(reduced[1]))
        different = as_bits(1 - masked.agreeing())
        if n_bits == 1:
            return different
        borrowed = generated[:-1]
        both = await self.multiply(different[1:], borrowed)
        return concatenate([different[:1], as_bits(different[1:] + borrowed - 2 * both)])

    def from_bits(self, bits: SharedArray) -> SharedArray:
        """Return the integers of bits along the first axis, the least significant first. Local."""
        if not bits.ndim or not bits.shape[0]:
            raise ShapeError(f"bits lie along the first axis of an array, not in one of shape {bits.shape}")
        return combination(list(bits), [1 << j for j in range(bits.shape[0])])

    async def prod(self, x: SharedArray) -> SharedArray:
        """Return the product along the first axis.

        Cost: ceil(log2(n)) rounds for n factors, n - 1 products per result.
        """
        if not x.ndim or not x.shape[0]:
            raise ShapeError(f"a product is taken along the first axis of an array, which shape {x.shape} lacks")
        x = await self.reduce(x)
        while x.shape[0] > 1:
            half = x.shape[0] // 2
            product = await self.multiply(x[:half], x[half : 2 * half])
            x = concatenate([product, x[2 * half :]]) if x.shape[0] % 2 else product
        return x[0]

    # -- parts ---------------------------------------------------------------------------------------------------------

    async def _mask(self, x: SharedArray, n_bits: int, bound: int | None = None) -> Masked:
        """Open x under a mask of so many shared bits; see the module. Where x is smaller than its bound, say so."""
        self._check(x)
        offset, n_high_bits = room_of(self.field, self.t, bounded(x) if bound is None else bound, n_bits)
        x = await self.reduce(x)
        flat, (high,) = await self._random_parts(n_bits * x.size, x.size, [n_high_bits])
        mask = flat.reshape(n_bits, *x.shape)
        hidden = x + offset + self.from_bits(mask) + high.reshape(*x.shape) * (1 << n_bits)
        return Masked(await self._opened_modulo(hidden, n_bits), mask)

    async def _opened_modulo(self, hidden: SharedArray, n_bits: int) -> NDArray[np.int64] | None:
        """Open what is masked among the compute parties; return it modulo 2^n_bits, None at other members."""
        words = await self._opened_words(replace(hidden, bound=None), self._parties)
        return None if words is None else await self._exchange.compute(words.size, self.field.last_bits, words, n_bits)

    @property
    def _parties(self) -> tuple[int, ...]:
        """All that hold shares."""
        return tuple(range(1, self._exchange.n_parties + 1))

    async def _random_parts(
        self, n_bits: int, n_values: int, sizes: Sequence[int]
    ) -> tuple[SharedArray, list[SharedArray]]:
        """Return uniform bits and, for each size, sums of what t + 1 parties each draw from [0, 2^size); one deal.

        Args:
            n_bits: number of the bits.
            n_values: number of the sums of each size.
            sizes: bits of what a party draws.
        """
        dealt = await self._dealt_parts(n_bits, n_values, sizes, self.t)
        first, *others = (array[n_bits:].reshape(len(sizes), n_values) for array in dealt)
        sums = list(sum(others, start=first))
        signs_of = [replace(array[:n_bits], bound=1) for array in dealt]
        sign = await self.prod(stack(signs_of)) if n_bits else signs_of[0]
        return self._exact_quotient(1 - sign, 2, 1), sums

    async def _random_sums(self, n_values: int, size: int, degree: int) -> SharedArray:
        """Return sums of what t + 1 parties each draw from [0, 2^size), dealt with polynomials of this degree."""
        first, *others = await self._dealt_parts(0, n_values, [size], degree)
        return sum(others, start=first)

    async def _dealt_parts(self, n_bits: int, n_values: int, sizes: Sequence[int], degree: int) -> list[SharedArray]:
        """Return what each of t + 1 parties deals of `_drawn_parts`, flat."""
        dealers = range(1, self.t + 2)
        n_elements, mine = n_bits + n_values * len(sizes), self.field.zeros(0)
        bound = 1 << max(sizes, default=0)
        with self._step():
            if self.me in dealers:
                mine = await self._exchange.compute(n_elements, self._drawn_parts, n_bits, n_values, sizes)
            shapes = dict.fromkeys(dealers, (n_elements,))
            return list((await self._dealt_by(shapes, bound, degree, lambda part: mine[:, part])).values())

    def _drawn_parts(self, n_bits: int, n_values: int, sizes: Sequence[int]) -> Words:
        """Draw what I deal of a mask: signs, then numbers of each size, shape (n_words, elements)."""
        stream = KeyStream(self._exchange.session.entropy.read(32))
        drawn = np.unpackbits(stream.words(-(-n_bits // 64)).view(np.uint8))[:n_bits]
        # A sign, so that the exclusive or of all bits is a product: (1 - (1 - 2 a) (1 - 2 b)) / 2 = a xor b.
        parts = [self.field.encode(1 - 2 * drawn.astype(np.int64))]
        for size in sizes:
            pieces = [stream.words(n_values) >> np.uint64(64 - piece) for piece in pieces_of(size)]
            places = [self.field.weights_of(1 << MOST_BITS * number) for number in range(len(pieces))]
            parts.append(self.field.combine([self.field.encode(piece.view(np.int64)) for piece in pieces], places))
        return np.concatenate(parts, axis=1)

    async def _low_bits(self, masked: Masked) -> SharedArray:
        """Return c - r mod 2^m."""
        n_bits = masked.mask.shape[0]
        wraps = await self._is_below(masked)
        r = self.from_bits(masked.mask)
        low = wraps * (1 << n_bits) - r
        if self.holds_shares:
            assert masked.low is not None, "whoever holds shares has opened what is masked"
            low = low + masked.low
        return replace(low, bound=(1 << n_bits) - 1)

    async def _is_below(self, masked: Masked) -> SharedArray:
        """Return whether c mod 2^m < r: the highest bit in which they differ is 1 in r.

        Cost: ceil(log2(m)) rounds, less than 2 m products per value.
        """
        generated, agreeing = masked.generated(), masked.agreeing()
        while generated.shape[0] > 1:
            n_odd = generated.shape[0] % 2  # the lowest place waits, so that the lowest pair never needs its p
            lower = slice(n_odd, None, 2)
            upper = slice(n_odd + 1, None, 2)
            p = agreeing[upper]
            if not n_odd:
                pairs = [(p, generated[lower])]
                if p.shape[0] > 1:
                    pairs.append((p[1:], agreeing[lower][1:]))
            else:
                pairs = [(p, generated[lower]), (p, agreeing[lower])]
            reduced = await self.multiply_all(pairs)
            new_g = as_bits(generated[upper] + reduced[0])
            generated = concatenate([generated[:1], new_g]) if n_odd else new_g
            new_p = as_bits(reduced[1]) if len(reduced) > 1 else None
            # The place at the bottom needs no p: any array of its shape stands there.
            agreeing = p[:1] if new_p is None else concatenate([p[:1], new_p])
        return generated[0]

    def _exact_quotient(self, x: SharedArray, divisor: int, bound: int) -> SharedArray:
        """Return x / divisor, where it is known to be an integer of at most this bound in size. Local."""
        return replace(x * pow(divisor, -1, self.field.order), bound=bound)


def take(x: SharedArray, places: Sequence[int] | NDArray[np.int64]) -> SharedArray:
    """Return the parts of an array at public places of its first axis, in their order. Local.

    Raises:
        ShapeError: there is no such place.
    """
    index = np.asarray(places, dtype=np.int64)
    if not x.ndim or index.ndim != 1:
        raise ShapeError(f"places are a list along the first axis of an array, not of one of shape {x.shape}")
    if index.size and not -x.shape[0] <= index.min() <= index.max() < x.shape[0]:
        raise ShapeError(f"a place is outside the first axis, of length {x.shape[0]}")
    share = None if x.share is None else x.share[:, index]
    return replace(x, shape=(index.size, *x.shape[1:]), share=share)


def put(x: SharedArray, places: Sequence[int], parts: SharedArray) -> SharedArray:
    """Return an array with other parts at these places of the first axis."""
    source = np.arange(x.shape[0])
    source[list(places)] = x.shape[0] + np.arange(len(places))
    return take(concatenate([x, parts]), source)
