"""Contrasts, odds ratios and lines step by step of a release without noise beside statsmodels on the rows."""

import numpy as np
import pandas
import pytest
import statsmodels.api as sm
from releases import LABELS, joint_of, plan_of, released, tables_of
from scipy.stats import norm
from statsmodels.formula.api import ols
from statsmodels.stats.contingency_tables import Table2x2

from analyses.kept_moments.answer import AnswerError
from analyses.kept_moments.questions import ask

N_ROWS = 3000


@pytest.fixture(scope="module")
def joint():
    return joint_of(tables_of(N_ROWS))


@pytest.fixture(scope="module")
def release():
    tables = tables_of(N_ROWS)
    return released(tables, plan_of(tables, epsilon=1000.0))


def test_contrasts_are_those_of_a_line_with_holms_p_values(joint, release):
    risk = np.array(LABELS)[np.argmax([joint[f"clinic.risk={one}"] for one in LABELS], axis=0)]
    rows = pandas.DataFrame({"income": joint["bank.income"], "age": joint["clinic.age"], "risk": risk})
    line = ols("income ~ C(risk, levels=['low', 'middle', 'high']) + age", rows)
    pairs = line.fit().t_test_pairwise("C(risk, levels=['low', 'middle', 'high'])", method="holm").result_frame
    found = ask(release, "contrasts", value="bank.income", by="clinic.risk", columns=["clinic.age"]).table
    assert list(zip(found["clinic.risk"], found["less"], strict=True)) == [
        ("middle", "low"), ("high", "low"), ("high", "middle"),
    ]  # fmt: skip
    assert found["difference"] == pytest.approx(pairs["coef"].tolist(), rel=1e-6)
    assert found["chance_error"] == pytest.approx(pairs["std err"].tolist(), rel=1e-6)
    alone = ask(release, "contrasts", value="shop.visits", by="clinic.risk").table
    whole = np.hypot(alone["noise_error"], alone["chance_error"])
    p = [2 * norm.sf(abs(v / e)) for v, e in zip(alone["difference"], whole, strict=True)]
    assert alone["p_value"] == pytest.approx(p)
    assert alone["p_value_adjusted"] == pytest.approx(sm.stats.multipletests(p, method="holm")[1].tolist())


def test_odds_ratios_are_those_of_the_table(joint, release):
    found = ask(release, "odds-ratios", down="clinic.risk", across="bank.owns").table
    for at, label in enumerate(LABELS[1:]):
        inside = [(joint[f"clinic.risk={one}"] == 1) for one in ("low", label)]
        counts = [[float(np.sum(rows & (joint["bank.owns"] == owns))) for owns in (0, 1)] for rows in inside]
        expected = Table2x2(np.array(counts))
        assert found["log_odds_ratio"][at] == pytest.approx(expected.log_oddsratio)
        assert found["chance_error"][at] == pytest.approx(expected.log_oddsratio_se)
        assert found["odds_ratio"][at] == pytest.approx(expected.oddsratio)


def test_a_line_keeps_the_columns_that_the_criterion_keeps_and_states_no_interval(joint, release):
    found = ask(release, "stepwise", label="bank.income")
    assert found.about["taken_out"] == ["bank.owns"]
    names = ["clinic.age", "clinic.risk=middle", "clinic.risk=high", "shop.visits"]
    assert found.table["column"] == names
    features = sm.add_constant(np.column_stack([joint[name] for name in names]))
    kept = sm.OLS(joint["bank.income"], features).fit()
    assert found.table["per_unit"] == pytest.approx(kept.params[1:].tolist(), rel=1e-6)
    more = sm.OLS(joint["bank.income"], np.column_stack([features, joint["bank.owns"]])).fit()
    less = sm.OLS(joint["bank.income"], features[:, :-1]).fit()
    assert more.bic > kept.bic < less.bic
    assert not [name for name in found.table if "interval" in name or "p_value" in name]
    assert "warning: a choice by the data itself" in found.notes[0]
    alone = ask(release, "stepwise", label="bank.income", columns=["bank.owns"])
    assert alone.notes[-1] == "the data do not show that bank.owns explains bank.income"


def test_contrasts_of_a_column_with_itself_are_refused(release):
    for given in ({"by": "bank.owns"}, {"by": "clinic.risk", "columns": ["clinic.risk"]}):
        with pytest.raises(AnswerError, match="must be different columns"):
            ask(release, "contrasts", value="bank.owns", **given)
