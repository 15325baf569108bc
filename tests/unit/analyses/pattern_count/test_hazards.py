"""Hazard ratios from counts beside statsmodels, and how often their intervals hold."""

import numpy as np
import pytest
import statsmodels.api as sm
from courses import GROUPS, N_INTERVALS, fields_of, rows_of
from statsmodels.duration.hazard_regression import PHReg

from analyses.kept_moments.answer import AnswerError
from analyses.pattern_count.hazards import hazard_ratios
from analyses.pattern_count.life_table import Courses, at_risk_of

TRUE = np.log(np.log(1 - 0.15) / np.log(1 - 0.25))


def asked(fields, by="shop.plan"):
    return hazard_ratios(Courses.of(fields, "clinic.course", by))


def test_ratios_are_those_of_the_grouped_model_and_near_those_of_cox():
    group, time, event = rows = rows_of()
    fields = fields_of(rows)
    found = asked(fields)
    courses = Courses.of(fields, "clinic.course", "shop.plan")
    at_risk, used = at_risk_of(courses.events + courses.left), courses.events.sum(axis=0) > 0
    cells = [(g, i) for g in range(2) for i in np.flatnonzero(used)]
    outcome = [(courses.events[at], at_risk[at] - courses.events[at]) for at in cells]
    features = [[g, *(i == one for one in np.flatnonzero(used))] for g, i in cells]
    link = sm.families.links.CLogLog()
    grouped = sm.GLM(np.array(outcome), np.array(features, dtype=float), family=sm.families.Binomial(link=link)).fit()
    assert found.table["group"] == [GROUPS[1]]
    assert found.table["log_hazard_ratio"] == pytest.approx([grouped.params[0]], abs=1e-6)
    assert found.table["chance_error"] == pytest.approx([grouped.bse[0]], rel=1e-4)
    cox = PHReg(time + 1, group.astype(float)[:, None], status=event, ties="efron").fit()
    assert found.table["log_hazard_ratio"] == pytest.approx([cox.params[0]], abs=0.2 * cox.bse[0])
    assert found.table["hazard_ratio"][0] == pytest.approx(np.exp(cox.params[0]), rel=0.01)
    assert found.about["events"] == event.sum()


@pytest.mark.slow
def test_intervals_hold_where_there_is_noise():
    rng, held = np.random.default_rng(1), []
    for run in range(60):
        found = asked(fields_of(rows_of(2000, seed=300 + run), 5.0, rng))
        ((low, high),) = found.table["interval"]
        held.append(low <= TRUE <= high)
    assert np.mean(held) > 0.85


def test_what_cannot_be_compared_is_refused_by_name():
    rows = group, time, event = rows_of(2000)
    with pytest.raises(AnswerError, match="compared between groups: name their column"):
        asked(fields_of(rows), by=None)
    with pytest.raises(AnswerError, match="events of group new are not distinguishable from noise"):
        asked(fields_of((group, time, event & (group == 0))))
    with pytest.raises(AnswerError, match="no interval has events beyond the noise"):
        asked(fields_of((group, time, event & False)))
    hidden = asked(fields_of(rows, 12.0, np.random.default_rng(2)))
    assert hidden.notes[-1].endswith(f"of {N_INTERVALS} intervals have events that the noise hides, and are left out")
