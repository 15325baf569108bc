"""Questions of surveys: what is one, what binds it, and what one lie can do to its estimate."""

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from surveys import HUB, another_session, asked, survey_question

from analyses.distribution.estimates.tally import tally_of
from analyses.distribution.methods import Answered
from analyses.job.job import JobError
from dp.cost.events.record import rdp_of
from entropy import InsecureTestEntropy
from questions.question import ID_BYTES
from questions.reading import question_from_json, question_from_toml
from questions.responses import AskedQuestion, result_of

TEXT = 'record = "wage"\nrange = [0, 100]\nepsilon = 1.0\nuntil = 2100-01-01T00:00:00Z\n'

METHODS = get_args(Answered)

BAD = {
    "a range whose lower end is not below its upper one": ({"range": [5, 5]}, "range"),
    "a range that is reversed": ({"range": [5, 1]}, "range"),
    "a range that is not finite": ({"range": [-1.7e308, 1.7e308]}, "range"),
    "buckets narrower than numbers": ({"range": [1, 1.0000000000000002]}, "buckets"),
    "epsilon below 2^-10": ({"epsilon": 0.0009}, "epsilon"),
    "epsilon above 16": ({"epsilon": 16.1}, "epsilon"),
    "epsilon zero": ({"epsilon": 0.0}, "epsilon"),
    "one bucket": ({"buckets": 1}, "buckets"),
    "more than 2^14 buckets": ({"buckets": 16385}, "buckets"),
    "bins that do not divide": ({"method": "bins", "buckets": 100, "bins": 16}, "bins"),
    "a fine grid that is no multiple": ({"fine": 257}, "fine"),
    "a fine grid of a tree": ({"fine": 512, "method": "tree"}, "fine"),
    "a query outside the range": ({"queries": [[50, 101]]}, "queries"),
    "a query that is reversed": ({"queries": [[50, 40]]}, "queries"),
    "a quantile of no level": ({"quantiles": [0.5, 1.0]}, "quantiles"),
    "a method that does not exist": ({"method": "guess"}, "method"),
    "a time without a zone": ({"until": "2100-01-01T00:00:00"}, "until"),
    "a round beyond the rounds": ({"rounds": 2, "round": 2, "series": "x"}, "round"),
    "rounds without a series": ({"rounds": 2}, "series"),
    "no responses": ({"responses": 0}, "responses"),
    "another field": ({"colour": "red"}, "colour"),
}


@pytest.mark.parametrize(("changes", "field"), BAD.values(), ids=BAD)
def test_what_is_no_question_is_refused_by_the_name_of_its_field(changes, field):
    tree = question_from_toml(TEXT).model_dump(mode="json") | changes
    with pytest.raises(JobError, match=field):
        question_from_json(json.dumps(tree))


@pytest.mark.parametrize("text", ["", "[", "[]", "null", "1" * 10_000, "[" * 5000])
def test_other_texts_are_refused(text):
    with pytest.raises(JobError):
        question_from_json(text)
    with pytest.raises(JobError):
        AskedQuestion.from_json(text)


def test_the_digest_binds_every_field():
    digests = {asked().digest, asked(another_session(1)).digest, asked(asker=HUB + "-2").digest}
    changes = ({"record": "x"}, {"epsilon": 1.5}, {"buckets": 64}, {"range": (0, 99)}, {"method": "tree"})
    digests |= {asked(**change).digest for change in (*changes, {"responses": 7}, {"smoothing": 3}, {"fine": 64})}
    more = (
        {"half_width": 0.1},
        {"method": "trapezoid", "top": 0.3},
        {"estimate": "em"},
        {"estimate": "em", "tau": 1.0},
    )
    digests |= {asked(**change).digest for change in more}
    digests |= {asked(queries=((1, 2),)).digest, asked(quantiles=(0.5,)).digest}
    assert len(digests) == 17
    assert asked().question_id == asked().digest[:ID_BYTES]
    assert AskedQuestion.from_json(asked().canonical_json()).digest == asked().digest


def test_a_question_is_read_in_its_canonical_form_only():
    text = asked().canonical_json()
    for damaged in (" " + text, text.replace(",", ", "), text.replace('"buckets":32,', "")):
        with pytest.raises(JobError, match="canonical form"):
            AskedQuestion.from_json(damaged)


