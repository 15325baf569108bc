"""Comparisons of secret integers: the answer is a shared bit, 1 for yes, which is computed with or opened.

**Equality.** An integer x of less than 2^m in size is 0 if the last m bits of c and r agree, where c is x under the
mask r (`mpc.protocol.operations.bits`). The number d of bits in which they differ is a sum of shared bits, and the
public polynomial of degree m that is 1 at 0 and 0 at 1 .. m makes the answer of it [LT13]. For t = 1 the two dealers
split the mask instead: r = a' + b, of which member 1 knows a' and member 2 knows b. Once c is open, member 1 deals the
bits of a = c - a' mod 2^m, and x is 0 if a = b. So d = sum_j (a_j + b_j - 2 a_j b_j) is one product in all, where bits
that nobody knows take one each. Nobody sees more than c and fresh shares, and c is under b + 2^m h_2 to member 1, under
a' + 2^m h_1 to member 2, under both to others: uniform on 2^m H neighbouring integers, as there.

Each takes the bound of what is compared from the arrays, or where the caller knows better from `bound`: of two integers
from 0 to 2^20 - 1 the arrays' bounds say that their difference may be twice as large as it can be. Whoever states a
bound that does not hold gets wrong answers, and tells more of the values than `mpc.protocol.operations.bits` promises.
"""

from dataclasses import replace

import numpy as np

from entropy import KeyStream
from mpc.errors import ShapeError
from mpc.protocol.operations.bits import Bits, as_bits, bits_of, bounded, room_of
from mpc.protocol.shared import Public, SharedArray, concatenate


