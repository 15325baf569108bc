"""The result of a job or a survey: the estimate that its method makes of responses or of noisy counts, as JSON data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.about_intervals import about_intervals
from analyses.distribution.estimates.frequencies import Floats, level_of
from analyses.distribution.estimates.intervals import Intervals, intervals_of_counts
from analyses.distribution.estimates.metrics import mean_of, quantiles, range_probabilities, variance_of
from analyses.distribution.estimates.monotone import isotonic
from analyses.distribution.estimates.shares import shares_of
from analyses.distribution.estimates.tally import CountedTally, HaarTally, SignTally, SupportTally, Tally, TreeTally
from analyses.distribution.estimates.tree_estimate import least_squares
from analyses.distribution.estimates.wave_estimate import WaveEstimate, choose_passes, estimate_ems, goodness_of_fit
from analyses.distribution.estimates.wave_moments import gain_of_a_response, moments
from analyses.distribution.estimates.wave_operator import WaveOperator
from analyses.distribution.inquiry import Inquiry, Oracle
from analyses.distribution.masked import estimate_tree
from analyses.sums.tree_counts import TreeCounts
from dp.local_mechanism.hashed_response import DirectResponse
from dp.local_mechanism.hierarchy import HierarchicalResponse
from dp.local_mechanism.wave import Wave

MIN_RESPONSES = 2

OF_WAVES = ("passes", "has_converged", "closed_mean", "closed_mean_error", "gain_of_a_response", "fit")
"""What only the counts of a wave's responses tell; None in the results of other methods."""


def estimated(inquiry: Inquiry, tally: Tally) -> dict[str, Any]:
    """Return what all responses say.

    Args:
        inquiry: what was asked.
        tally: tally of the responses, at least one; made by `tally_of`.

    Returns:
        As `described`.
    """
    if isinstance(tally, CountedTally) and isinstance(tally.mechanism, Wave):
        return _of_wave(inquiry, tally.mechanism, tally)
    shares: Floats | None = None
    if (raw := _oracle_frequencies(inquiry, tally)) is None:
        whole = _tree_frequencies(inquiry, tally)
    else:
        assert isinstance(inquiry.response, Oracle)
        whole, shares = isotonic(raw), shares_of(inquiry.response, raw, tally.n_responses)
    present = 1 - whole[-1]
    n_repeated = inquiry.params.buckets // (len(whole) - 1)
    share = whole[:-1] / present if present > 0 else np.full(len(whole) - 1, 1 / (len(whole) - 1))
    more = {"shares": None if shares is None else shares.tolist()}
    return described(inquiry, np.repeat(share / n_repeated, n_repeated), tally.n_responses * float(present), **more)


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
    probabilities, total = estimate_tree(counts, noisy)
    levels, ranges = inquiry.params.quantiles, queried(inquiry)
    return described(inquiry, probabilities, total, intervals_of_counts(counts, noisy, variance, levels, ranges))


def described(
    inquiry: Inquiry, probabilities: Floats, n_rows: float, known: Intervals | None = None, **more: Any
) -> dict[str, Any]:
    """Return the result of any method: one schema for all, to which the caller adds `privacy`, the report.

    Args:
        inquiry: what was asked.
        probabilities: probabilities of the buckets.
        n_rows: estimated number of rows.
        known: 95 % intervals, where the method has some; they are stretched to hold what is stated.
        more: fields of `OF_WAVES`, or the shares.

    Returns:
        JSON-able: `edges`, in the units of the column; `probabilities` of the buckets; `mean`, `variance` and
        `quantiles` of this distribution, [level, value]; `queries`, [lower end, upper end, probability];
        `intervals` of 95 %, [lower, upper], of mean, quantiles, queries and probabilities, or None, and
        `about_intervals`, what they are about or why none is known; `rows`, estimated number of rows; for
        waves `closed_mean` and `closed_mean_error`, without bias, `gain_of_a_response`, how far one
        lie can move the latter, `fit`, by how many standard deviations the responses differ from what the estimate
        says of them, `passes` and `has_converged`; for bins `shares`, [share, lower, upper] of each, without bias, or
        None where the rows are hardly seen; `method`.
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
    return {
        "analysis": "distribution",
        "method": inquiry.params.method,
        "edges": inquiry.edges.tolist(),
        "probabilities": probabilities.tolist(),
        "mean": lower + width * float(of_mean[0]),
        "variance": width**2 * variance_of(probabilities),
        "quantiles": [[level, lower + width * x] for level, x in zip(levels, at.tolist(), strict=True)],
        "queries": [[*ends, p] for ends, p in zip(queries, of_queries.tolist(), strict=True)],
        "intervals": intervals,
        "about_intervals": about_intervals(inquiry.params.method, is_known=intervals is not None),
        "rows": n_rows,
        **dict.fromkeys((*OF_WAVES, "shares")),
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
    n_slots = tally.n_responses
    lower, width = float(inquiry.edges[0]), float(inquiry.edges[-1] - inquiry.edges[0])
    operator = WaveOperator(wave, inquiry.params.buckets)
    counts = tally.counts.astype(np.float64)
    smoothing = inquiry.params.smoothing
    n_passes = choose_passes(operator, counts) if smoothing == "auto" else smoothing
    found: WaveEstimate = estimate_ems(operator, counts, n_passes=n_passes)
    more: dict[str, Any] = {
        "passes": n_passes,
        "has_converged": found.has_converged,
        "gain_of_a_response": width * gain_of_a_response(wave, n_slots),
        "fit": goodness_of_fit(operator, found, counts),
    }
    if n_slots >= MIN_RESPONSES:
        try:
            closed = moments(wave, counts)
        except ValueError:  # all slots look empty: no mean of nothing
            pass
        else:
            more |= {"closed_mean": lower + width * closed.mean, "closed_mean_error": width * closed.mean_error}
    return described(inquiry, found.probabilities, n_slots * (1 - found.empty_share), **more)


def _oracle_frequencies(inquiry: Inquiry, tally: Tally) -> Floats | None:
    """Return unbiased frequencies of the bins, the empty input last; None where no oracle was answered."""
    if isinstance(tally, CountedTally):
        assert isinstance(inquiry.response, DirectResponse)
        return level_of(inquiry.response, tally.counts, tally.n_responses).frequencies
    if isinstance(tally, SupportTally):
        return tally.level.frequencies
    return tally.frequencies if isinstance(tally, SignTally) else None


def _tree_frequencies(inquiry: Inquiry, tally: Tally) -> Floats:
    """Return a distribution over the inputs, the empty one last."""
    if isinstance(tally, TreeTally):
        assert isinstance(inquiry.response, HierarchicalResponse)
        return isotonic(least_squares(tally.levels, inquiry.response.branching)[-1])
    assert isinstance(tally, HaarTally)
    return isotonic(tally.frequencies)
