"""Jobs that release X^T X: their defaults beside hand-chosen settings on real tables, with the same random bits.

What a job opens is the product of the quantised rows and a draw of each party's noise; both are made here by the parts
of the plan, so nothing is left out but the shares.
"""

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job
from analyses.job.schema import ColumnSchema, Table
from analyses.least_squares import protocol as least_squares
from analyses.logistic_regression.link import fit
from analyses.logistic_regression.plan import plan as plan_logistic
from analyses.logistic_regression.weights import labelled_moments, weights_of
from analyses.low_rank import protocol as low_rank
from analyses.pca import protocol as pca
from analyses.pca.reference import captured_variance
from analyses.rows.row_plan import clipped_rows
from analyses.second_moments.centred import centred
from analyses.second_moments.gram_plan import GramPlan
from analyses.second_moments.noisy_moments import gram_noise_level
from bench.analyses.least_squares import explained
from bench.datasets.clustering_tables import lending_club, letter, taxi
from bench.datasets.labelled_tables import LabelledTables, adult, california, earnings
from bench.datasets.order import trusted_order
from bench.datasets.tables import kdd_tables
from bench.datasets.vertical_tables import EARNINGS_LABEL, HOUSING_LABEL, housing
from bench.datasets.vertical_tables import earnings as hourly_earnings
from bench.utility.logistic_rivals import auc, exact_gram, held_out_attacks, own_scores
from demo.data_sets.kdd import NORM_BOUNDS
from entropy import InsecureTestEntropy
from mpc.arithmetic.gram import expand_triangle

Floats = NDArray[np.float64]

DELTA = 1e-5
CATEGORIES = (
    *("protocol_type", "flag", "service"),
    *("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"),
    *("gender", "region"),
)
"""Features of the tables that are encoded as a column of 0 or 1 per value, `feature_value`."""

NORMS = (0.35, 0.5, 0.7)
"""Row norms of the grid, as shares of the longest possible row: what a hand could choose who knows the rows."""


@dataclass(frozen=True)
class Study:
    """An analysis on a table, and how good its answer is under given parameters.

    Attributes:
        analysis: its name.
        table: of the data set.
        metric: what is measured; more is better unless it says "less".
        settings: hand-chosen parameters by name; the default is the one without any.
        scores: epsilon, parameters and seeds to one score per seed. Equal seeds mean equal random bits where they can.
    """

    analysis: str
    table: str
    metric: str
    settings: Mapping[str, Mapping[str, Any]] = field(repr=False)
    scores: Callable[[float, Mapping[str, Any], Sequence[int]], list[float]] = field(repr=False)


def job_on(analysis: str, tables: Sequence[Table], epsilon: float, parameters: Mapping[str, Any]) -> Job:
    """Return a job of parties of one table each, against the coordinator."""
    return Job.model_validate(
        {
            "analysis": analysis,
            "inputs": [{"party": t.schema.party, "table": "table"} for t in tables],
            **trusted_order(t.schema for t in tables),
            "privacy": {"epsilon": epsilon, "delta": DELTA, "view": "coordinator"},
            "parameters": dict(parameters),
        }
    )


def grouped(tables: Sequence[Table]) -> list[Table]:
    """Return tables whose owners declare which columns are one category: those that begin alike, by `CATEGORIES`."""
    found = []
    for table in tables:
        columns = tuple(c.model_copy(update={"group": _category(c)}) for c in table.schema.columns)
        found.append(replace(table, schema=table.schema.model_copy(update={"columns": columns})))
    return found


def _category(column: ColumnSchema) -> str | None:
    if (column.lower, column.upper) != (0, 1):
        return None
    return next((feature for feature in CATEGORIES if column.name.startswith(f"{feature}_")), None)


def gram_of(tables: Sequence[Table], plan: GramPlan) -> Floats:
    """Return X^T X of the integer rows, the constant column last."""
    pairs = zip(plan.owners, tables, strict=True)
    rows = np.hstack([plan.quantise(owner, table.values)[0].astype(np.float64) for owner, table in pairs])
    return np.asarray(rows.T @ rows, dtype=np.float64)


def released(plan: GramPlan, exact: Floats, seed: int) -> Floats:
    """Return what a job opens, in squared integer units."""
    entropy = InsecureTestEntropy(f"defaults {seed}")
    noise = np.sum([plan.mechanism.draw(entropy) for _ in range(plan.n_parties)], axis=0)
    return exact + expand_triangle(noise.astype(np.float64), len(exact))


def norms_of(row_norm: float, origin: str) -> dict[str, dict[str, Any]]:
    """Return settings with shorter rows."""
    return {f"{origin}, {share:g} of the norm": {"origin": origin, "row_norm": share * row_norm} for share in NORMS}


def grid_of(n_columns: int) -> dict[str, dict[str, Any]]:
    """Return settings of origin and row norm for so many columns, whatever their kind."""
    longest = math.sqrt(n_columns)
    plain = {"lower, no clipping": {"origin": "lower", "row_norm": longest}}
    return plain | norms_of(longest, "lower") | norms_of(longest / 2, "middle")


