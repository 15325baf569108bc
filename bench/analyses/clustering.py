"""Vertical clustering: the loss of the centres for every way of counting memberships, at equal true privacy."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import v_measure_score

from analyses.clustering import protocol as clustering
from analyses.clustering.weighted_clustering import Choices, Floats, cluster, loss, nearest
from analyses.job.job import Job, JobError, PrivacyTarget
from analyses.job.schema import BlockSchema, Table
from bench.analyses.table import Row, Spent
from bench.baselines.clusters import central_clustering
from bench.datasets.bundled import is_available
from bench.datasets.clustering_tables import BUNDLED, ClusterTable, home_credit, mixed_gaussian
from bench.datasets.order import trusted_order
from bench.utility.moment_runs import (
    QUICK_ROWS,
    example_over_services,
    run_in_process,
    spent_by,
    tables_of_example,
    typical,
)
from demo.job import example_job
from entropy import InsecureTestEntropy, SystemEntropy

K = 5
EPSILONS = (0.5, 1.0, 2.0, 4.0)
METRICS: Mapping[int, str] = {1: "mean distance, less is better", 2: "mean squared distance, less is better"}
V_METRIC = "V-measure, more is better"
HELPERS = tuple(f"helper-{i}" for i in (1, 2, 3))
"""With two owners three other parties compute; with four they do it themselves."""

MIXTURE_RUNS = 7
RUNS = 3

ACCEPTED = {"accept_no_protection_against_parties": True}
ESTIMATORS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "fm-sketch": ("fm-sketch", ACCEPTED),
    "independent": ("independent", {}),
    "ldp": ("ldp", {}),
    "pattern": ("pattern", {}),
}
"""Estimators other than `mpc`, each with its options."""

PAPER_SKETCHES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "fm-sketch, estimator 2pest": ("fm-sketch", {**ACCEPTED, "estimator": "2pest"}),
    "fm-sketch, estimator basic": ("fm-sketch", {**ACCEPTED, "estimator": "basic"}),
}
"""The paper's own estimators, with the repaired sketch."""

FEWER_SKETCHES = {"fm-sketch, M = 2048": ("fm-sketch", {**ACCEPTED, "sketches": 2048})}


def plan_of(tables: Sequence[Table], epsilon: float, **parameters: Any) -> clustering.ClusteringPlan:
    """Return the plan of a job whose epsilon holds against the coordinator: the adjacency of central privacy."""
    owners, n_rows = [t.schema.party for t in tables], tables[0].n_rows
    compute = owners if len(owners) > 2 else HELPERS
    job = Job.model_validate(
        {
            "analysis": "clustering",
            "inputs": [{"party": owner, "table": "table"} for owner in owners],
            **trusted_order(t.schema for t in tables),
            "compute": compute,
            "privacy": {"epsilon": epsilon, "delta": delta_of(n_rows), "view": "coordinator"},
            "parameters": {"k": K, "max_rows": n_rows, **parameters},
        }
    )
    schemas = {t.schema.party: t.schema for t in tables}
    return clustering.plan(job, [schemas.get(m, BlockSchema(party=m)) for m in job.members])


def delta_of(n_rows: int) -> float:
    """Return n^-1.1, a little below one over the number of rows."""
    return float(n_rows**-1.1)


@dataclass(frozen=True)
class Found:
    """What one way finds: medians over its runs.

    Attributes:
        loss: of the centres.
        v_measure: against the labels.
        spent: by a job; None where there was none.
    """

    loss: float
    v_measure: float
    spent: Spent | None = field(default=None)


