"""The figures of [VertClust23] about the loss of whole jobs: 5, 6, 8, 9, 11, 12, other k, and central rivals."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from analyses.clustering import protocol as clustering
from analyses.clustering.estimators.cells import Cells
from analyses.clustering.grid import points_of
from analyses.clustering.local_clustering import WIDTH
from analyses.clustering.weighted_clustering import Choices, Floats, cluster, nearest
from bench.analyses.clustering import ACCEPTED, METRICS, Comparison, K, delta_of, plan_of
from bench.analyses.clustering_countings import exact_counts, plan_estimator, weights_in_process
from bench.analyses.table import Row
from bench.baselines.dplsf import dplsf
from bench.datasets.bundled import is_available
from bench.datasets.clustering_tables import BUNDLED, ClusterTable, home_credit, lending_club
from bench.peers.environment import PROGRAMS, ensure_environment, run_to_its_end
from bench.utility.logistic_rivals import REQUIREMENTS
from bench.utility.moment_runs import QUICK_ROWS, run_in_process
from entropy import SystemEntropy

LOSS = METRICS[2]
RUNS = 2
RIVALS_BESIDE = 4
"""Owners up to which rivals stand in the row of ours; with more they take minutes, and have a part of their own."""

IND, LDP = "independent", "ldp"
UNEVEN, OWNERS, COMPONENTS = "figure 5, uneven splits", "figure 6, number of owners", "figures 8 and 11, private parts"
SWEEP, CLUSTERS, RIVALS = "figures 9 and 12, local clusters", "other numbers of clusters", "central rivals"
OPEN_CENTRES, OPEN_COUNTS = "exact centres", "exact counts"
DPLSF, LIBRARY = "DPLSF", "diffprivlib"
LOCALS = (2, 3, 4, 5, 8)
TIMEOUT_S = 900.0


def loans() -> ClusterTable:
    """Return the paper's loans where they are, and loans with the same number of columns elsewhere."""
    return home_credit() if is_available("home_credit") else lending_club()


TABLES: Mapping[str, Callable[[], ClusterTable]] = {**BUNDLED, "loans": loans}


def _table(name: str, quick: bool) -> ClusterTable:
    return TABLES[name]().first(QUICK_ROWS) if quick else TABLES[name]()


def _row(of: Comparison, analysis: str, epsilon: float, where: str, note: str = "") -> Row:
    """Return the losses of the paper's way, its rivals, and ours."""
    found = {name: of.counted(name, epsilon) for name in ("mpc", IND, LDP)}
    paper = of.counted("fm-sketch", epsilon, ACCEPTED)
    return Row(
        analysis=analysis,
        dataset=where,
        epsilon=epsilon,
        metric=LOSS,
        private=None if paper is None else paper.loss,
        mpc=None if found["mpc"] is None else found["mpc"].loss,
        non_private=of.non_private.loss,
        others={name: one.loss for name in (IND, LDP) if (one := found[name]) is not None},
        private_spent=None if paper is None else paper.spent,
        mpc_spent=None if found["mpc"] is None else found["mpc"].spent,
        note=f"medians of {of.runs}{note}",
    )


def uneven(quick: bool) -> Iterator[Row]:
    """Yield the losses of two owners with as many and with more columns."""
    for name, of_table in {"mixed Gaussian": ((4, 4), (3, 5), (2, 6)), "loans": ((8, 8), (6, 10), (4, 12))}.items():
        table = _table(name, quick)
        for sizes in of_table[:1] if quick else of_table:
            comparison = Comparison(table, 2, 1 if quick else RUNS, sizes=sizes)
            yield _row(comparison, UNEVEN, 1.0, f"{table.name}, {sizes[0]}:{sizes[1]}")


def owners(n: int, quick: bool) -> Iterator[Row]:
    """Yield the losses of so many owners of the 16 columns of loans and letters; of more than four ours alone."""
    for comparison, epsilon in _of_owners(n, RUNS if n <= RIVALS_BESIDE else 1, quick):
        note = f"; k' = {plan_of(comparison.tables, epsilon).k_local} by the rule"
        if n <= RIVALS_BESIDE:
            yield _row(comparison, OWNERS, epsilon, comparison.name, note)
        elif (ours := comparison.counted("mpc", epsilon)) is not None:
            yield Row(
                analysis=OWNERS,
                dataset=comparison.name,
                epsilon=epsilon,
                metric=LOSS,
                mpc=ours.loss,
                non_private=comparison.non_private.loss,
                mpc_spent=ours.spent,
                note=f"medians of {comparison.runs}{note}",
            )


def rivals_of_many(n: int, quick: bool) -> Iterator[Row]:
    """Yield the losses of the source's rivals with so many owners, of one job each, as the whole grid is held."""
    for of, epsilon in _of_owners(n, 1, quick):
        found = {name: one.loss for name in (IND, LDP) if (one := of.counted(name, epsilon)) is not None}
        yield Row(OWNERS, of.name, epsilon, LOSS, non_private=of.non_private.loss, others=found, note="medians of 1")


def _of_owners(n: int, runs: int, quick: bool) -> Iterator[tuple[Comparison, float]]:
    for name, epsilons in {"letter": (1.0,), "loans": (1.0, 2.0)}.items():
        comparison = Comparison(_table(name, quick), n, 1 if quick else runs)
        for epsilon in epsilons[:1] if quick else epsilons:
            yield comparison, epsilon


def _of_grid(of: Comparison, centres: Sequence[Floats], weights: Floats) -> Floats:
    """Return the centres of a weighted grid, columns scaled to [-1, 1]."""
    cells = Cells.of_grid(weights)
    return cluster(points_of(centres, cells), cells.weights, of.k, of.p, Choices(SystemEntropy())).centres


