"""Intervals of the other answers from one release: lines on terms and with weights, deviations, counts, inflation.

python -m bench.coverage --only terms
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from analyses.job.schema import Table, columns_called
from analyses.kept_moments.questions import ask
from bench.coverage.answers import LABELS, NUMBERS, SHARES, made_up_table, measured, population, rows_of_owners
from bench.coverage.record import Coverage

LINE = [1.0, -0.5, 1.5, 0.8, 2.0, 3.0, 2.0]
"""Of x, x^2, owning, x where somebody owns, the two further risks, and the intercept."""

OF_Z = [2.0, 1.0, 0.5]
"""Of a risk that is not low, owning, and the intercept, of another label."""

OF_BANK = ("y", "z", "x", "w", "x^2", "x^3", "x*y", "w*x", "w*z")
TERMS = ["bank.x", "bank.x^2", "clinic.owns", "bank.x*clinic.owns", "clinic.risk"]
LINES: dict[str, tuple[str, dict[str, Any], Any, str]] = {
    "line on terms": ("regress", {"label": "bank.y", "columns": TERMS}, LINE, "interval"),
    "line on a sum of values": (
        "regress",
        {"label": "bank.z", "columns": ["clinic.risk=middle + clinic.risk=high", "clinic.owns"]},
        OF_Z,
        "interval",
    ),
    "line with weights": (
        "regress",
        {"label": "bank.z", "columns": ["bank.x", "clinic.risk"], "weight": "bank.w"},
        [0.0, OF_Z[0], OF_Z[0], OF_Z[2] + 0.3 * OF_Z[1]],
        "interval",
    ),
    "means by two columns of an owner": (
        "group-means",
        {"value": "bank.z", "by": "clinic.risk*clinic.owns"},
        [OF_Z[2] + OF_Z[0] * (risk > 0) + OF_Z[1] * owns for risk in range(3) for owns in range(2)],
        "interval",
    ),
}

OTHERS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "standard deviations": (
        "means",
        {"columns": NUMBERS},
        "standard_deviation",
        "standard_deviation: deviation_noise_error + deviation_chance_error",
    ),
    "covariances": ("covariance", {"columns": NUMBERS}, "covariance", "interval"),
    "inflation": ("inflation", {"columns": NUMBERS}, "variance_inflation", "interval"),
    "unique variances": ("factors", {"columns": NUMBERS}, "unique", "unique_interval"),
}
OF_ROWS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "counts of a cross-table": ("crosstab", {"down": "clinic.risk", "across": "bank.owns"}, "count", "interval"),
    "sums by groups": (
        "group-means",
        {"value": NUMBERS[0], "by": "clinic.risk"},
        "sum",
        "sum: sum_noise_error",
    ),
}
"""About the rows that there are."""


def terms(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of lines on terms, then that of numbers of `bench.coverage.answers` rows."""
    yield from measured(LINES, tables_of, runs)
    truth = population()
    asked: dict[str, tuple[str, dict[str, Any], Any, str]] = {
        what: (name, given, list({**(found := ask(truth, name, **given)).about, **found.table}[number]), of)
        for what, (name, given, number, of) in OTHERS.items()
    }
    yield from measured({**asked, **OF_ROWS}, rows_of_owners, runs)


def tables_of(n_rows: int, seed: int) -> list[Table]:
    """Return three owners' rows: a label that is a line on powers and products, and weights that go with nothing."""
    rng = np.random.default_rng(seed)
    x, w = np.clip(rng.normal(size=n_rows), -4, 4), rng.uniform(0.5, 2.0, n_rows)
    owns, risk = rng.random(n_rows) < 0.3, rng.choice(len(LABELS), n_rows, p=SHARES)
    y = np.column_stack([x, x**2, owns, x * owns, risk == 1, risk == 2, np.ones(n_rows)]) @ LINE
    z = np.column_stack([risk > 0, owns, np.ones(n_rows)]) @ OF_Z + rng.normal(0, 1, n_rows)
    numbers = {"y": (-20, 30, y + rng.normal(0, 1, n_rows)), "z": (-8, 12, z), "x": (-4, 4, x), "w": (0.5, 2, w)}
    return [
        with_products(made_up_table("bank", numbers), OF_BANK),
        with_products(made_up_table("clinic", {"owns": (0, 1, owns)}, {"risk": risk}), ("owns", "risk", "risk*owns")),
        made_up_table("shop", {"visits": (-4, 4, rng.normal(size=n_rows))}),
    ]


def with_products(table: Table, names: Sequence[str]) -> Table:
    """Return the columns that a job names, products among them."""
    columns = columns_called(table.schema.columns, names)
    own = {column.name: table.values[:, at] for at, column in enumerate(table.schema.columns)}
    values = [np.prod([own[one] for one in column.factors or (column.name,)], axis=0) for column in columns]
    return Table(table.schema.model_copy(update={"columns": columns}), np.column_stack(values))
