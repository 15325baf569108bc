"""Sums of products of shared matrices, reduced to degree t, with proofs that each dealer summed its own shares.

A sum is H = x_1 y_1 + x_2 y_2 + ..., the k of each product (rows of a table, as a rule) being what is summed over; or
the triangle of X^T X. Party j holds shares of all factors, deals its own H, and what all deal is weighted as in any
reduction. A wrong H leaves

    a' H b = <x' a, y b>,    x' the transposed factors one below the other,

true for random vectors a and b with a probability below 2 / p: a bilinear form that is not zero has no more zeros. So a
sum of any number of entries is proven by inner products of vectors as long as k (`mpc.proofs.inner_products`), of which
each party computes its shares by itself: a few products for each entry of the factors.

There are three pairs a and b, and each inner product is proven once: a wrong sum passes each with 2 (2 + f) / p at
most, f folds, all three with less than 2^-47.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from entropy import KeyStream
from mpc.arithmetic.balanced import balanced, packed
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import upper_triangle_indices
from mpc.arithmetic.kernels import RESIDUES_PER_WORD
from mpc.arithmetic.matmul import matrix_product
from mpc.arithmetic.words import Words
from mpc.proofs.folding import Schedule
from mpc.proofs.folding_kernels import COLUMNS_AT_ONCE, ROWS_AT_ONCE, combined_rows

N_VECTORS = 3
"""Pairs of random vectors."""

FIRST_ROWS = 24
"""Rows of the first fold; see `Schedule`. Vectors are short beside what they are made of."""

_PANEL_ROWS = 256
"""Rows that are unpacked and multiplied at once."""

Factor = Sequence[Words]
"""My shares of a factor with k as rows: blocks of columns beside each other, shape (n_words, k, columns) each."""


@dataclass(frozen=True, eq=False, repr=False)
class SummedProduct:
    """What one party holds of a sum that has been reduced.

    Attributes:
        factors: my shares of the factors of each product, the left one transposed.
        shape: shape (n, m) of the sum; of a triangle, n = m.
        is_triangle: whether the entries on and above the diagonal are what was dealt, of a symmetric sum.
        dealt: dealer to my shares of what it dealt, arrays as they follow each other.
        product: my share of the sum, shape (n_words, entries).
    """

    factors: Sequence[tuple[Factor, Factor]]
    shape: tuple[int, int]
    is_triangle: bool
    dealt: Mapping[int, Sequence[Words]]
    product: Words

    @property
    def schedule(self) -> Schedule:
        """How two vectors are folded: one claim about them."""
        return schedule_of(sum(left[0].shape[1] for left, _ in self.factors))

    def claims(self, field: ResidueField, coin: KeyStream) -> "Claims":
        """Return what is to be proven for random vectors a and b, drawn from the coin."""
        n, m = self.shape
        a, b = field.random(coin, (n, N_VECTORS)), field.random(coin, (m, N_VECTORS))
        lefts, rights = [], []
        for left, right in self.factors:
            if left is right:
                both = _applied(field, left, np.concatenate([a, b], axis=2))
                lefts.append(both[..., :N_VECTORS])
                rights.append(both[..., N_VECTORS:])
            else:
                lefts.append(_applied(field, left, a))
                rights.append(_applied(field, right, b))
        form = self._form(field, a, b)
        return Claims(
            np.concatenate(lefts, axis=1),
            np.concatenate(rights, axis=1),
            {dealer: matrix_product(field, _row(parts), form)[:, 0] for dealer, parts in self.dealt.items()},
            matrix_product(field, _row([self.product]), form)[:, 0],
        )

    def _form(self, field: ResidueField, a: Words, b: Words) -> Words:
        """Return the factors of the entries in a' H b, shape (n_words, entries, N_VECTORS)."""
        if not self.is_triangle:
            shape = field.n_words, *self.shape, N_VECTORS
            return _times(field, a[:, :, None], b[:, None], shape).reshape(field.n_words, -1, N_VECTORS)
        rows, columns = upper_triangle_indices(self.shape[0])
        form = field.multiply(np.ascontiguousarray(a[:, rows]), np.ascontiguousarray(b[:, columns]))
        mirrored = field.multiply(np.ascontiguousarray(a[:, columns]), np.ascontiguousarray(b[:, rows]))
        mirrored[:, rows == columns] = 0
        return field.add(form, mirrored)


@dataclass(frozen=True, eq=False, repr=False)
class Claims:
    """Shares of inner products of vectors, one for each random pair.

    Attributes:
        left, right: the vectors, shape (n_words, k, N_VECTORS).
        dealt: dealer to what it claims, shape (n_words, N_VECTORS).
        product: what the sum claims, of the same shape.
    """

    left: Words
    right: Words
    dealt: Mapping[int, Words]
    product: Words


def schedule_of(length: int) -> Schedule:
    """Return how vectors of the proof of a sum are folded: it claims one number of each two of them."""
    return Schedule(1, length, FIRST_ROWS)


def _applied(field: ResidueField, factor: Factor, vectors: Words) -> Words:
    """Return a factor times vectors, shape (n_words, k, vectors): all its blocks at once, a few rows of them.

    Columns of a factor become rows, so that the rest is a fold.
    """
    n_rows, ends = factor[0].shape[1], np.cumsum([0, *(block.shape[2] for block in factor)])
    factors = np.ascontiguousarray(np.swapaxes(balanced(field, vectors), 1, 2))
    found = np.empty((*factors.shape[:2], n_rows))
    memory = np.empty((ROWS_AT_ONCE, COLUMNS_AT_ONCE))
    for word in range(field.n_words):
        of_word = slice(RESIDUES_PER_WORD * word, RESIDUES_PER_WORD * (word + 1))
        primes = np.array(field.primes[of_word], dtype=np.float64)
        for start in range(0, n_rows, _PANEL_ROWS):
            panel = np.empty((int(ends[-1]), min(_PANEL_ROWS, n_rows - start)), dtype=np.uint64)
            for first, block in zip(ends, factor, strict=False):
                panel[first : first + block.shape[2]] = block[word, start : start + panel.shape[1]].T
            combined_rows(found[of_word], start, memory, panel, factors[of_word], factors[of_word, :0], primes)
    return np.swapaxes(packed(field, found), 1, 2)


def _row(parts: Sequence[Words]) -> Words:
    return np.concatenate(parts, axis=1)[:, None]


def _times(field: ResidueField, a: Words, b: Words, shape: tuple[int, ...]) -> Words:
    one, other = (np.ascontiguousarray(np.broadcast_to(words, shape)) for words in (a, b))
    return field.multiply(one, other)
