"""What is forecast of questions to devices, beside the answers of real rounds and of real responses."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from masked_sums import identity_of
from surveys import OF_PERSONS, asked, survey_question

from analyses.distribution.estimates.estimate import estimated
from analyses.distribution.estimates.tally import tally_of
from analyses.distribution.estimates.wave_moments import moments, sign_mean
from analyses.distribution.estimates.wave_operator import WaveOperator
from analyses.distribution.methods import METHODS, takes_choices
from analyses.job.forecast import Wanted
from analyses.job.job import JobError
from analyses.sums.records import DeclaredRecord, Record, contribution
from analyses.sums.secure_sum import SumParams, answer, round_config
from entropy import InsecureTestEntropy
from mpc.secagg.simulation import run_locally
from questions.cohorts import MaskedQuestion, combined
from questions.forecast import epsilon_of, plan_of, with_epsilon
from questions.reading import question_from_toml

NAMES = [f"party-{i}" for i in range(1, 8)]
IDENTITIES = {name: identity_of(i).public_bytes for i, name in enumerate(NAMES, start=1)}
TARGET = {"privacy": {"epsilon": 20.0, "delta": 1e-5}}
SUMS = {
    "sum": {"analysis": "secure-sum", "length": 40, "units": 8, "largest": 10},
    "counts": {"analysis": "secure-histogram", "largest": 5, "edges": np.arange(41.0).tolist()},
    "mean": {"analysis": "secure-mean", "length": 40, "units": 8, "largest": 10, "largest_weight": 2},
}
RUNS = 5
STRONG = {"privacy": {"epsilon": 400.0, "delta": 1e-5}}
"""A mean is divided by the noisy weight of all, which must be seen."""


def question_of(key, **changes):
    return SumParams.model_validate({"record": "steps", **SUMS[key], **TARGET, **changes})


def answer_of(question, run, names=NAMES):
    """Run a real round of members whose entries are 0 and whose weights are 1, half of the largest one."""
    record = Record(np.zeros(question.length) if question.analysis != "secure-histogram" else np.array([-1.0]), 1)
    found = contribution(question, DeclaredRecord.as_asked(question), record)
    config = round_config(question, f"session {run}", {name: IDENTITIES[name] for name in names})
    noise = question.noise(config.topology)

    def entropy_of(member):
        return InsecureTestEntropy(f"run {run}, member {member}")

    opened = run_locally(
        config,
        lambda member: question.encoding.encode(found.vector, entropy_of(member), found.weight).values,
        {i: identity_of(NAMES.index(name) + 1) for i, name in enumerate(names, start=1)},
        entropy_of,
        noise_of=lambda member, seeds: noise.draw(entropy_of(member), seeds),
    )
    return answer(question, opened, config)


@pytest.mark.parametrize("key", SUMS)
def test_sums_of_devices_spread_as_was_forecast_and_as_they_state(key):
    question = question_of(key, **(STRONG if key == "mean" else {}))
    (forecast,) = plan_of(question, len(NAMES)).forecast.quantities
    answers = [answer_of(question, run) for run in range(RUNS)]
    values = np.array([found[key] for found in answers])
    assert 0.8 < values.std() / forecast.standard_error < 1.25, "200 values: a deviation of them is off by 5 %"
    stated = np.mean([found["standard_errors"] for found in answers])
    assert stated == pytest.approx(forecast.standard_error, rel=0.25 if key == "mean" else 1e-9)


def test_more_members_do_not_err_more_and_the_number_is_that_of_those_who_are_named():
    of = question_of("mean", **STRONG)
    few, many = (plan_of(of, n).forecast.quantities[0].standard_error for n in (7, 70))
    assert many < few / 5
    named = plan_of(question_of("mean", members=NAMES, **STRONG))
    assert (named.members, named.forecast) == (7, plan_of(of, 7).forecast)
    with pytest.raises(JobError, match="--members"):
        plan_of(question_of("mean"))


def test_a_cost_is_stated_beforehand_as_the_answer_states_it_at_worst():
    question = question_of("sum")
    planned = plan_of(question, len(NAMES)).privacy["views"]["coalition"]["epsilon"]
    assert answer_of(question, 0)["privacy"]["views"]["coalition"]["epsilon"] <= planned <= 20.0


def test_a_question_whose_noise_exceeds_every_answer_says_so():
    weak = {"privacy": {"epsilon": 0.001, "delta": 1e-5}}
    assert "no answer could be seen" in plan_of(question_of("sum", **weak), 7).forecast.infeasible
    assert "may come out anywhere" in plan_of(question_of("mean", **weak), 7).forecast.not_forecast[0]
    assert not plan_of(question_of("sum"), 7).forecast.infeasible


def test_an_exact_sum_has_no_errors():
    found = plan_of(question_of("sum", privacy=None), 7)
    assert found.forecast.quantities == ()
    assert "protects nobody" in found.forecast.assumptions[0]
    json.dumps(found.as_dict(), allow_nan=False)


def test_a_forecast_says_how_long_an_estimate_takes_where_it_takes_long():
    def said(**changes):
        forecast = plan_of(survey_question(**changes), 1000).forecast
        return [sentence for sentence in forecast.assumptions if "processor" in sentence]

    assert said(buckets=256) == []
    (long,) = said(buckets=16384)
    (longer,) = said(buckets=16384, method="triangle", smoothing=1)
    assert "about 28 s" in long
    assert "about 11 s" in longer


@pytest.mark.parametrize(
    ("method", "read"),
    [
        ("wave", "closed_mean"),
        ("piecewise", "closed_mean"),
        ("sign", "closed_mean"),
        ("direct", "probabilities"),
        ("tree", "mean"),
        ("haar", "mean"),
    ],
)
def test_surveys_spread_as_was_forecast(method, read):
    """Values are spread evenly, as a forecast takes it; with 16 bins none is rare, so shares vary a little more."""
    n, runs = 2000, 24
    question = survey_question(method=method, epsilon=2.0, **({"buckets": 16} if method == "direct" else {}))
    forecast = plan_of(question, n).forecast.quantities[0]
    found = []
    for run in range(runs):
        survey = asked(f"{run:032x}", method=method, epsilon=2.0, buckets=question.buckets)
        values = np.arange(n) % question.buckets
        tally, entropy = tally_of(question.inquiry.response), InsecureTestEntropy(f"{method} {run}")
        if not takes_choices(question.inquiry.response) and method != "direct":
            tally.add(question.inquiry.response.respond(values, entropy), None)
        else:
            choices = survey.choices([f"device-{number}" for number in range(n)])
            tally.add(question.inquiry.response.respond(values, choices, entropy), choices)
        found.append(estimated(question.inquiry, tally)[read])
    spread = float(np.sqrt(np.mean(np.var(np.array(found), axis=0, ddof=1))))
    assert 0.7 < spread / forecast.standard_error < 1.4, "24 runs: a deviation of them is off by 15 %"


def test_a_survey_that_does_not_say_when_it_ends_must_be_told_how_many_answer():
    assert plan_of(survey_question(responses=500)).members == 500
    with pytest.raises(JobError, match="--members"):
        plan_of(survey_question())
    assert plan_of(survey_question(method="tree"), 80).forecast.not_forecast


def test_masked_surveys_spread_as_was_forecast_whatever_their_cohorts():
    question = MaskedQuestion.from_tree(
        {
            "record": "wage",
            "range": [0.0, 1.0],
            "buckets": 8,
            "method": "masked",
            "epsilon": 100.0,
            "delta": 1e-5,
            "cohort": 4,
            "quantiles": [],
        }
    )
    planned = plan_of(question, len(NAMES))
    cohorts = question.cohorts(NAMES)
    assert sorted(map(len, cohorts)) == [3, 4]
    variances = [
        answer_of(question.sum_of(cohort), 0, cohort)["noise_variance"] for cohort in cohorts
    ]  # fixed by the question, so one round of each tells
    answers = [answer_of(question.sum_of(cohort), 1, cohort) for cohort in cohorts]
    result = combined(question, answers, {})
    assert result["responses"] == 7
    assert sum(variances) == pytest.approx(sum(found["noise_variance"] for found in answers))
    bucket = planned.forecast.quantities[-1]
    half = np.sqrt(np.mean(np.square(np.diff(result["intervals"]["probabilities"])))) / (2 * 1.96)
    assert 0.5 < half / bucket.standard_error < 2.0, "a result states intervals about what it has found"
    paid = result["privacy"]["views"]["coalition"]["epsilon"]
    assert paid <= planned.privacy["views"]["coalition"]["epsilon"] <= 100.0


def test_offsets_of_a_factorization_are_forecast_or_it_is_said_why_not():
    text = """
