"""Clustering of a vertically partitioned table: k-means or k-median by a weighted grid of local centres [VertClust23].

Every owner clusters its own columns privately and releases k' centres. A membership estimator
(`analyses.clustering.estimators.membership`) then gives the coordinator noisy counts of the rows in each combination of
the owners' clusters, that is, in each cell of their grid. The coordinator clusters the weighted grid.

    the paper's part                                 function
    LocCluster, each party's private centres         `LocalClustering.release`
    MemEnc, each party's memberships, encoded        `LocalClustering.memberships`, `MembershipEstimator.party`
    WeightEst, the server weighs the grid            `MembershipEstimator.weighted_cells`
    the server clusters the weighted grid            `cluster_grid`

MemEnc and WeightEst belong together, and each counting has its own: `SketchEstimator` is the paper's DPFMPS,
`LdpEstimator` its LDP-AGG, `IndependentEstimator` its IND-LAP; `PatternEstimator` is of another paper, `MpcEstimator`
of none.

Differences from the paper (docs/analyses/clustering.md): memberships are counted in MPC unless a job asks for another
estimator; the cost of centres and counts is composed once, tightly, in both views; domains are public bounds; nobody
asks for the number of rows.
"""

from functools import partial
from typing import Any

import numpy as np

from analyses.clustering.certainty import certainty_of
from analyses.clustering.estimators.membership import CENTRES_STAGE
from analyses.clustering.forecast import forecast, signal
from analyses.clustering.grid import cluster_grid, in_column_units, in_scaled_units
from analyses.clustering.local_clustering import WIDTH, Integers, LocalClustering
from analyses.clustering.plan import ESTIMATORS, ClusteringParams, ClusteringPlan, plan
from analyses.clustering.reference import reference, scaled_rows
from analyses.clustering.weighted_clustering import Choices
from analyses.job.analysis import Analysis
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import by_parameter
from analyses.rows.meeting import meet
from analyses.rows.own_values import zeros_if_raised, zeros_instead
from mpc.arithmetic.field import ResidueField
from mpc.errors import PeerViolationError
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR, Session

__all__ = [
    "ANALYSIS",
    "ESTIMATORS",
    "ClusteringParams",
    "ClusteringPlan",
    "cluster_grid",
    "coordinator",
    "in_column_units",
    "in_scaled_units",
    "party",
    "plan",
    "reference",
    "scaled_rows",
]


async def party(session: Session, plan: ClusteringPlan, table: Table | None) -> LocalReport:
    """Run a party's part: check that rows match, release my centres, count memberships with the others.

    Args:
        session: my end of the job.
        plan: computed by this party itself.
        table: my rows, columns as in my schema; None for a compute party without columns.

    Raises:
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PeerError: a member is silent, drops out or violates the protocol.

    Privacy: the coordinator learns centres and counts, at the cost of `ClusteringPlan.privacy_events`; other parties
    learn what the estimator allows.
    """
    exchange, n_rows, table = await meet(session, plan, table)
    report, membership = LocalReport(n_rows, {}, 0), None
    if table is not None:
        session.progress("local clusters", 0, 1)
        local = plan.local_of(session.me)
        rows, outside = await session.compute(_quantised, local, table)
        # The duration of the release depends on its noisy counts, so the cost is committed before it begins.
        await session.commit()
        choices = Choices(session.entropy)
        release = partial(local.release, noise=await session.draw(local.mechanism), choices=choices)
        centres = await session.compute(zeros_if_raised, table, partial(release, rows), local.no_centres)
        nowhere = np.zeros_like(rows)
        memberships = partial(local.memberships, centres=centres)
        membership = await session.compute(zeros_instead, table, memberships, rows, nowhere)
        await session.send(COORDINATOR, CENTRES_STAGE, centres.astype(np.uint64))
        names = (c.name for c in table.schema.columns)
        report = LocalReport(n_rows, dict(zip(names, outside.tolist(), strict=True)), 0)
    session.progress("memberships", 0, 1)
    await plan.counting.party(exchange, membership, n_rows, table)
    session.progress("memberships", 1, 1)
    return report


def _quantised(local: LocalClustering, table: Table) -> tuple[Integers, Integers]:
    """Return my rows on the lattice, and per column how many values lay outside the bounds; see `quantise`."""
    rows, columns = table.n_rows, len(table.schema.columns)
    return zeros_if_raised(
        table,
        lambda: local.quantise(table.values),
        lambda: (np.zeros((rows, columns), dtype=np.int64), np.zeros(columns, dtype=np.int64)),
    )


async def coordinator(session: Session, plan: ClusteringPlan) -> dict[str, Any]:
    """Run the coordinator's part: cluster the grid of released centres, weighted by the counts.

    Returns:
        JSON-able: `columns`; `centres`, k rows in the columns' units; `weights`, estimated rows of each cluster, 0 for
        an empty one; `standard_errors`, of the weights; `explained_at_least`, the share by which, in 19 of 20 cases
        at least, the centres lower the cost of one best centre, None where there is nothing to explain;
        `distinguishable`, whether the clusters are more than noise, and `note`, why they are not, empty where they are;
        `cost`, estimated mean distance^p to the nearest centre with columns scaled to [-1, 1], without that within the
        cells; `local_centres`, per owner k' rows in the columns' units; `privacy`, the report.

    Raises:
        PeerError: an owner sent no centres, or the estimator failed.
    """
    exchange = ShareExchange(session, ResidueField(plan.n_primes), plan.n_parties, plan.job.t, {})
    centres = [await _centres_of(session, plan, owner) for owner in plan.owners]
    cells = await plan.counting.weighted_cells(exchange)
    found = await session.compute(cluster_grid, centres, cells, plan, Choices(session.entropy))
    sure = await session.compute(certainty_of, [own.astype(np.float64) for own in centres], cells, found, plan)
    return {
        "analysis": "clustering",
        "columns": list(plan.column_names),
        "k_local": plan.k_local,
        "centres": in_column_units(found.centres, plan).tolist(),
        "weights": found.weights.tolist(),
        "n_rows": float(found.weights.sum()),
        "standard_errors": sure.standard_errors.tolist(),
        "explained_at_least": sure.explained,
        "distinguishable": not sure.note,
        "note": sure.note,
        "cost": found.cost / max(float(found.weights.sum()), 1.0),
        "local_centres": {
            session.names[owner]: plan.local_of(owner).in_original_units(own.astype(np.float64)).tolist()
            for owner, own in zip(plan.owners, centres, strict=True)
        },
        "privacy": plan.privacy_report(),
    }


async def _centres_of(session: Session, plan: ClusteringPlan, owner: int) -> Integers:
    local = plan.local_of(owner)
    centres = await session.receive(owner, CENTRES_STAGE, (local.k, len(local.block.columns)))
    if np.any(centres > WIDTH):
        what = f"{session.names[owner]} sent a centre outside the public bounds"
        raise PeerViolationError(owner, CENTRES_STAGE, what)
    return centres.astype(np.int64)


ANALYSIS = Analysis(
    names=("clustering",),
    parameters=ClusteringParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=by_parameter("counting"),
    page="analyses/clustering.md",
    demo="clustering",
    own_forecast=forecast,
    signal=signal,
    reference=reference,
    synonyms={"n_clusters": "k", "clusters": "k"},
    matching=("revealed",),
)
