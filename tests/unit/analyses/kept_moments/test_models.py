"""Models from a release without noise beside those of statsmodels and scikit-learn; and what has no answer."""

import numpy as np
import pandas
import pytest
import statsmodels.api as sm
from moment_jobs import plan_for, table_of
from releases import LABELS, joint_of, plan_of, released, tables_of
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from statsmodels.formula.api import ols
from statsmodels.multivariate.cancorr import CanCorr
from statsmodels.multivariate.factor import Factor
from statsmodels.stats.anova import anova_lm

from analyses.kept_moments import protocol as kept_moments
from analyses.kept_moments.answer import AnswerError
from analyses.kept_moments.questions import ask

N_ROWS = 3000


@pytest.fixture(scope="module")
def tables():
    return tables_of(N_ROWS)


@pytest.fixture(scope="module")
def joint(tables):
    found = {name.replace(".", "_"): values for name, values in joint_of(tables).items()}
    risk = np.array(LABELS)[np.argmax([found[f"clinic_risk={label}"] for label in LABELS], axis=0)]
    return pandas.DataFrame({name: values for name, values in found.items() if "=" not in name} | {"clinic_risk": risk})


@pytest.fixture(scope="module")
def release(tables):
    return released(tables, plan_of(tables, epsilon=1000.0))


def test_an_analysis_of_variance_is_that_of_type_two(release, joint):
    line = ols("bank_income ~ C(clinic_risk) + bank_owns + clinic_age", joint).fit()
    expected = anova_lm(line, typ=2)
    terms = ["clinic.risk", "bank.owns", "clinic.age"]
    found = ask(release, "anova", value="bank.income", columns=terms)
    assert found.table["term"] == [*terms, "residual"]
    assert found.table["sum_of_squares"] == pytest.approx(expected["sum_sq"].tolist(), rel=1e-6)
    assert found.table["degrees"] == pytest.approx(expected["df"].tolist())
    assert found.table["f"][:3] == pytest.approx(expected["F"].tolist()[:3], rel=1e-6)
    assert found.table["p_value"][1] == pytest.approx(expected["PR(>F)"].iloc[1], abs=0.05)
    assert found.table["p_value"][0] == found.table["p_value"][2] == pytest.approx(1 / 1001)
    squares = expected["sum_sq"].to_numpy()
    assert found.table["share"][0] == pytest.approx(squares[0] / (squares[0] + squares[3]), abs=0.01)


def test_a_logistic_regression_is_near_that_of_maximum_likelihood(tables):
    rng = np.random.default_rng(8)
    joint = joint_of(tables)
    odds = 0.08 * (joint["clinic.age"] - 50) - 0.7 * joint["shop.visits"] - 0.5
    bank = tables["bank"].values.copy()
    bank[:, 1] = rng.random(N_ROWS) < 1 / (1 + np.exp(-odds))
    changed = {**tables, "bank": type(tables["bank"])(tables["bank"].schema, bank, tables["bank"].ids_digest)}
    release = released(changed, plan_of(changed, epsilon=1000.0))
    columns = ["clinic.age", "shop.visits"]
    features = np.column_stack([joint[name] for name in columns] + [np.ones(N_ROWS)])
    expected = sm.Logit(bank[:, 1], features).fit(disp=0)
    found = ask(release, "logistic", label="bank.owns", columns=columns)
    assert found.table["log_odds_per_unit"] == pytest.approx(expected.params.tolist(), rel=0.05)
    assert found.table["chance_error"] == pytest.approx(expected.bse.tolist(), rel=0.3)
    assert found.table["interval"] == [None] * 3
    of_value = ask(release, "logistic", label="clinic.risk=high", columns=["bank.income"])
    assert of_value.table["log_odds_per_unit"][0] > 0.1
    everything = ask(release, "logistic", label="clinic.risk=high").table["column"]
    assert everything == ["bank.income", "bank.owns", "clinic.age", "shop.visits", "intercept"]


