"""Intervals of answers from one release: made-up populations, a new sample of rows and a new release in each run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from analyses.job.forecast import NORMAL_95
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.kept_moments import protocol as kept_moments
from analyses.kept_moments.answer import Answer, AnswerError
from analyses.kept_moments.questions import ask
from analyses.second_moments.released import ReleasedMoments
from bench.coverage.record import Coverage
from bench.utility.moment_runs import plan_of

SIZES = ((20_000, 4.0), (4_000, 8.0))
"""Rows of a sample and epsilon of its release."""

POPULATION = 400_000
SAMPLES = 20
"""Samples of this size whose moments together are those of the population: it must err by much less than a run does."""

SHARES = (0.5, 0.3, 0.2)
LABELS = ("low", "middle", "high")
NUMBERS = ["bank.income", "clinic.age", "shop.visits", "shop.weight"]

QUESTIONS: Mapping[str, tuple[str, dict[str, Any], str, str]] = {
    "means": ("means", {"columns": NUMBERS}, "mean", "interval"),
    "correlations": ("correlation", {"columns": NUMBERS}, "correlation", "interval"),
    "partial correlations": ("partial-correlation", {"columns": NUMBERS}, "partial_correlation", "interval"),
    "coefficients": ("regress", {"label": NUMBERS[0], "columns": NUMBERS[1:]}, "per_unit", "interval"),
    "log odds": (
        "logistic",
        {"label": "bank.owns", "columns": NUMBERS[1:], "normal": True},
        "log_odds_per_unit",
        "interval",
    ),
    "partial eta^2": ("anova", {"value": NUMBERS[0], "columns": ["clinic.risk", "clinic.age"]}, "share", "interval"),
    "discriminants": ("discriminant", {"by": "clinic.risk", "columns": NUMBERS}, "log_odds_per_unit", "interval"),
    "loadings": ("factors", {"columns": NUMBERS}, "factor_1", "factor_1_interval"),
    "canonical correlations": (
        "canonical-correlation",
        {"columns": NUMBERS[:2], "others": NUMBERS[2:]},
        "correlation",
        "correlation_interval",
    ),
    "contrasts": (
        "contrasts",
        {"value": NUMBERS[0], "by": "clinic.risk", "columns": [NUMBERS[1]]},
        "difference",
        "interval",
    ),
    "odds ratios": ("odds-ratios", {"down": "clinic.risk", "across": "bank.owns"}, "log_odds_ratio", "interval"),
    "group means": ("group-means", {"value": NUMBERS[0], "by": "clinic.risk"}, "mean", "interval"),
}
"""What an interval is about to the question, what it takes, and the names of number and interval."""


def answers(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of the intervals of each question, about the population that the rows come from."""
    truth = population()
    true = {what: _numbers(ask(truth, name, **given), of) for what, (name, given, of, _) in QUESTIONS.items()}
    asked = {what: (name, given, true[what], of) for what, (name, given, _, of) in QUESTIONS.items()}
    yield from measured(asked, rows_of_owners, runs)


def measured(
    questions: Mapping[str, tuple[str, dict[str, Any], Sequence[float] | str, str]],
    made: Callable[[int, int], Sequence[Table]],
    runs: int,
) -> Iterator[Coverage]:
    """Yield the coverage of the intervals of each question, for samples and releases of each of `SIZES`.

    Args:
        questions: by what an interval is about: the question, what it takes, the true numbers, and the name of the
            interval, or `number: error + error`. A name in the place of the numbers means those of
            the same rows without noise.
        made: the tables of a sample, by number of rows and seed.
        runs: samples of each size.
    """
    for n_rows, epsilon in SIZES:
        rng = np.random.default_rng(6)
        held: dict[str, list[list[bool]]] = {what: [] for what in questions}
        known: dict[str, list[list[bool]]] = {what: [] for what in questions}
        for run in range(runs):
            tables = made(n_rows, 1000 + run)
            release = released(tables, epsilon, rng)
            exact = None
            for what, (name, given, true, of) in questions.items():
                if isinstance(true, str):
                    exact = exact or released(tables, epsilon, None)
                    values = list(_column(ask(exact, name, **given), true))
                else:
                    values = list(true)
                try:
                    ends = _ends(ask(release, name, **given), of)[: len(values)]
                except AnswerError:
                    ends = [None] * len(values)
                pairs = list(zip(ends, values, strict=True))
                known[what].append([one is not None for one, _ in pairs])
                held[what].append([one is not None and one[0] <= value <= one[1] for one, value in pairs])
        for what in questions:
            table = f"made up, {n_rows:,} rows"
            yield Coverage.of(
                f"second moments: {what}", table, epsilon, runs, np.array(held[what]), np.array(known[what])
            )


