"""Random projections of shared rows, as `mpc.proofs.norm_bound` needs them: local work on shares.

A projection rho' Y sigma takes two steps: the rows are combined, R = rho' Y, N_PROJECTIONS combinations of each
column, and R times sigma is a few products. Of many rows the first step is most of the work, so their dealer alone does
it, and deals R (`mpc.proofs.norm_proof`); whoever holds shares verifies that, for random vectors a and b that nobody
knew before,

    a' R b = (rho a)' Y b,

which a wrong R leaves true with a probability below 2 / p for each pair: a bilinear form that is not zero has no more
zeros [Freivalds 1977]. That is `N_PAIRS` products for each element and prime in place of N_PROJECTIONS.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.arithmetic import kernels
from mpc.arithmetic.balanced import balanced, packed, reduce_in_place
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import RESIDUES_PER_WORD, Floats
from mpc.arithmetic.words import Words
from mpc.proofs.folding_kernels import COLUMNS_AT_ONCE, ROWS_AT_ONCE, combined_rows
from mpc.proofs.norm_bound import N_PROJECTIONS, NormBound

N_PAIRS = 3
"""Pairs a and b: all three accept a wrong R with less than 2^-59."""

_PANEL_ROWS = 512
"""Rows that are unpacked and combined at once."""


def column_factors(coin: KeyStream, bound: NormBound) -> Floats:
    """Return sigma of one dealer, shape (N_PROJECTIONS, columns), entries -1, 0, 0, 1, of bounded norm.

    All members that hold the coin draw the same.
    """
    while True:
        found = _ternary(*_drawn(coin, bound.whole_width))
        small = found.astype(np.float32)  # exact: products of fewer than 2^24 entries
        products = small.T @ small if bound.whole_width < N_PROJECTIONS else small @ small.T
        if np.linalg.eigvalsh(products.astype(np.float64))[-1] <= bound.squared_operator_bound * (1 - 1e-9):
            return found


class RowFactors:
    """rho of one table: N_PROJECTIONS factors -1, 0, 0, 1 of each row, kept as 200 bits of it.

    Args:
        coin: read from where it stands.
        n_rows: rows of the table.
    """

    def __init__(self, coin: KeyStream, n_rows: int) -> None:
        self._panels = [_drawn(coin, min(_PANEL_ROWS, n_rows - start)) for start in range(0, n_rows, _PANEL_ROWS)]

    def panels(self) -> Iterator[tuple[slice, Floats]]:
        """Return rows that follow each other, and their factors, shape (N_PROJECTIONS, rows)."""
        start = 0
        for words, n_rows in self._panels:
            yield slice(start, start + n_rows), _ternary(words, n_rows)
            start += n_rows

    def combined(self, field: ResidueField, rows: Words) -> Floats:
        """Return rho' Y as balanced residues, shape (n_primes, N_PROJECTIONS, columns).

        Args:
            field: field of the elements.
            rows: Y, elements or shares of them, shape (n_words, n_rows, columns).

        Cost: N_PROJECTIONS float64 products per element and prime.
        """
        panel = np.empty((RESIDUES_PER_WORD, _PANEL_ROWS, rows.shape[2]))
        sums = np.zeros((len(field.primes), N_PROJECTIONS, rows.shape[2]))
        for of_panel, rho in self.panels():
            for word in range(field.n_words):
                kernels.unpack_balanced(panel, 0, np.ascontiguousarray(rows[word, of_panel]), field.word_primes(word))
                primes = slice(RESIDUES_PER_WORD * word, RESIDUES_PER_WORD * (word + 1))
                for total, residues in zip(sums[primes], panel, strict=False):
                    total += rho @ residues[: rho.shape[1]]  # below 2^20 each: exact for 2^32 rows
        return reduce_in_place(field, sums)

    def combined_integers(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rho' Y of integers, shape (N_PROJECTIONS, columns), as their dealer knows them.

        Args:
            rows: Y, int64 of at most 2^40 in size, or Python integers; shape (n_rows, columns).

        Cost: N_PROJECTIONS float64 products per entry, however many primes there are.
        """
        kind = object if rows.dtype == object else np.float64
        total = np.zeros((N_PROJECTIONS, rows.shape[1]), dtype=rows.dtype)
        for of_panel, rho in self.panels():
            total += (rho.astype(np.int64).astype(kind) @ rows[of_panel].astype(kind)).astype(rows.dtype)
        return total

    def weighted(self, field: ResidueField, a: Floats, tables: Sequence[Words]) -> list[Floats]:
        """Return (rho a)' Y for each table Y, shape (n_primes, pairs, columns) each, balanced.

        Args:
            field: field of the elements.
            a: balanced residues, shape (n_primes, pairs, N_PROJECTIONS).
            tables: shares, shape (n_words, n_rows, columns) each.
        """
        ends = np.cumsum([words.shape[2] for words in tables])
        total = np.zeros((*a.shape[:2], int(ends[-1])))
        part, memory = np.empty_like(total), np.empty((ROWS_AT_ONCE, COLUMNS_AT_ONCE))
        for of_panel, rho in self.panels():
            factors = reduce_in_place(field, a @ rho)
            for word in range(field.n_words):
                primes = slice(RESIDUES_PER_WORD * word, RESIDUES_PER_WORD * (word + 1))
                of_word = np.array(field.primes[primes], dtype=np.float64)
                rows = np.concatenate([words[word, of_panel] for words in tables], axis=1)  # side by side: long loops
                combined_rows(part[primes], 0, memory, rows, factors[primes], factors[primes, :0], of_word)
            total += part  # below 2^20 each
        return np.split(reduce_in_place(field, total), ends[:-1], axis=2)