class Comparison:
    """One table, split among some owners: what is found with and without privacy.

    Args:
        table: joint.
        n_owners: S.
        runs: of each private way; medians are stated.
        p: 2 for k-means, 1 for k-median.
        k: how many clusters.
        sizes: columns of each owner; as equal as can be by default.
    """

    def __init__(
        self, table: ClusterTable, n_owners: int, runs: int, p: int = 2, k: int = K, sizes: Sequence[int] = ()
    ) -> None:
        self.name = f"{table.name}, S = {n_owners}"
        self.tables = table.split(n_owners, sizes)
        self.runs, self.p, self.k = runs, p, k
        self._scale = plan_of(self.tables, 100.0, k=k)
        self.rows_scaled = clustering.scaled_rows(self.tables, self._scale)
        exact = non_private_centres(self.rows_scaled, k, p)
        self._labels = nearest(self.rows_scaled, exact)[0] if table.labels is None else table.labels
        self.truth = "the true labels" if table.labels is not None else "the clusters without privacy"
        self.non_private = self.score([exact])

    def score(self, centres: Sequence[Floats], spent: Spent | None = None) -> Found:
        """Return the medians; centres in scaled units."""
        losses = [loss(self.rows_scaled, c, self.p) for c in centres]
        scores = [float(v_measure_score(self._labels, nearest(self.rows_scaled, c)[0])) for c in centres]
        return Found(statistics.median(losses), statistics.median(scores), spent)

    def counted(
        self, counting: str, epsilon: float, options: Mapping[str, Any] | None = None, **parameters: Any
    ) -> Found | None:
        """Return what one way of counting finds; None where the plan refuses such a budget."""
        of_counting = {"counting": counting, "counting_options": dict(options or {})}
        try:
            plan = plan_of(self.tables, epsilon, p=self.p, k=self.k, **of_counting, **parameters)
        except JobError:
            return None
        found = [run_in_process(plan, self.tables) for _ in range(self.runs)]
        centres = [clustering.in_scaled_units(np.array(run.result["centres"]), self._scale) for run in found]
        return self.score(centres, typical([run.spent for run in found]))

    def central(self, epsilon: float) -> Found:
        """Return what central privacy finds at the same cost."""
        target = PrivacyTarget(epsilon=epsilon, delta=delta_of(self.tables[0].n_rows), view="coordinator")
        found = [central_clustering(self.tables, self.k, self.p, target, SystemEntropy()) for _ in range(self.runs)]
        return self.score([clustering.in_scaled_units(c, self._scale) for c in found])

    def rows(self, epsilon: float, countings: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Iterator[Row]:
        """Return for each way of counting other than `mpc` a row for the loss and one for the V-measure."""
        mpc, central = self.counted("mpc", epsilon), self.central(epsilon)
        for way, (name, options) in countings.items():
            other = self.counted(name, epsilon, options)
            row = Row(
                analysis=f"clustering, {way}" + ("" if self.p == 2 else ", k-median"),
                dataset=self.name,
                epsilon=epsilon,
                metric=METRICS[self.p],
                private=None if other is None else other.loss,
                mpc=None if mpc is None else mpc.loss,
                central=central.loss,
                non_private=self.non_private.loss,
                private_spent=None if other is None else other.spent,
                mpc_spent=None if mpc is None else mpc.spent,
                note=f"medians of {self.runs}" + ("" if other else f"; {way} refused: epsilon is too small for it"),
            )
            yield row
            yield replace(
                row,
                metric=V_METRIC,
                private=None if other is None else other.v_measure,
                mpc=None if mpc is None else mpc.v_measure,
                central=central.v_measure,
                non_private=self.non_private.v_measure,
                private_spent=None,
                mpc_spent=None,
                note=f"against {self.truth}",
            )


def non_private_centres(rows: Floats, k: int, p: int) -> Floats:
    """Return centres by somebody who sees all rows: scikit-learn's k-means, our k-median."""
    if p == 2:
        found: Floats = KMeans(k, n_init=5, random_state=0).fit(rows).cluster_centers_
        return found
    choices = Choices(InsecureTestEntropy("without privacy"))
    return cluster(rows, np.ones(len(rows)), k, p, choices, restarts=5).centres


def on_table(make: Callable[[], ClusterTable], epsilons: Sequence[float], runs: int, quick: bool) -> Iterator[Row]:
    """Yield the rows of one table."""
    table = make()
    if quick:
        table = table.first(QUICK_ROWS)
    for n_owners in (2,) if quick else (2, 4):
        comparison = Comparison(table, n_owners, 1 if quick else runs)
        for epsilon in (4.0,) if quick else epsilons:
            yield from comparison.rows(epsilon, ESTIMATORS)


def paper_sketches(quick: bool) -> Iterator[Row]:
    """Yield the rows of the paper's own estimators, and of half as many sketches, on the mixture."""
    for n_owners in (2,) if quick else (2, 4):
        comparison = Comparison(mixed_gaussian(QUICK_ROWS) if quick else mixed_gaussian(), n_owners, 1 if quick else 5)
        for epsilon in (4.0,) if quick else EPSILONS:
            fewer = FEWER_SKETCHES if epsilon in (1.0, 4.0) else {}
            yield from comparison.rows(epsilon, {**PAPER_SKETCHES, **fewer})


def k_median(quick: bool) -> Iterator[Row]:
    """Yield the rows of k-median on the mixture."""
    for n_owners in (2,) if quick else (2, 4):
        table = mixed_gaussian(QUICK_ROWS) if quick else mixed_gaussian()
        comparison = Comparison(table, n_owners, 1 if quick else RUNS, p=1)
        for epsilon in (4.0,) if quick else (1.0, 4.0):
            yield from comparison.rows(epsilon, ESTIMATORS)


def over_services(quick: bool) -> Iterator[Row]:
    """Yield the example over three services, beside central privacy and none."""
    change: dict[str, Any] = {}
    data, (run,) = example_over_services("clustering", [change], QUICK_ROWS if quick else None)
    job = example_job("clustering", change)
    tables = tables_of_example(data, job)
    plan = clustering.plan(job, [t.schema for t in tables])
    rows = clustering.scaled_rows(tables, plan)

    def lost(centres: Floats) -> float:
        return loss(rows, clustering.in_scaled_units(centres, plan), plan.params.p)

    target = PrivacyTarget(epsilon=job.privacy.epsilon, delta=job.privacy.delta, view=job.privacy.view)
    central = [central_clustering(tables, plan.params.k, plan.params.p, target, SystemEntropy()) for _ in range(RUNS)]
    yield Row(
        analysis="clustering, over services",
        dataset="KDD Cup 99, examples/clustering.toml",
        epsilon=job.privacy.epsilon,
        metric=METRICS[plan.params.p],
        mpc=lost(np.array(run.result["centres"])),
        central=statistics.median(lost(c) for c in central),
        non_private=loss(rows, non_private_centres(rows, plan.params.k, plan.params.p), plan.params.p),
        mpc_spent=spent_by(run),
        note=f"{len(rows):,} rows, {rows.shape[1]} columns, k' = {plan.k_local}; against a coalition; "
        "one run over three services",
    )


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    makers = {**BUNDLED, **({"home credit": home_credit} if is_available("home_credit") else {})}
    found: dict[str, Callable[[bool], Iterator[Row]]] = {}
    for name, make in makers.items():
        is_mixture = make is mixed_gaussian
        # Letters at small epsilon are where the paper has an exception.
        epsilons = EPSILONS if is_mixture else (0.5, 1.0, 4.0) if name == "letter" else (1.0, 4.0)
        found[name] = partial(on_table, make, epsilons, MIXTURE_RUNS if is_mixture else RUNS)
    return {**found, "paper's sketches": paper_sketches, "k-median": k_median, "over services": over_services}
