"""The same where somebody holds all tables: the exact grid of exact local centres, no privacy."""

from collections.abc import Sequence

import numpy as np

from analyses.clustering.estimators.cells import Cells
from analyses.clustering.grid import cluster_grid, in_scaled_units
from analyses.clustering.local_clustering import Floats
from analyses.clustering.plan import ClusteringPlan
from analyses.clustering.weighted_clustering import Choices, Clusters, cluster
from analyses.job.schema import Table
from entropy import SystemEntropy


def scaled_rows(tables: Sequence[Table], plan: ClusteringPlan) -> Floats:
    """Return the joint table with columns clipped and scaled to [-1, 1]: what the analysis is about.

    Needs all tables in one place.
    """
    return in_scaled_units(np.hstack([table.values for table in tables]), plan)


def reference(tables: Sequence[Table], plan: ClusteringPlan, choices: Choices | None = None) -> Clusters:
    """Return the clustering of the exact grid of exact local centres: the same method without privacy [Ding16].

    Args:
        tables: tables of the owners, in the order of the joint table.
        plan: plan of the job.
        choices: choices of starting centres; fresh ones where absent.
    """
    choices = choices or Choices(SystemEntropy())
    centres, memberships = [], []
    for local, table in zip(plan.local, tables, strict=True):
        rows, _ = local.quantise(table.values)
        found = cluster(rows.astype(np.float64), np.ones(len(rows)), local.k, local.p, choices)
        centres.append(np.rint(found.centres).astype(np.int64))
        memberships.append(local.memberships(rows, centres[-1]))
    places, counts = np.unique(np.stack(memberships, axis=1), axis=0, return_counts=True)
    return cluster_grid(centres, Cells(places, counts.astype(np.float64), plan.k_local), plan, choices)
