"""The product of two shared matrices: a party's local part, exact, with float64 BLAS.

As in `mpc.arithmetic.gram`: balanced residues of 21-bit primes are integers below 2^20 in size, so float64 holds sums
of 2^13 of their products exactly. Matrices are unpacked tile by tile, so memory beyond operands and result is bounded.
"""

import numpy as np

from mpc.arithmetic import kernels
from mpc.arithmetic.balanced import packed
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import MAX_COLLECTED_PRODUCTS, RESIDUES_PER_WORD, Floats
from mpc.arithmetic.words import Words
from mpc.errors import ShapeError

_TILE = 1024
"""Rows, columns and depth of what is multiplied at once: three float64 tiles of 8 MB per operand."""


def matrix_product(field: ResidueField, a: Words, b: Words) -> Words:
    """Return a @ b modulo every prime of the field. On shares the degrees add up.

    Args:
        field: field of the elements.
        a: shape `(n_words, n, k)`.
        b: shape `(n_words, k, m)`.

    Returns:
        Shape `(n_words, n, m)`.

    Raises:
        ShapeError: not matrices, or the inner dimensions differ.

    Cost: n * k * m float64 products per prime.
    """
    if a.ndim != 3 or b.ndim != 3 or a.shape[2] != b.shape[1]:
        raise ShapeError(f"matrices of shapes {a.shape[1:]} and {b.shape[1:]} have no product")
    n, m = a.shape[1], b.shape[2]
    out = field.zeros((n, m))
    for row in range(0, n, _TILE):
        for column in range(0, m, _TILE):
            tile = _tile_product(field, a[:, row : row + _TILE], b[:, :, column : column + _TILE])
            out[:, row : row + _TILE, column : column + _TILE] = tile
    return out


def _tile_product(field: ResidueField, a: Words, b: Words) -> Words:
    n, depth, m = a.shape[1], a.shape[2], b.shape[2]
    sums = np.zeros((len(field.primes), n, m))
    collected = 0
    for start in range(0, depth, _TILE):
        inner = min(_TILE, depth - start)
        if collected + inner > MAX_COLLECTED_PRODUCTS:
            _reduce(field, sums)
            collected = 0
        for word in range(field.n_words):
            left = _unpacked(field, word, a[word, :, start : start + inner])
            right = _unpacked(field, word, b[word, start : start + inner])
            first = RESIDUES_PER_WORD * word
            for i, total in enumerate(sums[first : first + RESIDUES_PER_WORD]):
                total += left[i] @ right[i]
        collected += inner
    _reduce(field, sums)
    return packed(field, sums)


def _unpacked(field: ResidueField, word: int, matrix: Words) -> Floats:
    """Return the balanced residues, shape (3, *matrix.shape), in the matrix's order in memory."""
    is_transposed = matrix.strides[0] < matrix.strides[1]
    rows = np.ascontiguousarray(matrix.T if is_transposed else matrix)
    out = np.empty((RESIDUES_PER_WORD, *rows.shape))
    kernels.unpack_balanced(out, 0, rows, field.word_primes(word))
    return out.transpose(0, 2, 1) if is_transposed else out


def _reduce(field: ResidueField, sums: Floats) -> None:
    for total, p in zip(sums, field.primes, strict=True):
        kernels.reduce_balanced(total.reshape(-1), float(p), 1.0 / p)
