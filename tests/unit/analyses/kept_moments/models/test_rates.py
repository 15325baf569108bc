"""Log-linear models of a release without noise beside those of statsmodels on the rows; and what has none."""

import numpy as np
import pytest
import statsmodels.api as sm
from moment_jobs import table_of
from releases import joint_of, plan_of, released, tables_of

from analyses.kept_moments.answer import AnswerError
from analyses.kept_moments.models import rates
from analyses.kept_moments.models.population import EVEN, SUPPOSED, UNSTATED, VOUCHED, Features, stated
from analyses.kept_moments.questions import ask
from bench.coverage.models import models, skewed
from results.generic.answer import ReleaseAnswer

N_ROWS = 20_000
COLUMNS = ["clinic.age", "shop.visits", "clinic.risk", "bank.owns"]
LOG = sm.families.links.Log()
NAMES = ["clinic.age", "shop.visits", "clinic.risk=middle", "clinic.risk=high", "bank.owns"]
WEIGHTS = [0.03, -0.3, 0.5, 1.0, 0.4]


def with_claims(tables, weights=WEIGHTS, seed=50):
    """Add claims at the bank, and the logarithm of the days in which they came."""
    joint, rng = joint_of(tables), np.random.default_rng(seed)
    log_days = np.clip(rng.normal(0, 0.5, len(joint["bank.owns"])), -2, 2)
    rate = sum(w * joint[name] for w, name in zip(weights, NAMES, strict=True)) - 2.5 + log_days
    claims = np.clip(rng.poisson(np.exp(rate)), 0, 30)
    bank = table_of(
        "bank",
        {
            "income": (0, 80, joint["bank.income"]),
            "owns": (0, 1, joint["bank.owns"]),
            "claims": (0, 30, claims),
            "log_days": (-2, 2, log_days),
            "loss": (-5, 5, log_days),
        },
    )
    return {**tables, "bank": bank}


@pytest.fixture(scope="module")
def tables():
    return with_claims(tables_of(N_ROWS))


@pytest.fixture(scope="module")
def release(tables):
    return released(tables, plan_of(tables, epsilon=1000.0))


def test_weights_and_errors_are_near_those_of_greatest_likelihood_with_an_offset(tables, release):
    joint = joint_of(tables)
    features = np.column_stack([*(joint[name] for name in NAMES), np.ones(N_ROWS)])
    model = sm.GLM(joint["bank.claims"], features, family=sm.families.Poisson(), offset=joint["bank.log_days"])
    expected = model.fit()
    found = ask(release, "poisson", label="bank.claims", columns=COLUMNS, offset="bank.log_days")
    assert found.table["column"] == [*NAMES, "intercept"]
    off = (np.array(found.table["log_rate_per_unit"]) - expected.params) / expected.bse
    assert np.abs(off).max() < 0.5
    assert found.table["chance_error"] == pytest.approx(expected.bse.tolist(), rel=0.35)
    assert found.table["rate_ratio"] == pytest.approx(np.exp(expected.params).tolist(), rel=0.02)
    assert found.about["dispersion"] == pytest.approx(expected.pearson_chi2 / expected.df_resid, abs=0.1)


def test_rates_by_numbers_have_intervals_only_where_somebody_vouches_that_the_numbers_are_normal(release):
    given = {"label": "bank.claims", "columns": COLUMNS, "offset": "bank.log_days"}
    found, vouched = ask(release, "poisson", **given), ask(release, "poisson", **given, normal=True)
    for name in ("interval", "rate_ratio_interval", "p_value"):
        assert found.table[name] == [None] * 6
        assert None not in vouched.table[name]
    for name in ("log_rate_per_unit", "rate_ratio", "noise_error", "chance_error"):
        assert None not in found.table[name]
    assert found.notes == (SUPPOSED, UNSTATED)
    assert vouched.notes == (SUPPOSED, VOUCHED)
    assert "+- is 1.96 standard errors" in ReleaseAnswer(found, "poisson", ()).lines
    assert "+- is half of a 95 % interval" in ReleaseAnswer(vouched, "poisson", ()).lines
    by_offset = ask(release, "poisson", label="bank.claims", columns=["bank.owns"], offset="bank.log_days")
    assert by_offset.table["interval"] == [None] * 2  # the offset is a number too
    assert None not in ask(release, "poisson", label="bank.claims", columns=["clinic.risk"]).table["interval"]


