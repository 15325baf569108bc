"""Balanced residues in float64, one array per prime: the form in which BLAS multiplies field elements.

A residue in [-(p - 1) / 2, (p - 1) / 2] is below 2^20 in size, so float64 holds sums of 2^13 products of two exactly
(`mpc.arithmetic.kernels`).
"""

import numpy as np

from mpc.arithmetic import kernels
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import RESIDUES_PER_WORD, Floats
from mpc.arithmetic.words import Words

_DEPTH = 1 << 12
"""Products that are added up before a reduction: half of what is exact."""


def balanced(field: ResidueField, words: Words) -> Floats:
    """Return the balanced residues of packed elements, shape (n_primes, *words.shape[1:])."""
    rows = words.reshape(field.n_words, -1, words.shape[-1])
    out = np.empty((field.n_words * RESIDUES_PER_WORD, *rows.shape[1:]))
    for word in range(field.n_words):
        part = out[word * RESIDUES_PER_WORD : (word + 1) * RESIDUES_PER_WORD]
        kernels.unpack_balanced(part, 0, np.ascontiguousarray(rows[word]), field.word_primes(word))
    return out[: len(field.primes)].reshape(-1, *words.shape[1:])


def packed(field: ResidueField, residues: Floats) -> Words:
    """Return the packed elements of residues that are reduced or balanced, shape (n_words, *residues.shape[1:])."""
    flat = np.ascontiguousarray(residues).reshape(len(field.primes), -1)
    out = np.empty((field.n_words, flat.shape[1]), dtype=np.uint64)
    for word in range(field.n_words):
        part = flat[word * RESIDUES_PER_WORD : (word + 1) * RESIDUES_PER_WORD]
        kernels.pack_balanced(out[word], part, field.word_primes(word))
    return out.reshape(field.n_words, *residues.shape[1:])


def reduce_in_place(field: ResidueField, sums: Floats) -> Floats:
    """Replace C-contiguous integers below 2^53 - 2^21 in size by balanced residues, prime by prime; return them."""
    kernels.reduce_all_balanced(sums.reshape(len(field.primes), -1), np.array(field.primes, dtype=np.float64))
    return sums


def inner_products(field: ResidueField, left: Floats, right: Floats) -> Floats:
    """Return left @ right.T modulo every prime.

    Args:
        field: field of the elements.
        left: balanced residues, shape (n_primes, ..., n, length).
        right: balanced residues, shape (n_primes, ..., m, length).

    Returns:
        Balanced residues, shape (n_primes, ..., n, m).
    """
    length = left.shape[-1]
    total = np.zeros((*left.shape[:-1], right.shape[-2]))
    for start in range(0, length, _DEPTH):
        part = slice(start, start + _DEPTH)
        total += left[..., part] @ np.swapaxes(right[..., part], -1, -2)
        reduce_in_place(field, total)
    return total