def test_linear_discriminants_are_those_of_scikit_learn(release, joint):
    columns = ["bank.income", "clinic.age", "shop.visits"]
    model = LinearDiscriminantAnalysis().fit(joint[[name.replace(".", "_") for name in columns]], joint["clinic_risk"])
    order = [list(model.classes_).index(label) for label in LABELS]
    slopes = model.coef_[order] * (N_ROWS - 3) / N_ROWS  # scikit-learn divides the scatter within groups by all rows
    found = ask(release, "discriminant", by="clinic.risk", columns=columns)
    assert found.table["group"] == ["middle"] * 4 + ["high"] * 4
    assert found.table["column"][:4] == [*columns, "intercept"]
    weights = np.array(found.table["log_odds_per_unit"]).reshape(2, 4)
    assert weights[:, :3] == pytest.approx(slopes[1:] - slopes[0], rel=1e-5, abs=1e-9)
    intercepts = model.intercept_[order]
    assert weights[:, 3] == pytest.approx(intercepts[1:] - intercepts[0], rel=2e-3)
    two = ask(release, "discriminant", by="bank.owns", columns=columns[1:]).table["log_odds_per_unit"]
    half = LinearDiscriminantAnalysis().fit(joint[["clinic_age", "shop_visits"]], joint["bank_owns"])
    assert two[:2] == pytest.approx((half.coef_[0] * (N_ROWS - 2) / N_ROWS).tolist(), rel=1e-5, abs=1e-9)
    assert two[2] == pytest.approx(half.intercept_[0], rel=2e-3)


def test_canonical_correlations_are_those_of_two_owners_columns(release, joint):
    mine, theirs = ["bank.income", "bank.owns"], ["clinic.age", "clinic.risk"]
    indicators = np.column_stack([joint["clinic_risk"] == label for label in LABELS[1:]]).astype(float)
    second = np.column_stack([joint["clinic_age"], indicators])
    expected = CanCorr(joint[["bank_income", "bank_owns"]].to_numpy(), second)
    found = ask(release, "canonical-correlation", columns=mine, others=theirs, k=2)
    assert found.about["correlation"] == pytest.approx(expected.cancorr.tolist(), abs=2e-3)
    rows = np.column_stack([joint["bank_income"], joint["bank_owns"], second])
    combined = (rows - rows.mean(0)) / rows.std(0) * np.array(found.table["weight_1"])
    left, right = combined[:, :2].sum(1), combined[:, 2:].sum(1)
    assert [left.var(), right.var()] == pytest.approx([1.0, 1.0], rel=1e-6)
    assert np.mean(left * right) == pytest.approx(expected.cancorr[0], rel=1e-6)


def six_columns(n_rows=4000, seed=0):
    """Three owners with two columns each, which come from two factors."""
    rng = np.random.default_rng(seed)
    loadings = np.array([[0.8, 0.1], [0.7, 0.0], [0.6, 0.3], [0.0, 0.9], [0.2, 0.7], [0.1, 0.5]])
    common = rng.normal(size=(n_rows, 2)) @ loadings.T
    values = common + rng.normal(size=(n_rows, 6)) * np.sqrt(1 - (loadings**2).sum(1))
    values = np.clip(values, -5, 5)
    owners = ("bank", "clinic", "shop")
    return {
        name: table_of(name, {f"x{j}": (-5, 5, values[:, 2 * i + j]) for j in range(2)})
        for i, name in enumerate(owners)
    }, values


def test_factors_are_those_of_maximum_likelihood_rotated_by_varimax():
    tables, values = six_columns()
    plan = plan_for(kept_moments, tables, {"max_rows": 4000}, privacy={"epsilon": 1000.0, "delta": 1e-6})
    found = ask(released(tables, plan), "factors", k=2)
    fitted = Factor(corr=np.corrcoef(values.T), n_factor=2, method="ml").fit()
    fitted.rotate("varimax")
    mine = np.column_stack([found.table["factor_1"], found.table["factor_2"]])
    overlap = np.abs(mine.T @ fitted.loadings) / np.linalg.norm(mine, axis=0)[:, None]
    order = overlap.argmax(axis=1)
    assert sorted(order) == [0, 1]
    theirs = fitted.loadings[:, order]
    assert mine == pytest.approx(theirs * np.sign((mine * theirs).sum(0)), abs=2e-3)
    assert found.table["unique"] == pytest.approx(fitted.uniqueness.tolist(), abs=2e-3)
    assert 0.005 < max(found.table["factor_1_chance_error"]) < 0.1


