"""Frequencies of inputs from local responses to categories: unbiased, with their variances, in memory of O(inputs)."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse
from dp.local_mechanism.public_choice import PublicChoices

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK = 1 << 20
"""Entries of a table of hashes that exist at a time."""


@dataclass(frozen=True)
class Level:
    """Estimated frequencies of the nodes of one level of a tree.

    Attributes:
        frequencies: shape (nodes,), unbiased, some of them negative.
        variance: of the frequency of a rare node; infinite where nobody answered about the level.
    """

    frequencies: Floats = field(repr=False)
    variance: float


def estimate(oracle: DirectResponse | HashedResponse, responses: Integers, choices: PublicChoices) -> Level:
    """Return the frequencies of the inputs of an oracle: (share of supporting responses - q) / (p - q).

    Takes time O(n d) for hashes and O(n + d) else.

    Args:
        oracle: which was answered by.
        responses: shape (n,).
        choices: of the n respondents.
    """
    n, d = len(responses), oracle.n_inputs
    if n == 0:
        return Level(np.full(d, 1 / d), np.inf)
    p = float(oracle.response.truthful)
    if isinstance(oracle, DirectResponse):
        support, q = np.bincount(responses, minlength=d), float(oracle.response.other)
    else:
        support, q = np.zeros(d, dtype=np.int64), 1 / oracle.n_buckets
        inputs, step = np.arange(d)[None, :], max(1, _BLOCK // d)
        for start in range(0, n, step):
            hashes = choices.part(start, start + step).hashed(inputs, oracle.n_buckets)
            support += np.count_nonzero(hashes == responses[start : start + step, None], axis=0)
    return Level((support / n - q) / (p - q), float(oracle.variance) / n)


def estimate_levels(tree: HierarchicalResponse, responses: Integers, choices: PublicChoices) -> list[Level]:
    """Return the frequencies of the nodes of each level, from below the root down to the inputs."""
    levels, found = choices.levels(len(tree.sizes)), []
    for level, oracle in enumerate(tree.oracles):
        at = levels == level
        found.append(estimate(oracle, responses[at], choices.among(at)))
    return found


def estimate_signed(mechanism: HadamardResponse, responses: Integers, choices: PublicChoices) -> Floats:
    """Return, per input, its frequency with plus less that with minus, from Hadamard responses.

    The mean of (A + B) / (A - B) times the sign of the response times the entry of the input in its row: the transform
    of the sums of signs of the rows. Takes O(n + D log D).

    Args:
        mechanism: which was answered by.
        responses: shape (n,), 1 for plus and 0 for minus.
        choices: of the n respondents.

    Returns:
        shape (d,); zeros where nobody answered.
    """
    signs = 2.0 * responses - 1
    sums = np.bincount(choices.rows(mechanism.n_rows), signs, mechanism.n_rows).astype(np.float64)
    odds = mechanism.odds
    factor = (odds.favoured + odds.other) / (odds.favoured - odds.other) / max(1, len(responses))
    return walsh_hadamard(sums)[: mechanism.n_inputs] * factor


def haar_frequencies(mechanism: HaarResponse, responses: Integers, choices: PublicChoices) -> Floats:
    """Return the frequencies of the inputs from responses about Haar coefficients: the inverse transform, raw.

    Returns:
        shape (d,), some of them negative; mass that the estimate puts beyond the inputs is left out.
    """
    levels, mass = choices.levels(mechanism.n_heights), np.ones(1)
    for height in range(mechanism.n_heights, 0, -1):
        at = levels == height - 1
        oracle = mechanism.oracle(height)
        differences = np.zeros(len(mass))
        differences[: oracle.n_inputs] = estimate_signed(oracle, responses[at], choices.among(at))
        # Nodes beyond the inputs hold nothing on either side.
        mass = np.stack([mass + differences, mass - differences], axis=1).ravel() / 2
    return mass[: mechanism.n_inputs]


def walsh_hadamard(x: Floats) -> Floats:
    """Return sum over r of (-1)^(number of ones in r AND i) x_r for every i, for a length that is a power of two."""
    found, half = x.astype(np.float64), 1
    while half < len(found):
        pairs = found.reshape(-1, 2, half)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return found
