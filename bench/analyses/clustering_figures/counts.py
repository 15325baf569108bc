"""The figures of [VertClust23] about counts: 7, 10 and 13, table 1, and the silhouettes of figure 14."""

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from analyses.clustering import protocol as clustering
from bench.analyses.clustering import plan_of
from bench.analyses.clustering_countings import (
    ACCEPTED,
    METRIC,
    WAYS,
    errors,
    exact_counts,
    local_memberships,
    plan_estimator,
    weights_in_process,
)
from bench.analyses.clustering_figures.ends import TABLES
from bench.analyses.table import Row, Spent
from bench.datasets.clustering_tables import mixed_gaussian
from bench.utility.moment_runs import QUICK_ROWS

REAL, SKETCHES, COSTS, SILHOUETTES = (
    "figure 10, errors of counts on real data",
    "figure 13, number of sketches",
    "table 1, bytes and seconds",
    "figure 14, silhouettes",
)
MANY_SKETCHES = (256, 512, 1024, 2048, 4096)
PRINTED = {
    (5, "fm-sketch, M = 2048"): (82, 4.75, 35.40),
    (5, "fm-sketch, M = 4096"): (164, 7.47, 39.08),
    (5, "independent"): (0.19, 0.61, 1.32),
    (5, "ldp"): (160, 5.46, 38.48),
    (8, "fm-sketch, M = 2048"): (131, 11.68, 98.91),
    (8, "fm-sketch, M = 4096"): (260, 11.95, 101.14),
    (8, "independent"): (0.28, 0.64, 3.83),
    (8, "ldp"): (160, 12.13, 100.63),
}
"""k' and way to kilobytes of a party, and seconds of the grid with two and four owners, as [VertClust23] has them."""

NUMBERS_OF_CLUSTERS = tuple(range(2, 11))
SAMPLE = 4000


def real(quick: bool) -> Iterator[Row]:
    """Yield the errors of counts by each way on taxi trips, letters and loans."""
    ways = {way: WAYS[way] for way in ("fm-sketch", "fm-sketch, estimator 2pest", "independent", "ldp", "pattern")}
    for name in ("letter",) if quick else ("letter", "loans", "taxi"):
        for n in (2,) if quick or name == "taxi" else (2, 4):
            epsilons, runs = ((1.0,), 1) if n == 4 else ((1.0, 4.0), 2)
            yield from errors(n, epsilons, 1 if quick else runs, quick, TABLES[name], ways, REAL)


def sketches(quick: bool) -> Iterator[Row]:
    """Yield the error of counts by the number of sketches, on the mixture."""
    table = mixed_gaussian(QUICK_ROWS) if quick else mixed_gaussian()
    for n in (2,) if quick else (2, 4):
        members = local_memberships(table, n)
        exact = exact_counts(members, 5)
        found = {}
        for m in MANY_SKETCHES[:2] if quick else MANY_SKETCHES:
            counting = plan_estimator("fm-sketch", n, len(members[0]), 4.0, {**ACCEPTED, "sketches": m})
            runs = [weights_in_process(counting, members)[0] for _ in range(1 if quick else 7 if n == 2 else 3)]
            found[f"M = {m}"] = statistics.median(float(np.abs(one - exact).sum() / exact.sum()) for one in runs)
        note = f"k' = 5; medians of {len(runs)}"
        yield Row(SKETCHES, f"{table.name}, S = {n}", 4.0, METRIC, private=min(found.values()), others=found, note=note)


def costs(quick: bool) -> Iterator[Row]:
    """Yield what an owner sends and how long all members take, beside what is printed."""
    table = mixed_gaussian(QUICK_ROWS) if quick else mixed_gaussian()
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "mpc": ("mpc", {}),
        **{f"fm-sketch, M = {m}": ("fm-sketch", {**ACCEPTED, "sketches": m}) for m in (2048, 4096)},
        "independent": ("independent", {}),
        "ldp": ("ldp", {}),
    }
    for n in (2,) if quick else (2, 4):
        for local in (5,) if quick else (5, 8):
            members = local_memberships(table, n, local)
            for way, (name, options) in ways.items():
                counting = plan_estimator(name, n, len(members[0]), 4.0, options, local)
                _, spent = weights_in_process(counting, members)
                printed = PRINTED.get((local, way))
                others = {} if printed is None else {"printed kB": printed[0], "printed seconds": printed[1 + (n == 4)]}
                yield Row(
                    analysis=COSTS,
                    dataset=f"{table.name}, S = {n}, k' = {local}, {way}",
                    epsilon=4.0,
                    metric="kilobytes that an owner sends",
                    private=(spent.sent_bytes or 0) / 1000,
                    private_spent=Spent(spent.seconds, spent.sent_bytes),
                    others=others,
                    note="time: all members one after another, one run",
                )


def silhouettes(quick: bool) -> Iterator[Row]:
    """Yield the mean silhouette of the clusters of k-means without privacy, by k, of some rows."""
    for name in ("letter",) if quick else ("taxi", "loans", "letter"):
        table = TABLES[name]()
        tables = (table.first(QUICK_ROWS) if quick else table).split(2)
        rows = clustering.scaled_rows(tables, plan_of(tables, 100.0))
        chosen = rows[np.random.default_rng(0).choice(len(rows), min(SAMPLE, len(rows)), replace=False)]
        found = {}
        for k in NUMBERS_OF_CLUSTERS[:2] if quick else NUMBERS_OF_CLUSTERS:
            labels = KMeans(k, n_init=3, random_state=0).fit(chosen).labels_
            found[f"k = {k}"] = float(silhouette_score(chosen, labels))
        best = max(found, key=lambda k: found[k])
        note = f"best at {best}; {len(chosen):,} rows at random"
        yield Row(
            SILHOUETTES, table.name, None, "mean silhouette, more is better", non_private=found[best], others=found,
            note=note,
        )  # fmt: skip
