"""The result of a job: the estimate that its method makes of all responses, as JSON data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.frequencies import Floats, estimate, estimate_levels, haar_frequencies
from analyses.distribution.intervals import N_REPETITIONS, half_widths
from analyses.distribution.metrics import mean_of, quantiles, variance_of
from analyses.distribution.monotone import isotonic
from analyses.distribution.plan import DistributionPlan
from analyses.distribution.tree_estimate import least_squares
from analyses.distribution.wave_estimate import choose_passes, estimate_ems
from analyses.distribution.wave_moments import gain_of_a_response, moments
from analyses.distribution.wave_operator import WaveOperator
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.hierarchy import HierarchicalResponse
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.wave import Wave

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of the quantiles in a result."""

MIN_RESPONSES = 2


def estimated(
    plan: DistributionPlan, responses: Mapping[int, NDArray[np.int64]], choices: Mapping[int, PublicChoices]
) -> dict[str, Any]:
    """Return what all responses say.

    Args:
        plan: of the job.
        responses: by member, shape (slots,).
        choices: by member, of its slots; empty for waves.

    Returns:
        JSON-able: `edges`, in the units of the column; `probabilities` of the buckets; `mean`, `variance` and
        `quantiles` of this distribution, [level, value]; `rows`, estimated number of slots that hold a row;
        for waves `half_widths` of 95 % intervals of mean and quantiles, `closed_mean` and `closed_mean_error`, without
        bias, `gain_of_a_response`, how far one lie can move the latter, `passes` and `has_converged`; `method`;
        `privacy`, the report.
    """
    n_slots = sum(map(len, responses.values()))
    lower, width = float(plan.edges[0]), float(plan.edges[-1] - plan.edges[0])

    def statistics(p: Floats) -> Floats:
        return np.append(mean_of(p), quantiles(p, np.array(LEVELS)))

    mechanism, more = plan.mechanism, {}
    if isinstance(mechanism, Wave):
        operator = WaveOperator(mechanism, plan.params.buckets)
        counts = np.bincount(np.concatenate([*responses.values()]), minlength=mechanism.n_outputs).astype(np.float64)
        smoothing = plan.params.smoothing
        n_passes = choose_passes(operator, counts) if smoothing == "auto" else smoothing
        found = estimate_ems(operator, counts, n_passes=n_passes)
        probabilities, empty_share = found.probabilities, found.empty_share
        half = half_widths(operator, found, n_slots, statistics, n_repetitions=N_REPETITIONS) * width
        more = {"half_widths": {"mean": half[0], "quantiles": half[1:].tolist()}, "passes": n_passes}
        more |= {"has_converged": found.has_converged, "closed_mean": None, "closed_mean_error": None}
        more["gain_of_a_response"] = width * gain_of_a_response(mechanism, n_slots)
        if n_slots >= MIN_RESPONSES:
            try:
                closed = moments(mechanism, counts)
            except ValueError:  # all slots look empty: no mean of nothing
                pass
            else:
                more |= {"closed_mean": lower + width * closed.mean, "closed_mean_error": width * closed.mean_error}
    else:
        whole = _frequencies(plan, np.concatenate([*responses.values()]), PublicChoices.joined(choices.values()))
        present = 1 - whole[-1]
        n_repeated = plan.params.buckets // (len(whole) - 1)
        share = whole[:-1] / present if present > 0 else np.full(len(whole) - 1, 1 / (len(whole) - 1))
        probabilities, empty_share = np.repeat(share / n_repeated, n_repeated), float(whole[-1])
    at = quantiles(probabilities, np.array(LEVELS))
    return {
        "analysis": "distribution",
        "method": plan.params.method,
        "edges": plan.edges.tolist(),
        "probabilities": probabilities.tolist(),
        "mean": lower + width * mean_of(probabilities),
        "variance": width**2 * variance_of(probabilities),
        "quantiles": [[level, lower + width * float(x)] for level, x in zip(LEVELS, at, strict=True)],
        "rows": n_slots * (1 - empty_share),
        **more,
        "privacy": plan.privacy_report(),
    }


def _frequencies(plan: DistributionPlan, responses: NDArray[np.int64], choices: PublicChoices) -> Floats:
    """Return a distribution over the inputs, the empty one last."""
    mechanism = plan.mechanism
    if isinstance(mechanism, DirectResponse | HashedResponse):
        return isotonic(estimate(mechanism, responses, choices).frequencies)
    if isinstance(mechanism, HierarchicalResponse):
        levels = estimate_levels(mechanism, responses, choices)
        return isotonic(least_squares(levels, mechanism.branching)[-1])
    assert not isinstance(mechanism, Wave)
    return isotonic(haar_frequencies(mechanism, responses, choices))
