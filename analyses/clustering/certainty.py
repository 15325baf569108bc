"""How far noise may have moved the weights of clusters, and whether the clusters are more than noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from analyses.clustering.estimators.cells import Cells
from analyses.clustering.grid import points_of
from analyses.clustering.local_clustering import WIDTH
from analyses.clustering.plan import ClusteringPlan
from analyses.clustering.weighted_clustering import Choices, Clusters, cluster, nearest, powers_of
from analyses.second_moments.spectrum import SimulatedNoise

Floats = NDArray[np.float64]

DRAWS = 40
"""Deviations that are estimated by so many draws are off by a ninth."""

_T_95 = 2.0227
"""Two-sided quantile of Student's distribution with DRAWS - 1 degrees of freedom."""

_KEY = b"clusters of simulated noise, key"
_ALL_BUT_NONE = 1e-9

NO_ROWS = "the number of rows that were counted is not distinguishable from noise, and neither are the clusters"
ONE_CELL = "all rows that were counted lie in one cell of the grid: the clusters are not distinguishable from noise"
NO_BETTER = (
    "the clusters are not distinguishable from noise: by what was released they may be no better than one centre"
)


@dataclass(frozen=True)
class Certainty:
    """What can be said of released clusters by the law of the noise.

    Attributes:
        standard_errors: standard errors of the weights, in rows, shape (k,).
        explained: least share, in 19 of 20 cases, by which the centres lower the mean distance^p of one best centre,
            for rows at the local centres of their cells; None for k = 1, and where there is nothing to explain.
        note: why the clusters are not distinguishable from noise; empty where they are.
    """

    standard_errors: Floats
    explained: float | None
    note: str


def certainty_of(local_centres: Sequence[Floats], cells: Cells, found: Clusters, plan: ClusteringPlan) -> Certainty:
    """Return how certain released clusters are. All of it is post-processing of noisy numbers and of public ones.

    A parametric bootstrap: the released grid is taken for true, its counts get the counting's errors anew
    (`MembershipEstimator.redrawn_cells`) and its local centres those of their noise
    (`LocalClustering.centre_deviation`), and the grid is clustered again. What these centres seem to explain, less what
    they explain of the grid that was taken for true, says by how much a result flatters itself, and how that varies.
    Where a grid is mostly noise, other noise gives other centres, which explain nothing of it. The released grid is
    less orderly than the rows are, so what is found is rather too little than too much.

    Args:
        local_centres: local centres of each owner, shape (k', its columns), on the lattice.
        cells: cells of the grid.
        found: its clusters, columns scaled to [-1, 1].
        plan: plan of the job.
    """
    p, k, total = plan.params.p, plan.params.k, cells.total
    simulated, choices = SimulatedNoise(), Choices.of_key(_KEY)
    points, mass = points_of(local_centres, cells), cells.weights
    one = _cost_of_one(points, mass, p, choices) if total > 0 else 0.0
    spreads = one > _ALL_BUT_NONE * total
    moved = [
        (own, local.centre_deviation(rows))
        for own, local, rows in zip(local_centres, plan.local, cells.sizes(), strict=True)
    ]
    sizes, flatters = [], []
    for drawn in islice(plan.counting.redrawn_cells(cells, simulated), DRAWS):
        sizes.append(_sizes(points_of(local_centres, drawn), drawn.weights, found.centres))
        if k == 1 or not spreads or not drawn.weights.any():
            continue
        places = [np.clip(c + s[:, None] * simulated.normal(*c.shape), 0, WIDTH) for c, s in moved]
        seen = points_of(places, drawn)
        again = cluster(seen, drawn.weights, k, p, choices, restarts=1)
        one_again = _cost_of_one(seen, drawn.weights, p, choices)
        seems = 1 - again.cost / one_again if one_again > _ALL_BUT_NONE * drawn.total else 1.0
        flatters.append(seems - (1 - _cost(points, mass, again.centres, p) / one))
    errors = np.sqrt(np.mean((np.array(sizes) - _sizes(points, mass, found.centres)) ** 2, axis=0))
    off_in_all = float(np.sqrt(np.mean((np.sum(sizes, axis=1) - total) ** 2)))
    if not total > _T_95 * off_in_all:
        return Certainty(errors, None, NO_ROWS)
    if k == 1:
        return Certainty(errors, None, "")
    if not spreads:
        return Certainty(errors, None, ONE_CELL)
    if len(flatters) < DRAWS // 2:
        return Certainty(errors, None, NO_ROWS)
    explained = 1 - found.cost / one - float(np.mean(flatters)) - _T_95 * float(np.std(flatters, ddof=1))
    return Certainty(errors, explained, "" if explained > 0 else NO_BETTER)


def _sizes(points: Floats, mass: Floats, centres: Floats) -> Floats:
    """Return the weight of the points that are nearest to each centre, shape (k,)."""
    return np.asarray(np.bincount(nearest(points, centres)[0], mass, minlength=len(centres)), dtype=np.float64)


def _cost(points: Floats, mass: Floats, centres: Floats, p: int) -> float:
    return float(mass @ powers_of(nearest(points, centres)[1], p))


def _cost_of_one(points: Floats, mass: Floats, p: int, choices: Choices) -> float:
    return cluster(points, mass, 1, p, choices, restarts=1).cost
