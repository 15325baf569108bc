"""Audit targets of masked sums: over parties' rows, over devices' vectors and over devices' ratings."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import PrivacyTarget
from analyses.job.ratings import digest_of_items
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.matrix_factorization.devices.record import DeclaredRatings, UsedRatings, device_vector
from analyses.matrix_factorization.devices.rounds import DeviceRounds
from analyses.pattern_count.plan import CELL_SENSITIVITY
from analyses.sums.noise import SumNoise, SumSensitivity
from analyses.sums.secure_sum import SumParams
from audit.additive import AdditiveTarget, MaskedSumRelease
from audit.entry import SEEN_BY, Entry, both_views, ways_of
from dp.cost.views import ADJACENCY, VIEWS, View
from dp.mechanism.shared_laplace import MEAN_UNIT
from mpc.secagg.config import MAX_COMPLETE_GRAPH_MEMBERS, Topology

Integers = NDArray[np.int64]

_T = 1
"""Members that collude."""

_SUMS = ("secure-sum", "secure-mean", "secure-histogram")


def _sum_noise() -> SumNoise:
    moved = {
        view: SumSensitivity(8 * (8 if view == "coordinator" else 16) ** 2, 128, ADJACENCY[view], "u") for view in VIEWS
    }
    return SumNoise(100, 8, (3, 4, 5), _T, moved)


def _masked_counts(view: View, n_survivors: int) -> AdditiveTarget:
    moved = {view: SumSensitivity(of.squared_l2, of.l1, ADJACENCY[view], "u") for view, of in CELL_SENSITIVITY.items()}
    noise = SumNoise(0, 6, (3, 4, 5), _T, moved, int(2 / MEAN_UNIT))
    difference = (0, 1, 0, 0, 0, 0) if view == "coordinator" else (0, 1, 0, -1, 0, 0)
    return AdditiveTarget(MaskedSumRelease(noise, view, n_survivors, difference))


def _masked_sum(view: View, n_survivors: int) -> AdditiveTarget:
    return AdditiveTarget(MaskedSumRelease(_sum_noise(), view, n_survivors, (11,) * 8))


@lru_cache(maxsize=2)
def _device_noise(n_members: int) -> SumNoise:
    params = SumParams(
        analysis="secure-sum",
        record="steps",
        length=16,
        largest=8,
        privacy=PrivacyTarget(epsilon=10, delta=1e-4, view="coalition"),
    )
    topology = Topology.complete(n_members, 1) if n_members <= 128 else Topology.ring(n_members, 10, 15)
    noise = params.noise(topology)
    assert noise is not None, "there is a privacy target"
    return noise


def _devices(view: View, n_members: int, n_survivors: int) -> AdditiveTarget:
    moved = 8 if view == "coordinator" else 16  # a device's vector is present, or all eights become minus eights
    noise = _device_noise(n_members)
    return AdditiveTarget(MaskedSumRelease(noise, view, n_survivors, (moved,) * noise.length))


@lru_cache(maxsize=2)
def _ratings_rounds(n_members: int) -> DeviceRounds:
    """Offsets of few items over devices of which, where they stand on a ring, a fifth may drop out."""
    is_ring = n_members > MAX_COMPLETE_GRAPH_MEMBERS
    items = 8 if is_ring else 2
    question = FactorQuestion(
        analysis="matrix-factorization",
        record="films",
        items=items,
        items_digest=digest_of_items(items),
        ratings_per_user=1,
        lower=-3,
        upper=3,
        rank=0,
        colluding=10 if is_ring else 0,
        vanishing=n_members // 5 if is_ring else 0,
        privacy=PrivacyTarget(epsilon=2, delta=1e-3, view="coordinator"),
    )
    return rounds_of(question, n_members)


def _ratings(view: View, n_members: int, n_survivors: int) -> AdditiveTarget:
    """One user's vector is present, or replaced by that of a user who says the opposite.

    Its ratings, of all items, lie beyond the residual bound, so its norm is next to the largest that any has. A user of
    one item has the largest.
    """
    rounds = _ratings_rounds(n_members)
    n_items = rounds.question.items
    declared = DeclaredRatings(n_items, -3.0, 3.0, most=n_items)
    n_rated = n_items if n_members > MAX_COMPLETE_GRAPH_MEMBERS else 1

    def vector(rating: float) -> Integers:
        values = np.array([rating * (-1) ** i for i in range(n_rated)])
        return device_vector(rounds, 0, None, declared, UsedRatings(np.arange(n_rated), values))

    moved = vector(3.0) - (vector(-3.0) if view == "coalition" else 0)
    return AdditiveTarget(MaskedSumRelease(rounds.noise(0), view, n_survivors, tuple(map(int, moved))))


MASKED_SUMS: dict[str, Entry] = {
    **{
        f"sum-of-{n}-{view}": Entry(
            f"masked sum, {n} of 5 members survive, excess removed, {SEEN_BY[view]}",
            (*ways_of(_SUMS, "noise"), "distribution:masked"),
            lambda view=view, n=n: _masked_sum(view, n),  # type: ignore[misc]
        )
        for n in (3, 4, 5)
        for view in VIEWS
    },
    **both_views(
        "masked-counts",
        "masked counts with shares of Laplace noise, 4 of 5 members survive",
        ("secure-histogram:noise",),
        lambda view: _masked_counts(view, 4),
    ),
    **both_views(
        "devices",
        "sum over 5 of 6 devices",
        ways_of((*_SUMS, "secure-distribution"), "devices"),
        lambda view: _devices(view, 6, 5),
    ),
    "devices-ratings": Entry(
        "counts and residuals of items over 4 devices, excess removed, seen by the coordinator",
        ("matrix-factorization:devices",),
        lambda: _ratings("coordinator", 4, 4),
        1000,
    ),
    **both_views(
        "devices-ratings-ring",
        "counts and residuals of items over 128 of 160 devices on a ring, of whom a fifth dropped out, excess removed",
        ("matrix-factorization:devices",),
        lambda view: _ratings(view, 160, 128),
        250,
    ),
    **both_views(
        "devices-ring",
        "sum over 147 of 160 devices on a ring",
        ways_of((*_SUMS, "secure-distribution"), "devices"),
        lambda view: _devices(view, 160, 147),
        250,
    ),
}
