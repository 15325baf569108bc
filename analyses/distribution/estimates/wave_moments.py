"""Mean and variance from the counts of a wave, in closed form: without bias, and with their standard errors.

E[j | i] is linear in i and E[j^2 | i] quadratic, both with the leading coefficient s = sum (a_z - B) / T, because all
inputs have the same weights around them. So there are functions of an output whose expectations are 1, i and i^2 for
every input i, and 0 for the empty input: their averages over the responses estimate the moments of whatever
distribution there is. The piecewise mechanism of [Wang19] is read in this way (`dp.local_mechanism.wave.Wave`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dp.local_mechanism.sign_response import MINUS, PLUS, SignResponse
from dp.local_mechanism.wave import Wave

Floats = NDArray[np.float64]

FEWEST_RESPONSES = 2
"""Least number of responses of which a standard error is known."""


@dataclass(frozen=True)
class Moments:
    """In units of the range: bucket i stands for (i + 1/2) / d.

    Attributes:
        mean, mean_error: and its standard error.
        variance, variance_error: variance of the middles of the buckets, and its standard error; NaN of signs.
        present, present_error: part of the respondents that have a value, and its standard error.
        gain: how far one response can move the mean, by another output of those who have a value.
    """

    mean: float
    mean_error: float
    variance: float
    variance_error: float
    present: float
    present_error: float
    gain: float


def scores(wave: Wave) -> tuple[list[Fraction], list[Fraction], list[Fraction]]:
    """Return functions f0, f1, f2 of the outputs with E[f0 | i] = 1, E[f1 | i] = i, E[f2 | i] = i^2, exactly.

    For the empty input all three have expectation 0.
    """
    b, total, m, k = wave.other, wave.total, wave.n_real_outputs, len(wave.window)
    excess = [a - b for a in wave.window]
    s = Fraction(sum(excess), total)
    outputs = range(wave.n_outputs)
    # sums over the outputs below m, of j^p with the weight B
    flat = [Fraction(b * x, total) for x in (m, m * (m - 1) // 2, (m - 1) * m * (2 * m - 1) // 6)]
    constants = [Fraction(sum(e * z**p for z, e in enumerate(excess)), total) for p in (0, 1, 2)]
    if wave.has_empty:
        on_real, on_empty = 1 - Fraction(k * b, total), flat[0]
        f0 = [((j < m) - on_empty) / (on_real - on_empty) for j in outputs]
    else:
        f0 = [Fraction(1)] * wave.n_outputs
    f1 = [(j * (j < m) - flat[1] - constants[1] * f0[j]) / s for j in outputs]
    f2 = [(j * j * (j < m) - flat[2] - constants[2] * f0[j] - 2 * constants[1] * f1[j]) / s for j in outputs]
    return f0, f1, f2


@lru_cache(maxsize=16)
def _rounded_scores(wave: Wave) -> tuple[Floats, ...]:
    return tuple(np.array([float(x) for x in f]) for f in scores(wave))


def moments(wave: Wave, counts: NDArray[np.generic]) -> Moments:
    """Return the moments that counts say.

    Without empty slots the mean is unbiased and its standard error that of an average of independent responses; the
    variance is unbiased, too: the squared mean exceeds that of the expectation by the squared error, which is added.
    With empty slots all are ratios of such averages, right to first order in one over their number.

    Args:
        wave: which was answered by.
        counts: counts of the outputs, shape (m,), at least two responses.

    Raises:
        ValueError: fewer than two responses, or all of them look empty.
    """
    n = float(np.sum(counts))
    share = np.asarray(counts, dtype=np.float64) / max(n, 1)
    f0, f1, f2 = _rounded_scores(wave)
    present = _present(share, f0, n)
    mean = float(share @ f1) / present
    expected = _expected(wave.weights_of, wave, mean, present)
    mean_error = _error(share, expected, (f1 - mean * f0) / present, n)
    around = f2 - 2 * mean * f1 + mean**2 * f0
    variance = (float(share @ f2) / present - mean**2) + mean_error**2
    variance_error = _error(share, expected, (around - variance * f0) / present, n)
    present_error = _error(share, expected, f0 - present, n)
    d = wave.n_inputs
    gain = gain_of_a_response(wave, n * present)
    return Moments(
        (mean + 0.5) / d, mean_error / d, variance / d**2, variance_error / d**2, present, present_error, gain
    )


def sign_mean(mechanism: SignResponse, counts: NDArray[np.generic]) -> Moments:
    """Return the mean that sign responses say: without bias, or with an empty input a ratio of two such numbers.

    With x the input in units of d - 1, plus has the probability q + r x and minus q + r (1 - x), q = B / (A + B) or
    B / (A + 2 B), r = 1 - 2 q or 1 - 3 q; for the empty input both have q. So (1[plus] - q) / r has the expectation x
    or 0, and the sum of that of plus and that of minus has 1 or 0.

    Args:
        mechanism: which was answered by.
        counts: counts of the outputs, shape (outputs,), at least two responses.

    Raises:
        ValueError: fewer than two responses, or all of them look empty.
    """
    n = float(np.sum(counts))
    last, d = mechanism.n_inputs - 1, mechanism.n_inputs
    q = mechanism.odds.other * last / mechanism.total
    r = 1 - mechanism.n_outputs * q
    share = np.asarray(counts, dtype=np.float64) / max(n, 1)
    outputs = np.arange(mechanism.n_outputs)
    of_plus, of_minus = (((outputs == output) - q) / r for output in (PLUS, MINUS))
    of_present = of_plus + of_minus
    present = _present(share, of_present, n)
    mean = float(share @ of_plus) / present
    expected = _expected(lambda x: mechanism.weights_of(np.array([x]))[0], mechanism, mean * last, present)
    scale = last / d
    error = scale * _error(share, expected, (of_plus - mean * of_present) / present, n)
    present_error = _error(share, expected, of_present - present, n)
    nan = math.nan
    return Moments((mean * last + 0.5) / d, error, nan, nan, present, present_error, scale / (r * n * present))


def gain_of_a_response(wave: Wave, n_present: float) -> float:
    """Return how far one response can move the mean in closed form, in units of the range.

    What a respondent that lies gains by its one output: (m - 1) / (d s n), because the score f1 is linear in the output
    with the slope 1 / s. Of a wave with an empty input this is the gain among those that do not answer as empty.

    Args:
        wave: which is answered by.
        n_present: n, number of those who have a value, estimated where there is an empty input.
    """
    s = Fraction(sum(wave.window) - len(wave.window) * wave.other, wave.total)
    return (wave.n_real_outputs - 1) / (float(wave.n_inputs * s) * n_present)


def _present(share: Floats, score: Floats, n: float) -> float:
    """Return the part of those who have a value.

    Raises:
        ValueError: fewer than two responses, or all of them look empty.
    """
    if round(n) < FEWEST_RESPONSES:  # the n of a forecast is a sum of fractions
        raise ValueError("moments with standard errors need two responses")
    present = float(share @ score)
    if present <= 0:
        raise ValueError("the responses look as if all of them came from empty slots")
    return present


def _expected(
    weights_of: Callable[[int], NDArray[np.int64]], mechanism: Wave | SignResponse, mean: float, present: float
) -> Floats:
    """Return the law of the responses where all who have a value have the estimated mean.

    Args:
        weights_of: weights of the outputs for an input.
        mechanism: which was answered by.
        mean: estimated, in inputs.
        present: estimated part of those who have a value.
    """
    last = mechanism.n_inputs - 1
    law = weights_of(round(min(max(mean, 0.0), last))) / mechanism.total
    if mechanism.has_empty and present < 1:
        law = present * law + (1 - present) * weights_of(last + 1) / mechanism.total
    found: Floats = law
    return found


def _error(share: Floats, expected: Floats, influence: Floats, n: float) -> float:
    """Return the standard error of the mean of n values of `influence`.

    Responses that are all alike, by chance or at large odds, say nothing of their own variance. So it is taken for no
    smaller than it is where all values are alike.

    Args:
        share: observed part of each output.
        expected: law of the outputs where all values are alike.
        influence: how far each output moves the mean, times n.
        n: number of responses.
    """
    variance = max(float(share @ influence**2), float(expected @ influence**2))
    return math.sqrt(variance / (n - 1))
