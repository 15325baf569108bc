"""The errors of a distribution before anybody has answered."""

from collections.abc import Callable
from math import inf, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.estimate import queried
from analyses.distribution.estimates.frequent import seen_from
from analyses.distribution.estimates.intervals import Intervals, intervals_of_counts, intervals_of_responses
from analyses.distribution.estimates.noise_of_responses import sizes_of_levels
from analyses.distribution.estimates.shares import shares_of_sets
from analyses.distribution.estimates.wave_estimate import most_seconds
from analyses.distribution.estimates.wave_moments import moments, sign_mean
from analyses.distribution.estimates.wave_operator import WaveOperator
from analyses.distribution.inquiry import DistributionParams, Inquiry
from analyses.distribution.methods import Mechanism, OfFrequencies, Oracle
from analyses.distribution.plan import DistributionPlan
from analyses.job.forecast import NORMAL_95, Forecast, Quantity, Signal
from analyses.sums.tree_counts import TreeCounts
from dp.local_mechanism.prefix_response import PrefixResponse
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave

Floats = NDArray[np.float64]

THINNEST = 10.0
"""Factor by which values that are spread evenly are denser than those about a quantile in the bad case."""

_OF_MEAN = (
    "In the best case nearly all values are in the middle of the range. In the bad case nearly half of them are at "
    "either end."
)
_OF_SIGNS = (
    "In one case all values are in the middle of the range, in the other nearly half of them at either end: the error "
    "differs little."
)
_OF_PREFIXES = "No other value is much more frequent."
_OF_COUNTS = (
    "In the best case nearly all values are in the middle of the range, so dense about a quantile that it has no "
    "error, and a bucket that nobody is in comes out as 0. In the bad case they are at a bound, and about a quantile a "
    "tenth as dense as if they were spread evenly."
)

_OF_TREES = (
    "In the best case nearly all values are in the middle of the range, so dense about a quantile that it has no "
    "error, and a bucket that nobody is in comes out as 0. In the bad case they are at a bound or in halves at both, "
    "and about a quantile a tenth as dense as if they were spread evenly."
)
_OF_CELLS = "Values are spread evenly over the cells; errors hardly depend on it."
_OF_CUT_CELLS = (
    "In the bad case all people in the cells that a rectangle cuts may be in it, or none. More cells cut fewer people, "
    "and have more noise."
)
_HIDDEN = "The number of rows is hardly seen in the noise of this epsilon."
_CASES = ("even", "middle", "lower")
"""Cases of `_shares` that the ranges of an error cover; the first is that of the forecast."""

_TOO_FEW = "The spread of so few responses tells no error."
_LONG = "The coordinator's estimate takes about"
WORTH_SAYING_S = 5.0

_MOST = "All parties have the most rows that they declare."


def rows_of(plan: DistributionPlan) -> int:
    """Return the most rows that all parties declare together."""
    return sum(plan.n_slots(member) for member in plan.owners)


def signal(plan: DistributionPlan) -> Signal | None:
    """Return the noise of a count beside all rows, or of a share or mean beside 1; None for responses about trees."""
    mechanism, rows = plan.mechanism, rows_of(plan)
    if mechanism is None:
        noise = sqrt(plan.tree.variance(plan.n_parties))
        return Signal("the standard error of a count", noise, "the largest number of all rows", float(rows), "rows")
    if isinstance(mechanism, Oracle):
        noise = sqrt(float(mechanism.variance) / rows)
        return Signal("the standard error of a share", noise, "the largest share", 1.0, "of all rows", rows_power=0.5)
    if isinstance(mechanism, PrefixResponse):
        noise, _ = seen_from(mechanism, rows)
        return Signal("the standard error of a share", noise, "the largest share", 1.0, "of all rows", rows_power=0.5)
    if isinstance(mechanism, Wave | SignResponse):
        noise = _error_of_mean(plan.params, mechanism, rows)
        return Signal("the standard error of the mean", noise, "the range", 1.0, "ranges", rows_power=0.5)
    return None


def forecast(plan: DistributionPlan) -> Forecast:
    """Return the errors of mean, quantiles, queries and probabilities, as far as the method lets them be known."""
    mechanism, rows, unit = plan.mechanism, rows_of(plan), "units of the column"
    if mechanism is None:
        variance = float(plan.tree.variance(plan.n_parties))
        return forecast_of_counts(
            plan.inquiry, plan.tree.counts, variance, rows, unit, (_MOST, "All parties stay in the sum.")
        )
    return forecast_of_responses(plan.params, mechanism, rows, unit, (_MOST,))


