"""The result of a job or a survey: the estimate that its method makes of responses or of noisy counts, as JSON data."""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.about_intervals import about_intervals
from analyses.distribution.estimates.frequencies import Floats
from analyses.distribution.estimates.frequent import PrefixTally, frequent_values
from analyses.distribution.estimates.intervals import (
    LEAST_DEVIATIONS,
    Intervals,
    intervals_of_counts,
    intervals_of_responses,
)
from analyses.distribution.estimates.metrics import mean_of, quantiles, range_probabilities, variance_of
from analyses.distribution.estimates.shares import shares_of
from analyses.distribution.estimates.tally import CountedTally, FrequencyTally, Tally, TreeTally
from analyses.distribution.estimates.wave_estimate import choose_passes, estimate_em, estimate_ems, goodness_of_fit
from analyses.distribution.estimates.wave_moments import Moments, moments, sign_mean
from analyses.distribution.estimates.wave_operator import WaveOperator
from analyses.distribution.estimates.ways import made_distribution
from analyses.distribution.inquiry import Inquiry
from analyses.distribution.masked import estimate_tree, rows_error
from analyses.distribution.methods import OfFrequencies, Oracle
from analyses.distribution.pair_estimate import pair_shares
from analyses.sums.tree_counts import TreeCounts
from dp.local_mechanism.prefix_response import PrefixResponse
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave

CLOSED = ("closed_mean", "closed_mean_error", "closed_variance", "closed_variance_error", "gain_of_a_response")
OF_RESPONSES = (*CLOSED, "passes", "has_converged", "fit", "shares", "frequent", "grid")
"""What only the responses by some mechanisms tell; None in the results of other methods."""


def estimated(inquiry: Inquiry, tally: Tally) -> dict[str, Any]:
    """Return what all responses say.

    Args:
        inquiry: what was asked.
        tally: tally of the responses, at least one; made by `tally_of`.

    Returns:
        As `described`.
    """
    mechanism = inquiry.response
    if isinstance(mechanism, Wave):
        assert isinstance(tally, CountedTally)
        return _of_wave(inquiry, mechanism, tally)
    if isinstance(mechanism, SignResponse):
        assert isinstance(tally, CountedTally)
        return _of_signs(inquiry, mechanism, tally)
    if isinstance(mechanism, PrefixResponse):
        assert isinstance(tally, PrefixTally)
        return _of_prefixes(inquiry, tally)
    if inquiry.params.n_values > 1:
        assert isinstance(mechanism, Oracle)
        return _of_pairs(inquiry, mechanism, cast(FrequencyTally, tally))
    return _of_frequencies(inquiry, mechanism, cast(FrequencyTally, tally))


def counted(inquiry: Inquiry, counts: TreeCounts, noisy: NDArray[np.int64], variance: float) -> dict[str, Any]:
    """Return what a masked sum says, or several whose numbers were added up.

    Args:
        inquiry: what was asked.
        counts: counts of a member.
        noisy: shape (nodes of all levels,), what the sum came to, without noise in excess.
        variance: variance of the noise of each number.

    Returns:
        As `described`; intervals are about these rows themselves, as only noise stands between them and the counts.
    """
    probabilities, total, has_converged = estimate_tree(counts, noisy, inquiry.params.way)
    known = intervals_of_counts(counts, noisy, variance, inquiry.params.quantiles, queried(inquiry))
    error = rows_error(counts, variance)
    return described(inquiry, probabilities, total, known, has_converged=has_converged, n_rows_standard_error=error)


