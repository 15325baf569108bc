"""One device in surveys: what it answers, what it sits out, and what an earlier stop leaves to do."""

import contextlib
import json
import re
import time

import numpy as np
import pytest
from surveys import HUB, OF_PERSONS, another_session, asked, kept, survey_device

from analyses.job.job import JobError
from analyses.sums.records import DeclaredRecord, Record
from device.config import SumBudgetConfig
from device.records import KeptRecord
from device.refusing import SitsOutError
from device.report import describe_sum_report, read_sum_report
from dp.cost.composition import composed_epsilon
from dp.cost.views import MEMBER_UNIT
from entropy import InsecureTestEntropy
from ledger.books import BudgetExhaustedError, ChargeError, JobState
from ledger.budget import Budget
from service.errors import RemoteFailureError, TimedOutError, UnreachableError, WrongStateError
from transport.batch_codec import OfferedQuestion


def charge():
    """The name in the ledger of the answer to `asked()`."""
    return f"survey-{asked().digest[:16].hex()}"


def committed(device):
    return device.budget.standing()["committed_jobs"]


def test_the_same_question_gets_the_same_bytes_for_ever_and_is_paid_once(tmp_path):
    with survey_device(tmp_path) as device:
        body = device.answer_once(asked())
    for value in (0.0, 99.0):
        with survey_device(tmp_path, records={"wage": kept(value)}) as device:
            assert [device.answer_once(asked()) for _ in range(20)] == [body] * 20
            assert committed(device) == 1


def test_other_questions_get_responses_of_their_own(tmp_path):
    with survey_device(tmp_path) as device:
        bodies = {device.answer_once(asked(another_session(i))) for i in range(20)}
        assert committed(device) == 20
    assert len(bodies) > 1


# The crash table


def test_a_response_that_is_there_is_given_again(tmp_path):
    with survey_device(tmp_path) as device:
        device.store.begin(asked().digest)
        device.budget.charge_answer(charge(), "distribution", asked().question.cost())
        device.store.keep(asked().digest, b"\x05")
    with survey_device(tmp_path) as device:
        assert device.answer_once(asked()) == b"\x05"


def test_what_is_begun_and_committed_is_drawn(tmp_path):
    with survey_device(tmp_path) as device:
        device.store.begin(asked().digest)
        device.budget.charge_answer(charge(), "distribution", asked().question.cost())
    with survey_device(tmp_path) as device:
        body = device.answer_once(asked())
        assert device.store.find(asked().digest).body == body
        assert committed(device) == 1


@pytest.mark.parametrize("is_reserved", [False, True])
def test_what_is_begun_and_not_committed_is_sat_out(tmp_path, is_reserved):
    with survey_device(tmp_path) as device:
        device.store.begin(asked().digest)
        if is_reserved:
            name = charge()
            device.budget._reserve(name, "distribution", asked().question.cost())
    for _ in range(2):
        with survey_device(tmp_path) as device:
            with pytest.raises(SitsOutError, match="before the answer was paid for"):
                device.answer_once(asked())
            assert committed(device) == 0
            assert device.budget.standing()["reserved_jobs"] == 0


@pytest.mark.parametrize("state", [JobState.COMMITTED, JobState.RELEASED])
def test_what_is_charged_and_not_begun_is_refused(tmp_path, state):
    cost = asked().question.cost()
    with survey_device(tmp_path) as device:
        if state is JobState.COMMITTED:
            device.budget.charge_answer(charge(), "distribution", cost)
        else:
            device.budget._reserve(charge(), "distribution", cost)
    with survey_device(tmp_path) as device, pytest.raises(SitsOutError, match="the store was lost"):
        device.answer_once(asked())


# The owner's policy


def test_a_record_is_not_opened_before_its_response_is_paid_for(tmp_path):
    states = []

    def read():
        states.append(device.budget.answer_state(charge()))
        return Record(np.array([40.0]))

    with survey_device(tmp_path, records={"wage": KeptRecord(DeclaredRecord(), read)}) as device:
        for _ in range(2):
            device.answer_once(asked())
        with pytest.raises(SitsOutError):
            device.answer_once(asked(epsilon=8.0))
    assert states == [JobState.COMMITTED]


def test_a_question_of_another_coordinator_is_sat_out_also_where_it_repeats_ours(tmp_path):
    with survey_device(tmp_path) as device:
        device.answer_once(asked())
    other = HUB.replace("hub", "hub-2")
    with survey_device(tmp_path, coordinator=other) as device:
        for question in (asked(), asked(another_session(1))):
            with pytest.raises(SitsOutError, match="not this device's coordinator"):
                device.answer_once(question)
        assert committed(device) == 1


def test_a_record_that_is_not_declared_is_sat_out(tmp_path):
    with survey_device(tmp_path) as device, pytest.raises(JobError, match="declares none called height"):
        device.answer_once(asked(record="height"))


