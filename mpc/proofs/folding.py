"""Folding: two vectors with their inner product become two shorter ones, until two numbers are left.

Two vectors x, y of L = k m entries, as matrices of k rows (in pieces: `Schedule.pieces`), and claimed products h.
Random factors rho of the rows and s of the columns, then for the first fold, with X_i s the row times the factors,

    G_ij = <X_i s, Y_j>,    sum_i rho_i G_ii = sum_ic rho_i s_c h_ic

A wrong h leaves this true with probability below 2 / p. A single claim, about all products, needs no such factors: all
are 1, and sum_i G_ii = h. The prover says G before it knows random factors w and v; then

    x' = sum_i w_i X_i s,    y' = sum_j v_j Y_j,    <x', y'> = w' G v

whose right side is another with probability 1 - 2 / p if any entry of G is wrong: a bilinear form that is not zero has
no more zeros. Next folds are the same with factors of 1 and the trace of G. In the last one
rows of one entry are left; in front of them stands a random one, whose products nobody claims and whose factor is 1,
so that the two numbers that are opened are uniform. All of this is repeated with factors of its own, `REPETITIONS`
times over.

As a fold tells k^2 numbers instead of the 2 k - 1 of a polynomial through the rows [BBC+19, GS20], its error does not
grow with k, and large k take few rounds: 10^6 products take three or four. G is one product of matrices, by BLAS.

All arithmetic is on balanced residues, one float64 array per prime (`mpc.arithmetic.balanced`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from entropy import KeyStream
from mpc.arithmetic import kernels
from mpc.arithmetic.balanced import balanced, inner_products, packed, reduce_in_place
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import RESIDUES_PER_WORD, Floats
from mpc.arithmetic.words import Words
from mpc.errors import ShapeError
from mpc.proofs.folding_kernels import COLUMNS_AT_ONCE, ROWS_AT_ONCE, combined_rows

REPETITIONS = 3
"""Proofs with factors of their own: three are wrong together with a probability below 2^-47."""

FIRST_ROWS = 8
"""Rows of the first fold. The prover's work grows with them, as the length of what is folded on shrinks."""

SECOND_ROWS = 16
"""Rows of the second fold at most, for the same reason."""

MOST_ROWS = 256
FEW_NUMBERS = 1 << 13
ONE_IN = 8
"""Later folds have so many rows at most, and as many as let answers be few or at most one number per eight products.

A fold's answer is the square of its rows, and each fold takes three rounds.
"""

_PIECE = 2048
"""Columns that are unpacked at once: all rows of them, modulo three primes, fit the second-level cache."""


