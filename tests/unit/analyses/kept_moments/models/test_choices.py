"""Logistic regressions of categories from a release without noise beside those of statsmodels on the rows."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from releases import joint_of, plan_of, released, tables_of
from statsmodels.miscmodels.ordinal_model import OrderedModel

from analyses.kept_moments.answer import AnswerError
from analyses.kept_moments.models.population import SUPPOSED, UNSTATED, VOUCHED
from analyses.kept_moments.questions import ask

N_ROWS = 10_000
COLUMNS = ["clinic.age", "shop.visits", "bank.owns"]
NUMBER = ["bank.income"]


@pytest.fixture(scope="module")
def case():
    """Features, the rank of each row's risk, and a release without noise."""
    tables = tables_of(N_ROWS)
    joint, rng = joint_of(tables), np.random.default_rng(3)
    features = np.column_stack([joint[name] for name in COLUMNS])
    latent = features @ [0.05, -0.5, 0.8] - 2.5 + rng.logistic(size=N_ROWS)
    rank = (latent > -0.3).astype(int) + (latent > 1.2)
    values = tables["clinic"].values.copy()
    values[:, 1:] = np.eye(3)[rank]
    changed = {**tables, "clinic": type(tables["clinic"])(tables["clinic"].schema, values, tables["clinic"].ids_digest)}
    return features, rank, released(changed, plan_of(changed, epsilon=1000.0))


def test_a_multinomial_model_is_near_that_of_greatest_likelihood(case):
    features, rank, release = case
    expected = sm.MNLogit(rank, np.column_stack([features, np.ones(N_ROWS)])).fit(disp=0)
    found = ask(release, "multinomial", label="clinic.risk", columns=COLUMNS)
    assert found.table["value"] == ["middle"] * 4 + ["high"] * 4
    off = (np.array(found.table["log_odds_per_unit"]) - expected.params.T.ravel()) / expected.bse.T.ravel()
    assert np.abs(off).max() < 0.5
    assert found.table["chance_error"] == pytest.approx(expected.bse.T.ravel().tolist(), rel=0.35)


def test_proportional_odds_are_near_those_of_greatest_likelihood(case):
    features, rank, release = case
    expected = OrderedModel(rank, features, distr="logit").fit(method="bfgs", disp=0)
    found = ask(release, "ordinal", label="clinic.risk", columns=COLUMNS)
    assert found.table["column"] == [*COLUMNS, "above low", "above middle"]
    slopes = np.array(found.table["log_odds_per_unit"][:3])
    assert np.abs((slopes - expected.params[:3]) / expected.bse[:3]).max() < 0.5
    thresholds = expected.model.transform_threshold_params(expected.params)[1:-1]
    assert found.table["log_odds_per_unit"][3:] == pytest.approx((-thresholds).tolist(), abs=0.05)
    assert found.table["chance_error"][:3] == pytest.approx(expected.bse[:3].tolist(), rel=0.35)


def test_a_yes_or_no_by_one_category_has_the_log_odds_of_the_table(case):
    _, rank, release = case
    found = ask(release, "multinomial", label="bank.owns", columns=["clinic.risk"]).table["log_odds_per_unit"]
    owns = joint_of(tables_of(N_ROWS))["bank.owns"]
    odds = [np.log(owns[rank == at].mean() / (1 - owns[rank == at].mean())) for at in range(3)]
    assert found == pytest.approx([odds[1] - odds[0], odds[2] - odds[0], odds[0]], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "label"), [("multinomial", "clinic.risk"), ("ordinal", "clinic.risk"), ("logistic", "clinic.risk=high")]
)
def test_odds_by_numbers_have_intervals_only_where_somebody_vouches_that_the_numbers_are_normal(case, name, label):
    given = {"label": label, "columns": ["shop.visits", "bank.owns"]}
    found, vouched = ask(case[2], name, **given), ask(case[2], name, **given, normal=True)
    by_categories = ask(case[2], name, label=label, columns=["bank.owns"])
    for column in ("interval", "p_value"):
        assert set(found.table[column]) == {None}
        assert None not in vouched.table[column] + by_categories.table[column]
    assert None not in found.table["log_odds_per_unit"] + found.table["chance_error"]
    assert found.notes[:2] == (SUPPOSED, UNSTATED)
    assert vouched.notes[:2] == (SUPPOSED, VOUCHED)
    assert not {SUPPOSED, UNSTATED, VOUCHED} & set(by_categories.notes)


def test_a_logistic_model_is_the_multinomial_one_and_by_moments_alone_where_noise_leaves_no_population(case):
    given = {"label": "clinic.risk=high", "columns": ["bank.owns", "bank.income"], "normal": True}
    found, same = (ask(case[2], name, **given) for name in ("logistic", "multinomial"))
    for column in ("log_odds_per_unit", "interval", "p_value"):
        assert found.table[column] == same.table[column]
    part = case[2].part([*given["columns"], given["label"]])
    noise = np.linalg.eigvalsh(part.centred.matrix[:-1, :-1])[0] / part.noise_level
    noisy = replace(case[2], deviation=case[2].deviation * noise)  # one level: enough for moments, and no population
    with pytest.raises(AnswerError, match="does not vary beyond the noise"):
        ask(noisy, "multinomial", **given)
    with_category, of_number = ask(noisy, "logistic", **given), ask(noisy, "logistic", **given | {"columns": NUMBER})
    assert with_category.table["interval"] == [None] * 3
    assert "weights by moments" in " ".join(with_category.notes)
    assert None not in with_category.table["log_odds_per_unit"] + with_category.table["noise_error"]
    assert None not in of_number.table["interval"]


@pytest.mark.parametrize("name", ["multinomial", "ordinal"])
def test_what_is_no_category_or_explains_itself_is_refused_by_name(case, name):
    release = case[2]
    with pytest.raises(AnswerError, match=r"'clinic\.age' is a number; name a category"):
        ask(release, name, label="clinic.age", columns=["bank.owns"])
    with pytest.raises(AnswerError, match=r"'clinic\.risk' cannot explain itself"):
        ask(release, name, label="clinic.risk", columns=["clinic.risk", "bank.owns"])
