"""Integers modulo a product of 21-bit primes, as packed residues.

An integer is held by its residues modulo k primes below 2^21, three residues to a 64-bit word. By the Chinese remainder
theorem arithmetic on the residues is arithmetic modulo Q = p_1 * ... * p_k, and a Shamir sharing modulo Q is k
sharings over the Galois fields GF(p_i). Signed integers of at most (Q - 1) / 2 in size are represented exactly.

An array of field elements has dtype uint64 and shape `(n_words, *shape)`: row w holds residues 3w, 3w + 1, 3w + 2.
Residues that the field does not use are zero, and so is bit 63 of every word.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entropy import KeyStream
from mpc.arithmetic import kernels
from mpc.arithmetic.kernels import RESIDUE_BITS, RESIDUES_PER_WORD
from mpc.arithmetic.moduli import PRIMES, WIDE_PRIMES, WordConstants, is_prime, mixed_radix_digits, words_of
from mpc.arithmetic.words import Words
from mpc.errors import FieldTooSmallError, LocalFaultError, OutOfRangeError, ShapeError

_CHUNK = 1 << 13  # words per pass of a linear combination: the result stays in the caches near the core
_STREAM_CHUNK = 1 << 16  # words drawn from a key stream before they are checked: they stay in the second-level cache

Weights = Sequence[int]
"""One public factor: its residue modulo each prime of the field, in order."""


@dataclass(frozen=True, init=False)
class ResidueField:
    """The integers modulo the product of the first `n_primes` of `PRIMES`.

    Equal primes make equal fields. All operations are local and deterministic; `random` reads from its argument.

    Args:
        n_primes: 1 .. 6.

    Attributes:
        primes: the moduli p_1 .. p_k.
        order: Q, their product.
        half_order: (Q - 1) / 2, the largest integer represented; its negative is the smallest.
        n_words: 64-bit words per element.
    """

    primes: tuple[int, ...]
    order: int = field(compare=False, repr=False)
    half_order: int = field(compare=False, repr=False)
    n_words: int = field(compare=False, repr=False)
    _words: tuple[WordConstants, ...] = field(compare=False, repr=False)

    def __init__(self, n_primes: int) -> None:
        if not 1 <= n_primes <= len(PRIMES):
            raise FieldTooSmallError(f"a field must have 1 to {len(PRIMES)} primes, not {n_primes}")
        self._fill(PRIMES[:n_primes])

    def _fill(self, primes: tuple[int, ...]) -> None:
        order = math.prod(primes)
        words = words_of(primes)
        values = {"primes": primes, "order": order, "half_order": order // 2, "n_words": len(words), "_words": words}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def over(cls, primes: Sequence[int]) -> Self:
        """Return the field of chosen primes; small ones make exhaustive tests of secrecy possible.

        Raises:
            LocalFaultError: not 1 to 15 distinct odd primes below 2^21.
        """
        chosen = tuple(primes)
        if not 1 <= len(chosen) <= len(WIDE_PRIMES) or len(set(chosen)) != len(chosen):
            raise LocalFaultError(f"a field must have 1 to {len(WIDE_PRIMES)} distinct primes")
        if any(p >= 1 << RESIDUE_BITS or p % 2 == 0 or not is_prime(p) for p in chosen):
            raise LocalFaultError(f"each modulus must be an odd prime below 2^{RESIDUE_BITS}")
        made = cls.__new__(cls)
        made._fill(chosen)
        return made

    @classmethod
    def of(cls, *galois_fields: Any) -> Self:
        """Return the field of the primes of `galois` fields, `ResidueField.of(galois.GF(p))`.

        Raises:
            LocalFaultError: no prime field of odd order below 2^21, or one twice.
        """
        if any(of.degree != 1 for of in galois_fields):
            raise LocalFaultError("only prime fields are computed with: GF(p), not GF(p^m)")
        return cls.over([int(of.characteristic) for of in galois_fields])

    @classmethod
    def for_bound(cls, bound: int) -> Self:
        """Return the smallest field in which all integers of at most `bound` in size are distinct: Q > 2 * bound.

        Args:
            bound: a public bound, at least 0, on every value that will be opened, noise included.

        Raises:
            FieldTooSmallError: six primes do not suffice.
        """
        if bound < 0:
            raise LocalFaultError("a bound on sizes cannot be negative")
        for n_primes in range(1, len(PRIMES) + 1):
            if math.prod(PRIMES[:n_primes]) > 2 * bound:
                return cls(n_primes)
        limit_bits = RESIDUE_BITS * len(PRIMES)
        needed_bits = (2 * bound).bit_length()
        raise FieldTooSmallError(
            f"values of this size need a field of {needed_bits} bits, but the largest field has {limit_bits}; use a "
            "coarser quantisation, tighter bounds or fewer rows"
        )

    # -- conversion ------------------------------------------------------------------------------------------------

    def encodable(self, values: ArrayLike) -> NDArray[Any]:
        """Return integers that `encode` takes as they are, signed or as objects; raises as `encode` does."""
        integers = _integers(values)
        if integers.size and max(-int(integers.min()), int(integers.max())) > self.half_order:
            raise FieldTooSmallError(
                f"a value to encode is larger than half the order of a field of {self.order.bit_length()} bits"
            )
        return integers

    def encode(self, values: ArrayLike) -> Words:
        """Return signed integers as field elements, shape `(n_words, *values.shape)`.

        Args:
            values: integers, or an object array of Python integers.

        Raises:
            FieldTooSmallError: some |value| is above `half_order`. It never wraps.
            LocalFaultError: not integers.
        """
        integers = self.encodable(values)
        if integers.dtype == object:
            return self.pack([np.asarray(integers % p, dtype=np.uint64) for p in self.primes])
        out = np.empty((self.n_words, *integers.shape), dtype=np.uint64)
        flat = np.ascontiguousarray(integers, dtype=np.int64).reshape(-1)
        for row, word in zip(_rows(out), self._words, strict=True):
            kernels.encode(row, flat, word.mask, word.primes, word.inverses)
        return out

    def decode(self, words: Words) -> NDArray[Any]:
        """Return the balanced signed integers, of at most `half_order` in size, shape `words.shape[1:]`.

        int64 where the field has at most three primes, else an object array of Python integers.
        """
        self._check_shape(words)
        if self.n_words == 1:
            (word,), value = self._words, np.empty(words[0].size, dtype=np.uint64)
            largest, order = map(np.uint64, (self.half_order, self.order))
            kernels.from_residues(value, _flat(words[0]), word.garner, word.primes, word.inverses, largest, order)
            return value.view(np.int64).reshape(words.shape[1:])
        wide = sum(np.asarray(digit, dtype=object) * place for digit, place in self._digits(words))
        balanced = np.where(wide > self.half_order, wide - self.order, wide)
        return np.asarray(balanced, dtype=object).reshape(words.shape[1:])

    def last_bits(self, words: Words, n_bits: int) -> NDArray[np.int64]:
        """Return the integers from 0 to Q - 1 modulo 2^n_bits, at most 2^63, shape `words.shape[1:]`."""
        self._check_shape(words)
        total = np.zeros(words[0].size, dtype=np.uint64)
        for digit, place in self._digits(words):
            total += digit * np.uint64(place % (1 << 64))
        return (total & np.uint64((1 << n_bits) - 1)).view(np.int64).reshape(words.shape[1:])

    def _digits(self, words: Words) -> list[tuple[Words, int]]:
        """Return flat digits and their places: the integers from 0 to Q - 1 are the sums of their products."""
        places = [math.prod(word.order for word in self._words[:i]) for i in range(self.n_words)]
        return list(zip(mixed_radix_digits(_rows(words), self._words), places, strict=True))

    def residues(self, words: Words) -> list[NDArray[np.int64]]:
        """Return the residues modulo each prime, unpacked: one int64 array of shape `words.shape[1:]` per prime."""
        self._check_shape(words)
        low_bits = np.uint64((1 << RESIDUE_BITS) - 1)
        return [
            ((words[i // RESIDUES_PER_WORD] >> np.uint64(RESIDUE_BITS * (i % RESIDUES_PER_WORD))) & low_bits).astype(
                np.int64
            )
            for i in range(len(self.primes))
        ]

    def pack(self, residues: Sequence[NDArray[Any]]) -> Words:
        """Return the words that hold these residues: one integer array per prime, each entry in [0, p)."""
        if len(residues) != len(self.primes):
            raise ShapeError(
                f"there must be one array of residues for each of {len(self.primes)} primes, not {len(residues)}"
            )
        out = self.zeros(np.shape(residues[0]))
        for i, values in enumerate(residues):
            shift = np.uint64(RESIDUE_BITS * (i % RESIDUES_PER_WORD))
            out[i // RESIDUES_PER_WORD] |= np.asarray(values).astype(np.uint64) << shift
        return out

    def reduced(self, values: ArrayLike) -> NDArray[Any]:
        """Return the integers that `decode` returns of any integers modulo the order; LocalFaultError as `encode`."""
        integers = _integers(values)
        return self.decode(self.pack([integers % p for p in self.primes]))

    # -- what comes from outside -----------------------------------------------------------------------------------

    def check(self, words: Words) -> None:
        """Accept only packed field elements. Runs on everything that comes from the network.

        Raises:
            OutOfRangeError: a residue is not below its prime, or an unused bit is set.
            ShapeError: not `(n_words, ...)` words of 64 bits.
        """
        self._check_shape(words)
        n_bad = sum(
            kernels.count_out_of_range(np.ascontiguousarray(row).reshape(-1), word.primes)
            for row, word in zip(words, self._words, strict=True)
        )
        if n_bad:
            raise OutOfRangeError(f"{n_bad} of {words.size} words are not packed elements of the field")

    def random(self, stream: KeyStream, shape: int | tuple[int, ...], out: Words | None = None) -> Words:
        """Draw uniform elements from a key stream; whoever holds the same stream draws the same elements.

        Each word of the result takes one word of the stream, in order; a word with a residue that is not below its
        prime is rejected (about 2e-5 of them). Then the rejected positions, in order, take the words that follow in the
        stream, until none is left.

        Args:
            stream: read from where it stands.
            shape: shape of the elements.
            out: C-contiguous array to be overwritten; or None for a new one.
        """
        words_shape = (self.n_words, *((shape,) if isinstance(shape, int) else shape))
        if out is None:
            out = np.empty(words_shape, dtype=np.uint64)
        self._check_target(out, words_shape)
        if out.size == 0:
            return out
        positions = np.empty(min(_STREAM_CHUNK, out.size), dtype=np.int64)
        rejected: list[NDArray[np.int64]] = []
        size = out.size // self.n_words
        for index, word in enumerate(self._words):
            row = _rows(out)[index]
            for start in range(0, size, _STREAM_CHUNK):
                part = row[start : start + _STREAM_CHUNK]
                stream.fill(part)
                n_found = kernels.mask_and_reject(part, word.mask, word.primes, positions)
                rejected.append(positions[:n_found] + (index * size + start))
        self._redraw(stream, out.reshape(-1), np.concatenate(rejected), size)
        return out

    def _redraw(self, stream: KeyStream, flat: Words, rejected: NDArray[np.int64], size: int) -> None:
        while rejected.size:
            drawn = stream.words(rejected.size)
            index = rejected // size
            is_good = np.ones(rejected.size, dtype=bool)
            for i, word in enumerate(self._words):
                mine = index == i
                drawn[mine] &= word.mask
                for j, p in enumerate(word.primes):
                    residue = (drawn >> np.uint64(RESIDUE_BITS * j)) & np.uint64((1 << RESIDUE_BITS) - 1)
                    is_good &= ~mine | (residue < p)
            flat[rejected[is_good]] = drawn[is_good]
            rejected = rejected[~is_good]

    # -- arithmetic ------------------------------------------------------------------------------------------------

    def zeros(self, shape: int | tuple[int, ...]) -> Words:
        """Return elements of value 0, shape `(n_words, *shape)`."""
        return np.zeros((self.n_words, *((shape,) if isinstance(shape, int) else shape)), dtype=np.uint64)

    def add(self, a: Words, b: Words) -> Words:
        """Return a + b, element by element; equal shapes."""
        out = self._new_like(a, b)
        for o, x, y, word in zip(_rows(out), a, b, self._words, strict=True):
            kernels.add(o, _flat(x), _flat(y), word.primes)
        return out

    def accumulate(self, total: Words, words: Words) -> None:
        """Add `words` to `total` in place; equal shapes, `total` C-contiguous."""
        self._check_target(total, words.shape)
        self._check_shape(words)
        for o, x, word in zip(_rows(total), words, self._words, strict=True):
            kernels.accumulate(o, _flat(x), word.primes)

    def subtract(self, a: Words, b: Words) -> Words:
        """Return a - b, element by element; equal shapes."""
        out = self._new_like(a, b)
        for o, x, y, word in zip(_rows(out), a, b, self._words, strict=True):
            kernels.subtract(o, _flat(x), _flat(y), word.primes)
        return out

    def negate(self, words: Words) -> Words:
        """Return -words."""
        return self.scale(words, -1)

    def scale(self, words: Words, factor: int) -> Words:
        """Return words times a public integer of any sign and size."""
        out = self._new_like(words, words)
        weights = self._weights_by_word(self.weights_of(factor))
        for o, x, w, word in zip(_rows(out), words, weights, self._words, strict=True):
            kernels.scale(o, _flat(x), w, word.primes, word.inverses)
        return out

    def multiply(self, a: Words, b: Words) -> Words:
        """Return a * b, element by element; equal shapes. On shares the degree doubles."""
        out = self._new_like(a, b)
        for o, x, y, word in zip(_rows(out), a, b, self._words, strict=True):
            kernels.multiply(o, _flat(x), _flat(y), word.primes, word.inverses)
        return out

    def weights_of(self, factor: int) -> tuple[int, ...]:
        """Return the residues of one public integer."""
        return tuple(int(factor) % p for p in self.primes)

    def combine(self, parts: Sequence[Words], weights: Sequence[Weights], out: Words | None = None) -> Words:
        """Return the linear combination sum_i weights[i] * parts[i].

        Two parts to a pass, with one reduction per pass; more passes work in pieces that fit the first-level cache.

        Args:
            parts: at least one array of elements, all of one shape.
            weights: per part the residues of its public factor, as `weights_of` and `lagrange_weights` give them.
            out: C-contiguous array to be overwritten, none of `parts`; or None for a new one.
        """
        if not parts or len(parts) != len(weights):
            raise ShapeError(f"there must be one weight for each of {len(parts)} parts, not {len(weights)}")
        for part in parts:
            self._check_shape(part)
            if part.shape != parts[0].shape:
                raise ShapeError(f"parts of shapes {part.shape} and {parts[0].shape} cannot be combined")
        if out is None:
            out = np.empty(parts[0].shape, dtype=np.uint64)
        self._check_target(out, parts[0].shape)
        factors = [self._weights_by_word(weight) for weight in weights]
        for w, word in enumerate(self._words):
            row = _rows(out)[w]
            inputs = [_flat(part[w]) for part in parts]
            if len(inputs) == 1:
                kernels.scale(row, inputs[0], factors[0][w], word.primes, word.inverses)
                continue
            chunk = _CHUNK if len(inputs) > 2 else max(1, row.size)  # one pass needs no pieces
            for start in range(0, row.size, chunk):
                piece = slice(start, start + chunk)
                o, x, y = row[piece], inputs[0][piece], inputs[1][piece]
                kernels.combine(o, x, factors[0][w], y, factors[1][w], word.primes, word.inverses)
                for extra, factor in zip(inputs[2:], factors[2:], strict=True):
                    kernels.accumulate_scaled(o, extra[piece], factor[w], word.primes, word.inverses)
        return out

    def word_primes(self, word: int) -> Words:
        """Return the three moduli of one word, as the kernels take them: 1 where the field uses no residue."""
        return self._words[word].primes

    # -- shapes ----------------------------------------------------------------------------------------------------

    def _weights_by_word(self, weights: Weights) -> list[Words]:
        if len(weights) != len(self.primes):
            raise ShapeError(
                f"a factor must have one residue for each of {len(self.primes)} primes, not {len(weights)}"
            )
        padded = [*weights, *([0] * (-len(weights) % RESIDUES_PER_WORD))]
        return list(np.array(padded, dtype=np.uint64).reshape(self.n_words, RESIDUES_PER_WORD))

    def _check_shape(self, words: Words) -> None:
        if words.dtype != np.uint64 or words.ndim == 0 or words.shape[0] != self.n_words:
            raise ShapeError(
                f"field elements are uint64 of shape ({self.n_words}, ...), not {words.dtype} of shape {words.shape}"
            )

    def _check_target(self, out: Words, shape: tuple[int, ...]) -> None:
        self._check_shape(out)
        if out.shape != shape or not all(row.flags.c_contiguous for row in out):
            raise ShapeError(f"the result needs a contiguous array of shape {shape}, not {out.shape}")

    def _new_like(self, a: Words, b: Words) -> Words:
        self._check_shape(a)
        self._check_shape(b)
        if a.shape != b.shape:
            raise ShapeError(f"shapes {a.shape} and {b.shape} differ")
        return np.empty(a.shape, dtype=np.uint64)


def _integers(values: ArrayLike) -> NDArray[Any]:
    """Return integers, signed or as objects."""
    integers = np.asarray(values)
    if integers.dtype.kind not in "iuO":
        raise LocalFaultError(f"only integers can be encoded, not {integers.dtype}")
    if integers.dtype.kind == "u" and integers.dtype.itemsize == 8:
        integers = integers.astype(object)
    if integers.dtype == object and not all(isinstance(value, (int, np.integer)) for value in integers.flat):
        raise LocalFaultError("only integers can be encoded")
    return integers


def _rows(words: Words) -> Words:
    """Return a view of a C-contiguous array, one flat row per word; scalars have no row of their own otherwise."""
    return words.reshape(len(words), -1)


def _flat(row: Words) -> Words:
    return np.ascontiguousarray(row).reshape(-1)