def drawn_again(tables, name, seed=7):
    """Replace claims by numbers of the same mean and a variance that grows with its square."""
    joint, rng = joint_of(tables), np.random.default_rng(seed)
    rate = sum(w * joint[one] for w, one in zip(WEIGHTS, NAMES, strict=True)) - 2.5 + joint["bank.log_days"]
    scaled = np.exp(rate) * rng.gamma(2.0, 0.5, N_ROWS)
    values = tables["bank"].values.copy()
    values[:, 2] = np.clip(rng.poisson(scaled) if name == "negative-binomial" else scaled, 0, 30)
    bank = type(tables["bank"])(tables["bank"].schema, values, tables["bank"].ids_digest)
    changed = {**tables, "bank": bank}
    return joint_of(changed), released(changed, plan_of(changed, epsilon=1000.0))


@pytest.mark.parametrize("name", ["negative-binomial", "gamma"])
def test_models_of_other_variances_are_near_those_of_statsmodels_with_an_offset(tables, name):
    joint, release = drawn_again(tables, name)
    features = np.column_stack([*(joint[one] for one in NAMES), np.ones(N_ROWS)])
    claims, days = joint["bank.claims"], joint["bank.log_days"]
    same = sm.GLM(claims, features, family=sm.families.Poisson(), offset=days).fit(cov_type="HC0")
    found = ask(release, name, label="bank.claims", columns=COLUMNS, offset="bank.log_days", normal=True)
    what = "rate" if name == "negative-binomial" else "mean"
    weights = np.array(found.table[f"log_{what}_per_unit"])
    assert np.abs((weights - same.params) / same.bse).max() < 0.5
    assert found.table["chance_error"] == pytest.approx(same.bse.tolist(), rel=0.35)
    assert found.about["dispersion"] == pytest.approx(0.5, abs=0.1)
    kinds = {"negative-binomial": sm.families.NegativeBinomial(alpha=0.5), "gamma": sm.families.Gamma(LOG)}
    own = sm.GLM(np.maximum(claims, 1e-3) if name == "gamma" else claims, features, family=kinds[name], offset=days)
    likeliest = own.fit()
    assert np.abs((weights - likeliest.params) / same.bse).max() < 2.0
    by_group = ask(release, name, label="bank.claims", columns=["clinic.risk"])
    groups = np.column_stack([features[:, 2:4], np.ones(N_ROWS)])
    exact = sm.GLM(own.endog, groups, family=kinds[name]).fit().params
    assert by_group.table[f"log_{what}_per_unit"] == pytest.approx(exact.tolist(), abs=1e-3)
    assert None not in by_group.table["interval"]


def test_rates_by_one_category_are_the_means_of_its_groups(tables, release):
    joint = joint_of(tables)
    found = ask(release, "poisson", label="bank.claims", columns=["clinic.risk"])
    means = [joint["bank.claims"][joint[f"clinic.risk={one}"] == 1].mean() for one in ("low", "middle", "high")]
    expected = [np.log(means[1] / means[0]), np.log(means[2] / means[0]), np.log(means[0])]
    assert found.table["log_rate_per_unit"] == pytest.approx(expected, rel=1e-6)


def test_errors_by_categories_alone_are_those_of_statsmodels(tables, release):
    joint = joint_of(tables)
    features = np.column_stack([joint[one] for one in NAMES[2:4]] + [np.ones(N_ROWS)])
    given = {"label": "bank.claims", "columns": ["clinic.risk"]}
    likeliest = sm.GLM(joint["bank.claims"], features, family=sm.families.Poisson()).fit(scale="X2")
    assert ask(release, "poisson", **given).table["chance_error"] == pytest.approx(likeliest.bse.tolist(), rel=0.25)
    likeliest = sm.Logit(joint["bank.owns"], features).fit(disp=0)
    for name in ("multinomial", "logistic"):
        found = ask(release, name, label="bank.owns", columns=["clinic.risk"]).table
        assert found["log_odds_per_unit"] == pytest.approx(likeliest.params.tolist(), abs=1e-5)
        assert found["chance_error"] == pytest.approx(likeliest.bse.tolist(), rel=0.25)


