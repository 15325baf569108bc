"""How the additive errors depend on the noise and on the rows [VertPrim23, theorems E.1, E.4 and E.5].

Tables without any error but the one of privacy: of exactly the rank sought, with a label that is a line in the
features, and with sums that are 0. Then all that is lost is the additive term. Exponents are fitted to medians over
several jobs.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.least_squares import protocol as least_squares
from analyses.low_rank import protocol as low_rank
from analyses.pca.reference import captured_variance
from analyses.power_moments import protocol as power_moments
from analyses.power_moments.plan import MomentsPlan
from analyses.rows.row_plan import clipped_rows
from bench.analyses.table import Row
from bench.utility.moment_runs import QUICK_ROWS, plan_of, run_in_process

LOW_RANK, LEAST_SQUARES = "low-rank, additive error", "least-squares, additive error"
MOMENTS = "moments, additive error"
MIN_ROWS, MAX_ROWS = 500, 40_000
ROWS = (2000, 32_000)
RANK, COLUMNS = 2, 12
RUNS = 21
OF_NOISE = "exponent of the noise's standard deviation in the additive error"
OF_ROWS = "exponent of the rows in the additive error"

Floats = np.ndarray[Any, np.dtype[np.float64]]


def split(columns: Mapping[str, Floats], n_parties: int = 3, bounds: tuple[float, float] = (-1, 1)) -> list[Table]:
    tables = []
    for number, names in enumerate(np.array_split(np.array(list(columns)), n_parties), start=1):
        schema = tuple(ColumnSchema(name=str(name), lower=bounds[0], upper=bounds[1]) for name in names)
        values = np.column_stack([columns[str(name)] for name in names])
        block = BlockSchema(party=f"party-{number}", columns=schema, rows=(MIN_ROWS, MAX_ROWS))
        tables.append(Table(block, values))
    return tables


def low_rank_table(n_rows: int, n_columns: int = COLUMNS) -> list[Table]:
    """Return a table of rank RANK in the middle of its bounds; rows are as long however many columns there are."""
    rng = np.random.default_rng(7)
    shorter = RANK * (n_columns / COLUMNS) ** 0.5
    values = rng.uniform(-1, 1, (n_rows, RANK)) @ (rng.uniform(-1, 1, (RANK, n_columns)) / shorter)
    return split({f"x{i}": column for i, column in enumerate(values.T)})


def line_table(n_rows: int) -> list[Table]:
    """Return a label, which is a line in the four features."""
    features = np.random.default_rng(3).uniform(-1, 1, (n_rows, 4))
    label = features @ np.array([0.5, -0.25, 0.2, 0.0])
    return split({"label": label, **{f"a{i}": column for i, column in enumerate(features.T)}})


def low_rank_error(
    n_rows: int, epsilon: float, method: Mapping[str, Any], runs: int, n_columns: int = COLUMNS
) -> tuple[float, float]:
    """Return the median of ||X - X V V^T||_F in scaled units, and the deviation of the noise in some unit."""
    tables = low_rank_table(n_rows, n_columns)
    parameters = {"rank": RANK, "max_rows": MAX_ROWS, "origin": "middle", "gamma": 1 << 16, **method}
    plan = plan_of(low_rank, "low-rank", tables, parameters, epsilon)
    joint = clipped_rows(tables, plan)
    moment = joint.T @ joint
    found = []
    for _ in range(runs):
        components = np.array(run_in_process(plan, tables).result["components"])
        found.append(float(np.sqrt(max(0.0, 1 - captured_variance(moment, components)) * np.trace(moment))))
    return statistics.median(found), _deviation(plan)


def least_squares_error(n_rows: int, epsilon: float, method: Mapping[str, Any], runs: int) -> tuple[float, float]:
    """Return the median of ||A x - b||^2, ||b||^2 where there is no answer, and the deviation of the noise."""
    tables = line_table(n_rows)
    parameters = {"label": "party-1.label", "max_rows": MAX_ROWS, "gamma": 1 << 16, **method}
    plan = plan_of(least_squares, "least-squares", tables, parameters, epsilon)
    joint = np.hstack([t.values for t in tables])
    label, features = joint[:, 0], joint[:, 1:]
    found = []
    for _ in range(runs):
        result = run_in_process(plan, tables).result
        predicted = np.zeros(n_rows)
        if result["coefficients"] is not None:
            line = least_squares.Line(np.array(result["coefficients"]), result["intercept"])
            predicted = line.predict(features)
        found.append(float(((predicted - label) ** 2).sum()))
    return statistics.median(found), _deviation(plan)


def moment_error(n_rows: int, epsilon: float, method: Mapping[str, Any], runs: int) -> tuple[float, float]:
    """Return the median of what is found where the moment of order 2 is 0, and the deviation of the noise."""
    tables = split({name: np.zeros(n_rows) for name in ("a", "b", "c")}, bounds=(0, 3))
    parameters = {"order": 2, "max_rows": MAX_ROWS, **method}
    plan = plan_of(power_moments, "moments", tables, parameters, epsilon)
    found = [abs(float(run_in_process(plan, tables).result["moment"])) for _ in range(runs)]
    return statistics.median(found), _deviation(plan)


def _deviation(plan: Any) -> float:
    """Return the standard deviation of a party's noise, in a unit that only epsilon does not change."""
    if isinstance(plan, MomentsPlan):  # of a sketch the moment is a sum of squares
        return math.sqrt(plan.least_deviation) if plan.params.method == "sketch" else plan.least_deviation
    return math.sqrt(plan.party_mu if hasattr(plan, "party_mu") else plan.multiplier)


