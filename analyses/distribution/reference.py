"""The same where somebody holds all tables: the exact shares of the buckets, no privacy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.plan import DistributionPlan
from analyses.job.schema import Table
from dp.local_mechanism.prefix_response import PrefixResponse


def reference(tables: Sequence[Table], plan: DistributionPlan) -> NDArray[np.float64]:
    """Return the exact share of each bucket, shape (buckets,): no privacy.

    Of method `prefixes`, which may have more buckets than there is memory for, those that some row is in: the number of
    the bucket and its share, shape (2, those).

    Of method `grid` the share of each cell, shape (parts of the first range, parts of the second).

    Args:
        tables: tables of all parties.
        plan: plan of the job.
    """
    if isinstance(plan.mechanism, PrefixResponse):
        inputs = np.concatenate([plan.inquiry.inputs_of(table.values)[0] for table in tables])
        numbers, counts = np.unique(inputs, return_counts=True)
        return np.stack([numbers, counts / max(1, len(inputs))])
    if plan.params.n_values > 1:
        inputs = np.concatenate([plan.inquiry.inputs_of(table.values)[0] for table in tables])
        cells = np.bincount(inputs, minlength=plan.params.n_inputs) / max(1, len(inputs))
        return cells.reshape(plan.params.pairs.shape)
    values = np.clip(np.concatenate([table.values[:, 0] for table in tables]), *plan.params.known_range)
    found: NDArray[np.float64] = np.histogram(values, plan.inquiry.edges)[0] / max(1, len(values))
    return found