def of_pca(name: str, tables: Sequence[Table], components: int, more: Mapping[str, Any]) -> Study:
    """Return the study of principal components: the share of the variance captured."""
    schemas = [table.schema for table in tables]
    first = pca.plan(job_on("pca", tables, 1.0, {"components": components}), schemas)
    scatter = pca.reference(tables, first)

    def scores(epsilon: float, parameters: Mapping[str, Any], seeds: Sequence[int]) -> list[float]:
        plan = pca.plan(job_on("pca", tables, epsilon, {"components": components, **parameters}), schemas)
        exact, found = gram_of(tables, plan), []
        for seed in seeds:
            opened = released(plan, exact, seed) * plan.unit**2
            moved = centred(opened, plan.constant * plan.unit, plan.reach, plan.possible_rows)
            found.append(captured_variance(scatter, pca.leading_components(moved.matrix, components)[1]))
        return found

    return Study("pca", name, "variance captured", {**grid_of(len(first.column_names)), **more}, scores)


def of_low_rank(name: str, tables: Sequence[Table], rank: int, more: Mapping[str, Any]) -> Study:
    """Return the study of low-rank approximation: what is kept of the sum of squares."""
    schemas = [table.schema for table in tables]
    first = low_rank.plan(job_on("low-rank", tables, 1.0, {"rank": rank}), schemas)
    joint = clipped_rows(tables, first)
    moment = joint.T @ joint

    def scores(epsilon: float, parameters: Mapping[str, Any], seeds: Sequence[int]) -> list[float]:
        plan = low_rank.plan(job_on("low-rank", tables, epsilon, {"rank": rank, **parameters}), schemas)
        assert isinstance(plan, GramPlan)
        exact = gram_of(tables, plan)
        opened = [released(plan, exact, seed) for seed in seeds]
        return [captured_variance(moment, pca.leading_components(one, rank)[1]) for one in opened]

    settings = norms_of(math.sqrt(joint.shape[1]), "lower")
    return Study("low-rank", name, "sum of squares kept", {**settings, **more}, scores)


def of_least_squares(name: str, tables: Sequence[Table], label: str, more: Mapping[str, Any]) -> Study:
    """Return the study of least squares: R^2 of the released line."""
    schemas = [table.schema for table in tables]
    n_columns = sum(len(schema.columns) for schema in schemas)

    def scores(epsilon: float, parameters: Mapping[str, Any], seeds: Sequence[int]) -> list[float]:
        given = {"label": label, **parameters}
        share = given.pop("ridge_share", None)
        plan = least_squares.plan(job_on("least-squares", tables, epsilon, given), schemas)
        assert isinstance(plan, GramPlan)
        exact, level = gram_of(tables, plan), gram_noise_level(plan) * plan.unit**2
        if share is not None:
            params = plan.params.model_copy(update={"ridge": share * level})
            plan = plan.model_copy(update={"params": params})
        solved = [least_squares.solve_moments(released(plan, exact, s) * plan.unit**2, level, plan) for s in seeds]
        return [explained(plan, tables, least_squares.in_units_of_columns(one, plan)) for one in solved]

    ridges = {f"ridge of {share:g} levels": {"ridge_share": share} for share in (0.1, 0.3, 1.0, 3.0)}
    return Study("least-squares", name, "R^2", {**grid_of(n_columns), **ridges, **more}, scores)


def of_logistic(data: LabelledTables, more: Mapping[str, Any]) -> Study:
    """Return the study of logistic regression: area under the curve on rows that took no part."""
    schemas = [table.schema for table in data.training]
    label = data.testing[[s.party for s in schemas].index(data.label.split(".")[0])]
    truth = label.values[:, [c.name for c in label.schema.columns].index(data.label.split(".")[1])]

    def scores(epsilon: float, parameters: Mapping[str, Any], seeds: Sequence[int]) -> list[float]:
        given = {"label": data.label, **parameters}
        plan: Any = plan_logistic(job_on("logistic-regression", data.training, epsilon, given), schemas)
        exact, found = exact_gram(data, plan), []
        for seed in seeds:
            fitted = fit(labelled_moments(plan, released(plan, exact, seed) * plan.unit**2))
            found.append(auc(own_scores(data, plan, *weights_of(plan, fitted)), truth))
        return found

    n_features = sum(len(schema.columns) for schema in schemas) - 1
    return Study("logistic-regression", data.name, "AUC", {**grid_of(n_features), **more}, scores)


def argued(data: LabelledTables) -> dict[str, Any]:
    """Return the norms that somebody argued from what the columns mean."""
    norms = {"origin": "lower", "row_norm": data.row_norm, "norm_bounds": dict(data.norm_bounds)}
    return {"argued norms": norms} if data.norm_bounds else {}


def studies(rows: int | None) -> Iterator[Study]:
    """Yield the studies of all analyses of X^T X.

    Args:
        rows: of each table at most; all where None.
    """
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        connections = grouped([table for _, table in kdd_tables(Path(folder), rows=rows)])
    by_hand = {"argued norms": {"origin": "lower", "row_norm": 4.0, "norm_bounds": dict(NORM_BOUNDS)}}
    for name, tables, k, more in (
        ("KDD Cup 99", connections, 5, by_hand),
        ("letter", letter().split(3), 3, {}),
        ("lending club", lending_club().split(3), 3, {}),
        ("taxi", taxi().split(3), 3, {}),
    ):
        yield of_pca(name, tables, k, more)
        yield of_low_rank(name, tables, k, more)
    yield of_least_squares("KDD Cup 99", connections, "monitor.count", by_hand)
    yield of_least_squares("California housing", housing(), HOUSING_LABEL, {})
    yield of_least_squares("CPS earnings", hourly_earnings(), EARNINGS_LABEL, {})
    for data in (adult(), held_out_attacks(), california(), earnings()):
        known = replace(data, training=grouped(data.training), testing=grouped(data.testing))
        yield of_logistic(known, argued(known))
