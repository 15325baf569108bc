"""Draws of the errors of frequencies from local responses: normal ones, with the covariance of the responses.

Frequencies are linear in the scores of an oracle, one vector of them per response (`shares`). Respondents are
independent draws from a distribution f over the inputs; then so are their scores, with the covariance

    oracle      variance of the score of input i       covariance of i and j
    direct      a_i (1 - a_i), / (p - q)^2               -a_i a_j / (p - q)^2,  a = q + (p - q) f
    hashed      (q (1 - q) + (1 - 2 q) (p - q) f_i) / (p - q)^2 - f_i^2      -f_i f_j,  as hashes are independent
    hadamard    c^2 - s_i^2, c = (A + B) / (A - B)         -s_i s_j, s the frequencies less those with minus

A diagonal less an outer product in all three. The levels of a tree are answered by different respondents, chosen by
what does not depend on their inputs. So the errors are about the distribution that the rows are from; about the rows
themselves they are a little too large, by what these differ from it.
"""

from collections.abc import Sequence

import numpy as np

from analyses.distribution.estimates.frequencies import Floats, Level, chances, mass_of_differences
from analyses.distribution.estimates.tree_estimate import least_squares
from analyses.distribution.methods import OfFrequencies, Oracle
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse

FEWEST = 30
"""Responses about each level from which their mean counts as normal."""


def errors_of_frequencies(
    mechanism: OfFrequencies, whole: Floats, numbers: Sequence[int], normals: Sequence[Floats]
) -> Floats:
    """Return draws of the errors of the frequencies of all inputs.

    Args:
        mechanism: which was answered by.
        whole: distribution of the respondents over the inputs, shape (inputs,).
        numbers: how many answered about each level; of an oracle that is one number.
        normals: standard normal numbers for each level, shape (draws, nodes) by `sizes_of_levels`.

    Returns:
        shape (draws, inputs).
    """
    if isinstance(mechanism, HierarchicalResponse):
        last = len(mechanism.sizes) - 1
        noises = []
        for level, (oracle, n, z) in enumerate(zip(mechanism.oracles, numbers, normals, strict=True)):
            starts = np.arange(0, len(whole), mechanism.branching ** (last - level))
            noises.append((_drawn(oracle, np.add.reduceat(whole, starts), n, z), float(oracle.variance) / n))
        each = ([Level(noise[draw], variance) for noise, variance in noises] for draw in range(len(normals[0])))
        return np.array([least_squares(levels, mechanism.branching, root=0.0)[-1] for levels in each])
    if isinstance(mechanism, HaarResponse):
        noises_of_heights, mass = [], whole
        for height, (n, z) in enumerate(zip(numbers, normals, strict=True), start=1):
            mass = np.append(mass, 0.0) if len(mass) % 2 else mass
            signed, mass = mass[::2] - mass[1::2], mass[::2] + mass[1::2]
            noises_of_heights.append(_drawn(mechanism.oracle(height), signed, n, z))
        draws = zip(*noises_of_heights, strict=True)
        return np.array([mass_of_differences(mechanism, list(draw), root=0.0) for draw in draws])
    return _drawn(mechanism, whole, numbers[0], normals[0])


def sizes_of_levels(mechanism: OfFrequencies) -> tuple[int, ...]:
    """Return the number of nodes of each level, of one where there is no tree."""
    if isinstance(mechanism, HierarchicalResponse):
        return mechanism.sizes
    if isinstance(mechanism, HaarResponse):
        return tuple(mechanism.oracle(height).n_inputs for height in range(1, mechanism.n_heights + 1))
    return (mechanism.n_inputs,)


def covariance_of(oracle: Oracle, f: Floats) -> tuple[Floats, Floats]:
    """Return the diagonal D and the vector g of the covariance D - g g' of the scores of one response.

    Args:
        oracle: which was answered by.
        f: distribution of the respondents over the inputs, shape (inputs,); of inputs with a sign, those with plus less
            those with minus.
    """
    if isinstance(oracle, HadamardResponse):
        return np.full(len(f), float(oracle.variance)), f
    p, q = chances(oracle)
    if isinstance(oracle, DirectResponse):
        outer = (q + (p - q) * f) / (p - q)
        return outer / (p - q), outer
    return (q * (1 - q) / (p - q) + (1 - 2 * q) * f) / (p - q), f


def _drawn(oracle: Oracle, f: Floats, n: int, z: Floats) -> Floats:
    """Return draws with the covariance of the means of n scores.

    With D the diagonal and g the outer part, r the sum of g^2 / D: sqrt(D) z - k g (g / sqrt(D)) . z has the covariance
    D - g g' where k^2 r - 2 k = -1.
    """
    diagonal, outer = covariance_of(oracle, f)
    deviations = np.sqrt(diagonal)
    along = outer / deviations
    r = min(1.0, float(along @ along))
    factor = 1 / (1 + np.sqrt(1 - r))  # the smaller root k, which is exact at r = 0
    found: Floats = (deviations * z - factor * np.outer(z @ along, outer)) / np.sqrt(n)
    return found
