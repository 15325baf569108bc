"""The errors of a distribution before anybody has answered."""

from math import inf, sqrt

import numpy as np

from analyses.distribution.estimates.estimate import statistics
from analyses.distribution.estimates.intervals import half_widths_of_counts
from analyses.distribution.estimates.wave_moments import moments
from analyses.distribution.estimates.wave_operator import WaveOperator
from analyses.distribution.plan import DistributionPlan
from analyses.job.forecast import NORMAL_95, Forecast, Quantity, Signal
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
        noise = _error_of_mean(plan, mechanism)
        return Signal("the standard error of the mean", noise, "the range", 1.0, "ranges", rows_power=0.5)
    return None


def forecast(plan: DistributionPlan) -> Forecast:
    """Return the errors of mean, quantiles, queries and probabilities, as far as the method lets them be known."""
    mechanism = plan.mechanism
    lower, upper = plan.params.known_range
    if mechanism is None:
        return Forecast(_of_masked(plan), (_EVEN, "All parties stay in the sum."))
    if isinstance(mechanism, Wave):
        error = (upper - lower) * _error_of_mean(plan, mechanism)
        mean = Quantity("closed_mean", "units of the column", error, least=lower, largest=upper)
        why = (
            "Errors of `mean`, quantiles, queries and probabilities depend on the smoothing, which follows from the "
            "responses; `half_widths` of the result tells them."
        )
        return Forecast((mean,), (_EVEN,), (why,))
    if isinstance(mechanism, DirectResponse | HashedResponse):
        error = sqrt(float(mechanism.variance) / rows_of(plan))
        share = Quantity(
            "share of a rare bin, before shares are made a distribution", "of all rows", error, None, None, 0, 1
        )
        why = "Shares are made a distribution, which takes off some of the error: how much depends on the values."
        return Forecast((share,), (_EVEN,), (why,))
    why = f"For method {plan.params.method!r} errors depend on how the levels of the tree agree; none are forecast."
    return Forecast(not_forecast=(why,))


def _error_of_mean(plan: DistributionPlan, wave: Wave) -> float:
    """Return the standard error of the mean in closed form, in ranges, for values that are spread evenly."""
    entries = np.full(plan.params.buckets, 1 / plan.params.buckets)
    operator = WaveOperator(wave, plan.params.buckets)
    expected = rows_of(plan) * operator.densities(np.append(entries, np.zeros(operator.n_entries - len(entries))))
    try:
        return moments(wave, expected).mean_error
    except ValueError:  # fewer than two rows
        return inf


def _of_masked(plan: DistributionPlan) -> tuple[Quantity, ...]:
    """Return the errors of the estimate from noisy counts, by repeating it on values that are spread evenly."""
    inquiry, params, rows = plan.inquiry, plan.params, rows_of(plan)
    even = np.full(params.buckets, 1 / params.buckets)
    half = half_widths_of_counts(
        plan.tree.counts,
        even,
        rows,
        float(plan.tree.variance(plan.n_parties)),
        lambda p: statistics(inquiry, p),
        n_repetitions=_REPETITIONS,
    )
    lower, upper = params.known_range
    of_mean, at, queries, shares = np.split(
        half / NORMAL_95, np.cumsum([1, len(params.quantiles), len(params.queries)])
    )
    width, unit = upper - lower, "units of the column"
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
    return (*found, Quantity("share of a bucket", "of all rows", share, least=0.0, largest=1.0))