def forecast_of_responses(
    params: DistributionParams, mechanism: Mechanism, n_responses: int, unit: str, assumptions: tuple[str, ...]
) -> Forecast:
    """Return the errors of an estimate from randomized responses.

    Args:
        params: parameters of the question, with the range.
        mechanism: how each response is made.
        n_responses: how many there are.
        unit: unit of the number, in words.
        assumptions: under which values are spread evenly over the range.
    """
    if isinstance(mechanism, Oracle) and params.n_values > 1:
        return _of_pairs(params, mechanism, n_responses, assumptions)
    if isinstance(mechanism, Oracle):
        error = sqrt(float(mechanism.variance) / n_responses)
        share = Quantity(
            "share of a rare bin, before shares are made a distribution", "of all rows", error, None, None, 0, 1
        )
        why = "Shares are made a distribution, which takes off some of the error: how much depends on the values."
        return Forecast((share,), assumptions, (why,))
    if isinstance(mechanism, PrefixResponse):
        error, seen = seen_from(mechanism, n_responses)
        share = Quantity("share of a frequent value", "of all rows", error, seen_from=seen, least=0.0, largest=1.0)
        return Forecast((share,), (*assumptions, _OF_PREFIXES))
    if not isinstance(mechanism, Wave | SignResponse):
        return _of_tree(params, mechanism, n_responses, unit, assumptions)
    lower, upper = params.answered_range
    best, error, bad = (
        (upper - lower) * _error_of_mean(params, mechanism, n_responses, at) for at in ("middle", "even", "ends")
    )
    if not isfinite(best + error + bad):
        return Forecast(not_forecast=(_TOO_FEW,))
    name, unit = ("closed_mean", unit) if params.centre is None else ("closed_variance", f"{unit}, squared")
    mean = Quantity(name, unit, error, None, None, lower, upper, min(best, error, bad), max(best, error, bad))
    if isinstance(mechanism, SignResponse):
        return Forecast((mean,), (*assumptions, _OF_SIGNS))
    why = (
        "Errors of `mean`, quantiles, queries and probabilities depend on the smoothing, which follows from the "
        "responses, and on the values; `closed_mean` is not smoothed."
    )
    seconds = most_seconds(mechanism, chooses_passes=params.smoothing == "auto" and params.way == "ems")
    long = () if seconds < WORTH_SAYING_S else (f"{_LONG} {seconds:.0f} s of processor time.",)
    return Forecast((mean,), (*assumptions, _OF_MEAN, *long), (why,))


def _of_pairs(params: DistributionParams, oracle: Oracle, n_responses: int, assumptions: tuple[str, ...]) -> Forecast:
    """Return the errors of the shares of a cell, of a part of either range, and of rectangles."""
    grid, rectangles = params.pairs, params.rectangles or ()
    cells = np.eye(grid.n_cells).reshape(*grid.shape, -1)
    covered = [grid.covered(rectangle) for rectangle in rectangles]
    sets = [np.stack([cells[0, 0], cells[0].sum(axis=0), cells[:, 0].sum(axis=0)])]
    sets += [np.stack([one.evenly, one.wholly, one.at_all]) for one in covered]
    even = np.append(np.full(grid.n_cells, 1 / grid.n_cells), 0.0)
    found = shares_of_sets(oracle, even, even, n_responses, np.concatenate(sets))
    if found is None:
        return Forecast(not_forecast=(_HIDDEN,))
    shares, errors = (each.reshape(-1, 3).tolist() for each in found)
    first, second = grid.shape
    names = [
        "share of a cell",
        f"share of one of {first} parts of the first",
        f"share of one of {second} of the second",
    ]
    quantities = [
        Quantity(name, "of all rows", error, least=0.0, largest=1.0)
        for name, error in zip(names, errors[0], strict=True)
    ]
    for rectangle, (_, inner, outer), of_sets in zip(rectangles, shares[1:], errors[1:], strict=True):
        name, bad = "share of {:g} to {:g} and {:g} to {:g}".format(*rectangle), (of_sets[1] + of_sets[2]) / 2
        bad = max(of_sets[0], bad + (outer - inner) / 2 / NORMAL_95)
        quantities.append(Quantity(name, "of all rows", of_sets[0], None, None, 0.0, 1.0, of_sets[0], bad))
    cut = (_OF_CUT_CELLS,) if any(one.cuts for one in covered) else ()
    return Forecast(tuple(quantities), (*assumptions, _OF_CELLS, *cut))


