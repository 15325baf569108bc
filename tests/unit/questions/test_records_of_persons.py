"""Questions about several records of a person: what is one, who answers what of it, and what that costs whom."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from surveys import OF_CATEGORIES, OF_PERSONS, asked, survey_question

from analyses.job.job import JobError
from questions.forecast import plan_of
from questions.reading import question_from_json, question_from_toml
from questions.responses import SurveyQuestion

TWO = [{"record": "runs", "range": (0, 1)}]

BAD = {
    "one record alone": ({"others": []}, "others"),
    "several in a distribution": ({"analysis": "distribution"}, "others"),
    "a record twice": ({"others": [{"record": "smokes", "range": (0, 1)}]}, "others"),
    "nine records": ({"others": [{"record": f"r{i}", "range": (0, 1)} for i in range(8)]}, "others"),
    "a range that is none": ({"others": [{"record": "runs", "range": (1, 1)}]}, "range"),
    "a method that is neither": ({"method": "wave"}, "method"),
    "categories by hashes": ({"method": "hashed", "bins": 2}, "method"),
    "one category": ({"method": "direct", "bins": 2}, "range: 0 to 1 is no range"),
    "another record with one": (OF_CATEGORIES | {"others": TWO}, "range: 0 to 1 is no range"),
    "categories between whole numbers": (OF_CATEGORIES | {"range": (0.5, 2.5)}, "range: 0.5 to 2.5 is no range"),
    "other buckets than categories": (OF_CATEGORIES | {"buckets": 4}, "buckets: the range of the record has 2"),
    "other bins than categories": (OF_CATEGORIES | {"bins": 4}, "bins"),
    "too many categories": (OF_CATEGORIES | {"others": [{"record": "runs", "range": (0, 1025)}]}, "range"),
    "too many patterns": (
        OF_CATEGORIES | {"others": [{"record": f"r{i}", "range": (0, 20)} for i in range(3)], "order": 3},
        "order",
    ),
    "too many answers": (
        OF_CATEGORIES | {"others": [{"record": f"r{i}", "range": (0, 9)} for i in range(7)]},
        "others",
    ),
    "a series": ({"rounds": 2, "series": "x"}, "rounds"),
    "a centre": ({"centre": 0.5}, "centre"),
    "patterns of more records than there are": ({"others": TWO, "order": 3}, "order"),
    "patterns of five": ({"order": 5}, "order"),
}


@pytest.mark.parametrize(("changes", "field"), BAD.values(), ids=BAD)
def test_what_is_no_question_about_persons_is_refused_by_the_name_of_its_field(changes, field):
    with pytest.raises((JobError, ValueError), match=field):
        survey_question(**OF_PERSONS | changes)


def test_a_device_is_asked_about_the_one_record_that_its_name_ends_with():
    question = asked(**OF_PERSONS)
    alone = question.about("k7qm-sleeps-well")
    assert (alone.question.record, alone.question.records) == ("sleeps-well", ("sleeps-well",))
    assert (alone.asker, alone.session) == (question.asker, question.session)
    assert (
        alone.question.canonical_json()
        == survey_question(
            record="sleeps-well", range=(0.0, 1.0), buckets=2, method="sign", until=alone.question.until
        ).canonical_json()
    )
    assert question.question.respondent("k7qm-runs") == ("k7qm", 1)
    for stranger in ("k7qm", "smokes", "k7qm-walks", "k7qm-smokes-runs", "sleeps-well"):
        with pytest.raises(JobError, match="PERSON-RECORD"):
            question.about(stranger)


def test_a_device_of_a_category_is_asked_which_one_its_record_is():
    question = asked(**OF_CATEGORIES)
    text = question.about("k7qm-travels-by").question.canonical_json()
    alone = {"record": "travels-by", "range": (1.0, 5.0), "buckets": 4, "bins": 4, "method": "direct"}
    assert text == survey_question(**alone, until=question.question.until).canonical_json()
    inputs = [question.about("k7qm-travels-by").question.input_of(np.array([value])).value for value in (1, 3, 4, 9)]
    assert inputs == [0, 2, 3, 3]
    unstated = {name: value for name, value in OF_CATEGORIES.items() if name not in ("buckets", "bins")}
    base = {"epsilon": 1.0, "until": question.question.until}
    assert SurveyQuestion(**unstated, **base).canonical_json() == question.question.canonical_json()


def test_all_responses_about_a_persons_categories_tell_as_much_as_is_stated_and_no_more():
    """Every pair of persons with records of 2, 4 and 2 categories or without one, and all that they may answer."""
    question = survey_question(**OF_CATEGORIES, epsilon=0.7)
    laws = []
    for mechanism in question.mechanisms:
        law = np.full((mechanism.n_inputs,) * 2, float(mechanism.response.other))
        np.fill_diagonal(law, float(mechanism.response.truthful))
        laws.append(law)
    of_person = np.kron(np.kron(laws[0], laws[1]), laws[2])
    assert of_person.sum(axis=1) == pytest.approx(np.ones(45))
    largest = np.log(of_person.max(axis=0) / of_person.min(axis=0)).max()
    assert largest <= question.epsilon_of_person * (1 + 1e-12)
    assert largest == pytest.approx(question.epsilon_of_person, rel=1e-9)


def test_each_device_answers_within_the_range_of_its_own_record():
    """Whichever record stands first: a coordinator that names them in another order asks each device the same."""
    first, second = {"record": "age", "range": (0, 100)}, {"record": "wage", "range": (-5, 9000)}
    numbers = {"analysis": "pattern-count", "method": "sign", "buckets": 64}
    one, other = (survey_question(**numbers | a, others=[b]) for a, b in ((first, second), (second, first)))
    for record in (first, second):
        alone, same = (question.about(f"k7qm-{record['record']}") for question in (one, other))
        assert alone.range == record["range"]
        assert alone == same


def test_a_question_about_one_record_is_that_of_every_device():
    plain = asked()
    assert plain.about("anything") is plain
    assert "others" not in survey_question().canonical_json()
    assert "order" not in survey_question().canonical_json()


def test_a_device_pays_for_its_response_and_a_person_for_all_of_them():
    """The report is about the person; at delta 0 the costs of independent responses add up."""
    question = survey_question(**OF_PERSONS, epsilon=0.7)
    one = question.inquiry.odds.pure_epsilon
    assert one <= 0.7
    assert question.epsilon_of_person == 3 * one
    alone = survey_question(buckets=2, method="sign", epsilon=0.7)
    assert question.cost().epsilon(1e-6) == alone.cost().epsilon(1e-6)
    for views in (question.privacy_report()["views"], question.privacy_report(30)["views"]):
        for view in views.values():
            assert 0.9 * 3 * one <= view["epsilon"] <= 3 * one * (1 + 1e-9)
    report = question.privacy_report(30)
    assert (report["colluding"], report["n_parties"]) == (27, 30)
    assert report["unit"].startswith("person")
    assert f"a person with k devices that answer pays k times epsilon {one:.4g}" in report["sensitivity"]
    assert "analyst" not in report


def test_all_responses_about_a_person_tell_as_much_as_is_stated_and_no_more():
    """Every pair of persons, with records that cannot be used among theirs, and all that their devices may answer."""
    question = survey_question(**OF_PERSONS, epsilon=0.7)
    mechanism = question.inquiry.response
    law = mechanism.weights_of(np.arange(3)) / mechanism.total
    of_person = np.array([np.einsum("i,j,k", *law[list(inputs)]).ravel() for inputs in product(range(3), repeat=3)])
    losses = np.log(of_person[:, None] / of_person[None])
    assert losses.max() <= question.epsilon_of_person
    assert losses.max() == pytest.approx(question.epsilon_of_person, rel=1e-9)


def test_a_plan_states_errors_by_the_number_of_records_and_the_cost_of_a_person():
    plan = plan_of(survey_question(**OF_PERSONS, order=3), 30_000)
    errors = [one.standard_error for one in plan.forecast.quantities]
    assert len(errors) == 3
    assert errors == sorted(errors)
    assert plan.privacy["views"]["coordinator"]["epsilon"] > 2.5
    numbers = plan_of(survey_question(**OF_PERSONS | {"buckets": 64}), 30_000)
    assert [one.name.split()[0] for one in numbers.forecast.quantities] == ["mean", "covariance"]


def test_the_example_is_such_a_question():
    text = (Path(__file__).parents[3] / "examples" / "survey-patterns.toml").read_text()
    question = question_from_toml(text)
    assert question.records == ("smokes", "runs", "sleeps-well")
    assert plan_of(question).privacy["views"]["coalition"]["epsilon"] == pytest.approx(3, rel=1e-3)


def test_it_is_read_as_it_was_written():
    question = survey_question(**OF_PERSONS, order=3)
    assert question_from_json(question.canonical_json()).canonical_json() == question.canonical_json()