def _ends(answer: Answer, of: str) -> list[Any]:
    """Return intervals by their name, or of the number by the names of its errors: `number: error + error`."""
    if ":" not in of:
        return list(_column(answer, of))
    name, _, errors = of.partition(": ")
    values = _column(answer, name)
    parts = [_column(answer, one) for one in errors.split(" + ")]
    halves = [None if None in each else NORMAL_95 * float(np.hypot.reduce(each)) for each in zip(*parts, strict=True)]
    return [
        None if value is None or half is None else [value - half, value + half]
        for value, half in zip(values, halves, strict=True)
    ]


def population() -> ReleasedMoments:
    """Return a release without noise of many samples together, as if each row of the first stood for as many."""
    whole, *others = (released(rows_of_owners(POPULATION, 99 + at), 1e6, None) for at in range(SAMPLES))
    return replace(whole, matrix=(whole.matrix + sum(one.matrix for one in others)) / SAMPLES)


def _numbers(answer: Answer, name: str) -> list[float]:
    return [one for one in _column(answer, name) if one is not None]


def _column(answer: Answer, name: str) -> Any:
    return {**answer.about, **answer.table}[name]


def released(tables: Sequence[Table], epsilon: float, rng: np.random.Generator | None) -> ReleasedMoments:
    """Return a release of tables; without a generator it has no noise."""
    plan = plan_of(kept_moments, "second-moments", tables, {"max_rows": tables[0].n_rows}, epsilon)
    release = ReleasedMoments.of(kept_moments.reference(tables, plan), plan)
    if rng is None:
        return release
    draw = rng.normal(size=release.matrix.shape)
    return ReleasedMoments.of(release.matrix + release.deviation * (draw + draw.T) / np.sqrt(2), plan)


def rows_of_owners(n_rows: int, seed: int) -> list[Table]:
    """Return three owners' rows: numbers with a common cause, a category, a yes or no that follows two numbers."""
    rng = np.random.default_rng(seed)
    common, risk = rng.normal(size=n_rows), rng.choice(3, n_rows, p=SHARES)
    age = 50 + 10 * (0.6 * common + 0.8 * rng.normal(size=n_rows))
    visits = 0.5 * common + np.sqrt(0.75) * rng.normal(size=n_rows)
    weight = 70 + 10 * (0.7 * common + np.sqrt(0.51) * rng.normal(size=n_rows))
    income = 20 + 0.3 * age - 2 * visits + 4 * risk + rng.normal(0, 3, n_rows)
    owns = rng.random(n_rows) < 1 / (1 + np.exp(-(0.06 * (age - 50) - 0.5 * visits - 0.5)))
    return [
        made_up_table("bank", {"income": (0, 80, income), "owns": (0, 1, owns)}),
        made_up_table("clinic", {"age": (0, 100, age)}, {"risk": risk}),
        made_up_table("shop", {"visits": (-4, 4, visits), "weight": (20, 120, weight)}),
    ]


def made_up_table(party: str, numbers: Mapping[str, Any], categories: Mapping[str, Any] | None = None) -> Table:
    columns = [ColumnSchema(name=name, lower=low, upper=high) for name, (low, high, _) in numbers.items()]
    values = [np.clip(one.astype(np.float64), low, high) for low, high, one in numbers.values()]
    for name, codes in (categories or {}).items():
        columns += [ColumnSchema(name=f"{name}={label}", lower=0, upper=1, group=name) for label in LABELS]
        values += [(codes == at).astype(np.float64) for at in range(len(LABELS))]
    n_rows = len(values[0])
    return Table(BlockSchema(party=party, columns=tuple(columns), rows=(1, n_rows)), np.column_stack(values))
