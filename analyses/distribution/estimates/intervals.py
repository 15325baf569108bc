"""Intervals of what is read off an estimate: by repeating the whole estimation on responses drawn from the estimate."""

import math
from collections.abc import Callable

import numpy as np
import scipy

from analyses.distribution.estimates.wave_estimate import WaveEstimate, estimate_ems, uniform_stream, uniforms
from analyses.distribution.estimates.wave_operator import Floats, WaveOperator
from analyses.distribution.masked import estimate_tree
from analyses.sums.tree_counts import TreeCounts

N_REPETITIONS = 200
"""Number of repetitions of the estimation."""

_Z = 1.96
"""Standard normal quantile of 97.5 %."""

_REACH = 9  # standard deviations of a Poisson variable that its table covers


def half_widths(
    operator: WaveOperator,
    estimate: WaveEstimate,
    n_responses: int,
    statistics: Callable[[Floats], Floats],
    *,
    n_repetitions: int = N_REPETITIONS,
) -> Floats:
    """Return half-widths of intervals about statistics of an estimate, nominally of 95 %.

    Counts are drawn from the estimate and estimated again, with the same smoothing. Then 1.96 sqrt(error^2 + bias^2),
    with the standard deviation of the repeated statistics and their mean's distance from the statistic of the estimate:
    percentiles alone would miss the bias that smoothing brings.

    The counts are independent Poisson variables, so their sum varies about n by sqrt n; given their sum they are
    multinomial, and estimates do not depend on the sum.

    Args:
        operator: the transition.
        estimate: an EMS estimate of it.
        n_responses: n.
        statistics: of a distribution, shape (s,).
        n_repetitions: how often, at least two.

    Returns:
        shape (s,).
    """
    start = _padded(operator, estimate)
    counts = _poisson(n_responses * operator.densities(start), n_repetitions)
    found = np.array(
        [
            statistics(estimate_ems(operator, each, n_passes=estimate.n_passes, start=start).probabilities)
            for each in counts
            if each.any()
        ]
    )
    return _around(statistics(estimate.probabilities), found)


def half_widths_of_counts(
    counts: TreeCounts,
    probabilities: Floats,
    n_rows: float,
    variance: float,
    statistics: Callable[[Floats], Floats],
    *,
    n_repetitions: int = N_REPETITIONS,
) -> Floats:
    """Return half-widths of intervals about statistics of an estimate from noisy counts, nominally of 95 %.

    The counts of the estimate get fresh noise and are estimated again; the rest is as for `half_widths`. Gaussian noise
    of the same variance stands for Skellam noise.

    Args:
        counts: of a party.
        probabilities: the estimate, shape (d,).
        n_rows: estimated number of rows.
        variance: of the noise of each number.
        statistics: of a distribution, shape (s,).
        n_repetitions: how often, at least two.

    Returns:
        shape (s,).
    """
    stream = uniform_stream("repetitions of counts")
    whole = np.concatenate(counts.levels_above(n_rows * probabilities))
    found = []
    for _ in range(n_repetitions):
        noise = math.sqrt(variance) * scipy.special.ndtri(uniforms(stream, len(whole)))
        found.append(statistics(estimate_tree(counts, whole + noise, variance)[0]))
    return _around(statistics(probabilities), np.array(found))


def _around(here: Floats, found: Floats) -> Floats:
    bias = found.mean(axis=0) - here
    whole: Floats = _Z * np.sqrt(found.var(axis=0, ddof=1) + bias**2)
    return whole


def _padded(operator: WaveOperator, estimate: WaveEstimate) -> Floats:
    entries = estimate.entries
    return entries if len(entries) == operator.n_entries else np.append(entries, 0.0)


def _poisson(means: Floats, n_repetitions: int) -> Floats:
    """Return counts of shape (n_repetitions, m), by inversion of the distribution functions."""
    stream, found = uniform_stream("repetitions"), np.empty((len(means), n_repetitions))
    for at, mean in enumerate(means.tolist()):
        reach = _REACH * math.sqrt(mean) + _REACH**2
        values = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach) + 1)
        places = np.searchsorted(scipy.special.pdtr(values, mean), uniforms(stream, n_repetitions))
        found[at] = values[np.minimum(places, len(values) - 1)]
    return np.ascontiguousarray(found.T)