def described(
    inquiry: Inquiry, probabilities: Floats, n_rows: float, known: Intervals | None = None, **more: Any
) -> dict[str, Any]:
    """Return the result of any method: one schema for all, to which the caller adds `privacy`, the report.

    Args:
        inquiry: what was asked.
        probabilities: probabilities of the buckets.
        n_rows: estimated number of rows.
        known: 95 % intervals, where the method has some; they are stretched to hold what is stated.
        more: fields of `OF_RESPONSES`.

    Returns:
        JSON-able: `edges`, in the units of the column; `probabilities` of the buckets; `mean`, `variance` and
        `quantiles` of this distribution, [level, value]; `queries`, [lower end, upper end, probability];
        `intervals` of 95 %, [lower, upper], of mean, quantiles, queries and probabilities, or None, and
        `about_intervals`, what they are about or why none is known; `rows`, estimated number of rows, and of masked
        sums `n_rows_standard_error`; `method`, and `estimate`, how the distribution was made.
        For waves `closed_mean`, `closed_variance` and their `_error`, without bias, and `gain_of_a_response`, how far
        one lie can move the mean, or None where the rows are hardly seen; `fit`, by how many standard deviations the
        responses differ from what the estimate says of them, and `passes`; where steps lead to the estimate
        `has_converged`; for bins `shares`, [share, lower, upper] of each, without bias, or None where the rows are
        hardly seen. See `_of_signs` for the mean alone, and `_of_prefixes` for frequent values.
    """
    lower, width = float(inquiry.edges[0]), float(inquiry.edges[-1] - inquiry.edges[0])
    found = statistics(inquiry, probabilities)
    levels, queries = inquiry.params.quantiles, inquiry.params.queries
    cuts = (1, 1 + len(levels), 1 + len(levels) + len(queries))
    of_mean, at, of_queries, _ = np.split(found, cuts)
    intervals = None
    if known is not None:
        intervals = {
            "mean": (lower + width * _holding([known.mean], of_mean))[0].tolist(),
            "quantiles": (lower + width * _holding(known.quantiles, at)).tolist(),
            "queries": _holding(known.queries, of_queries).tolist(),
            "probabilities": _holding(known.probabilities, probabilities).tolist(),
        }
    is_part_known = any(more.get(name) is not None for name in ("shares", "closed_mean", "closed_variance"))
    return {
        "analysis": "distribution",
        "method": inquiry.params.method,
        "estimate": inquiry.params.way,
        "edges": inquiry.edges.tolist(),
        "probabilities": probabilities.tolist(),
        "mean": lower + width * float(of_mean[0]),
        "variance": width**2 * variance_of(probabilities),
        "quantiles": [[level, lower + width * x] for level, x in zip(levels, at.tolist(), strict=True)],
        "queries": [[*ends, p] for ends, p in zip(queries, of_queries.tolist(), strict=True)],
        "intervals": intervals,
        "about_intervals": about_intervals(inquiry.params, is_known=intervals is not None, is_part_known=is_part_known),
        "rows": n_rows,
        **dict.fromkeys(OF_RESPONSES),
        **more,
    }


def statistics(inquiry: Inquiry, p: Floats) -> Floats:
    """Return mean, quantiles, probabilities of the queries, and those of the buckets; the range has length 1."""
    at = quantiles(p, np.array(inquiry.params.quantiles))
    return np.concatenate([[mean_of(p)], at, range_probabilities(p, queried(inquiry)), p])


def queried(inquiry: Inquiry) -> Floats:
    """Return the ends of the queries, shape (queries, 2); the range is 0 to 1."""
    lower, width = float(inquiry.edges[0]), float(inquiry.edges[-1] - inquiry.edges[0])
    found: Floats = (np.array(inquiry.params.queries, dtype=np.float64).reshape(-1, 2) - lower) / width
    return found


def _holding(intervals: Sequence[tuple[float, float]] | Floats, stated: Floats) -> Floats:
    """Return intervals, shape (s, 2), each as wide as it must be to hold what is stated."""
    ends = np.array(intervals, dtype=np.float64).reshape(-1, 2)
    return np.column_stack([np.minimum(ends[:, 0], stated), np.maximum(ends[:, 1], stated)])


def _of_wave(inquiry: Inquiry, wave: Wave, tally: CountedTally) -> dict[str, Any]:
    operator = WaveOperator(wave, inquiry.params.buckets)
    counts = tally.counts.astype(np.float64)
    params = inquiry.params
    if params.way == "em":
        found = estimate_em(operator, counts, params.tau)
    else:
        n_passes = choose_passes(operator, counts) if params.smoothing == "auto" else params.smoothing
        found = estimate_ems(operator, counts, n_passes=n_passes)
    more: dict[str, Any] = {
        "passes": found.n_passes,
        "has_converged": found.has_converged,
        "fit": goodness_of_fit(operator, found, counts),
    }
    with suppress(ValueError):  # too few responses, or all slots look empty
        more |= _closed(inquiry, moments(wave, counts))
    return described(inquiry, found.probabilities, tally.n_responses * (1 - found.empty_share), **more)


def _closed(inquiry: Inquiry, found: Moments) -> dict[str, Any]:
    """Return what is known in closed form, in the units of the column; nothing where the rows are hardly seen."""
    if not found.present > LEAST_DEVIATIONS * found.present_error:
        return {}
    lower, width = float(inquiry.edges[0]), float(inquiry.edges[-1] - inquiry.edges[0])
    variance = (width**2 * found.variance, width**2 * found.variance_error)
    known = (lower + width * found.mean, width * found.mean_error, *variance, width * found.gain)
    return {name: None if math.isnan(x) else x for name, x in zip(CLOSED, known, strict=True)}


