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
        variance: variance of the frequency of a rare node; infinite where nobody answered about the level.
    """

    frequencies: Floats = field(repr=False)
    variance: float


def estimate(oracle: DirectResponse | HashedResponse, responses: Integers, choices: PublicChoices) -> Level:
    """Return the frequencies of the inputs of an oracle: (share of supporting responses - q) / (p - q).

    Takes time O(n d) for hashes and O(n + d) else.

    Args:
        oracle: which was answered by.
        responses: shape (n,).
        choices: choices of the n respondents.
    """
    return level_of(oracle, support_of(oracle, responses, choices), len(responses))


def support_of(
    oracle: DirectResponse | HashedResponse, responses: Integers, choices: PublicChoices | None = None
) -> Integers:
    """Return how many responses support each input, shape (d,); arguments as `estimate`."""
    n, d = len(responses), oracle.n_inputs
    if isinstance(oracle, DirectResponse):
        return np.bincount(responses, minlength=d)
    assert choices is not None
    support = np.zeros(d, dtype=np.int64)
    inputs, step = np.arange(d)[None, :], max(1, _BLOCK // d)
    for start in range(0, n, step):
        hashes = choices.part(start, start + step).hashed(inputs, oracle.n_buckets)
        support += np.count_nonzero(hashes == responses[start : start + step, None], axis=0)
    return support


def chances(oracle: DirectResponse | HashedResponse) -> tuple[float, float]:
    """Return p and q: how likely a response supports the respondent's own input, and any other one."""
    q = float(oracle.response.other) if isinstance(oracle, DirectResponse) else 1 / oracle.n_buckets
    return float(oracle.response.truthful), q


def level_of(oracle: DirectResponse | HashedResponse, support: Integers, n: int) -> Level:
    """Return the frequencies of the inputs of an oracle, from how many of n responses support each."""
    if n == 0:
        return Level(np.full(oracle.n_inputs, 1 / oracle.n_inputs), np.inf)
    p, q = chances(oracle)
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
        choices: choices of the n respondents.

    Returns:
        shape (d,); zeros where nobody answered.
    """
    return signed_of(mechanism, signs_by_row(mechanism, responses, choices), len(responses))


def signs_by_row(mechanism: HadamardResponse, responses: Integers, choices: PublicChoices) -> Floats:
    """Return the sum of the responses' signs in each row, shape (rows,); arguments as `estimate_signed`."""
    return np.bincount(choices.rows(mechanism.n_rows), 2.0 * responses - 1, mechanism.n_rows).astype(np.float64)


def signed_of(mechanism: HadamardResponse, sums: Floats, n: int) -> Floats:
    """Return what `estimate_signed` does, from the sums of n responses' signs in each row."""
    odds = mechanism.odds
    factor = (odds.favoured + odds.other) / (odds.favoured - odds.other) / max(1, n)
    return walsh_hadamard(sums)[: mechanism.n_inputs] * factor


def haar_frequencies(mechanism: HaarResponse, responses: Integers, choices: PublicChoices) -> Floats:
    """Return the frequencies of the inputs from responses about Haar coefficients: the inverse transform, raw.

    Returns:
        shape (d,), some of them negative; mass that the estimate puts beyond the inputs is left out.
    """
    levels, signed = choices.levels(mechanism.n_heights), []
    for height in range(1, mechanism.n_heights + 1):
        at = levels == height - 1
        signed.append(estimate_signed(mechanism.oracle(height), responses[at], choices.among(at)))
    return mass_of_differences(mechanism, signed)


def mass_of_differences(mechanism: HaarResponse, signed: list[Floats], root: float = 1.0) -> Floats:
    """Return the frequencies of the inputs, shape (d,), from the coefficients at each height, the lowest first.

    Args:
        mechanism: which was answered by.
        signed: coefficients of the nodes of each height.
        root: what all inputs sum up to.
    """
    mass = np.full(1, root)
    for of_height in reversed(signed):
        differences = np.zeros(len(mass))
        differences[: len(of_height)] = of_height
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
