"""The errors of a distribution before anybody has answered."""

from math import inf, sqrt

import numpy as np

from analyses.distribution.estimates.estimate import statistics
from analyses.distribution.estimates.intervals import half_widths_of_counts
from analyses.distribution.estimates.wave_moments import moments
from analyses.distribution.estimates.wave_operator import WaveOperator
from analyses.distribution.inquiry import DistributionParams, Inquiry, Mechanism
from analyses.distribution.plan import DistributionPlan
from analyses.job.forecast import NORMAL_95, Forecast, Quantity, Signal
from analyses.sums.tree_counts import TreeCounts
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.wave import Wave

_REPETITIONS = 60
"""Repetitions of an estimate: a standard deviation of so many is itself off by a tenth."""

_EVEN = "All parties have the most rows that they declare, and values are spread evenly over the range."


def rows_of(plan: DistributionPlan) -> int:
    """Return the most rows that all parties declare together."""
    return sum(plan.n_slots(member) for member in plan.owners)


def signal(plan: DistributionPlan) -> Signal | None:
    """Return the noise of a count beside all rows, or of a share beside 1; None for responses about trees."""
    mechanism, rows = plan.mechanism, rows_of(plan)
    if mechanism is None:
        noise = sqrt(plan.tree.variance(plan.n_parties))
        return Signal("the standard error of a count", noise, "the largest number of all rows", float(rows), "rows")
    if isinstance(mechanism, DirectResponse | HashedResponse):
        noise = sqrt(float(mechanism.variance) / rows)
        return Signal("the standard error of a share", noise, "the largest share", 1.0, "of all rows", rows_power=0.5)
    if isinstance(mechanism, Wave):
        noise = _error_of_mean(plan.params, mechanism, rows)
        return Signal("the standard error of the mean", noise, "the range", 1.0, "ranges", rows_power=0.5)
    return None


def forecast(plan: DistributionPlan) -> Forecast:
    """Return the errors of mean, quantiles, queries and probabilities, as far as the method lets them be known."""
    mechanism, rows, unit = plan.mechanism, rows_of(plan), "units of the column"
    if mechanism is None:
        variance = float(plan.tree.variance(plan.n_parties))
        return forecast_of_counts(
            plan.inquiry, plan.tree.counts, variance, rows, unit, (_EVEN, "All parties stay in the sum.")
        )
    return forecast_of_responses(plan.params, mechanism, rows, unit, (_EVEN,))


def forecast_of_responses(
    params: DistributionParams, mechanism: Mechanism, n_responses: int, unit: str, assumptions: tuple[str, ...]
) -> Forecast:
    """Return the errors of an estimate from randomized responses.

    Args:
        params: of the question, with the range.
        mechanism: how each response is made.
        n_responses: how many there are.
        unit: of the number, in words.
        assumptions: under which values are spread evenly over the range.
    """
    lower, upper = params.known_range
    if isinstance(mechanism, Wave):
        error = (upper - lower) * _error_of_mean(params, mechanism, n_responses)
        mean = Quantity("closed_mean", unit, error, least=lower, largest=upper)
        why = (
            "Errors of `mean`, quantiles, queries and probabilities depend on the smoothing, which follows from the "
            "responses; `half_widths` of the result tells them."
        )
        return Forecast((mean,), assumptions, (why,))
    if isinstance(mechanism, DirectResponse | HashedResponse):
        error = sqrt(float(mechanism.variance) / n_responses)
        share = Quantity(
            "share of a rare bin, before shares are made a distribution", "of all rows", error, None, None, 0, 1
        )
        why = "Shares are made a distribution, which takes off some of the error: how much depends on the values."
        return Forecast((share,), assumptions, (why,))
    why = f"For method {params.method!r} errors depend on how the levels of the tree agree; none are forecast."
    return Forecast(not_forecast=(why,))


def _error_of_mean(params: DistributionParams, wave: Wave, n_responses: int) -> float:
    """Return the standard error of the mean in closed form, in ranges, for values that are spread evenly."""
    entries = np.full(params.buckets, 1 / params.buckets)
    operator = WaveOperator(wave, params.buckets)
    expected = n_responses * operator.densities(np.append(entries, np.zeros(operator.n_entries - len(entries))))
    try:
        return moments(wave, expected).mean_error
    except ValueError:  # fewer than two rows
        return inf


def forecast_of_counts(
    inquiry: Inquiry, counts: TreeCounts, variance: float, rows: int, unit: str, assumptions: tuple[str, ...]
) -> Forecast:
    """Return the errors of an estimate from noisy counts, by repeating it on values that are spread evenly.

    Args:
        inquiry: what was asked.
        counts: the tree that is counted.
        variance: of the noise on each count.
        rows: how many are counted.
        unit: of the number, in words.
        assumptions: under which values are spread evenly over the range.
    """
    params = inquiry.params
    even = np.full(params.buckets, 1 / params.buckets)
    half = half_widths_of_counts(
        counts, even, rows, variance, lambda p: statistics(inquiry, p), n_repetitions=_REPETITIONS
    )
    lower, upper = params.known_range
    of_mean, at, queries, shares = np.split(
        half / NORMAL_95, np.cumsum([1, len(params.quantiles), len(params.queries)])
    )
    width = upper - lower
    found = [Quantity("mean", unit, width * float(of_mean[0]), least=lower, largest=upper)]
    found += [
        Quantity(f"quantile {level:g}", unit, width * float(error), least=lower, largest=upper)
        for level, error in zip(params.quantiles, at, strict=True)
    ]
    found += [
        Quantity(f"share from {ends[0]:g} to {ends[1]:g}", "of all rows", float(error), least=0.0, largest=1.0)
        for ends, error in zip(params.queries, queries, strict=True)
    ]
    share = float(np.sqrt(np.mean(shares**2)))
    bucket = Quantity("share of a bucket", "of all rows", share, least=0.0, largest=1.0)
    return Forecast((*found, bucket), assumptions)