def components(name: str, quick: bool) -> Iterator[Row]:
    """Yield the losses where centres or counts alone are private, each with half of epsilon; k' = 5, our `mpc`."""
    table = _table(name, quick)
    for n in (2,) if quick else (2, 4):
        of = Comparison(table, n, 1 if quick else RUNS)
        ends = np.cumsum([len(t.schema.columns) for t in of.tables])[:-1]
        blocks = np.split(of.rows_scaled, ends, axis=1)
        exact = [KMeans(K, n_init=3, random_state=0).fit(block).cluster_centers_ for block in blocks]
        members = [nearest(block, own)[0] for block, own in zip(blocks, exact, strict=True)]
        for epsilon in (1.0, 4.0):
            counting = plan_estimator("mpc", n, len(of.rows_scaled), epsilon / 2, {"cells": "joint"})
            plan = plan_of(of.tables, epsilon, k_local=K)
            with_counts, with_centres, both = [], [], []
            for _ in range(of.runs):
                weights, _ = weights_in_process(counting, members)
                with_counts.append(_of_grid(of, [WIDTH * (own + 1) / 2 for own in exact], weights))
                result = run_in_process(plan, of.tables).result
                both.append(clustering.in_scaled_units(np.array(result["centres"]), plan))
                joint = np.hstack([np.array(own) for own in result["local_centres"].values()])
                local = np.split(clustering.in_scaled_units(joint, plan), ends, axis=1)
                mine = [nearest(block, own)[0] for block, own in zip(blocks, local, strict=True)]
                with_centres.append(_of_grid(of, [WIDTH * (own + 1) / 2 for own in local], exact_counts(mine, K)))
            yield Row(
                analysis=COMPONENTS,
                dataset=of.name,
                epsilon=epsilon,
                metric=LOSS,
                mpc=of.score(both).loss,
                non_private=of.non_private.loss,
                others={OPEN_CENTRES: of.score(with_counts).loss, OPEN_COUNTS: of.score(with_centres).loss},
                note=f"k' = {K}; medians of {of.runs}",
            )


def local_clusters(name: str, quick: bool) -> Iterator[Row]:
    """Yield the losses by k'; the rule's own choice stands in the note."""
    table = _table(name, quick)
    for n in (2,) if quick else (2, 4):
        of = Comparison(table, n, 1 if quick else RUNS)
        for epsilon in (1.0,) if quick else (1.0, 4.0):
            chosen = plan_of(of.tables, epsilon).k_local
            by_rule, sweep = of.counted("mpc", epsilon), {}
            for local in LOCALS:
                if (found := of.counted("mpc", epsilon, k_local=local)) is not None:
                    sweep[f"k' = {local}"] = found.loss
            yield Row(
                analysis=SWEEP,
                dataset=of.name,
                epsilon=epsilon,
                metric=LOSS,
                mpc=None if by_rule is None else by_rule.loss,
                non_private=of.non_private.loss,
                others=sweep,
                note=f"mpc, k' = {chosen} by the rule; medians of {of.runs}",
            )


def other_k(quick: bool) -> Iterator[Row]:
    """Yield the losses of three, ten and twenty clusters."""
    for name in ("letter", "loans"):
        table = _table(name, quick)
        for k in (3,) if quick else (3, 10, 20):
            of = Comparison(table, 2, 1 if quick else RUNS, k=k)
            yield _row(of, CLUSTERS, 1.0, f"{of.name}, k = {k}")


def library(rows: Floats, epsilon: float, k: int, runs: int) -> list[Floats]:
    """Return the centres that diffprivlib finds, one array per run.

    Raises:
        PeerUnavailableError: it cannot be installed here.
    """
    python = ensure_environment("diffprivlib", REQUIREMENTS) / "bin" / "python"
    with tempfile.TemporaryDirectory(prefix="diffprivlib-") as folder:
        np.save(Path(folder) / "rows.npy", rows)
        program = str(PROGRAMS / "diffprivlib_kmeans.py")
        run_to_its_end([str(python), program, folder, str(epsilon), str(k), str(runs)], TIMEOUT_S)
        return list(np.load(Path(folder) / "centres.npy"))


def rivals(quick: bool) -> Iterator[Row]:
    """Yield the losses of somebody who holds all columns, beside two and four owners."""
    rng = np.random.default_rng(0)
    for name in ("mixed Gaussian",) if quick else ("mixed Gaussian", "taxi", "letter", "loans"):
        table = _table(name, quick)
        two, four = (Comparison(table, n, 1 if quick else RUNS) for n in (2, 4))
        for epsilon in (1.0, 4.0):
            budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta_of(len(two.rows_scaled)), "rng": rng}
            trees = [dplsf(two.rows_scaled, K, 2, **budget) for _ in range(two.runs)]
            others = {DPLSF: two.score(trees).loss}
            if not quick:
                others[LIBRARY] = two.score(library(two.rows_scaled, epsilon, K, two.runs)).loss
            by_two, by_four = two.counted("mpc", epsilon), four.counted("mpc", epsilon)
            yield Row(
                analysis=RIVALS,
                dataset=table.name,
                epsilon=epsilon,
                metric=LOSS,
                mpc=None if by_two is None else by_two.loss,
                central=two.central(epsilon).loss,
                non_private=two.non_private.loss,
                others=others | ({} if by_four is None else {"mpc, S = 4": by_four.loss}),
                note=f"mpc, S = 2; central: our tree on all columns; medians of {two.runs}",
            )
