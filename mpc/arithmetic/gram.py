"""The Gram matrix X^T X of shared columns: a party's local product, row block by row block, with float64 BLAS.

Balanced residues of 21-bit primes are integers below 2^20 in size, so float64 holds sums of 2^13 of their products
exactly, in any order and with fused multiply-add. One symmetric rank-k update (dsyrk) per prime and panel of rows does
the work.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from mpc.arithmetic import kernels
from mpc.arithmetic.balanced import packed
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import MAX_COLLECTED_PRODUCTS, RESIDUES_PER_WORD
from mpc.arithmetic.words import Words
from mpc.errors import LocalFaultError, ShapeError

PANEL_ROWS = 384
"""Rows unpacked and multiplied at once: OpenBLAS's own panel depth for float64; 100 columns stay in the cache."""

_ENTRY_ROWS = 64
"""Rows of the matrix whose entries are moved at once."""


class GramAccumulator:
    """Sums x^T x over rows x of shares, modulo every prime of the field. Not for concurrent use.

    The result is a share of degree 2t of the Gram matrix of the secrets. Memory does not grow with the rows: three
    float64 matrices of 384 rows, and one float64 square per prime.

    Args:
        field: field of the shares.
        n_columns: columns of the joint table, at least 1.
    """

    def __init__(self, field: ResidueField, n_columns: int) -> None:
        if n_columns < 1:
            raise LocalFaultError("a Gram matrix needs at least one column")
        self._field = field
        self._n_columns = n_columns
        # Row-major storage of the transposes: BLAS is column-major, and fills the upper triangle of what it sees.
        self._sums = np.zeros((len(field.primes), n_columns, n_columns))
        self._panel = np.empty((RESIDUES_PER_WORD, PANEL_ROWS, n_columns))
        self._collected = 0

    def add_rows(self, blocks: Sequence[Words]) -> None:
        """Add one block of rows.

        Args:
            blocks: one array per dealer in the order of the joint table's columns, each of shape `(n_words, rows,
                columns of that dealer)`; the same rows everywhere, the columns together `n_columns`.

        Raises:
            ShapeError: words, rows or columns do not fit. Nothing has been added.

        Cost: k * n (n + 1) / 2 products per row, for k primes and n columns.
        """
        n_rows = self._check(blocks)
        rows = [[np.ascontiguousarray(words) for words in block] for block in blocks]
        for start in range(0, n_rows, PANEL_ROWS):
            n_panel = min(PANEL_ROWS, n_rows - start)
            if self._collected + n_panel > MAX_COLLECTED_PRODUCTS:
                self._reduce()
            for word in range(self._field.n_words):
                self._add_panel(word, [block[word][start : start + n_panel] for block in rows], n_panel)
            self._collected += n_panel

    def upper_triangle(self) -> Words:
        """Return the entries (i, j), i <= j, row by row: shape `(n_words, n_columns * (n_columns + 1) // 2)`.

        Memory beyond the result: the entries of 64 rows of the matrix.
        """
        self._reduce()
        n, done = self._n_columns, 0
        out = np.empty((self._field.n_words, n_entries(n)), dtype=np.uint64)
        for first in range(0, n, _ENTRY_ROWS):
            rows = self._sums[:, first:, first : first + _ENTRY_ROWS].transpose(0, 2, 1)
            part = packed(self._field, np.concatenate([rows[:, i, i:] for i in range(rows.shape[1])], axis=1))
            out[:, done : done + part.shape[1]] = part
            done += part.shape[1]
        return out

    def _add_panel(self, word: int, parts: Sequence[Words], n_panel: int) -> None:
        moduli = self._field.word_primes(word)
        first_column = 0
        for part in parts:
            kernels.unpack_balanced(self._panel, first_column, part, moduli)
            first_column += part.shape[1]
        first = RESIDUES_PER_WORD * word
        for panel, sums in zip(self._panel, self._sums[first : first + RESIDUES_PER_WORD], strict=False):
            scipy.linalg.blas.dsyrk(1.0, panel[:n_panel].T, beta=1.0, c=sums.T, overwrite_c=1)

    def _reduce(self) -> None:
        for sums, p in zip(self._sums, self._field.primes, strict=True):
            kernels.reduce_balanced(sums.reshape(-1), float(p), 1.0 / p)
        self._collected = 0

    def _check(self, blocks: Sequence[Words]) -> int:
        if not blocks:
            raise ShapeError("a block of rows needs the columns of at least one dealer")
        n_rows = blocks[0].shape[1] if blocks[0].ndim == 3 else -1
        for block in blocks:
            if block.dtype != np.uint64 or block.ndim != 3 or block.shape[:2] != (self._field.n_words, n_rows):
                raise ShapeError(
                    f"blocks of one set of rows are uint64 of shape ({self._field.n_words}, rows, columns), "
                    f"not {block.dtype} of shape {block.shape}"
                )
        n_columns = sum(block.shape[2] for block in blocks)
        if n_columns != self._n_columns:
            raise ShapeError(f"the blocks together have {n_columns} columns instead of {self._n_columns}")
        return int(n_rows)


def n_entries(n: int) -> int:
    """Return how many entries an n x n matrix has on and above the diagonal."""
    return n * (n + 1) // 2


def upper_triangle_indices(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row and column numbers of the entries on and above the diagonal, row by row."""
    rows, columns = np.triu_indices(n)
    return rows, columns


def expand_triangle(entries: NDArray[Any], n: int) -> NDArray[Any]:
    """Return the symmetric matrix of an upper triangle.

    Args:
        entries: shape `(..., n * (n + 1) // 2)`, row by row as `GramAccumulator.upper_triangle` gives them.
        n: rows and columns of the matrix.

    Returns:
        Shape `(..., n, n)`.

    Raises:
        ShapeError: the number of entries does not fit.
    """
    if entries.shape[-1:] != (n_entries(n),):
        raise ShapeError(f"the upper triangle of order {n} has {n_entries(n)} entries, not {entries.shape[-1:]}")
    square, done = np.empty((*entries.shape[:-1], n, n), dtype=entries.dtype), 0
    for first in range(0, n, _ENTRY_ROWS):
        last = min(first + _ENTRY_ROWS, n)
        for i in range(first, last):
            square[..., i, i:] = entries[..., done : done + n - i]
            square[..., i:last, i] = square[..., i, i:last]
            done += n - i
        square[..., last:, first:last] = np.swapaxes(square[..., first:last, last:], -1, -2)
    return square