def test_small_parts_are_numbers_and_three_categories_are_an_approximation(tables):
    joint, rng = joint_of(tables), np.random.default_rng(4)
    small = np.clip(rng.exponential(0.015, N_ROWS), 0, 1)  # x - x^2 is small, as it is of a yes or no
    shop = table_of("shop", {"part": (0, 1, small), "claims": (0, 30, joint["bank.claims"])})
    found = released({**tables, "shop": shop}, plan_of({**tables, "shop": shop}, epsilon=1000.0))
    assert Features.of(found, "shop.claims", ["shop.part", "bank.owns"]).numbers == (0,)
    assert ask(found, "poisson", label="shop.claims", columns=["shop.part"]).table["interval"] == [None] * 2
    three = Features(("a", "b", "c"), ((0,), (1,), (2,)), ())
    assert stated(three, np.ones(4), normal=False)[1] == (EVEN,)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"label": "bank.loss"}, "'bank.loss' may be negative by its bounds"),
        ({"label": "bank.claims", "columns": ["bank.claims"]}, "cannot explain itself"),
        ({"label": "bank.claims", "offset": "bank.claims"}, "the offset must be another column"),
        ({"label": "bank.claims", "offset": "bank.days"}, "the release has no column 'bank.days'"),
        ({"label": "bank.claims", "columns": ["clinic.age"], "offset": "bank.owns"}, "'bank.owns' is no number"),
    ],
)
def test_what_has_no_rates_is_refused_by_name(release, given, text):
    with pytest.raises(AnswerError, match=text):
        ask(release, "poisson", **given)


def test_a_label_that_is_hidden_in_a_category_has_no_rates():
    tables = tables_of(2000)
    none = table_of("shop", {"visits": (0, 8, joint_of(tables)["clinic.risk=low"])})
    hidden = released({**tables, "shop": none}, plan_of({**tables, "shop": none}, epsilon=8.0))
    with pytest.raises(AnswerError, match=r"not distinguishable from 0 in some category of clinic\.risk"):
        ask(hidden, "poisson", label="shop.visits", columns=["clinic.risk"])


@pytest.mark.parametrize("columns", [["clinic.age"], ["clinic.risk"]])
@pytest.mark.parametrize("name", ["poisson", "negative-binomial", "gamma"])
def test_a_label_that_is_hidden_in_all_rows_has_no_rates(name, columns):
    tables = tables_of(2000)
    few = table_of("shop", {"visits": (0, 8, (np.arange(2000) < 4).astype(float))})
    hidden = released({**tables, "shop": few}, plan_of({**tables, "shop": few}, epsilon=8.0), np.random.default_rng(6))
    with pytest.raises(AnswerError, match="not distinguishable from 0"):
        ask(hidden, name, label="shop.visits", columns=columns)


def test_a_spread_that_noise_may_hide_is_said_and_has_no_errors_by_chance(release, monkeypatch):
    """A label of 0 and 1 varies less about its mean than a count does."""
    given = {"label": "bank.owns", "columns": ["clinic.risk"]}
    found = ask(release, "negative-binomial", **given)
    assert found.about["dispersion"] < 0
    assert found.notes[-1] == rates._SMALL_SPREAD
    assert None not in found.table["interval"]
    own = rates.of_noise
    monkeypatch.setattr(rates, "of_noise", lambda *given: np.append(own(*given)[:-1], np.nan))
    unknown = ask(release, "negative-binomial", **given)
    assert unknown.notes[-2:] == (rates._UNKNOWN_SPREAD, rates._SMALL_SPREAD)
    for name in ("chance_error", "interval", "rate_ratio_interval", "p_value"):
        assert unknown.table[name] == [None] * 3


@pytest.mark.slow
def test_intervals_of_all_models_hold_for_the_weights_that_made_the_rows():
    for one in models(8):
        assert one.held is None or one.held > 0.85, one


@pytest.mark.slow
def test_intervals_of_skewed_numbers_do_not_hold_so_that_somebody_must_vouch():
    held = {one.what.split()[-1]: one.held for one in skewed(4, (0.5,))}
    assert set(held) == {"poisson", "multinomial", "ordinal", "logistic"}
    assert max(held.values()) < 0.75, held