@dataclass(frozen=True)
class Schedule:
    """How vectors of public length are folded.

    Args:
        n_groups: claimed sums of products.
        group: consecutive products in each.
        first_rows: rows of the first fold at most.

    Raises:
        ShapeError: nothing to prove.
    """

    n_groups: int
    group: int = 1
    first_rows: int = FIRST_ROWS

    def __post_init__(self) -> None:
        if self.n_groups < 1 or self.group < 1:
            raise ShapeError("a proof is about at least one product")

    @property
    def is_single(self) -> bool:
        """Whether one sum of all products is claimed, of more than one."""
        return self.n_groups == 1 < self.group

    @property
    def n_units(self) -> int:
        """What is laid into rows: groups, which stay whole; of a single claim the products."""
        return self.group if self.is_single else self.n_groups

    @property
    def unit(self) -> int:
        """Products of each unit."""
        return 1 if self.is_single else self.group

    @cached_property
    def columns(self) -> int:
        """Entries per row of the first fold, a multiple of `unit`."""
        width = max(1, _PIECE // self.unit)
        n_whole, rest = divmod(self.n_units, self._first * width)
        return (n_whole * width - (-rest // self._first)) * self.unit

    @property
    def _first(self) -> int:
        return min(self.first_rows, self.n_units)

    def pieces(self) -> Iterator[tuple[slice, slice]]:
        """Return which units follow each other as rows of one piece of the first fold, and their place in each row."""
        width = max(1, _PIECE // self.unit)
        start = column = 0
        while start < self.n_units:
            stop = min(start + self._first * width, self.n_units)
            end = column + -(-(stop - start) // self._first)
            yield slice(start, stop), slice(column, end)
            start, column = stop, end

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """Rows of every fold; the last one's without the mask. As few folds as the limits on answers allow."""
        most = max(FEW_NUMBERS, self.n_groups * self.group // ONE_IN)
        columns = self.columns
        for n_later in range(1, columns.bit_length() + 2):
            found, left = [self._first], columns
            for remaining in range(n_later, 0, -1):
                k = max(2, math.ceil(math.exp(math.log(left) / remaining) - 1e-6)) if left > 1 else 1
                found.append(min(k, SECOND_ROWS) if len(found) == 1 and remaining > 1 else k)
                left = -(-left // found[-1])
            if left == 1 and max(found) <= MOST_ROWS and REPETITIONS * _n_answers(found) <= most:
                break
        return tuple(found)

    @property
    def answers(self) -> int:
        """Numbers that the prover says per repetition: the square of each fold's rows, the last one's with a mask."""
        return _n_answers(self.rows)

    def log2_error(self, field: ResidueField, repetitions: int = REPETITIONS) -> float:
        """Return a bound on the log2 of the probability that a wrong claim is accepted: 2 / p by factors and by folds.

        A claim is wrong if it is so modulo one prime at least, and is accepted only if it is so modulo that one.
        """
        return repetitions * math.log2(2 * (1 + len(self.rows)) / min(field.primes))


def _n_answers(rows: Sequence[int]) -> int:
    return sum(k * k for k in rows[:-1]) + (rows[-1] + 1) ** 2


@dataclass(frozen=True, repr=False)
class Factors:
    """Random factors of one fold, balanced residues of shape (n_primes, repetitions, rows) each."""

    left: Floats
    right: Floats

    @classmethod
    def draw(cls, field: ResidueField, coin: KeyStream, n_rows: int, *, masked: bool, repetitions: int) -> "Factors":
        """Draw factors for so many rows; where the first one is a mask, its factor is 1."""
        drawn = balanced(field, field.random(coin, (2, repetitions, n_rows)))
        if masked:
            drawn[..., 0] = 1
        return cls(drawn[:, 0], drawn[:, 1])


@dataclass(frozen=True, repr=False)
class Weights:
    """Random factors of products: those of rows (n_primes, repetitions, k), and of groups in a row, packed.

    Of a single claim all are 1, and none of groups are kept.
    """

    rows: Floats
    groups: Words

    @classmethod
    def draw(cls, field: ResidueField, coin: KeyStream, schedule: Schedule, repetitions: int) -> "Weights":
        """Draw factors for the products of a schedule."""
        if schedule.is_single:
            ones = np.ones((len(field.primes), repetitions, schedule.rows[0]))
            return cls(ones, field.zeros((repetitions, 0)))
        rows = balanced(field, field.random(coin, (repetitions, schedule.rows[0])))
        return cls(rows, field.random(coin, (repetitions, schedule.columns // schedule.unit)))


class _Pieces:
    """Arrays of elements behind each other, unpacked piece by piece into the same memory: fresh pages take longer.

    Args:
        field: field of the elements.
        schedule: pieces of the first fold.
        parts: arrays as they follow each other.
        unit: consecutive elements that make up a unit.
    """

    def __init__(self, field: ResidueField, schedule: Schedule, parts: Sequence[Words], unit: int) -> None:
        flat = [part.reshape(field.n_words, -1) for part in parts]
        self._words = flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)
        self._field, self._n_rows, self._unit = field, schedule.rows[0], unit
        if self._words.shape[1] != schedule.n_units * unit:
            raise ShapeError(f"{self._words.shape[1]} elements are not {schedule.n_units} times {unit}")
        self._memory = np.empty((field.n_words * RESIDUES_PER_WORD, 0, 0))
        self._unpacked = np.empty((ROWS_AT_ONCE, COLUMNS_AT_ONCE))

    def unpacked(self, units: slice, columns: slice) -> Floats:
        """Return the balanced residues of a piece, shape (n_primes, rows, columns), to be used before the next one."""
        width = (columns.stop - columns.start) * self._unit
        if self._memory.shape[2] != width:
            self._memory = np.empty((len(self._memory), self._n_rows, width))
        for word in range(self._field.n_words):
            memory = self._memory[word * RESIDUES_PER_WORD : (word + 1) * RESIDUES_PER_WORD]
            kernels.unpack_balanced(memory, 0, self._rows(word, units, width), self._field.word_primes(word))
        return self._memory[: len(self._field.primes)]

    def combined(self, units: slice, columns: slice, factors: Floats, scales: Floats, out: Floats) -> None:
        """Write sums of the rows of a piece times factors, shape (n_primes, sums, rows), to its columns of `out`.

        Args:
            units: which ones the piece holds.
            columns: its place in each row, in units.
            factors: balanced residues, shape (n_primes, sums, rows).
            scales: factors of the first sums, shape (n_primes, so many of them, columns of the piece).
            out: shape (n_primes, sums, at least so many columns).
        """
        width = (columns.stop - columns.start) * self._unit
        factors = np.ascontiguousarray(factors)
        for word in range(self._field.n_words):
            of_word = slice(word * RESIDUES_PER_WORD, (word + 1) * RESIDUES_PER_WORD)
            primes = np.array(self._field.primes[of_word], dtype=np.float64)
            rows, first = self._rows(word, units, width), columns.start * self._unit
            combined_rows(out[of_word], first, self._unpacked, rows, factors[of_word], scales[of_word], primes)

    def _rows(self, word: int, units: slice, width: int) -> Words:
        part = self._words[word, units.start * self._unit : units.stop * self._unit]
        if part.size < self._n_rows * width:
            part = np.pad(part, (0, self._n_rows * width - part.size))
        return np.ascontiguousarray(part).reshape(self._n_rows, width)


class Folded:
    """Two vectors on their way to two numbers: the shares of one party, or the secrets of who proves.

    Args:
        field: field of the elements.
        schedule: how they are folded.
        left: arrays that make up the first vector, as they follow each other.
        right: arrays of the second one, of the same length together.
        masks: random elements, shape (n_words, 2, repetitions): the last fold's further entries.
    """

    def __init__(
        self, field: ResidueField, schedule: Schedule, left: Sequence[Words], right: Sequence[Words], masks: Words
    ) -> None:
        self._field, self._schedule = field, schedule
        pieces = _Pieces(field, schedule, left, schedule.unit)
        is_square = len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
        others = pieces if is_square else _Pieces(field, schedule, right, schedule.unit)
        self._first: tuple[_Pieces, _Pieces] | None = (pieces, others)
        self._masks = balanced(field, masks)
        self._left = self._right = np.empty(0)
        self._n_folded = 0

    def answer(self, weights: Weights) -> Words:
        """Return G of the fold that comes next, packed, shape (n_words, repetitions, rows, rows)."""
        if self._first is not None:
            return packed(self._field, self._first_answer(*self._first, weights))
        return packed(self._field, inner_products(self._field, *self._rows()))

    def fold(self, weights: Weights, factors: Factors) -> None:
        """Fold with these factors."""
        if self._first is not None:
            self._left, self._right = self._first_folded(*self._first, weights, factors)
            self._first = None
        else:
            left, right = self._rows()
            self._left, self._right = self._folded(factors.left, left), self._folded(factors.right, right)
        self._n_folded += 1

    def last(self) -> Words:
        """Return the two numbers that are left, packed, shape (n_words, 2, repetitions)."""
        return packed(self._field, np.stack([self._left[..., 0], self._right[..., 0]], axis=1))

    def _rows(self) -> tuple[Floats, Floats]:
        """Return both vectors in rows, shape (n_primes, repetitions, rows, columns); the last time behind masks."""
        n_rows = self._schedule.rows[self._n_folded]
        found = [vector.reshape(*vector.shape[:2], n_rows, -1) for vector in (self._left, self._right)]
        if self._n_folded == len(self._schedule.rows) - 1:
            found = [
                np.concatenate([self._masks[:, side, :, None, None], rows], axis=2) for side, rows in enumerate(found)
            ]
        return found[0], found[1]

    def _new(self, repetitions: int, columns: int) -> Floats:
        """Return room for a vector, with zeros behind: as many entries as the rows of the next fold hold."""
        next_rows = (*self._schedule.rows, 1)[self._n_folded + 1]
        n_padded = -(-columns // next_rows) * next_rows
        vector = np.empty((len(self._field.primes), repetitions, n_padded))
        vector[..., columns:] = 0
        return vector

    def _folded(self, factors: Floats, rows: Floats) -> Floats:
        vector = self._new(rows.shape[1], rows.shape[3])
        vector[..., : rows.shape[3]] = reduce_in_place(self._field, factors[:, :, None] @ rows)[:, :, 0]
        return vector

    def _first_answer(self, left: _Pieces, right: _Pieces, weights: Weights) -> Floats:
        """One prime at a time: what is scaled for it stays in the cache until it is multiplied."""
        field, n_rows, all_repetitions = self._field, self._schedule.rows[0], weights.groups.shape[1]
        is_single = self._schedule.is_single
        repetitions = 1 if is_single else all_repetitions
        total = np.zeros((len(field.primes), repetitions * n_rows, n_rows))
        scaled = np.empty((repetitions, n_rows, 0))
        for units, columns in self._schedule.pieces():
            rows = left.unpacked(units, columns)
            others = rows if right is left else right.unpacked(units, columns)
            factors = None if is_single else self._group_factors(weights, columns)
            if scaled.shape[2] != rows.shape[2]:
                scaled = np.empty((repetitions, *rows.shape[1:]))
            for i, p in enumerate(field.primes):
                lefts = rows[i]
                if factors is not None:
                    for to, scales in zip(scaled, factors[i], strict=True):
                        kernels.scale_balanced(to, rows[i], scales, float(p), 1.0 / p)
                    lefts = scaled.reshape(len(total[i]), -1)
                for start in range(0, rows.shape[2], _PIECE):  # a group may be longer than what is added up exactly
                    part = slice(start, start + _PIECE)
                    total[i] += lefts[:, part] @ others[i, :, part].T
                    kernels.reduce_balanced(total[i].reshape(-1), float(p), 1.0 / p)
        found = total.reshape(len(field.primes), repetitions, n_rows, n_rows)
        return np.repeat(found, all_repetitions, axis=1) if is_single else found

    def _first_folded(self, left: _Pieces, right: _Pieces, weights: Weights, factors: Factors) -> tuple[Floats, Floats]:
        """Both vectors of a square are folded by one product of matrices."""
        repetitions = factors.left.shape[1]
        both = np.concatenate([factors.left, factors.right], axis=1)
        none = np.empty((len(both), 0, 0))
        if right is left:
            folded = self._new(2 * repetitions, self._schedule.columns)
        else:
            folded, other = (self._new(repetitions, self._schedule.columns) for _ in range(2))
        for units, columns in self._schedule.pieces():
            scales = none if self._schedule.is_single else self._group_factors(weights, columns)
            if right is left:
                left.combined(units, columns, both, scales, folded)
            else:
                left.combined(units, columns, factors.left, scales, folded)
                right.combined(units, columns, factors.right, none, other)
        return (folded[:, :repetitions], folded[:, repetitions:]) if right is left else (folded, other)

    def _group_factors(self, weights: Weights, columns: slice) -> Floats:
        factors = balanced(self._field, weights.groups[:, :, columns])
        return np.repeat(factors, self._schedule.group, axis=-1) if self._schedule.group > 1 else factors


def weighted_claims(field: ResidueField, schedule: Schedule, weights: Weights, claims: Sequence[Words]) -> Words:
    """Return sum_ic rho_i s_c h_ic of claimed sums, as arrays that follow each other; shape (n_words, repetitions)."""
    if schedule.is_single:
        return np.repeat(np.concatenate(claims, axis=1), weights.groups.shape[1], axis=1)
    pieces = _Pieces(field, schedule, claims, 1)
    total = np.zeros((len(field.primes), weights.groups.shape[1]))
    for units, columns in schedule.pieces():
        combined = reduce_in_place(field, weights.rows @ pieces.unpacked(units, columns))
        combined *= balanced(field, weights.groups[:, :, columns])
        total += combined.sum(axis=-1)
        reduce_in_place(field, total)
    return packed(field, total)


def weighted_trace(field: ResidueField, answer: Words, factors: Floats | None, *, masked: bool) -> Words:
    """Return sum_i f_i G_ii of a fold's answer, without that of the mask; shape (n_words, repetitions)."""
    diagonal = np.diagonal(balanced(field, answer), axis1=-2, axis2=-1)[..., int(masked) :]
    return packed(field, _sums(field, diagonal if factors is None else diagonal * factors))


def next_claim(field: ResidueField, answer: Words, factors: Factors) -> Words:
    """Return w' G v, shape (n_words, repetitions)."""
    combined = reduce_in_place(
        field, np.ascontiguousarray((factors.left[:, :, None] @ balanced(field, answer))[:, :, 0])
    )
    return packed(field, _sums(field, combined * factors.right))


def _sums(field: ResidueField, terms: Floats) -> Floats:
    """Return sums along the last axis of at most 2^12 terms below 2^41."""
    return reduce_in_place(field, np.ascontiguousarray(terms.sum(axis=-1)))