def test_a_record_that_is_declared_with_several_values_is_sat_out(tmp_path):
    records = {"wage": kept(1.0, 2.0, length=2)}
    with survey_device(tmp_path, records=records) as device, pytest.raises(JobError, match="several values"):
        device.answer_once(asked())


def test_an_epsilon_above_the_owners_is_sat_out(tmp_path):
    with survey_device(tmp_path, max_epsilon=1.0) as device:
        device.answer_once(asked(epsilon=1.0))
        with pytest.raises(SitsOutError, match=r"costs epsilon 1\.5"):
            device.answer_once(asked(epsilon=1.5))


def test_reproducible_entropy_is_refused(tmp_path):
    with pytest.raises(ValueError, match="secure randomness"), survey_device(tmp_path, entropy=InsecureTestEntropy("")):
        pass


def test_the_budget_is_one_and_ends(tmp_path):
    with survey_device(tmp_path, budget=Budget(MEMBER_UNIT, "2026", 2.5, 1e-6)) as device:
        n_paid = 0
        with contextlib.suppress(BudgetExhaustedError):
            for n_paid in range(20):
                device.answer_once(asked(another_session(n_paid)))
        assert 2 <= n_paid < 19
        spent = device.budget.standing()
        assert spent["spent_epsilon"] <= 2.5
        assert device.store.find(asked(another_session(n_paid)).digest).body is None


def test_without_a_budget_nothing_is_answered(tmp_path):
    with survey_device(tmp_path, budget=None) as device, pytest.raises(ChargeError, match="no privacy budget"):
        device.answer_once(asked())


@pytest.mark.parametrize("now_s", [0.0, 1e11])
def test_a_wrong_clock_decides_nothing(tmp_path, monkeypatch, now_s):
    monkeypatch.setattr(time, "time", lambda: now_s)
    with survey_device(tmp_path) as device:
        body = device.answer_once(asked())
    monkeypatch.undo()
    with survey_device(tmp_path) as device:
        assert device.answer_once(asked()) == body


# What the record holds


def fail():
    raise RecursionError


UNUSABLE = {
    "no number": kept(float("nan")),
    "infinite": kept(float("inf")),
    "several values": kept(1.0, 2.0),
    "no value": kept(),
    "unreadable": kept(1.0),
}
object.__setattr__(UNUSABLE["unreadable"], "read", fail)


@pytest.mark.parametrize("record", UNUSABLE.values(), ids=UNUSABLE)
def test_a_record_that_cannot_be_used_answers_as_the_empty_input(tmp_path, record, capsys):
    question = asked(epsilon=16.0)
    with survey_device(tmp_path, records={"wage": record}, max_epsilon=16.0) as device:
        body = device.answer_once(question)
        report = read_sum_report(tmp_path, device.charge_of(question.digest))
    plan = question.question.inquiry
    assert plan.mechanism.n_real_outputs <= int.from_bytes(body, "little") < plan.n_outputs
    assert not report["record_was_used"]
    assert "answered as if it had none" in "\n".join(describe_sum_report(report))
    assert "not_used" not in capsys.readouterr().out


@pytest.mark.parametrize(("value", "end"), [(-5.0, 0), (1e300, 31)])
def test_a_value_outside_the_range_is_clipped_and_only_its_owner_is_told(tmp_path, value, end, capsys):
    question = asked(epsilon=16.0)
    with survey_device(tmp_path, records={"wage": kept(value)}, max_epsilon=16.0) as device:
        body = device.answer_once(question)
        report = read_sum_report(tmp_path, device.charge_of(question.digest))
    wave = question.question.inquiry.mechanism
    assert 0 <= int.from_bytes(body, "little") - end <= 2 * wave.half_width
    assert report["value_was_clipped"]
    assert "counted as the nearer end" in "\n".join(describe_sum_report(report))
    assert str(value) not in json.dumps(report) + capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "cell", "why"),
    [
        ((60.0, 9.0), 14, None),
        ((-1e300, 1e300), 4, None),
        ((60.0, float("nan")), 20, "one of its values is not a finite number"),
        ((float("inf"), 9.0), 20, "one of its values is not a finite number"),
        ((60.0,), 20, "it has 1 values; a survey by grid asks for 2"),
        ((60.0, 9.0, 1.0), 20, "it has 3 values; a survey by grid asks for 2"),
    ],
)
def test_two_numbers_are_one_cell_paid_once_and_a_record_without_both_answers_as_nobody(tmp_path, values, cell, why):
    question = asked(method="grid", epsilon=16.0)  # two lies in a million responses
    with survey_device(tmp_path, records={"wage": kept(*values)}, max_epsilon=16.0) as device:
        assert [int.from_bytes(device.answer_once(question), "little") for _ in range(3)] == [cell] * 3
        assert committed(device) == 1
        report = read_sum_report(tmp_path, f"survey-{question.digest[:16].hex()}")
    assert (report["second"], report["not_used_because"]) == ([0.0, 10.0], why)
    assert report["value_was_clipped"] == (values[0] < 0)


