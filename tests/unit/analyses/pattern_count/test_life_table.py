"""Survival from counts beside statsmodels on the rows, and its errors beside those of many releases."""

import json

import numpy as np
import pytest
from courses import GROUPS, N_INTERVALS, fields_of, rows_of
from scipy.stats import chi2
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

from analyses.kept_moments.answer import AnswerError
from analyses.pattern_count.life_table import Courses, survival


def asked(fields, by="shop.plan", **given):
    return survival(Courses.of(fields, "clinic.course", by), **given)


def test_curves_and_log_rank_are_those_of_statsmodels():
    rows = group, time, event = rows_of()
    found = asked(fields_of(rows), width=0.5)
    for at, name in enumerate(GROUPS):
        curve = SurvfuncRight(time[group == at] + 1, event[group == at])
        here = [one == name for one in found.table["group"]]
        n = len(curve.surv_prob)
        mine = {key: np.array(values)[here][:n] for key, values in found.table.items() if key != "interval"}
        assert mine["survival"] == pytest.approx(curve.surv_prob)
        assert mine["chance_error"] == pytest.approx(curve.surv_prob_se)
        assert mine["at_risk"] == pytest.approx(curve.n_risk)
        assert mine["until"][-1] == N_INTERVALS / 2
        area = 0.5 * (1 + curve.surv_prob[: N_INTERVALS - 1].sum())
        assert found.about["restricted_mean"][at] == pytest.approx(area)
    expected, p_value = survdiff(time + 1, event, group)
    assert found.about["log_rank"] == pytest.approx(expected)
    assert p_value < 1e-6
    assert found.about["p_value"] == pytest.approx(1 / 2001)


def test_without_a_difference_the_p_value_is_that_of_the_law_of_chi_squared():
    rows = rows_of(seed=3, hazards=(0.2, 0.2))
    found = asked(fields_of(rows)).about
    assert found["p_value"] == pytest.approx(chi2.sf(found["log_rank"], 1), abs=0.04)


def test_other_columns_are_added_up_and_one_group_is_all():
    rows = rows_of()
    assert asked(fields_of(rows, other_axis=True)).table["survival"] == asked(fields_of(rows)).table["survival"]
    whole = asked(fields_of(rows), by=None)
    curve = SurvfuncRight(rows[1] + 1, rows[2])
    assert whole.table["survival"][: len(curve.surv_prob)] == pytest.approx(curve.surv_prob)
    assert (whole.about["log_rank"], whole.about["p_value"]) == (None, None)


@pytest.mark.slow
def test_intervals_hold_and_noise_is_not_taken_for_a_difference():
    rng, held, of_means, p_values, errors, curves = np.random.default_rng(1), [], [], [], [], []
    true = np.cumprod(np.full(N_INTERVALS, 0.8))
    for run in range(60):
        found = asked(fields_of(rows_of(2000, seed=100 + run, hazards=(0.2, 0.2)), 5.0, rng))
        ends, until = found.table["interval"], found.table["until"]
        held += [low <= true[round(at) - 1] <= high for (low, high), at in zip(ends, until, strict=True)]
        area = 1 + true[: int(found.about["restricted_to"]) - 1].sum()
        of_means += [low <= area <= high for low, high in found.about["restricted_mean_interval"]]
        p_values.append(found.about["p_value"])
        curves.append(found.table["survival"][3])
        errors.append(np.hypot(found.table["noise_error"][3], found.table["chance_error"][3]))
    assert 0.9 < np.mean(held) < 0.99
    assert np.mean(of_means) > 0.88
    assert np.mean(np.array(p_values) < 0.1) < 0.25
    assert np.std(curves) == pytest.approx(np.median(errors), rel=0.3)


def test_noise_about_intervals_without_events_does_not_lower_the_shares_after_them():
    rng, n_intervals, deviation = np.random.default_rng(4), 20, 10.0
    left = np.zeros((1, n_intervals))
    left[0, -1] = 1000.0
    found = []
    for _ in range(12):
        noisy = [of + rng.normal(0, deviation, of.shape) for of in (0 * left, left)]
        found.append(survival(Courses(("all",), *noisy, deviation**2)))
    ends = np.array([one.table["interval"][18] for one in found])
    assert np.sum((ends[:, 0] <= 1) & (ends[:, 1] >= 1)) >= 9
    assert sum(one.about["restricted_mean_interval"][0][1] == n_intervals for one in found) >= 9
    assert all(max(one.table["survival"]) <= 1 for one in found)


def test_a_few_rows_without_an_event_do_not_make_it_sure_that_none_comes():
    for rows in (2, 5, 30):
        found = survival(Courses(("all",), np.zeros((1, 2)), np.array([[0.0, rows]]), 1e-6))
        low, high = found.table["interval"][0]
        assert found.table["survival"][0] == 1 == high
        assert low == pytest.approx(max(0.0, 1 - 3.1 / rows), abs=0.01)
        assert found.about["restricted_mean_interval"] == [[pytest.approx(1 + low, abs=0.01), 2.0]]


def test_a_group_that_the_noise_hides_has_no_curve_and_a_long_tail_is_cut():
    rows = rows_of(2000)
    few = asked(fields_of(rows, 25.0, np.random.default_rng(2)))
    assert few.about["restricted_to"] < N_INTERVALS
    json.dumps(few.to_dict(), allow_nan=False)
    with pytest.raises(AnswerError, match="rows of group old are not distinguishable from noise: ask for a larger"):
        asked(fields_of(rows_of(20), 50.0, np.random.default_rng(2)))


@pytest.mark.parametrize(
    ("changes", "time", "by", "text"),
    [
        ({}, "clinic.none", None, "the table has no column 'clinic.none'; it has clinic.course, shop.plan"),
        ({}, "clinic.course", "clinic.course", "must be those of another column"),
        ({}, "shop.plan", None, r"'shop.plan' must hold 2 \* interval \+ event"),
        ({"method": "randomized-response"}, "clinic.course", None, "depend on each other: ask by mpc"),
        ({"categories": {"clinic.course": [0, 14]}}, "clinic.course", None, "from 0 to an odd number"),
    ],
)
def test_counts_that_are_no_courses_are_refused_by_name(changes, time, by, text):
    with pytest.raises(AnswerError, match=text):
        Courses.of(fields_of(rows_of(50)) | changes, time, by)


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf")])
def test_an_interval_has_a_length(width):
    with pytest.raises(AnswerError, match="the width of an interval must be above 0"):
        asked(fields_of(rows_of()), width=width)


def test_no_events_are_a_curve_at_one_and_no_test():
    group, time, event = rows_of()
    found = asked(fields_of((group, time, event & False)))
    assert set(found.table["survival"]) == {1.0}
    assert all(high == 1 and low < 1 for low, high in found.table["interval"])
    assert (found.about["log_rank"], found.about["p_value"]) == (None, None)
    json.dumps(found.to_dict(), allow_nan=False)
