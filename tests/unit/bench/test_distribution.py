"""The figures about distributions: their verdicts, targets and page, and the methods that stand for the source's."""

import json
from dataclasses import replace

import numpy as np
import pytest

from analyses.distribution.estimates.metrics import mean_of, variance_of
from bench.distribution import __main__ as program
from bench.distribution import methods
from bench.distribution.claims import verdicts
from bench.distribution.figures import KS, LARGE, QUANTILES, W1, Setting, at_the_sources_n, distances_and_statistics
from bench.distribution.methods import ADMM, CFO, EM, EMS, MASKED, PM, SR
from bench.distribution.page import page
from bench.distribution.picture import CAPTIONS
from bench.distribution.samples import BETA, SAMPLES, TAXI, WAGES, inputs_of, share
from bench.distribution.targets import reached
from dp.local_mechanism.odds import Odds


def setting(data=BETA, epsilon=1.0, **errors):
    worse = dict.fromkeys((EM, ADMM, *CFO, *(f"{way}, isotonic" for way in CFO)), 0.02)
    return Setting("3.2", data, epsilon, "W1", worse | {EMS: 0.004, MASKED: 0.0001} | errors)


def verdict_on(text, *settings):
    (found,) = [v for v in verdicts(settings) if text in v.claim]
    return found


def test_a_claim_about_most_cases_holds_in_more_than_half_of_them():
    good, bad = setting(), setting(TAXI, **{CFO[0]: 0.001})
    best = "3.2, W1: SW+EMS errs least in most cases"
    assert verdict_on(best, good, setting(epsilon=2.0), bad).holds
    assert not verdict_on(best, good, bad).holds
    assert "1 of 2; not at taxi, epsilon 1, W1: 4.00 to 1.00" in verdict_on(best, good, bad).numbers


def test_a_claim_that_fails_by_less_than_runs_differ_is_not_decidable_unless_it_fails_too_often():
    optimal = "still worse than SW+EMS (bins by norm-sub"
    close, far = setting(TAXI, **{CFO[1]: 0.0036}), setting(TAXI, **{CFO[1]: 0.001})
    assert verdict_on(optimal, setting(), close).text == "no verdict: not decidable on this data"
    assert verdict_on(optimal, setting(), close, far).text == "**does not hold**"
    assert verdict_on(optimal, *[close] * 4).text == "no verdict: not decidable on this data"  # 1 toss of 16
    assert verdict_on(optimal, *[close] * 5).text == "**does not hold**"


def test_other_claims_hold_in_all_cases_only():
    optimal = "worse than SW+EMS (bins by norm-sub"
    assert verdict_on(optimal, setting(), setting(epsilon=2.0)).holds
    assert not verdict_on(optimal, setting(), setting(epsilon=2.0), setting(TAXI, **{CFO[1]: 0.001})).holds
    assert all(v.holds is None for v in verdicts([]))


def test_a_target_that_is_missed_is_said():
    settings = [setting(epsilon=0.5), setting(**{EMS: 0.006})]
    small, missed, ratio = reached(settings, [])
    assert (small.is_met, missed.is_met, ratio.is_met) == (True, False, True)
    assert missed.measured == "0.0060"
    assert ratio.measured == "40 at 0.5, 60 at 1"
    assert not reached([setting(**{MASKED: 0.0003})], [])[-1].is_met


def test_the_page_is_written_from_what_is_kept():
    kept = json.loads(program.RESULTS.read_text())
    assert set(kept) <= set(program.PARTS)
    assert (program.DOCS / "analyses" / "distribution-figures.md").read_text() == page(kept)
    assert all((program.DOCS / "images" / f"{name}.png").exists() for name in CAPTIONS)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_have_as_many_values_as_is_said_all_within_the_range(name):
    values = SAMPLES[name].draw(0)
    assert f"{len(values):,}" in SAMPLES[name].what
    assert 0 <= values.min() <= values.max() < 1


def test_settings_of_few_values_name_every_way():
    found = list(distances_and_statistics(replace(SAMPLES[BETA], n_buckets=64), quick=True))
    by_metric = {s.metric: s for s in found}
    assert {EMS, EM, ADMM, *CFO, MASKED} <= set(by_metric["W1"].errors)
    assert {"HH", "HaarHRR"} <= set(by_metric["range .1"].errors) - set(by_metric["W1"].errors)
    assert {SR, PM} <= set(by_metric["mean"].errors) & set(by_metric["variance"].errors)
    assert [Setting.from_json(json.loads(json.dumps(s.as_json()))) for s in found] == found


def test_as_many_values_as_the_source_has_show_distances_and_quantiles():
    found = list(at_the_sources_n(WAGES, quick=True))
    assert {(s.figure, s.epsilon) for s in found} == {(LARGE, 1.0), (LARGE, 2.5)}
    assert {s.metric for s in found} == {KS, QUANTILES, W1}
    assert all({EMS, EM, ADMM, *CFO} <= set(s.errors) for s in found)


def test_means_and_variances_of_two_halves_are_near_the_truth_where_there_is_little_noise():
    inputs, odds = inputs_of(SAMPLES[BETA].draw(1), 64), Odds.of_epsilon(8.0)
    truth = share(inputs, 64)
    for way, found in methods.means(inputs, 64, odds, 1).items():
        assert found == pytest.approx(mean_of(truth), abs=0.006), way
    for way, found in methods.variances(inputs, 64, odds, 1).items():
        assert found == pytest.approx(variance_of(truth), abs=0.004), way
    assert np.var(SAMPLES[BETA].draw(1)) == pytest.approx(variance_of(truth), abs=1e-3)