def test_a_record_that_is_declared_with_another_number_of_values_answers_no_grid(tmp_path):
    for length in (1, 3):
        with survey_device(tmp_path, records={"wage": kept(1.0, length=length)}) as device:
            with pytest.raises(JobError, match=f"declared with {length} values; a survey by grid asks for 2"):
                device.answer_once(asked(method="grid"))
            assert committed(device) == 0


# Over time


def test_a_fixed_record_has_one_response_per_mechanism_for_ever(tmp_path):
    fixed = frozenset({"wage"})
    bodies = []
    for i in range(10):
        with survey_device(tmp_path, fixed=fixed, records={"wage": kept(10.0 * i)}) as device:
            bodies.append(device.answer_once(asked(another_session(i), smoothing=3, until="2030-01-01T00:00:00Z")))
            assert committed(device) == 1
    assert len(set(bodies)) == 1
    with survey_device(tmp_path, fixed=fixed) as device:
        device.answer_once(asked(epsilon=2.0))
        device.answer_once(asked(method="triangle"))
        device.answer_once(asked(half_width=0.1))
        assert committed(device) == 4
        width = asked().question.inquiry.response.half_width / asked().question.buckets
        for same in ({"estimate": "em"}, {"bins": 8}, {"half_width": width}, {"half_width": 0.1 + 1e-9}):
            device.answer_once(asked(**same))  # the mechanism is one of these
        assert committed(device) == 4
        for at, top in enumerate((0.5, 0.25, 0.25 + 1e-9), start=5):
            device.answer_once(asked(method="trapezoid", top=top))
            assert committed(device) == min(at, 6)


@pytest.mark.parametrize("method", ["tree", "haar", "prefixes"])
def test_a_fixed_record_answers_no_mechanism_that_chooses_anew(tmp_path, method):
    with survey_device(tmp_path, fixed=frozenset({"wage"})) as device:
        with pytest.raises(JobError, match="the record is fixed"):
            device.answer_once(asked(method=method))
        assert committed(device) == 0


def test_in_a_series_a_device_answers_one_round_once(tmp_path):
    answered = []
    for attempt in range(2):
        for number in range(4):
            question = asked(another_session(10 * attempt + number), rounds=4, round=number, series="pulse")
            with survey_device(tmp_path) as device:
                try:
                    device.answer_once(question)
                except SitsOutError:
                    continue
                answered.append((attempt, number))
    assert len(answered) == 1
    assert answered[0][0] == 0
    with survey_device(tmp_path) as device:
        assert committed(device) == 1
        device.answer_once(
            asked(another_session(10 * 0 + answered[0][1]), rounds=4, round=answered[0][1], series="pulse")
        )


def test_the_centre_of_a_later_round_may_follow_from_an_earlier_one_and_a_device_answers_one_of_both(tmp_path):
    answered = 0
    for number, centre in ((0, None), (1, 90.0), (1, 60.0)):
        question = asked(another_session(number), method="sign", centre=centre, rounds=2, round=number, series="spread")
        with survey_device(tmp_path) as device:
            try:
                device.answer_once(question)
            except SitsOutError:
                continue
            answered += 1
    assert answered == 1


def test_a_fixed_record_answers_about_each_centre_anew(tmp_path):
    with survey_device(tmp_path, fixed=frozenset({"wage"})) as device:
        for number, centre in enumerate((None, 60.0, 90.0), start=1):
            device.answer_once(asked(another_session(number), method="sign", centre=centre))
            assert committed(device) == number


def test_a_fixed_record_has_a_response_for_each_grid_and_none_of_another_is_sent():
    """Cell 7 of one grid is another part of the ranges than cell 7 of the next."""
    grid = {"method": "grid", "epsilon": 4.0, "cells": (4, 5)}
    others = [{}, {"second": (0.0, 20.0)}, {"cells": (5, 4)}, {"range": (0.0, 50.0)}]
    assert len({asked(**grid | other).fixed_digest() for other in others}) == len(others)
    assert asked(**grid, buckets=64).fixed_digest() == asked(**grid).fixed_digest()


# Messages


class Client:
    """A coordinator's calls: each answer ends as the next outcome says."""

    def __init__(self, *outcomes):
        self.outcomes, self.sent = list(outcomes), []

    async def answer(self, question_id, body):
        self.sent.append((question_id, body))
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome


