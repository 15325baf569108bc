"""Answers of a release beside NumPy on the pooled rows, without noise; and what cannot be answered."""

import json
import time

import numpy as np
import pytest
from releases import LABELS, joint_of, plan_of, released, tables_of

from analyses.kept_moments.answer import AnswerError
from analyses.kept_moments.questions import QUESTIONS, ask
from analyses.kept_moments.synthetic import mixture

N_ROWS = 3000
THREE = ("bank.income", "clinic.age", "shop.visits")
EVERY = {
    "means": {},
    "covariance": {"columns": THREE},
    "correlation": {"columns": THREE},
    "partial-correlation": {"columns": THREE},
    "inflation": {"columns": THREE},
    "regress": {"label": "bank.income", "columns": THREE[1:]},
    "ridge": {"label": "bank.income", "columns": THREE[1:]},
    "logistic": {"label": "bank.owns", "columns": THREE},
    "poisson": {"label": "bank.income", "columns": ["clinic.age", "clinic.risk"]},
    "negative-binomial": {"label": "bank.income", "columns": ["clinic.age", "clinic.risk"]},
    "gamma": {"label": "bank.income", "columns": ["clinic.age", "clinic.risk"]},
    "multinomial": {"label": "clinic.risk", "columns": THREE[1:]},
    "ordinal": {"label": "clinic.risk", "columns": THREE[1:]},
    "anova": {"value": "bank.income", "columns": ["clinic.risk", "bank.owns"]},
    "contrasts": {"value": "bank.income", "by": "clinic.risk", "columns": ["clinic.age"]},
    "stepwise": {"label": "bank.income", "columns": ["clinic.age", "clinic.risk", "bank.owns"]},
    "odds-ratios": {"down": "clinic.risk", "across": "bank.owns"},
    "discriminant": {"by": "clinic.risk", "columns": THREE},
    "factors": {"columns": THREE},
    "canonical-correlation": {"columns": ["bank.income", "bank.owns"], "others": ["clinic.age", "clinic.risk"]},
    "components": {"columns": THREE, "k": 2},
    "crosstab": {"down": "clinic.risk", "across": "bank.owns"},
    "group-means": {"value": "bank.income", "by": "clinic.risk"},
    "synthetic": {"columns": ["bank.owns", "clinic.risk"], "rows": 50},
}


@pytest.fixture(scope="module")
def tables():
    return tables_of(N_ROWS)


@pytest.fixture(scope="module")
def joint(tables):
    return joint_of(tables)


@pytest.fixture(scope="module")
def release(tables):
    return released(tables, plan_of(tables, epsilon=1000.0))


def test_means_and_deviations_are_those_of_the_rows(release, joint):
    found = ask(release, "means").table
    assert found["mean"] == pytest.approx([joint[name].mean() for name in found["column"]])
    assert found["standard_deviation"] == pytest.approx([joint[name].std() for name in found["column"]])
    by_chance = [joint[name].std() / np.sqrt(N_ROWS) for name in found["column"]]
    assert found["chance_error"] == pytest.approx(by_chance)


def test_covariances_and_correlations_are_those_of_the_rows(release, joint):
    values = np.stack([joint[name] for name in THREE])
    covariance, correlation = np.cov(values), np.corrcoef(values)
    assert ask(release, "covariance", columns=THREE).table["covariance"] == pytest.approx(
        covariance[np.triu_indices(3)].tolist()
    )
    assert ask(release, "correlation", columns=THREE).table["correlation"] == pytest.approx(
        correlation[np.triu_indices(3, 1)].tolist()
    )


def test_partial_correlations_and_inflation_are_those_of_the_inverse(release, joint):
    inverse = np.linalg.inv(np.corrcoef(np.stack([joint[name] for name in THREE])))
    partial = -inverse / np.sqrt(np.outer(np.diagonal(inverse), np.diagonal(inverse)))
    found = ask(release, "partial-correlation", columns=THREE).table["partial_correlation"]
    assert found == pytest.approx(partial[np.triu_indices(3, 1)].tolist())
    inflated = ask(release, "inflation", columns=THREE)
    assert inflated.table["variance_inflation"] == pytest.approx(np.diagonal(inverse).tolist())
    standard = np.stack([joint[name] for name in THREE])
    standard = (standard - standard.mean(1, keepdims=True)) / standard.std(1, keepdims=True)
    assert inflated.about["condition_number"] == pytest.approx(np.linalg.cond(standard))