analysis = "matrix-factorization"
record = "films"
items = 20
ratings_per_user = 10
lower = 1.0
upper = 5.0
rank = 0
[privacy]
epsilon = 8.0
delta = 1e-6
"""
    many = plan_of(question_from_toml(text), 5000).forecast
    assert many.quantities[0].standard_error > 0
    assert plan_of(question_from_toml(text), 10).forecast.not_forecast


PAGE = Path(__file__).parents[3] / "docs" / "analyses" / "distribution.md"


def test_the_page_has_every_method_with_its_ways_and_the_errors_that_are_forecast():
    text = PAGE.read_text(encoding="utf-8").partition("### Methods")[2].partition("## What comes out")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    stated = {name: re.findall(r"`([\w-]+)`", row[2]) for row in rows for name in re.findall(r"`([\w-]+)`", row[0])}
    assert {name: ways for name, ways in stated.items() if name in METHODS} == {
        name: list(method.ways) for name, method in METHODS.items()
    }
    (head,) = (row for row in rows if row[0] == "epsilon")
    errors = {float(row[0]): row[1:] for row in rows if row[0].replace(".", "").isdigit()}
    assert len(errors) == 4
    for epsilon, of_methods in errors.items():
        for name, error in zip(head[1:], of_methods, strict=True):
            asked = survey_question(method=name.strip("`"), epsilon=epsilon, range=(0, 1), buckets=256)
            found = plan_of(asked, 10_000).forecast.quantities[0].standard_error
            assert float(error) == pytest.approx(found, abs=6e-5), (epsilon, name)


def test_the_page_has_the_errors_of_a_variance_by_signs_about_a_centre_and_by_waves():
    text, values = " ".join(PAGE.read_text(encoding="utf-8").split()), (np.arange(2560) + 0.5) / 2560
    stated = {name: [] for name in ("sign", "wave")}
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        signs = survey_question(method="sign", centre=0.5, epsilon=epsilon, range=(0, 1), buckets=256).inquiry
        law = signs.response.weights_of(signs.inputs_of(values)[0]).mean(axis=0) / signs.response.total
        stated["sign"].append(sign_mean(signs.response, 5000 * law).mean_error / 4)
        waves = survey_question(epsilon=epsilon, range=(0, 1), buckets=256).inquiry.response
        operator = WaveOperator(waves, 256)
        shares = np.append(np.full(256, 1 / 256), np.zeros(operator.n_entries - 256))
        stated["wave"].append(moments(waves, 10_000 * operator.densities(shares)).variance_error)
    for errors in stated.values():
        assert ", ".join(f"{error:.4f}"[1:] for error in errors) in text


@pytest.mark.parametrize("method", [name for name in METHODS if name != "masked"])
@pytest.mark.parametrize("members", [1, 2])
def test_a_forecast_of_hardly_any_responses_is_numbers_or_says_that_there_are_none(method, members):
    plan = plan_of(survey_question(method=method), members)
    json.dumps(plan.as_dict(), allow_nan=False)
    assert plan.forecast.quantities or plan.forecast.not_forecast


WANTED = {
    "sum": (lambda: question_of("sum"), 500, ""),
    "mean": (lambda: question_of("mean", **STRONG), 500, ""),
    "wave": (lambda: survey_question(epsilon=1.0), 5000, ""),
    "grid": (
        lambda: survey_question(method="grid", epsilon=1.0, rectangles=[(0.0, 50.0, 0.0, 10.0)]),
        20_000,
        "share of 0 to 50",
    ),
    "patterns": (lambda: survey_question(**OF_PERSONS), 30_000, "count of a pattern of 2"),
    "masked": (
        lambda: MaskedQuestion(
            method="masked", record="wage", range=(0, 100), buckets=32, epsilon=4.0, colluding=10, vanishing=0
        ),
        100,
        "mean",
    ),
}


@pytest.mark.parametrize("name", WANTED)
def test_a_question_with_the_epsilon_or_the_members_that_a_wanted_error_takes_has_that_error(name):
    make, n, of = WANTED[name]
    question = make()
    planned = Wanted(1.0, of).quantity_in(plan_of(question, n).forecast)
    wanted = Wanted(0.6 * planned.half_width, of)
    enough = plan_of(question, n, wanted).enough
    assert enough.name == planned.name
    for epsilon, is_met in ((enough.epsilon, True), (0.9 * enough.epsilon, False)):
        other = with_epsilon(question, epsilon)
        assert epsilon_of(other) == epsilon
        assert wanted.is_met(lambda other=other: plan_of(other, n).forecast) is is_met
    if name not in ("sum", "patterns"):
        assert wanted.is_met(lambda: plan_of(question, enough.members).forecast)
        assert not wanted.is_met(lambda: plan_of(question, math.floor(0.9 * enough.members)).forecast)
    else:
        assert enough.members is None


def test_no_more_members_are_named_than_a_survey_may_have_and_an_exact_sum_has_no_error():
    question = survey_question(epsilon=1.0)
    found = plan_of(question, 5000, Wanted(1e-3)).enough
    assert (found.members, found.counts_members) == (None, True)
    with pytest.raises(JobError, match="members"):
        plan_of(question, 10_000_001)
    with pytest.raises(JobError, match="within: the answer is exact"):
        plan_of(question_of("sum", privacy=None), 500, Wanted(1.0))