async def test_a_response_is_sent_until_it_is_taken(tmp_path, capsys):

    client = Client(UnreachableError("away"), TimedOutError("slow"), RemoteFailureError("its database is away"), None)
    with survey_device(tmp_path, client=client) as device:
        assert await device.answer(OfferedQuestion(1, asked().canonical_json()))
        (known,) = device.store.known()
    assert len(set(client.sent)) == 1
    assert len(client.sent) == 4
    assert (known.outcome, known.body) == ("taken", client.sent[0][1])
    printed = capsys.readouterr()
    fields = re.findall(r'(?:=|": ")([\w.-]*)', printed.out + printed.err)  # whole ones: a byte may be part of a time
    assert client.sent[0][1].hex() not in fields


async def test_a_response_that_is_refused_is_not_sent_again(tmp_path):

    client = Client(WrongStateError("closed"))
    with survey_device(tmp_path, client=client) as device:
        assert not await device.answer(OfferedQuestion(1, asked().canonical_json()))
        assert device.store.known()[0].outcome == "not taken: closed"


@pytest.mark.parametrize(
    "damage", [lambda t: t + " ", lambda t: t.replace("wage", "wag\u202ee"), lambda t: "{}", str.upper]
)
async def test_a_text_that_is_no_question_is_refused(tmp_path, damage):
    with survey_device(tmp_path, client=Client()) as device:
        assert not await device.answer(OfferedQuestion(1, damage(asked().canonical_json())))
        assert committed(device) == 0


# Several records of a person


PERSON_S = {"name": "k7qm-runs", "records": {"runs": kept(1.0)}}


def test_a_device_of_a_person_answers_about_its_record_alone_and_pays_for_that(tmp_path):
    question = asked(**OF_PERSONS)
    with survey_device(tmp_path, **PERSON_S) as device:
        body = device.answer_once(question)
        assert device.answer_once(question) == body
        assert body[0] < 3
        assert committed(device) == 1
        assert 0.5 <= device.budget.standing()["spent_epsilon"] <= 1.001
        report = read_sum_report(tmp_path, f"survey-{question.digest[:16].hex()}")
    assert (report["record"], report["records_of_person"]) == ("runs", 3)
    assert report["privacy"]["views"]["coordinator"]["epsilon"] <= 1.0
    assert report["of_person"]["views"]["coordinator"]["epsilon"] > 2.9
    assert "about 3 records in all:" in "\n".join(describe_sum_report(report))


@pytest.mark.parametrize("name", ["walker-1", "runs", "k7qm-smokes"])
def test_a_device_whose_name_is_of_no_record_that_it_keeps_sits_out(tmp_path, name):
    with survey_device(tmp_path, name=name, records={"runs": kept(1.0)}) as device:
        with pytest.raises(JobError, match="record"):
            device.answer_once(asked(**OF_PERSONS))
        assert committed(device) == 0


def test_the_limit_of_a_response_is_one_of_all_responses_about_the_person(tmp_path):
    with survey_device(tmp_path, **PERSON_S, max_epsilon=2.9) as device:
        with pytest.raises(SitsOutError, match="about all 3 records, costs epsilon 3"):
            device.answer_once(asked(**OF_PERSONS))
        assert device.answer_once(asked(**OF_PERSONS, epsilon=0.9))


def test_devices_of_a_person_that_share_her_budget_never_tell_more_than_it_together(tmp_path):
    """They are asked about all records, and about one alone, until none of them answers any more."""
    whole = SumBudgetConfig(period="2026", epsilon=2.0, delta=1e-6, reason="first", devices_of_person=3)
    told, n_answers = [], []
    for record in ("smokes", "runs", "sleeps-well"):
        fields = {"name": f"k7qm-{record}", "records": {record: kept(1.0)}, "budget": whole.as_budget()}
        alone = {"record": record, "range": (0.0, 1.0), "buckets": 2, "method": "sign"}
        with survey_device(tmp_path / record, **fields) as device:
            before = len(told)
            for number in range(400):
                question = asked(another_session(number), **(OF_PERSONS if number % 2 else alone), epsilon=0.1)
                try:
                    device.answer_once(question)
                except ChargeError:
                    break
                told.append(question.question.inquiry.odds.event())
            n_answers.append(len(told) - before)
    assert n_answers == [n_answers[0]] * 3
    assert 6 <= n_answers[0] < 400
    assert composed_epsilon(tuple(told), whole.delta).epsilon <= whole.epsilon


def test_a_fixed_record_has_one_response_whether_it_is_asked_about_alone_or_with_others(tmp_path):
    alone = {"record": "runs", "range": (0.0, 1.0), "buckets": 2, "method": "sign"}
    with survey_device(tmp_path, **PERSON_S, fixed=frozenset({"runs"})) as device:
        bodies = {device.answer_once(asked(another_session(i), **OF_PERSONS)) for i in range(10)}
        bodies |= {device.answer_once(asked(another_session(i), **alone)) for i in range(10)}
        assert len(bodies) == 1
        assert committed(device) == 1