def test_a_regression_is_that_of_ordinary_least_squares_with_its_classical_errors(release, joint):
    features = np.column_stack([joint["clinic.age"], joint["shop.visits"], np.ones(N_ROWS)])
    line, left, *_ = np.linalg.lstsq(features, joint["bank.income"])
    found = ask(release, "regress", label="bank.income", columns=("clinic.age", "shop.visits"), ridge=0.0)
    assert found.table["per_unit"] == pytest.approx(line.tolist(), rel=1e-6)
    covariance = float(left[0]) / (N_ROWS - 3) * np.linalg.inv(features.T @ features)
    assert found.table["chance_error"] == pytest.approx(np.sqrt(np.diagonal(covariance)).tolist(), rel=0.02)
    total = float(np.sum((joint["bank.income"] - joint["bank.income"].mean()) ** 2))
    assert found.about["r_squared"] == pytest.approx(1 - float(left[0]) / total, abs=0.01)
    assert all(p < 1e-6 for p in found.table["p_value"])


def test_a_cross_table_counts_the_rows_and_group_means_are_those_of_the_groups(release, tables, joint):
    found = ask(release, "crosstab", **EVERY["crosstab"]).table
    assert (found["clinic.risk"], found["bank.owns"]) == ([x for x in LABELS for _ in "ny"], ["no", "yes"] * 3)
    counts = [
        float(np.sum((joint[f"clinic.risk={label}"] == 1) & (joint["bank.owns"] == owns)))
        for label in LABELS
        for owns in (0, 1)
    ]
    assert found["count"] == pytest.approx(counts)
    means = ask(release, "group-means", **EVERY["group-means"]).table
    assert means["clinic.risk"] == list(LABELS)
    of_groups = [joint["bank.income"][joint[f"clinic.risk={label}"] == 1].mean() for label in LABELS]
    assert means["mean"] == pytest.approx(of_groups)
    large = ask(release, "group-means", **EVERY["group-means"], at_least=800)
    assert large.table["clinic.risk"] == ["low", "middle"]
    assert large.notes[0] == "noisy counts of high are below 800, and left out"


def test_association_is_told_from_none(tables, release):
    assert ask(release, "crosstab", **EVERY["crosstab"]).about["p_value"] > 0.01  # drawn independently
    changed = tables["bank"].values.copy()
    changed[:, 1] = tables["clinic"].values[:, 1]
    dependent = {**tables, "bank": type(tables["bank"])(tables["bank"].schema, changed, tables["bank"].ids_digest)}
    again = released(dependent, plan_of(dependent, epsilon=1000.0))
    found = ask(again, "crosstab", **EVERY["crosstab"]).about
    assert found["p_value"] < 0.001
    assert found["cramers_v"] == pytest.approx(1.0, abs=0.02)


def test_components_are_those_of_the_scaled_rows(release, joint):
    widths = np.array([80, 100, 8])
    values, vectors = np.linalg.eigh(np.cov(np.stack([joint[name] for name in THREE]) / widths[:, None], bias=True))
    found = ask(release, "components", columns=THREE, k=1)
    assert np.abs(np.array(found.table["component_1"]) @ vectors[:, -1]) == pytest.approx(1.0)
    assert found.about["variance"] == pytest.approx([values[-1]], rel=1e-3)


@pytest.fixture(scope="module")
def noisy_releases():
    """Releases of few and many rows, with much and little noise."""
    rng, found = np.random.default_rng(2), []
    for n_rows, epsilon in ((40, 1.0), (40, 30.0), (400, 0.3), (400, 5.0), (400, 100.0), (3000, 100.0)):
        tables = tables_of(n_rows, seed=n_rows)
        found.append(released(tables, plan_of(tables, epsilon), rng))
    return found


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_answer_is_json_without_nan_also_where_there_is_much_noise(name, noisy_releases, monkeypatch):
    monkeypatch.setattr(mixture, "MAX_STEPS", 50)
    n_answered = 0
    for release in noisy_releases:
        try:
            json.dumps(ask(release, name, **EVERY[name]).to_dict(), allow_nan=False)
        except AnswerError as error:
            assert str(error)  # noqa: PT017 - any text will do
        else:
            n_answered += 1
    assert n_answered