class Comparisons(Bits):
    """The part of `Computation` that compares."""

    async def is_zero(self, x: SharedArray, *, bound: int | None = None) -> SharedArray:
        """Return for each element whether it is 0.

        Elements without a bound, modulo one prime p, are raised to p - 1: perfectly secret, in less than 42 rounds.

        Args:
            x: integers; or elements of a field of one prime.
            bound: public bound on the size of the elements; default: that of the array.

        Raises:
            LocalFaultError: there is no bound, and more than one prime.
            FieldTooSmallError: the mask does not fit beside x into the field: use more primes or tighter bounds.
            TooFewPartiesError, PeerError: see `reduce`. No party may drop out while it deals.

        Privacy: an advantage of at most 2^-40 per value (`mpc.protocol.operations.bits`).
        Cost: for a bound of w bits 2 + ceil(log2(t + 1)) + ceil(log2(w)) rounds, for t = 1 one more; per value t + 1
            parties deal w + 1 elements (member 1 one more), and there are t w products, for t = 1 a single one, and
            those of a polynomial of degree w (`polynomial`).
        """
        if x.bound is None and bound is None and len(self.field.primes) == 1:
            return await self._is_zero_modulo(x, self.field.primes[0])
        largest = bounded(x) if bound is None else bound
        n_bits = max(1, largest.bit_length())
        if self.t == 1 and not self._deviating:
            distance = await self._distance_of_two(x, n_bits, largest)
        else:
            distance = (1 - (await self._mask(x, n_bits, largest)).agreeing()).sum(0)
        answer = await self.polynomial(replace(distance, bound=None), zero_among(n_bits, self.field.order))
        return as_bits(answer)

    async def _distance_of_two(self, x: SharedArray, n_bits: int, largest: int) -> SharedArray:
        """Return in how many of the last bits x under a mask and that mask, split among two dealers, differ."""
        offset, n_high_bits = room_of(self.field, self.t, largest, n_bits)
        x = await self.reduce(x)
        mine, low = None, np.zeros(x.size, np.int64)
        if self.me in (1, 2):
            stream = KeyStream(self._exchange.session.entropy.read(32))
            low, high = (
                (stream.words(x.size) >> np.uint64(64 - size)).astype(np.int64) for size in (n_bits, n_high_bits)
            )
            mine = np.concatenate([high, low if self.me == 1 else bits_of(low, n_bits).reshape(-1)])
        shapes = {1: (2 * x.size,), 2: (x.size * (1 + n_bits),)}
        dealt = await self.inputs(shapes, mine, bound=1 << max(n_bits, n_high_bits))
        highs, first = dealt[1][: x.size] + dealt[2][: x.size], dealt[1][x.size :]
        b = as_bits(dealt[2][x.size :].reshape(n_bits, *x.shape))
        mask = (highs * (1 << n_bits) + first).reshape(*x.shape) + self.from_bits(b)
        opened = await self._opened_modulo(x + offset + mask, n_bits)
        if self.me == 1:
            assert opened is not None, "whoever holds shares has opened what is masked"
            mine = bits_of(opened.reshape(-1) - low, n_bits).reshape(-1)
        a = (await self.input(1, (n_bits * x.size,), mine, bound=1)).reshape(*b.shape)
        both = await self.sum_of_products(list(zip(a, b, strict=True)))
        return a.sum(0) + b.sum(0) - 2 * both

    async def _is_zero_modulo(self, x: SharedArray, prime: int) -> SharedArray:
        """Return 1 - x^(p - 1) [Fermat's little theorem]."""
        power = x = await self.reduce(x)
        for digit in bin(prime - 1)[3:]:
            power = await self.multiply(power, power)
            if digit == "1":
                power = await self.multiply(power, x)
        return as_bits(1 - power)

    async def equal(self, x: SharedArray, y: SharedArray | Public, *, bound: int | None = None) -> SharedArray:
        """Return for each pair of elements whether they are equal; `bound` is of |x - y|. See `is_zero`."""
        return await self.is_zero(x - y, bound=bound)

    async def less(self, x: SharedArray, y: SharedArray | Public, *, bound: int | None = None) -> SharedArray:
        """Return for each pair of elements whether x < y.

        Args:
            x: integers.
            y: integers, shared or public, of a shape that fits x.
            bound: public bound on |x - y|; default: what follows from the arrays.

        Errors and privacy are those of `is_zero`.

        Cost: for a bound of w bits 2 + ceil(log2(t + 1)) + ceil(log2(w)) rounds; per value t + 1 parties deal w + 1
            elements, and there are less than (t + 2) w products.
        """
        difference = x - y
        largest = bounded(difference) if bound is None else bound
        n_bits = max(1, largest.bit_length())
        difference = await self.reduce(difference)
        low = await self._low_bits(await self._mask(difference, n_bits, largest))
        not_below = self._exact_quotient(difference + (1 << n_bits) - low, 1 << n_bits, 1)
        return as_bits(1 - not_below)

    async def less_equal(self, x: SharedArray, y: SharedArray | Public, *, bound: int | None = None) -> SharedArray:
        """Return for each pair of elements whether x <= y. See `less`."""
        below = await self.less(-x, -np.asarray(y) if not isinstance(y, SharedArray) else -y, bound=bound)
        return as_bits(1 - below)

    async def select(self, bit: SharedArray, x: SharedArray | Public, y: SharedArray | Public) -> SharedArray:
        """Return x where the bit is 1, else y; bits of other values give x * bit + y * (1 - bit).

        Cost: 1 round, one product per element.
        """
        chosen = bit * 0 + x
        other = bit * 0 + y
        product = await self.multiply(bit, chosen - other)
        return replace(product + other, bound=_larger(chosen, other))

    async def minimum(self, x: SharedArray, y: SharedArray | Public, *, bound: int | None = None) -> SharedArray:
        """Return the smaller one of each pair. See `less`; a round and a product more."""
        return await self.select(await self.less(x, y, bound=bound), x, y)

    async def maximum(self, x: SharedArray, y: SharedArray | Public, *, bound: int | None = None) -> SharedArray:
        """Return the larger one of each pair. See `less`; a round and a product more."""
        return await self.select(await self.less(x, y, bound=bound), y, x)

    async def argmax(self, x: SharedArray) -> tuple[SharedArray, SharedArray]:
        """Return the place of the first of the largest elements along the first axis, and that element.

        Cost: for n elements ceil(log2(n)) times the rounds of `maximum`, n - 1 comparisons, 2 (n - 1) products besides.
        """
        if not x.ndim or not x.shape[0]:
            raise ShapeError(f"the largest element is sought along the first axis, which shape {x.shape} lacks")
        values = await self.reduce(x)
        numbers = np.arange(x.shape[0]).reshape(-1, *(1,) * (x.ndim - 1))
        places = values * 0 + numbers
        while values.shape[0] > 1:
            half = values.shape[0] // 2
            first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)  # neighbours, so that ties go to the first
            later = await self.less(values[first], values[second])
            moved = await self.multiply_all([(later, a[second] - a[first]) for a in (values, places)])
            pairs = [
                replace(a[first] + change, bound=a.bound) for a, change in zip((values, places), moved, strict=True)
            ]
            rest = slice(2 * half, None)
            values, places = (_joined(pair, a[rest]) for pair, a in zip(pairs, (values, places), strict=True))
        return places[0], values[0]


def zero_among(largest: int, order: int) -> list[int]:
    """Return the coefficients modulo the order of the polynomial that is 1 at 0 and 0 at 1 .. largest."""
    coefficients = [1]
    for root in range(1, largest + 1):
        shifted = [0, *coefficients]
        inverse = pow(root, -1, order)
        coefficients = [(c - s * inverse) % order for c, s in zip([*coefficients, 0], shifted, strict=True)]
    return coefficients


def _joined(x: SharedArray, y: SharedArray) -> SharedArray:
    return concatenate([x, y]) if y.shape[0] else x


def _larger(x: SharedArray, y: SharedArray) -> int | None:
    return None if x.bound is None or y.bound is None else max(x.bound, y.bound)
