"""A distribution from a frequency oracle about coarse bins (CFO with binning [SW20]), to compare with."""

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.frequencies import Floats, estimate
from analyses.distribution.estimates.monotone import isotonic, norm_sub
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.public_choice import PublicChoices

BINS = (16, 32, 64)
"""Numbers of bins that [SW20] compares with."""


def bins_of(values: NDArray[np.int64], n_buckets: int, n_bins: int) -> NDArray[np.int64]:
    """Return the bin of each bucket number."""
    found: NDArray[np.int64] = values * n_bins // n_buckets
    return found


def estimate_binned(
    oracle: DirectResponse | HashedResponse,
    responses: NDArray[np.int64],
    choices: PublicChoices,
    n_buckets: int,
    *,
    by_norm_sub: bool = False,
) -> Floats:
    """Return the distribution over buckets: isotonic over the bins, spread evenly within each.

    Args:
        oracle: among the bins, whose number divides that of the buckets.
        responses: shape (n,).
        choices: choices of the n respondents.
        n_buckets: d.
        by_norm_sub: whether the bins are made a distribution by norm-sub, as [SW20] does. What it cuts off where there
            is nothing it takes from where there is something, so that mass moves toward the empty bins.
    """
    n_bins = oracle.n_inputs
    if n_buckets % n_bins:
        raise ValueError(f"{n_bins} bins do not divide {n_buckets} buckets")
    repaired = norm_sub if by_norm_sub else isotonic
    coarse = repaired(estimate(oracle, responses, choices).frequencies)
    found: Floats = np.repeat(coarse / (n_buckets // n_bins), n_buckets // n_bins)
    return found