def test_a_column_that_does_not_vary_has_no_correlation_and_a_mean(tables):
    constant = tables["shop"].values * 0 + 1
    shop = type(tables["shop"])(tables["shop"].schema, constant, tables["shop"].ids_digest)
    release = released({**tables, "shop": shop}, plan_of(tables), np.random.default_rng(1))
    found = ask(release, "correlation", columns=THREE)
    assert found.table["correlation"][0] is not None
    assert found.table["correlation"][1:] == [None, None]
    assert "shop.visits does not vary beyond the noise" in found.notes[0]
    assert ask(release, "means", columns=["shop.visits"]).table["mean"] == pytest.approx([1.0], abs=0.1)
    with pytest.raises(AnswerError, match="does not vary beyond the noise"):
        ask(release, "partial-correlation", columns=THREE)
    with pytest.raises(AnswerError, match="cannot be scaled"):
        ask(release, "components", columns=THREE, scale=True)


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("mode", {}, "there is no question 'mode'; there are means, covariance"),
        ("means", {"label": "bank.income"}, "the question means takes no label; it takes columns"),
        ("regress", {}, "the question regress needs label"),
        ("means", {"columns": ["bank.age"]}, "the release has no column 'bank.age'; it has bank.income"),
        ("regress", {"label": "bank.income", "columns": ["clinic.age^2"]}, r"a job .* that names clinic.age\^2 too"),
        ("ridge", {"label": "bank.income", "columns": ["clinic.age^2"]}, "holds what its job named, such as age"),
        ("means", {"columns": ["bank.owns", "bank.owns"]}, "column 'bank.owns' is named twice"),
        ("correlation", {"columns": ["bank.owns"]}, "a correlation needs two columns at least"),
        ("regress", {"label": "bank.income", "columns": ["bank.income"]}, "cannot explain itself"),
        ("regress", {"label": "bank.income", "ridge": -1.0}, "the ridge must be at least 0, got -1"),
        ("regress", {"label": "bank.income", "ridge": float("nan")}, "the ridge must be at least 0, got nan"),
        ("components", {"k": 9}, "k must be from 1 to 7, the number of columns, got 9"),
        ("crosstab", {"down": "bank.income", "across": "bank.owns"}, "column 'bank.income' is a number; name a categ"),
        ("crosstab", {"down": "bank.owns", "across": "bank.owns"}, "'bank.owns' is named twice"),
        ("crosstab", {"down": "bank.ow", "across": "bank.owns"}, "the release has no column 'bank.ow'"),
        ("group-means", {"value": "bank.owns", "by": "bank.owns"}, "need groups of another column"),
        ("synthetic", {"columns": ["bank.age"]}, "the release has no column 'bank.age'; it has bank.income"),
        ("synthetic", {"columns": ["clinic.risk", "clinic.risk"]}, "column 'clinic.risk=low' is named twice"),
        ("synthetic", {"rows": 0}, "rows must be a whole number from 1 to 1000000, not 0"),
        ("synthetic", {"rows": 1.5}, "rows must be a whole number from 1 to 1000000, not 1.5"),
        ("synthetic", {"seed": -1}, "seed must be a whole number from 0 to"),
        ("synthetic", {"label": "bank.ow", "columns": ["bank.owns"]}, "no column 'bank.ow' to explain"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(release, name, given, text):
    with pytest.raises(AnswerError, match=text):
        ask(release, name, **given)


@pytest.mark.parametrize("name", ["multinomial", "factors", "synthetic"])  # those that take longest
def test_an_answer_takes_less_than_half_a_second_of_a_processor(name, release):
    ask(release, name, **EVERY[name])  # with what it imports
    started_s = time.process_time()
    ask(release, name, **EVERY[name])
    assert time.process_time() - started_s < 0.5


def test_only_noise_is_no_answer(tables):
    few = tables_of(5)
    release = released(few, plan_of(few, epsilon=0.1), np.random.default_rng(0))
    while release.matrix[-1, -1] > release.noise_level:
        release = released(few, plan_of(few, epsilon=0.1), np.random.default_rng(1))
    for name in QUESTIONS:
        with pytest.raises(AnswerError, match="too few rows for this epsilon"):
            ask(release, name, **EVERY[name])
