"""The grid of all combinations of local centres: clustered, and in the units of the columns."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from analyses.clustering.estimators.cells import Cells
from analyses.clustering.local_clustering import WIDTH, Floats, Integers
from analyses.clustering.plan import ClusteringPlan
from analyses.clustering.weighted_clustering import Choices, Clusters, cluster


def cluster_grid(centres: Sequence[Integers], cells: Cells, plan: ClusteringPlan, choices: Choices) -> Clusters:
    """Return the clusters of the weighted cells, columns scaled to [-1, 1].

    If none has weight the centres are those of the bare cells, and no cluster has any.
    """
    points, k, p = points_of(centres, cells), plan.params.k, plan.params.p
    if cells.weights.any():
        return cluster(points, cells.weights, k, p, choices)
    bare = cluster(points, np.ones(cells.weights.shape), k, p, choices)
    return Clusters(bare.centres, np.zeros(k), 0.0)


def points_of(centres: Sequence[Integers] | Sequence[Floats], cells: Cells) -> Floats:
    """Return where each cell lies, its local centres side by side: shape (cells, columns), scaled to [-1, 1]."""
    return np.hstack([(2 * own / WIDTH - 1)[at] for own, at in zip(centres, cells.places.T, strict=True)])


def in_column_units(centres: Floats, plan: ClusteringPlan) -> Floats:
    """Return centres scaled to [-1, 1] in the units of the joint table's columns."""
    lower, upper = _bounds(plan)
    return lower + (upper - lower) * ((centres + 1) / 2)  # at most the range: twice of it may be infinite


def in_scaled_units(values: Floats, plan: ClusteringPlan) -> Floats:
    """Return rows or centres of the joint table, in the units of its columns, clipped and scaled to [-1, 1]."""
    lower, upper = _bounds(plan)
    scaled: Floats = 2 * (np.clip(values, lower, upper) - lower) / (upper - lower) - 1
    return scaled


def _bounds(plan: ClusteringPlan) -> tuple[Floats, Floats]:
    columns = list(chain.from_iterable(one.block.columns for one in plan.local))
    return np.array([c.lower for c in columns]), np.array([c.upper for c in columns])
