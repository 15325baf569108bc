"""Shares of bins or categories from a frequency oracle: unbiased, with 95 % intervals about the rows that answered.

An oracle's frequencies are means of one score per response. With v the input of a respondent, the score of an input i
has the mean [v = i], and given all inputs, scores of different respondents are independent. Public choices count as
random.

    oracle      variance of the score of i                         its covariance with that of the empty input e
    direct      p (1 - p) or, for v not i, q (1 - q), / (p - q)^2   -p q where v is i or e, else -q^2, / (p - q)^2
    hashed      the same, with q = 1/g                             0, as hashes of two inputs are independent
    hadamard    c^2 - [v = i], c = (A + B) / (A - B)                0, as two columns of the matrix are orthogonal

A share among those who have a value is a ratio, f_i / (1 - f_e), whose error is to first order that of f_i plus the
share times that of f_e, over 1 - f_e. Nothing makes the shares a distribution: they may be negative.

Shares of sets of inputs are sums of these, and of the inputs that a set covers in part, parts of them. Their errors are
about the distribution that the respondents are from: with D - g g' the covariance of a response's scores
(`noise_of_responses`) and a the weights, those of f_e the share, the variance is (sum of a^2 D - (a . g)^2) / n, over
(1 - f_e)^2. It has the response noise, that the respondents are a sample, and how the errors of inputs go together.
Everybody has one input, so the frequencies sum to 1 but for noise; an equal part of what they sum to beyond 1 is taken
off each first, the least squares of the sum, which makes of a weight its distance from the mean of all weights. The
share of all cells errs by nothing then, and that of half of them by half of the variance.
"""

import math

import numpy as np

from analyses.distribution.estimates.frequencies import Floats, chances
from analyses.distribution.estimates.intervals import LEAST_DEVIATIONS
from analyses.distribution.estimates.noise_of_responses import FEWEST, covariance_of
from analyses.distribution.methods import Oracle
from analyses.job.forecast import NORMAL_95
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse


def shares_of(oracle: Oracle, frequencies: Floats, n_responses: int) -> Floats | None:
    """Return shares and the ends of their 95 % intervals.

    Args:
        oracle: with the empty input as its last one.
        frequencies: shape (inputs,), without bias.
        n_responses: number of responses.

    Returns:
        shape (inputs - 1, 3), share, lower and upper end; None where those who have a value are hardly seen.
    """
    variances, covariances = _errors(oracle, np.clip(frequencies, 0, 1), n_responses)
    present = 1 - float(frequencies[-1])
    if not present > LEAST_DEVIATIONS * math.sqrt(variances[-1]):
        return None
    shares = frequencies[:-1] / present
    squares = variances[:-1] + 2 * shares * covariances + shares**2 * variances[-1]
    half = NORMAL_95 * np.sqrt(squares) / present
    return np.column_stack([shares, shares - half, shares + half])


def shares_of_sets(
    oracle: Oracle, frequencies: Floats, whole: Floats, n_responses: int, sets: Floats
) -> tuple[Floats, Floats] | None:
    """Return the shares of sets of inputs among those who have a value, and their standard errors.

    Args:
        oracle: with the empty input as its last one.
        frequencies: shape (inputs,), without bias.
        whole: shape (inputs,), the distribution made of them, which tells the covariance.
        n_responses: number of responses.
        sets: shape (sets, inputs - 1), which part of each input a set has.

    Returns:
        Two arrays of shape (sets,); None where those who have a value are hardly seen, or hardly anybody answered.
    """
    diagonal, outer = covariance_of(oracle, whole)
    balanced = frequencies - (frequencies.sum() - 1) / len(frequencies)
    present = 1 - float(balanced[-1])
    if n_responses < FEWEST or not present > LEAST_DEVIATIONS * math.sqrt(
        (diagonal[-1] - outer[-1] ** 2) / n_responses
    ):
        return None
    shares = sets @ balanced[:-1] / present
    weights = np.column_stack([sets, shares])
    weights -= weights.mean(axis=1, keepdims=True)
    squares = weights**2 @ diagonal - (weights @ outer) ** 2
    return shares, np.sqrt(np.maximum(squares, 0.0) / n_responses) / present


def _errors(oracle: Oracle, f: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the variances of all frequencies, and the covariances of all but the last one with it."""
    if isinstance(oracle, HadamardResponse):
        return (float(oracle.variance) - f) / n, np.zeros(len(f) - 1)
    p, q = chances(oracle)
    scale = n * (p - q) ** 2
    variances = (f * p * (1 - p) + (1 - f) * q * (1 - q)) / scale
    if not isinstance(oracle, DirectResponse):
        return variances, np.zeros(len(f) - 1)
    both = np.minimum(f[:-1] + f[-1], 1.0)
    return variances, -(both * p * q + (1 - both) * q * q) / scale