def _of_signs(inquiry: Inquiry, mechanism: SignResponse, tally: CountedTally) -> dict[str, Any]:
    """Return the mean that signs say, and nothing else of the distribution.

    Returns:
        As `described`: `mean`, the nearest to `closed_mean` within the range, `rows`, and of what only responses tell
        `closed_mean`, `closed_mean_error` and `gain_of_a_response`, these three None where those who have a value are
        hardly seen; the mean is the middle of the range then. No probabilities, variance, quantiles, queries. About a
        centre, that is the `mean`, and `closed_variance`, with its error, is the mean squared distance from it.
    """
    lower, upper = float(inquiry.edges[0]), float(inquiry.edges[-1])
    rows, closed = 0.0, {}
    try:
        found = sign_mean(mechanism, tally.counts)
    except ValueError:  # too few responses, or all slots look empty
        pass
    else:
        rows, closed = tally.n_responses * min(1.0, found.present), _closed(inquiry, found)
    centre, mean = inquiry.params.centre, closed.get("closed_mean")
    stated = (lower + upper) / 2 if mean is None else min(upper, max(lower, mean))
    if centre is not None:
        most, stated = inquiry.params.answered_range[1], centre
        if closed:
            closed = {"closed_variance": most * found.mean, "closed_variance_error": most * found.mean_error}
    return {
        **described(inquiry, np.full(inquiry.params.buckets, 1 / inquiry.params.buckets), rows, None, **closed),
        "mean": stated,
        **dict.fromkeys(("probabilities", "variance")),
        "quantiles": [],
    }


def _of_prefixes(inquiry: Inquiry, tally: PrefixTally) -> dict[str, Any]:
    """Return the frequent values, and nothing else of the distribution.

    Returns:
        As `described`: `edges`, the ends of the range; `frequent`, [value, share, lower, upper] of each value whose
        share is above 0 beyond doubt, the value being the lower edge of its bucket, the intervals of 95 % all at once;
        None where the rows are hardly seen. No probabilities, mean, variance, quantiles, queries.
    """
    lower, upper = inquiry.params.known_range
    width, found = (upper - lower) / inquiry.params.buckets, frequent_values(tally)
    listed = None
    if found is not None:
        values = lower + width * found.values.astype(np.float64)
        listed = np.column_stack([values, found.shares]).tolist()
    rows = 0.0 if found is None else tally.n_responses * min(1.0, found.present)
    return _without_distribution(inquiry, rows, is_known=listed is not None) | {"frequent": listed}


def _without_distribution(inquiry: Inquiry, rows: float, *, is_known: bool) -> dict[str, Any]:
    """Return the fields of `described` where a method tells no distribution of one number."""
    return {
        "analysis": "distribution",
        "method": inquiry.params.method,
        "estimate": inquiry.params.way,
        "edges": list(inquiry.params.known_range),
        **dict.fromkeys(("probabilities", "mean", "variance", "intervals")),
        "quantiles": [],
        "queries": [],
        "about_intervals": about_intervals(inquiry.params, is_known=False, is_part_known=is_known),
        "rows": rows,
        **dict.fromkeys(OF_RESPONSES),
    }


def _of_pairs(inquiry: Inquiry, oracle: Oracle, tally: FrequencyTally) -> dict[str, Any]:
    """Return what is known of two numbers at once: as `described`, with `grid`, see `pair_shares`."""
    params, raw = inquiry.params, tally.frequencies
    whole, _ = made_distribution(params.way, raw)
    found, is_known = pair_shares(params.pairs, oracle, raw, whole, tally.n_responses, params.rectangles or ())
    rows = tally.n_responses * float(1 - whole[-1])
    return _without_distribution(inquiry, rows, is_known=is_known) | {"grid": found}


def _of_frequencies(inquiry: Inquiry, mechanism: OfFrequencies, tally: FrequencyTally) -> dict[str, Any]:
    params, raw = inquiry.params, tally.frequencies
    tree = (tally.levels, tally.branching) if isinstance(tally, TreeTally) else ()
    whole, has_converged = made_distribution(params.way, raw, *tree)
    n_parts = len(whole) - 1
    present, n_repeated = float(1 - whole[-1]), params.buckets // n_parts
    share = whole[:-1] / present if present > 0 else np.full(n_parts, 1 / n_parts)
    known = None
    if n_repeated == 1:
        known = intervals_of_responses(mechanism, raw, whole, tally.numbers, params.quantiles, queried(inquiry))
    more: dict[str, Any] = {"has_converged": has_converged}
    if isinstance(mechanism, Oracle):
        shares = shares_of(mechanism, raw, tally.n_responses)
        more["shares"] = None if shares is None else shares.tolist()
    probabilities = np.repeat(share / n_repeated, n_repeated)
    return described(inquiry, probabilities, tally.n_responses * present, known, **more)
