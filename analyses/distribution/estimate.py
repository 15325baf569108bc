"""The result of a job: the estimate that its method makes of responses or of noisy counts, as JSON data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.frequencies import Floats, estimate, estimate_levels, haar_frequencies
from analyses.distribution.intervals import N_REPETITIONS, half_widths, half_widths_of_counts
from analyses.distribution.masked import estimate_tree
from analyses.distribution.metrics import mean_of, quantiles, range_probabilities, variance_of
from analyses.distribution.monotone import isotonic
from analyses.distribution.plan import DistributionPlan
from analyses.distribution.shuffled import analyst_view
from analyses.distribution.tree_estimate import least_squares
from analyses.distribution.wave_estimate import WaveEstimate, choose_passes, estimate_ems, goodness_of_fit
from analyses.distribution.wave_moments import gain_of_a_response, moments
from analyses.distribution.wave_operator import WaveOperator
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.hierarchy import HierarchicalResponse
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.wave import Wave

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of the quantiles in a result."""

MIN_RESPONSES = 2

OF_WAVES = ("passes", "has_converged", "closed_mean", "closed_mean_error", "gain_of_a_response", "fit")
"""What only the counts of a wave's responses tell; None in the results of other methods."""


def estimated(
    plan: DistributionPlan, responses: Mapping[int, NDArray[np.int64]], choices: Mapping[int, PublicChoices]
) -> dict[str, Any]:
    """Return what all responses say.

    Args:
        plan: of the job.
        responses: by member, shape (slots,).
        choices: by member, of its slots; empty for waves.

    Returns:
        As `described`.
    """
    pooled = np.concatenate([*responses.values()])
    if isinstance(plan.mechanism, Wave):
        return _of_wave(plan, plan.mechanism, pooled)
    whole = _frequencies(plan, pooled, PublicChoices.joined(choices.values()))
    present = 1 - whole[-1]
    n_repeated = plan.params.buckets // (len(whole) - 1)
    share = whole[:-1] / present if present > 0 else np.full(len(whole) - 1, 1 / (len(whole) - 1))
    return described(plan, np.repeat(share / n_repeated, n_repeated), len(pooled) * float(present))


def counted(plan: DistributionPlan, noisy: NDArray[np.int64], n_survivors: int) -> dict[str, Any]:
    """Return what a masked sum says.

    Args:
        plan: of the job.
        noisy: shape (nodes of all levels,), what the sum came to, without noise in excess.
        n_survivors: whose rows it is about.

    Returns:
        As `described`; intervals are about these rows themselves, as only noise stands between them and the counts.
    """
    counts, variance = plan.tree.counts, float(plan.tree.variance(n_survivors))
    probabilities, total = estimate_tree(counts, noisy, variance)
    half = half_widths_of_counts(
        counts, probabilities, total, variance, lambda p: statistics(plan, p), n_repetitions=N_REPETITIONS
    )
    return described(plan, probabilities, total, half)


def described(
    plan: DistributionPlan, probabilities: Floats, n_rows: float, half: Floats | None = None, **more: Any
) -> dict[str, Any]:
    """Return the result of any method: one schema for all.

    Args:
        plan: of the job.
        probabilities: of the buckets.
        n_rows: estimated number of rows.
        half: half-widths of 95 % intervals of `statistics`, where the method has some.
        more: fields of `OF_WAVES`.

    Returns:
        JSON-able: `edges`, in the units of the column; `probabilities` of the buckets; `mean`, `variance` and
        `quantiles` of this distribution, [level, value]; `queries`, [lower end, upper end, probability];
        `half_widths` of 95 % intervals of mean, quantiles, queries and probabilities, or None; `rows`, estimated number
        of rows; for waves `closed_mean` and `closed_mean_error`, without bias, `gain_of_a_response`, how far one
        lie can move the latter, `fit`, by how many standard deviations the responses differ from what the estimate
        says of them, `passes` and `has_converged`; `method`; `privacy`, the report.
    """
    lower, width = float(plan.edges[0]), float(plan.edges[-1] - plan.edges[0])
    found = statistics(plan, probabilities)
    n_levels, queries = len(LEVELS), plan.params.queries
    cuts = (1, 1 + n_levels, 1 + n_levels + len(queries))
    intervals = None
    if half is not None:
        of_mean, of_quantiles, of_queries, of_probabilities = np.split(half, cuts)
        intervals = {
            "mean": width * float(of_mean[0]),
            "quantiles": (width * of_quantiles).tolist(),
            "queries": of_queries.tolist(),
            "probabilities": of_probabilities.tolist(),
        }
    of_mean, at, of_queries, _ = np.split(found, cuts)
    third = analyst_view(plan)
    return {
        "analysis": plan.job.analysis,
        "method": plan.params.method,
        "edges": plan.edges.tolist(),
        "probabilities": probabilities.tolist(),
        "mean": lower + width * float(of_mean[0]),
        "variance": width**2 * variance_of(probabilities),
        "quantiles": [[level, lower + width * x] for level, x in zip(LEVELS, at.tolist(), strict=True)],
        "queries": [[*ends, p] for ends, p in zip(queries, of_queries.tolist(), strict=True)],
        "half_widths": intervals,
        "rows": n_rows,
        **dict.fromkeys(OF_WAVES),
        **more,
        "privacy": plan.privacy_report() | ({} if third is None else {"analyst": third}),
    }


def statistics(plan: DistributionPlan, p: Floats) -> Floats:
    """Return mean, quantiles, probabilities of the queries, and those of the buckets; the range has length 1."""
    lower, width = float(plan.edges[0]), float(plan.edges[-1] - plan.edges[0])
    queries = (np.array(plan.params.queries).reshape(-1, 2) - lower) / width
    return np.concatenate([[mean_of(p)], quantiles(p, np.array(LEVELS)), range_probabilities(p, queries), p])


def _of_wave(plan: DistributionPlan, wave: Wave, responses: NDArray[np.int64]) -> dict[str, Any]:
    lower, width, n_slots = float(plan.edges[0]), float(plan.edges[-1] - plan.edges[0]), len(responses)
    operator = WaveOperator(wave, plan.params.buckets)
    counts = np.bincount(responses, minlength=wave.n_outputs).astype(np.float64)
    smoothing = plan.params.smoothing
    n_passes = choose_passes(operator, counts) if smoothing == "auto" else smoothing
    found: WaveEstimate = estimate_ems(operator, counts, n_passes=n_passes)
    half = half_widths(operator, found, n_slots, lambda p: statistics(plan, p), n_repetitions=N_REPETITIONS)
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
    return described(plan, found.probabilities, n_slots * (1 - found.empty_share), half, **more)


def _frequencies(plan: DistributionPlan, responses: NDArray[np.int64], choices: PublicChoices) -> Floats:
    """Return a distribution over the inputs, the empty one last."""
    mechanism = plan.mechanism
    assert mechanism is not None
    if isinstance(mechanism, DirectResponse | HashedResponse):
        return isotonic(estimate(mechanism, responses, choices).frequencies)
    if isinstance(mechanism, HierarchicalResponse):
        levels = estimate_levels(mechanism, responses, choices)
        return isotonic(least_squares(levels, mechanism.branching)[-1])
    assert not isinstance(mechanism, Wave)
    return isotonic(haar_frequencies(mechanism, responses, choices))