def projections_of(field: ResidueField, combined: Floats, sigma: Floats) -> Words:
    """Return shares of R_k sigma_k for each k, shape (n_words, N_PROJECTIONS).

    Args:
        field: field of the shares.
        combined: R, balanced residues, shape (n_primes, N_PROJECTIONS, columns).
        sigma: shape (N_PROJECTIONS, columns).
    """
    return packed(field, reduce_in_place(field, (combined * sigma).sum(axis=2)))


def projected(field: ResidueField, coin: KeyStream, rows: Sequence[Words], factors: Sequence[Floats]) -> Words:
    """Return shares of rho_k' Y_q sigma_qk for each dealer q, the coefficients rho drawn from the coin.

    Args:
        field: field of the shares.
        coin: read from where it stands.
        rows: each dealer's shares, shape (n_words, n, columns of the dealer); n is the same.
        factors: sigma of each dealer.

    Returns:
        Shape (n_words, dealers, N_PROJECTIONS).

    Cost: N_PROJECTIONS float64 products per element and prime.
    """
    if rows[0].shape[1] == 1:
        return _projected_row(field, _ternary(*_drawn(coin, 1))[:, 0], rows, factors)
    rho = RowFactors(coin, rows[0].shape[1])
    found = [
        projections_of(field, rho.combined(field, words), sigma) for words, sigma in zip(rows, factors, strict=True)
    ]
    return np.stack(found, axis=1)


def _projected_row(field: ResidueField, rho: Floats, rows: Sequence[Words], factors: Sequence[Floats]) -> Words:
    """Return the projections of single rows: columns first, as there are no rows to add up."""
    by_dealer = []
    for words, sigma in zip(rows, factors, strict=True):
        sums = balanced(field, np.ascontiguousarray(words[:, 0])) @ sigma.T  # below 2^53: exact
        by_dealer.append(sums * rho)
    return packed(field, reduce_in_place(field, np.stack(by_dealer, axis=1)))


def _drawn(coin: KeyStream, n_columns: int) -> tuple[Words, int]:
    """Draw two bits for each of N_PROJECTIONS times so many entries."""
    return coin.words(-(-2 * N_PROJECTIONS * n_columns // 64)), n_columns


def _ternary(words: Words, n_columns: int) -> Floats:
    """Return entries -1, 0, 0, 1, shape (N_PROJECTIONS, n_columns): the difference of two bits."""
    drawn = np.unpackbits(words.view(np.uint8), count=2 * N_PROJECTIONS * n_columns).view(np.int8)
    bits = drawn.reshape(2, N_PROJECTIONS, n_columns)
    return np.asarray(bits[0] - bits[1], dtype=np.float64)
