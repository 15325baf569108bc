"""Stated errors of answers beside those of many releases: of noise alone, and of noise and chance together."""

import numpy as np
import pytest
from releases import LABELS, joint_of, plan_of, released, tables_of

from analyses.kept_moments.questions import ask

THREE = ("bank.income", "clinic.age", "shop.visits")
NUMBERS = {
    "means": ({"columns": THREE}, "mean"),
    "covariance": ({"columns": THREE}, "covariance"),
    "correlation": ({"columns": THREE}, "correlation"),
    "regress": ({"label": "bank.income", "columns": THREE[1:], "ridge": 0.0}, "per_unit"),
    "crosstab": ({"down": "clinic.risk", "across": "bank.owns"}, "count"),
    "group-means": ({"value": "bank.income", "by": "clinic.risk"}, "mean"),
}
MODELS = {
    "partial-correlation": ({"columns": THREE}, "partial_correlation"),
    "inflation": ({"columns": THREE}, "variance_inflation"),
    "logistic": ({"label": "bank.owns", "columns": THREE[1:]}, "log_odds_per_unit"),
    "discriminant": ({"by": "clinic.risk", "columns": THREE[1:]}, "log_odds_per_unit"),
}
"""Models that are fitted anew to many draws, so that their test takes seconds."""


@pytest.fixture(scope="module")
def releases():
    """Many of the same rows."""
    tables, rng = tables_of(5000, seed=1), np.random.default_rng(5)
    plan = plan_of(tables, epsilon=40.0)
    return [released(tables, plan, rng) for _ in range(30)]


@pytest.mark.parametrize("name", [*NUMBERS, *(pytest.param(name, marks=pytest.mark.slow) for name in MODELS)])
def test_errors_by_noise_are_the_deviation_over_releases_of_the_same_rows(name, releases):
    given, field = (NUMBERS | MODELS)[name]
    answers = [ask(release, name, **given).table for release in releases]
    spread = np.std([answer[field] for answer in answers], axis=0, ddof=1)
    stated = np.median([answer["noise_error"] for answer in answers], axis=0)
    assert np.exp(np.mean(np.log(spread / stated))) == pytest.approx(1.0, abs=0.25)


@pytest.mark.slow
def test_intervals_hold_for_other_rows_of_the_population_in_nineteen_of_twenty_cases():
    many = joint_of(tables_of(400_000, seed=99))
    true = {
        "means": [many[name].mean() for name in THREE],
        "correlation": np.corrcoef(np.stack([many[name] for name in THREE]))[np.triu_indices(3, 1)].tolist(),
        "regress": np.linalg.lstsq(
            np.column_stack([many["clinic.age"], many["shop.visits"], np.ones(400_000)]), many["bank.income"]
        )[0].tolist(),
        "group-means": [many["bank.income"][many[f"clinic.risk={label}"] == 1].mean() for label in LABELS],
    }
    rng, held = np.random.default_rng(6), {name: [] for name in true}
    plan = plan_of(tables_of(5000), epsilon=8.0)
    for run in range(150):
        release = released(tables_of(5000, seed=1000 + run), plan, rng)
        for name, values in true.items():
            intervals = ask(release, name, **NUMBERS[name][0]).table["interval"]
            held[name] += [low <= value <= high for (low, high), value in zip(intervals, values, strict=True)]
    assert all(0.9 < np.mean(one) < 0.985 for one in held.values()), {n: np.mean(h) for n, h in held.items()}