def _of_tree(
    params: DistributionParams,
    mechanism: OfFrequencies,
    n_responses: int,
    unit: str,
    assumptions: tuple[str, ...],
) -> Forecast:
    nodes = sizes_of_levels(mechanism)
    numbers = (n_responses // len(nodes),) * len(nodes)
    ends = queried(Inquiry(params))

    def known(shares: Floats) -> Intervals | None:
        whole = np.append(shares, 0.0)
        return intervals_of_responses(mechanism, whole, whole, numbers, params.quantiles, ends)

    return _of_intervals(params, known, unit, (*assumptions, _OF_TREES), (*_CASES, "ends"))


def _shares(n_buckets: int, where: str) -> Floats:
    """Return values spread evenly, or most of them alike: in the middle, at the lower bound, in halves at both bounds.

    One in five is spread evenly: intervals about a share of exactly 0 or 1 are cut off there, and seem shorter.
    """
    places = {"even": range(n_buckets), "middle": [n_buckets // 2], "lower": [0], "ends": [0, n_buckets - 1]}[where]
    shares = np.full(n_buckets, 0.2 / n_buckets)
    shares[np.array(places)] += 0.8 / len(places)
    return shares


def _error_of_mean(
    params: DistributionParams, mechanism: Wave | SignResponse, n_responses: int, where: str = "even"
) -> float:
    """Return the standard error of the mean in closed form, in ranges; see `_shares`."""
    entries = _shares(params.buckets, where)
    try:
        if isinstance(mechanism, SignResponse):
            weights = mechanism.weights_of(np.arange(params.buckets)) / mechanism.total
            return sign_mean(mechanism, n_responses * (entries @ weights)).mean_error
        operator = WaveOperator(mechanism, params.buckets)
        expected = n_responses * operator.densities(np.append(entries, np.zeros(operator.n_entries - len(entries))))
        return moments(mechanism, expected).mean_error
    except ValueError:  # fewer than two rows
        return inf


def forecast_of_counts(
    inquiry: Inquiry, counts: TreeCounts, variance: float, rows: int, unit: str, assumptions: tuple[str, ...]
) -> Forecast:
    """Return the errors of an estimate from noisy counts, for values that are spread evenly.

    Args:
        inquiry: what was asked.
        counts: the tree that is counted.
        variance: variance of the noise on each count.
        rows: how many are counted.
        unit: unit of the number, in words.
        assumptions: under which values are spread evenly over the range.
    """
    ends = queried(inquiry)

    def known(shares: Floats) -> Intervals | None:
        exact = np.concatenate(counts.levels_above(rows * shares))
        return intervals_of_counts(counts, exact, variance, inquiry.params.quantiles, ends)

    return _of_intervals(inquiry.params, known, unit, (*assumptions, _OF_COUNTS))


def _of_intervals(
    params: DistributionParams,
    intervals: Callable[[Floats], Intervals | None],
    unit: str,
    assumptions: tuple[str, ...],
    cases: tuple[str, ...] = _CASES,
) -> Forecast:
    """Return the errors that the intervals of an estimate would state, by the shares of the buckets."""
    found = [_errors_of(intervals(_shares(params.buckets, where))) for where in cases]
    known = [one for one in found if one is not None]
    if found[0] is None or not known:
        return Forecast(not_forecast=(_HIDDEN,))
    lower, upper = params.known_range
    n_quantiles, even = len(params.quantiles), found[0]
    best, bad = np.min(known, axis=0), np.max(known, axis=0)
    thin = slice(1, 1 + n_quantiles)
    bad[thin] = np.minimum(even[thin] * THINNEST, 1.0)
    best[thin] = best[-1] = 0.0
    scales = np.ones(len(even))
    scales[: 1 + n_quantiles] = upper - lower
    names = ["mean", *(f"quantile {level:g}" for level in params.quantiles)]
    names += [f"share from {ends[0]:g} to {ends[1]:g}" for ends in params.queries] + ["share of a bucket"]
    quantities = tuple(
        Quantity(
            name,
            unit if at <= n_quantiles else "of all rows",
            *(float(scales[at] * even[at]), None, None),
            least=lower if at <= n_quantiles else 0.0,
            largest=upper if at <= n_quantiles else 1.0,
            best_case=float(scales[at] * best[at]),
            bad_case=float(scales[at] * bad[at]),
        )
        for at, name in enumerate(names)
    )
    return Forecast(quantities, assumptions)


def _errors_of(known: Intervals | None) -> Floats | None:
    """Return the standard errors of mean, quantiles, queries and a bucket, in ranges; None where too few rows are."""
    if known is None:
        return None
    of_mean, at, queries, shares = (
        np.diff(np.array(ends, dtype=np.float64).reshape(-1, 2)).ravel() / (2 * NORMAL_95)
        for ends in (known.mean, known.quantiles, known.queries, known.probabilities)
    )
    return np.concatenate([of_mean, at, queries, [np.sqrt(np.mean(shares**2))]])