Error = Callable[[int, float, Mapping[str, Any], int], tuple[float, float]]


def _exponents(
    analysis: str, error: Error, epsilons: Mapping[str, Sequence[float]], sketch: Mapping[str, Any], quick: bool
) -> Iterator[Row]:
    """Yield the exponents of the noise's deviation and of the rows.

    Args:
        analysis: of the rows.
        error: at so many rows, an epsilon, a method and a number of jobs.
        epsilons: a small one and a large one of each method, between which it finds something but not everything.
        sketch: parameters of the sketch.
        quick: few.
    """
    runs, (few, many) = (1, (500, QUICK_ROWS)) if quick else (RUNS, ROWS)
    of_noise, of_rows = {}, {}
    for name, method in {"sketch": {"method": "sketch", **sketch}, "mpc": {}}.items():
        low, high = epsilons[name]
        (more, much_noise), (less, little_noise) = error(few, low, method, runs), error(few, high, method, runs)
        (of_many, _) = error(many, low, method, runs)
        of_noise[name] = float(np.log(more / less) / np.log(much_noise / little_noise))
        of_rows[name] = float(np.log(of_many / more) / np.log(many / few))
    at = {name: f"{name}: epsilon {low:g} and {high:g}" for name, (low, high) in epsilons.items()}
    yield Row(
        analysis=analysis,
        dataset=f"made-up, {few:,} rows",
        epsilon=None,
        metric=OF_NOISE,
        private=of_noise["sketch"],
        mpc=of_noise["mpc"],
        note=f"{'; '.join(at.values())}; medians of {runs}",
    )
    yield Row(
        analysis=analysis,
        dataset=f"made-up, {few:,} to {many:,} rows",
        epsilon=None,
        metric=OF_ROWS,
        private=of_rows["sketch"],
        mpc=of_rows["mpc"],
        note=f"sketch: epsilon {epsilons['sketch'][0]:g}; mpc: {epsilons['mpc'][0]:g}; medians of {runs}",
    )


def of_low_rank(quick: bool) -> Iterator[Row]:
    """Yield the exponents of low-rank approximation: of ||X - X V V^T||_F, which is 0 without privacy."""
    return _exponents(LOW_RANK, low_rank_error, {"sketch": (64.0, 1024.0), "mpc": (1.0, 8.0)}, {}, quick)


def of_least_squares(quick: bool) -> Iterator[Row]:
    """Yield the exponents of least squares: of ||A x - b||^2, which is 0 without privacy."""
    sketch = {"sketch_entries": "signs", "sketch_rows": 200}
    epsilons = {"sketch": (32.0, 128.0), "mpc": (2.0, 16.0)}
    return _exponents(LEAST_SQUARES, least_squares_error, epsilons, sketch, quick)


def of_moments(quick: bool) -> Iterator[Row]:
    """Yield the exponents of the moment of order 2: of what is found where it is 0."""
    epsilons = {"sketch": (1.0, 8.0), "mpc": (1.0, 8.0)}
    return _exponents(MOMENTS, moment_error, epsilons, {"sketch_rows": 64}, quick)
