"""Random projections of shared rows, as `mpc.proofs.norm_bound` needs them: local work on shares."""

from collections.abc import Sequence

import numpy as np

from entropy import KeyStream
from mpc.arithmetic import kernels
from mpc.arithmetic.balanced import balanced, packed, reduce_in_place
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import RESIDUES_PER_WORD, Floats
from mpc.arithmetic.words import Words
from mpc.proofs.norm_bound import N_PROJECTIONS, NormBound

_PANEL_ROWS = 512
"""Rows that are unpacked and projected at once."""


def column_factors(coin: KeyStream, bound: NormBound) -> Floats:
    """Return sigma of one dealer, shape (N_PROJECTIONS, columns), entries -1, 0, 0, 1, of bounded norm.

    All members that hold the coin draw the same.
    """
    while True:
        found = _ternary(coin, (N_PROJECTIONS, bound.whole_width))
        small = found.astype(np.float32)  # exact: products of fewer than 2^24 entries
        products = small.T @ small if bound.whole_width < N_PROJECTIONS else small @ small.T
        if np.linalg.eigvalsh(products.astype(np.float64))[-1] <= bound.squared_operator_bound * (1 - 1e-9):
            return found


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
    n_rows, ends = rows[0].shape[1], np.cumsum([0, *(words.shape[2] for words in rows)])
    if n_rows == 1:
        return _projected_row(field, _ternary(coin, (N_PROJECTIONS, 1))[:, 0], rows, factors)
    panel = np.empty((RESIDUES_PER_WORD, _PANEL_ROWS, int(ends[-1])))
    sums = np.zeros((len(field.primes), N_PROJECTIONS, int(ends[-1])))
    for start in range(0, n_rows, _PANEL_ROWS):
        n_panel = min(_PANEL_ROWS, n_rows - start)
        rho = _ternary(coin, (N_PROJECTIONS, n_panel))
        for word in range(field.n_words):
            for first, words in zip(ends, rows, strict=False):
                part = np.ascontiguousarray(words[word, start : start + n_panel])
                kernels.unpack_balanced(panel, int(first), part, field.word_primes(word))
            primes = slice(RESIDUES_PER_WORD * word, RESIDUES_PER_WORD * (word + 1))
            for total, residues in zip(sums[primes], panel, strict=False):
                total += rho @ residues[:n_panel]  # below 2^20 each: exact for 2^32 rows
    found = []
    for total, p in zip(sums, field.primes, strict=True):
        kernels.reduce_balanced(total.reshape(-1), float(p), 1.0 / p)
        by_dealer = [
            (total[:, first:last] * sigma).sum(axis=1)
            for first, last, sigma in zip(ends, ends[1:], factors, strict=False)
        ]
        found.append(np.stack(by_dealer))
    return packed(field, reduce_in_place(field, np.stack(found)))


def _projected_row(field: ResidueField, rho: Floats, rows: Sequence[Words], factors: Sequence[Floats]) -> Words:
    """Return the projections of single rows: columns first, as there are no rows to add up."""
    by_dealer = []
    for words, sigma in zip(rows, factors, strict=True):
        sums = balanced(field, np.ascontiguousarray(words[:, 0])) @ sigma.T  # below 2^53: exact
        by_dealer.append(sums * rho)
    return packed(field, reduce_in_place(field, np.stack(by_dealer, axis=1)))


def _ternary(coin: KeyStream, shape: tuple[int, int]) -> Floats:
    """Draw entries -1, 0, 0, 1: the difference of two bits."""
    n_bits = 2 * shape[0] * shape[1]
    words = coin.words(-(-n_bits // 64))
    bits = np.unpackbits(words.view(np.uint8), count=n_bits).view(np.int8).reshape(2, *shape)
    return np.asarray(bits[0] - bits[1], dtype=np.float64)