def test_a_ridge_that_is_chosen_is_that_of_scikit_learn_with_the_same_penalty(tables, joint):
    noisy = released(tables, plan_of(tables, epsilon=0.3), np.random.default_rng(3))
    columns = ["clinic.age", "shop.visits", "bank.owns"]
    found = ask(noisy, "ridge", label="bank.income", columns=columns)
    assert found.about["ridge"] > 0
    assert found.about["expected_miss"] < 0.9 * found.about.get("expected_miss_without", np.inf)
    exact = released(tables, plan_of(tables, epsilon=0.3))
    again = ask(exact, "regress", label="bank.income", columns=columns, ridge=found.about["ridge"])
    widths = np.array([100.0, 8.0, 1.0])
    scaled = joint[["clinic_age", "shop_visits", "bank_owns"]].to_numpy() / widths
    expected = Ridge(alpha=found.about["ridge"]).fit(scaled, joint["bank_income"]).coef_ / widths
    assert again.table["per_unit"][:3] == pytest.approx(expected.tolist(), rel=1e-6)
    without = ask(released(tables, plan_of(tables, epsilon=1e5)), "ridge", label="bank.income", columns=columns)
    assert without.about["expected_miss"] <= without.about["expected_miss_without"]
    line = ask(released(tables, plan_of(tables, epsilon=1e5)), "regress", label="bank.income", columns=columns)
    assert without.table["per_unit"] == pytest.approx(line.table["per_unit"], rel=0.02)


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("anova", {"value": "bank.income", "columns": ["bank.income"]}, "must be other columns than 'bank.income'"),
        ("anova", {"value": "bank.income", "columns": ["clinic.risk=low", "clinic.risk"]}, "does not vary beyond"),
        ("anova", {"value": "bank.income"}, "the question anova needs columns"),
        ("logistic", {"label": "bank.income"}, "'bank.income' is a number; name a yes or no"),
        ("logistic", {"label": "bank.owns", "columns": ["bank.owns"]}, "cannot explain itself"),
        ("ridge", {"label": "bank.owns", "columns": ["bank.owns"]}, "cannot explain itself"),
        ("discriminant", {"by": "bank.income", "columns": ["clinic.age"]}, "'bank.income' is a number"),
        ("discriminant", {"by": "bank.owns", "columns": ["bank.owns"]}, "told apart by other columns"),
        ("canonical-correlation", {"columns": ["bank.owns"], "others": ["bank.owns"]}, "'bank.owns' stands on both"),
        (
            "canonical-correlation",
            {"columns": ["bank.owns"], "others": ["clinic.age"], "k": 2},
            "k must be from 1 to 1",
        ),
        ("factors", {"columns": ["bank.owns", "clinic.age"], "k": 1}, "1 factors are not determined by 2 columns"),
        ("factors", {"columns": ["bank.income", "bank.none", "clinic.age"]}, "the release has no column 'bank.none'"),
    ],
)
def test_what_no_model_is_of_is_refused_by_name(release, name, given, text):
    with pytest.raises(AnswerError, match=text):
        ask(release, name, **given)


def test_a_column_without_variance_has_no_model(tables):
    shop = type(tables["shop"])(tables["shop"].schema, tables["shop"].values * 0 + 1, tables["shop"].ids_digest)
    release = released({**tables, "shop": shop}, plan_of(tables), np.random.default_rng(1))
    three = ["bank.income", "clinic.age", "shop.visits"]
    for name, given in (
        ("factors", {"columns": three}),
        ("anova", {"value": "shop.visits", "columns": ["bank.owns"]}),
        ("anova", {"value": "bank.income", "columns": ["shop.visits"]}),
        ("canonical-correlation", {"columns": three[:2], "others": three[2:]}),
        ("discriminant", {"by": "clinic.risk", "columns": ["shop.visits"]}),
    ):
        with pytest.raises(AnswerError, match="not vary beyond the noise"):
            ask(release, name, **given)
