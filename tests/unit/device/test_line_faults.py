"""Whatever a device's own record raises, at whichever line: zeros leave, of the same size, and the owner is told."""

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from batches import PARTIES, asked_batch, batch_device, kept, offered, opened_vector
from certificates import authority_in
from devices import DECLARED, device_in, question, round_of, sum_invitation
from factor_children import factor_device_in, invitation_to, seeds_of
from line_faults import InjectedError, LineFaults, called_by
from structlog.testing import capture_logs
from surveys import asked, survey_device
from surveys import kept as kept_wage
from virtual_time import run_in_virtual_time

from analyses.sums.records import Record
from device.device import _SumRound, answer_rounds
from device.questions.answering import answer_questions
from device.records import KeptRecord, zeros_if_raised
from device.report import kept_rounds, read_sum_report
from entropy import SystemEntropy
from mpc.secagg.secret.keys import RoundKey
from service.identity import Role
from transport.batch_codec import OfferedQuestion, decode_answer


@pytest.fixture
def faults():
    return LineFaults(called_by(zeros_if_raised))


SUMS = {
    "sum": {},
    "mean": {"analysis": "secure-mean", "largest_weight": 10},
    "histogram": {"analysis": "secure-histogram", "edges": [0.0, 1.5, 5.0], "length": 1, "largest": 3},
    "distribution": {"analysis": "secure-distribution", "range": [0.0, 4.0], "buckets": 4, "length": 1, "largest": 1},
    "noisy": {"privacy": {"epsilon": 1.0, "delta": 1e-6}},
}


def not_used(folder):
    """The reason in the newest report, which shows no value."""
    return read_sum_report(folder, kept_rounds(folder)[-1])["not_used_because"]


@pytest.mark.parametrize("way", SUMS)
def test_a_sum_gets_zeros_of_the_same_size(tmp_path, faults, way):
    params = question(**SUMS[way])
    config = round_of(params)
    n_values = 1 if way == "distribution" else 3
    declared = replace(DECLARED, length=None if way in ("histogram", "distribution") else 3)
    values = {"steps": KeptRecord(declared, lambda: Record(np.arange(1.0, n_values + 1), 2))}
    with device_in(tmp_path, records=values, exact_sums=True, data_dir=tmp_path) as device:
        answered = _SumRound(device, params, config)
        seeds = seeds_of_sum(params, config)
        vector, noise = answered.contribute(seeds)
        assert vector.any()
        for line in faults.lines_of(lambda: answered.contribute(seeds)):
            zeros, drawn = faults.run_with_error(lambda: answered.contribute(seeds), line)
            assert (zeros.shape, zeros.dtype, zeros.any()) == (vector.shape, vector.dtype, False), line
            assert (drawn is None) == (noise is None)
            assert not_used(tmp_path) == "reading it failed: InjectedError"


def seeds_of_sum(params, config):
    noise = params.noise(config.topology)
    return () if noise is None else tuple(bytes(32) for _ in noise.component_parts)


@pytest.mark.parametrize("form", ["statistics", "sgd"])
def test_a_round_of_a_factorization_gets_zeros_of_the_same_size(tmp_path, faults, form):
    with factor_device_in(tmp_path) as device:
        answered = device.factors.entered(invitation_to(0, form=form))
        answered.admit()
        answered.commit()
        seeds = seeds_of(answered)
        vector, noise = answered.contribute(seeds)
        lines = faults.lines_of(lambda: answered.contribute(seeds))
        assert len(lines) > 40
        for line in lines:
            zeros, drawn = faults.run_with_error(lambda: answered.contribute(seeds), line)
            assert (zeros.shape, zeros.dtype, zeros.any()) == (vector.shape, vector.dtype, False), line
            assert drawn.shape == noise.shape
            assert not_used(tmp_path) == "reading it failed: InjectedError"


def test_a_survey_gets_a_response_to_the_empty_input_of_the_same_size(tmp_path, faults):
    drawn = []
    with survey_device(tmp_path, records={"wage": kept_wage(30.0)}, data_dir=tmp_path) as device:
        answers, body = device.drawn(asked())
        assert not answers.not_used_because
        for line in faults.lines_of(lambda: device.drawn(asked())):
            answers, other = faults.run_with_error(lambda: device.drawn(asked()), line)
            drawn.append(answers)
            assert len(other) == len(body)

    empty = asked().question.inquiry.empty
    assert {(one.value, one.not_used_because) for one in drawn} == {(empty, "reading it failed: InjectedError")}


def sealed_sizes(body):
    return [len(one) for one in decode_answer(body).vector.sealed]


def test_a_batch_gets_zeros_of_the_same_size(tmp_path, faults):
    issue, keys = authority_in(tmp_path, "walkers"), [RoundKey(SystemEntropy().read(32)) for _ in PARTIES]
    batch = asked_batch()
    keys_of_parties = offered(batch, issue, keys).keys

    with ExitStack() as stack:
        device = batch_device(
            stack, tmp_path / "ann", issue(Role.DEVICE, "ann"), records={"steps": kept(1.0, 2.0, 3.0)}
        )
        sizes = sealed_sizes(device.make(batch, keys_of_parties))
        for line in faults.lines_of(lambda: device.make(batch, keys_of_parties)):
            answer = faults.run_with_error(lambda: device.make(batch, keys_of_parties), line)
            assert sealed_sizes(answer) == sizes
            assert not any(opened_vector(batch, keys, answer)), line
            assert not_used(tmp_path / "ann") == "reading it failed: InjectedError"


def test_a_question_that_raises_anything_is_left_and_logged_without_a_value(tmp_path):
    def raises(*args):
        raise InjectedError("27 years old")

    with device_in(tmp_path) as device, survey_device(tmp_path / "survey") as survey, capture_logs() as logs:
        broken = replace(device, policy=SimpleNamespace(check=raises), tells_refusals=False)
        assert not run_in_virtual_time(broken.answer(sum_invitation(question())))
        broken = replace(survey, store=SimpleNamespace(find=raises))
        assert not run_in_virtual_time(broken.answer(OfferedQuestion(1, asked().canonical_json())))
    with ExitStack() as stack, capture_logs() as more:
        device = batch_device(stack, tmp_path / "ann", authority_in(tmp_path, "walkers")(Role.DEVICE, "ann"))
        broken = replace(device, policy=SimpleNamespace(check=raises))
        assert not run_in_virtual_time(broken.answer(OfferedQuestion(1, asked_batch().canonical_json(), ())))
    reasons = [one["reason"] for one in logs + more if "reason" in one]
    assert reasons == ["unforeseen: InjectedError"] * 3
    assert "27" not in str(logs + more)


@pytest.mark.parametrize("loop", [answer_rounds, answer_questions])
def test_what_asks_for_questions_goes_on_whatever_it_receives(loop):
    calls = []

    async def fetch(*args):
        calls.append(args)
        if len(calls) == 3:
            raise asyncio.CancelledError
        raise InjectedError

    with pytest.raises(asyncio.CancelledError):
        run_in_virtual_time(loop(lambda: SimpleNamespace(name="ann", client=SimpleNamespace(fetch=fetch))))
    assert len(calls) == 3
