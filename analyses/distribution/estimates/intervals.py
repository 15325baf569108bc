"""Intervals about numbers without bias: of what a masked sum or responses say before it is made a distribution.

Least squares over a tree is linear in noisy counts, so its errors are those of the noise whatever the rows are.
Draws of that noise, whose law is public, tell them. So they do of frequencies that follow from responses
(`noise_of_responses`). What makes a distribution of it (`isotonic`) has a bias that depends on the rows; intervals lie
about the unbiased numbers therefore, and are stretched to hold what is printed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy
from numpy.typing import NDArray

from analyses.distribution.estimates.frequencies import Floats
from analyses.distribution.estimates.metrics import middles
from analyses.distribution.estimates.noise_of_responses import FEWEST, errors_of_frequencies, sizes_of_levels
from analyses.distribution.estimates.wave_estimate import uniform_stream, uniforms
from analyses.distribution.masked import leaves_of
from analyses.distribution.methods import OfFrequencies
from analyses.sums.tree_counts import TreeCounts

N_DRAWS = 200
"""Draws of the noise: a standard deviation of so many is itself off by a twentieth."""

LEAST_DEVIATIONS = 4.0
"""Standard deviations that the number of rows, or the part of those with a value, is above 0 where shares of it have
intervals."""

Ends = tuple[float, float]


@dataclass(frozen=True)
class Intervals:
    """Ends of 95 % intervals, in shares of the rows and of the range, each about one number by itself.

    Attributes:
        mean: interval of the mean of the middles of the buckets.
        quantiles: one per level.
        queries: one per range.
        probabilities: one per bucket, shape (d, 2).
    """

    mean: Ends
    quantiles: tuple[Ends, ...]
    queries: tuple[Ends, ...]
    probabilities: Floats


def intervals_of_counts(
    counts: TreeCounts, noisy: NDArray[np.generic], variance: float, levels: Sequence[float], ranges: Floats
) -> Intervals | None:
    """Return intervals about statistics of the rows that were counted.

    Args:
        counts: counts of a party.
        noisy: shape (n_entries,), the sum with its noise.
        variance: variance of the noise of each number. Gaussian noise stands for Skellam noise.
        levels: levels of the quantiles.
        ranges: shape (r, 2), lower and upper ends in 0..1.

    Returns:
        See `intervals_about`.
    """
    noise = np.array([leaves_of(counts, z) for z in _normals("noise of counts", (counts.n_entries,))[0]])
    return intervals_about(leaves_of(counts, noisy), math.sqrt(variance) * noise, levels, ranges)


def intervals_of_responses(
    mechanism: OfFrequencies,
    frequencies: Floats,
    whole: Floats,
    numbers: Sequence[int],
    levels: Sequence[float],
    ranges: Floats,
) -> Intervals | None:
    """Return intervals about statistics of the distribution that the rows are from, among those who have a value.

    Args:
        mechanism: which was answered by; its last input is the empty one.
        frequencies: shape (inputs,), without bias.
        whole: shape (inputs,), the distribution made of them.
        numbers: how many answered about each level.
        levels: levels of the quantiles.
        ranges: shape (r, 2), lower and upper ends in 0..1.

    Returns:
        See `intervals_about`; None where hardly anybody answered about some level, too.
    """
    if min(numbers) < FEWEST:
        return None
    normals = _normals("noise of responses", sizes_of_levels(mechanism))
    noise = errors_of_frequencies(mechanism, whole, numbers, normals)
    return intervals_about(frequencies[:-1], noise[:, :-1], levels, ranges)


def intervals_about(found: Floats, noise: Floats, levels: Sequence[float], ranges: Floats) -> Intervals | None:
    """Return intervals about statistics of a distribution.

    A share is a ratio of two noisy numbers. With w the share that is released, its error is that of the number less w
    times that of all, over all, to first order.

    An interval of a quantile holds all points x at which the number up to x, less the level times all, is within
    1.97 of its standard deviations of 0 (a test, inverted), and what lies between such points.

    Args:
        found: shape (buckets,), numbers or frequencies, without bias.
        noise: shape (N_DRAWS, buckets), draws of their errors.
        levels: levels of the quantiles.
        ranges: shape (r, 2), lower and upper ends in 0..1.

    Returns:
        None where the sum of all is not `LEAST_DEVIATIONS` above 0.
    """
    total, of_total = float(found.sum()), noise.sum(axis=1)
    if not total > LEAST_DEVIATIONS * float(of_total.std(ddof=1)):
        return None
    centre, off = middles(len(found)), noise / total

    def about(share: Floats, errors: Floats) -> Floats:
        half = _student() * errors.std(axis=0, ddof=1)
        return np.column_stack([share - half, share + half])

    mean = np.atleast_1d(found @ centre / total)
    of_mean = about(mean, (off @ centre - mean * off.sum(axis=1))[:, None])[0]
    p = found / total
    of_buckets = about(p, off - p * off.sum(axis=1)[:, None])
    edges = np.arange(len(found) + 1) / len(found)
    up_to = np.concatenate([np.zeros((1, 1)), np.cumsum(p)[None]], axis=1)[0]
    off_up_to = np.hstack([np.zeros((N_DRAWS, 1)), np.cumsum(off, axis=1)])
    inside = [
        (np.interp(end, edges, up_to) - np.interp(start, edges, up_to), _at(off_up_to, end) - _at(off_up_to, start))
        for start, end in ranges.tolist()
    ]
    of_ranges = [about(np.atleast_1d(q), (errors - q * off.sum(axis=1))[:, None])[0] for q, errors in inside]
    return Intervals(
        _ends(of_mean),
        tuple(_where_zero(about(up_to - level, off_up_to - level * off.sum(axis=1)[:, None])) for level in levels),
        tuple(_ends(one) for one in of_ranges),
        np.clip(of_buckets, 0.0, 1.0),
    )


def _normals(label: str, sizes: Sequence[int]) -> list[Floats]:
    """Return N_DRAWS vectors of standard normal numbers of each size, from a public stream."""
    stream = uniform_stream(label)
    return [scipy.special.ndtri(uniforms(stream, N_DRAWS * size)).reshape(N_DRAWS, size) for size in sizes]


def _ends(two: Floats) -> Ends:
    lower, upper = np.clip(two, 0.0, 1.0).tolist()
    return lower, upper


def _at(cumulative: Floats, end: float) -> Floats:
    """Return the values at a point of the range of functions that are linear within buckets."""
    place = end * (cumulative.shape[1] - 1)
    before = min(int(place), cumulative.shape[1] - 2)
    found: Floats = cumulative[:, before] + (place - before) * (cumulative[:, before + 1] - cumulative[:, before])
    return found


def _where_zero(ends: Floats) -> Ends:
    """Return the first point where the upper end is not below 0, and the last where the lower one is not above it."""
    n = len(ends) - 1
    return _first_above(ends[:, 1]) / n, 1 - _first_above(-ends[::-1, 0]) / n


def _first_above(values: Floats) -> float:
    """Return the first place where a function is not negative, linear between whole places; the last one if none."""
    at = int(np.argmax(values >= 0)) if (values >= 0).any() else len(values) - 1
    if at == 0 or values[at] < 0:
        return float(at)
    before = float(values[at - 1])
    return at - 1 + before / (before - float(values[at]))


@cache
def _student() -> float:
    """Return the two-sided 95 % quantile of Student's distribution, as the deviations are estimated from the draws."""
    return float(scipy.special.stdtrit(N_DRAWS - 1, 0.975))  # which is slow to import; services start without it