@pytest.mark.parametrize("method", METHODS)
def test_a_response_costs_the_same_in_both_views_and_at_most_what_is_asked(method):
    question = survey_question(method=method)
    curves = {view: rdp_of(events[0]) for view, events in question.cost().events.items()}
    assert np.array_equal(curves["coordinator"], curves["coalition"])
    views = question.privacy_report()["views"]
    assert views["coordinator"]["epsilon"] == views["coalition"]["epsilon"] <= 1.0


@pytest.mark.parametrize("method", METHODS)
def test_responses_travel_in_one_or_two_bytes_and_others_are_refused(method):
    for buckets in (32, 1024):
        question = asked(method=method, buckets=buckets, epsilon=8.0)
        inquiry = question.question.inquiry
        assert inquiry.response_bytes == (1 if inquiry.n_outputs <= 256 else 2)
        body = question.body_of(inquiry.n_outputs - 1)
        assert question.response_of(body) == inquiry.n_outputs - 1
        for wrong in (b"", body + b"\0", bytes(3)):
            with pytest.raises(JobError, match="bytes, not"):
                question.response_of(wrong)
        if inquiry.n_outputs < 256**inquiry.response_bytes:
            with pytest.raises(JobError, match="is below"):
                question.response_of(inquiry.n_outputs.to_bytes(inquiry.response_bytes, "little"))


def tallied(question, responses, names=()):
    tally = tally_of(question.question.inquiry.response)
    tally.add(responses, question.choices(names) if names else None)
    return tally


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("prefixes", "grid")])
def test_the_estimate_is_near_the_truth(method):
    question, entropy = asked(method=method, epsilon=4.0), InsecureTestEntropy(method)
    names = [f"d{i}" for i in range(1000)]
    inputs = [question.question.input_of(np.array([20.0 + i % 40])).value for i in range(1000)]
    responses = np.array([question.respond(x, name, entropy) for x, name in zip(inputs, names, strict=True)])
    found = result_of(question, tallied(question, responses, names))
    assert abs(found["mean"] - 39.5) < 4
    assert (found["responses"], found["record"]) == (1000, "wage")


def test_a_lie_moves_the_closed_mean_by_no_more_than_is_stated():
    question, entropy = asked(), InsecureTestEntropy("lies")
    responses = np.array([question.respond(i % 32, "d", entropy) for i in range(3000)])
    wave = question.question.inquiry.mechanism
    honest = result_of(question, tallied(question, responses))
    for lie in (0, wave.n_real_outputs - 1):
        lying = responses.copy()
        lying[np.flatnonzero(responses < wave.n_real_outputs)[0]] = lie
        moved = abs(result_of(question, tallied(question, lying))["closed_mean"] - honest["closed_mean"])
        assert 0 <= moved <= 1.5 * honest["gain_of_a_response"]


def test_queries_and_quantiles_are_those_of_the_question():
    question, entropy = (
        asked(fine=128, epsilon=4.0, queries=((0, 50), (20, 40)), quantiles=(0.1, 0.5)),
        InsecureTestEntropy("q"),
    )
    inputs = [question.question.input_of(np.array([float(i % 50)])).value for i in range(3000)]
    assert max(inputs) == 62  # of the fine grid
    responses = np.array([question.respond(x, "d", entropy) for x in inputs])
    found = result_of(question, tallied(question, responses))
    assert len(found["probabilities"]) == 32
    assert [query[:2] for query in found["queries"]] == [[0, 50], [20, 40]]
    assert [query[2] for query in found["queries"]] == pytest.approx([1.0, 0.4], abs=0.1)
    assert [level for level, _ in found["quantiles"]] == [0.1, 0.5]
    assert found["quantiles"][1][1] == pytest.approx(25, abs=3)
    none = result_of(asked(quantiles=()), tallied(asked(), np.arange(8)))
    assert none["quantiles"] == []
    assert none["intervals"] is None


def test_the_example_is_a_question():
    text = (Path(__file__).parents[3] / "examples" / "survey.toml").read_text()
    assert question_from_toml(text).inquiry.response_bytes == 2
