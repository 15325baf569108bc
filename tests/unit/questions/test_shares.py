"""Questions of batches: what may be asked, what it costs in both views, and what the parties' noise amounts to."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from batches import asked_batch, batch_question

from analyses.job.job import JobError
from analyses.sums.secure_sum import SumParams
from device.budget import cost_of
from dp.cost.composition import composed_epsilon
from dp.cost.report import describe
from entropy import SystemEntropy
from mpc.errors import ShapeError
from mpc.secagg.secret.party_shares import ShareSum, split
from questions.forecast import plan_of
from questions.reading import question_from_toml
from questions.shares import AskedBatch, BatchQuestion
from questions.shares_answer import answer_of, open_sum

EXAMPLE = Path(__file__).parents[3] / "examples" / "batch.toml"
NOISY = {"epsilon": 1.0, "delta": 1e-6}


def test_the_example_is_such_a_question_and_a_sum_without_a_channel_is_none():
    text = EXAMPLE.read_text(encoding="utf-8")
    asked = question_from_toml(text)
    assert isinstance(asked, BatchQuestion)
    assert (asked.analysis, asked.parties, asked.colluding) == ("secure-mean", ("bank", "clinic", "shop"), 1)
    masked = (EXAMPLE.parent / "sum.toml").read_text(encoding="utf-8")
    assert isinstance(question_from_toml(masked), SumParams)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ('analysis = "secure-sum"', 'channel = "parties"'),
        ('analysis = "secure-mean"', 'channel = "parties"'),
        ('analysis = "secure-distribution"', "nothing of this kind"),
        ('analysis = "matrix-factorization"', "nothing of this kind"),
        ('method = "masked"', "nothing of this kind"),
    ],
)
def test_a_masked_sum_refuses_proofs_and_says_what_has_them(text, instead):
    with pytest.raises(JobError, match=f"proofs: nobody holds shares .*{instead}"):
        question_from_toml(f"{text}\nproofs = true")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"parties": ("bank",)}, "parties"),
        ({"parties": ("bank", "bank", "shop")}, "a name appears more than once"),
        ({"colluding": 3}, "at least one party must not collude"),
        ({"colluding": 0}, "colluding"),
        ({"may_miss": 2, "colluding": 1}, "may_miss"),
        ({"may_miss": 1, "colluding": 2, "privacy": NOISY}, "any 2 of the parties open the batch"),
        ({"may_miss": 1, "colluding": 1}, "an exact sum needs a batch that opens once .* at least 4 parties"),
        (
            {"may_miss": 1, "colluding": 1, "privacy": NOISY, "proofs": True},
            "proofs = true needs a batch that opens once",
        ),
        ({"smallest_cohort": 1}, "smallest_cohort"),
        ({"smallest_cohort": 5}, "must not be larger than largest_cohort"),
        ({"members": ("ann",)}, "members: belongs to masked sums"),
        ({"vanishing": 2}, "vanishing: belongs to masked sums"),
        ({"stage_s": 3.0}, "stage_s: belongs to masked sums"),
        ({"grace_s": 3.0}, "grace_s: belongs to masked sums"),
        ({"attempts": 3}, "attempts: belongs to masked sums"),
        ({"channel": "members"}, "channel"),
        ({"another": 1}, "another"),
        ({"privacy": {"epsilon": 1.0, "delta": 0.25}}, "must be smaller than 1 / 4"),
        ({"largest": 2.0**52, "largest_cohort": 1 << 20}, "largest_cohort, largest, units"),
        (
            {"analysis": "secure-distribution", "largest": 1, "length": 1, "range": (0, 1), "buckets": 4},
            "a distribution is not asked for",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_by_the_name_of_the_field(changes, reason):
    with pytest.raises(JobError, match=reason):
        batch_question(**changes)


def test_the_colluding_of_a_batch_are_its_parties_not_members():
    assert batch_question(colluding=2).sum.colluding == 0


def test_a_question_as_it_was_asked_comes_back_and_nothing_else_does():
    asked = asked_batch(privacy=NOISY)
    text = asked.canonical_json()
    assert AskedBatch.from_json(text).digest == asked.digest
    for other in (text + " ", text.replace('"colluding":2', '"colluding":3'), "{}", "x" * (1 << 18)):
        with pytest.raises(JobError):
            AskedBatch.from_json(other)


def test_the_digest_holds_session_asker_and_every_term():
    one = asked_batch()
    others = [
        asked_batch(session="01" * 16),
        asked_batch(asker="spiffe://walkers/coordinator/another"),
        asked_batch(parties=("clinic", "bank", "shop")),
        asked_batch(colluding=1),
        asked_batch(smallest_cohort=3),
        asked_batch(largest=1001),
        asked_batch(privacy=NOISY),
        asked_batch(proofs=True),
        asked_batch(largest_norm=100),
    ]
    assert len({asked.digest for asked in (one, *others)}) == 10
    noisy = asked_batch(colluding=1, privacy=NOISY)
    assert asked_batch(colluding=1, privacy=NOISY, may_miss=1).digest != noisy.digest


def test_a_question_without_what_later_versions_added_is_written_as_before():
    assert not {"proofs", "largest_norm", "may_miss"} & set(re.findall(r"\w+", asked_batch().canonical_json()))
    for changes in ({"proofs": True}, {"largest_norm": 100}):
        asked = asked_batch(**changes)
        assert AskedBatch.from_json(asked.canonical_json()).question == asked.question


def test_a_question_says_what_is_proven_and_how_large_answers_are():
    assert batch_question().proofs_report() is None
    assert plan_of(batch_question(), 3).proofs is None
    asked = batch_question(proofs=True, largest_norm=100)
    found = plan_of(asked, 3).as_dict()["proofs"]
    assert found["bounds"] == {"lowest": -1000, "highest": 1000, "squared_norm": 10000}
    assert found["sealed_bytes"] == sum(asked.sealed_bytes) > sum(batch_question().sealed_bytes)
    assert found["log2_error"] < -50
    fields = {"analysis": "secure-mean", "largest_weight": 7}
    assert batch_question(proofs=True, **fields).proofs_report()["bounds"]["weight"] == 7
    fields = {"analysis": "secure-histogram", "largest": 2, "values": 3, "length": 1, "edges": (0, 1, 2)}
    assert batch_question(proofs=True, **fields).proofs_report()["bounds"] == {"lowest": 0, "highest": 2, "sum": 3}


@pytest.mark.parametrize("changes", [{"largest": 1 << 44, "largest_cohort": 1 << 20}, {"length": 1 << 22}])
def test_vectors_that_cannot_be_proven_are_refused(changes):
    with pytest.raises(JobError, match="fewer units"):
        batch_question(proofs=True, **changes)


def test_what_a_party_signs_names_batch_place_and_key():
    one = asked_batch()
    found = {
        one.key_statement("bank", bytes(32)),
        one.key_statement("clinic", bytes(32)),
        one.key_statement("bank", bytes([1]) * 32),
        asked_batch(session="01" * 16).key_statement("bank", bytes(32)),
    }
    assert len(found) == 4


@pytest.mark.parametrize(("n_parties", "colluding"), [(2, 1), (3, 1), (3, 2), (5, 2)])
def test_the_noise_of_those_that_do_not_collude_meets_the_target(n_parties, colluding):
    parties = tuple(f"p{i}" for i in range(n_parties))
    question = batch_question(parties=parties, colluding=colluding, privacy=NOISY, largest=10)
    noise = question.noise
    assert noise.unknown_part(n_parties, "coalition") * n_parties == n_parties - colluding
    assert 0.9 < noise.epsilon("coalition", 1e-6).epsilon <= 1.0
    assert noise.epsilon("coordinator", 1e-6).epsilon <= noise.epsilon("coalition", 1e-6).epsilon
    assert cost_of(noise).epsilon(1e-6).epsilon <= 1.0
    report = question.privacy_report()
    assert (report["n_parties"], report["colluding"]) == (n_parties, colluding)
    assert "masked" not in report["mechanism"]


@pytest.mark.parametrize(("n_parties", "colluding", "openings"), [(3, 1, 2), (4, 1, 1), (4, 2, 2), (5, 2, 1)])
def test_noise_meets_the_target_without_a_party_and_for_as_many_openings_as_there_can_be(
    n_parties, colluding, openings
):
    parties = tuple(f"p{i}" for i in range(n_parties))
    question = batch_question(parties=parties, colluding=colluding, privacy=NOISY, largest=10, may_miss=1)
    noise = question.noise
    assert question.openings == openings == len(noise.events("coalition"))
    assert len(noise.events("coordinator")) == 1
    assert 0.9 < cost_of(noise).epsilon(1e-6).epsilon <= 1.0
    of_one = replace(noise, levels=(n_parties - 1,), openings=1)  # with as few as open, in one of the openings
    assert of_one.unknown_part(n_parties - 1, "coalition") == noise.least_unknown_part("coalition")
    assert composed_epsilon(of_one.events("coalition") * openings, 1e-6).epsilon <= 1.0
    said = question.privacy_report()["opening"]
    assert said.startswith(f"Any {n_parties - 1} of the {n_parties} parties open the sum")
    assert f"; shares of {n_parties - 2} of them say nothing of a device. " in said
    assert (f"can have {openings} opened" in said) == (openings > 1)
    assert (f"more than {n_parties - 3} that deviate two can be opened" in said) == (openings == 1)
    assert said + "." in describe(question.privacy_report(), "members")
    assert "opening" not in batch_question(privacy=NOISY).privacy_report()


def test_the_parties_that_open_are_enough_of_them_and_in_order():
    question = batch_question(colluding=1, privacy=NOISY, may_miss=1)
    assert [question.openers_of(numbers) for numbers in ((), (1, 3))] == [(1, 2, 3), (1, 3)]
    for wrong in ((1,), (3, 1), (1, 1, 2), (1, 4), (0, 1, 2)):
        with pytest.raises(JobError, match="openers"):
            question.openers_of(wrong)
    with pytest.raises(JobError, match="3 parties open this batch"):
        batch_question().openers_of((1, 2))


def test_more_that_may_collude_need_more_noise():
    deviations = [math.sqrt(batch_question(colluding=t, privacy=NOISY).noise.variance(3)) for t in (1, 2)]
    assert deviations[1] > 1.2 * deviations[0]


def test_an_exact_sum_says_that_it_protects_nobody():
    question = batch_question()
    assert question.noise is None
    assert "epsilon" not in str(question.privacy_report())


def shared_sum(question, vectors):
    """What the parties of a batch would open, without noise."""
    n, length = len(question.parties), question.n_elements
    sums = [ShareSum(question.group, length, place, n) for place in range(n)]
    for vector in vectors:
        shares = split(question.group, question.group.encode(vector), n, SystemEntropy())
        for of_party, share in zip(sums, shares, strict=True):
            of_party.add([share])
    return [question.group.pack(of_party.total) for of_party in sums]


def test_the_sum_of_the_largest_cohort_fits_the_group():
    question = batch_question(largest_cohort=4, largest=1000)
    vectors = [np.array([1000, -1000, 0])] * 4
    assert open_sum(question, shared_sum(question, vectors)).tolist() == [4000, -4000, 0]
    assert question.group.bits == 16


def test_an_answer_states_values_errors_and_who_is_in_it():
    question = batch_question(units=10)
    integers = open_sum(question, shared_sum(question, [np.array([15, 0, -5])] * 2))
    answer = answer_of(question, integers, 2, ["ann"])
    assert answer["sum"] == [3.0, 0.0, -1.0]
    assert (answer["devices"], answer["left_out"], answer["channel"]) == (2, ["ann"], "parties")
    assert answer["standard_errors"] == [0.0] * 3


def test_a_share_of_another_length_is_no_share():
    question = batch_question()
    with pytest.raises(ShapeError):
        open_sum(question, [bytes(5)] * 3)


def test_the_cost_and_the_errors_are_known_beforehand():
    question = batch_question(privacy=NOISY, largest_cohort=100)
    plan = plan_of(question)
    assert plan.members == 100
    (quantity,) = plan.forecast.quantities
    assert quantity.standard_error == pytest.approx(math.sqrt(question.noise.variance(3)))
    assert plan.privacy == question.privacy_report()
    with pytest.raises(JobError, match="--members"):
        plan_of(batch_question(largest_cohort=1 << 20, largest=1))
