"""Surveys by masked sums of cohorts over real services: the same result schema as by responses, one budget for both."""

import asyncio
import json

import numpy as np
import pytest
from deadlines import GENEROUS_S, SKIPPED_S
from sum_federation import sum_federation
from surveys import FAR, kept

from cli.terminal.plot import plot
from coordinator.server import CoordinatorProcess
from device.questions.answering import answer_questions
from device.questions.survey import SurveyDevice
from device.response_store import ResponseStore
from entropy import SystemEntropy
from questions.cohorts import MaskedQuestion
from questions.responses import SurveyQuestion
from service.errors import InvalidRequestError, NotFoundError
from service.identity import Role
from transport.happenings import Counted, Failed, Opened, Result
from transport.question_client import QuestionClient, ask

FIELDS = {"record": "wage", "range": (0.0, 100.0), "buckets": 16, "epsilon": 4.0}


def masked_question(**changes) -> MaskedQuestion:
    fields = {**FIELDS, "method": "masked", "colluding": 1, "stage_s": GENEROUS_S, "attempts": 1}
    return MaskedQuestion.from_tree({**fields, **changes})


async def heard(hub, question=None, question_id=b"", text=""):
    async with hub.channel(Role.ANALYST, "ada") as channel, asyncio.timeout(GENEROUS_S):
        kind, asked = ("sum", text) if question is None else (question.kind, question.canonical_json())
        return [happening async for happening in ask("hub", channel, kind, asked, question_id)]


def result_of(happenings):
    assert isinstance(happenings[-1], Result), happenings[-1]
    return json.loads(happenings[-1].result_json)


async def start_devices(hub, **changes):
    found = []
    for i, name in enumerate(hub.names):
        device = await hub.device(name, records={"wage": kept(10.0 * i, length=1)}, exact_sums=False, **changes)
        hub.start(device)
        found.append(device)
    return found


async def test_cohorts_of_devices_answer_as_responses_do_and_both_are_charged_to_one_budget(tmp_path):
    async with sum_federation(tmp_path, 8) as hub:
        devices = await start_devices(hub)
        happenings = await heard(hub, masked_question(cohort=4, quantiles=(0.5,), queries=((0.0, 50.0),)))
        by_sums = result_of(happenings)
        question_id = happenings[0].question_id
        assert isinstance(happenings[0], Opened)
        assert all(isinstance(happening, Counted) for happening in happenings[1:-1])
        assert by_sums["survivors"] == list(hub.names)
        assert (by_sums["cohorts"], by_sums["responses"], by_sums["vanished"]) == ([4, 4], 8, {})
        assert by_sums["question"] == question_id.hex()
        plot(by_sums, tmp_path / "survey.svg", by_sums["record"])
        assert "wage" in (tmp_path / "survey.svg").read_text()
        assert by_sums["privacy"]["views"]["coalition"]["epsilon"] <= 4.0
        assert result_of(await heard(hub, question_id=question_id)) == by_sums

        after_sum = [device.budget.standing() for device in devices]
        assert {standing["committed_jobs"] for standing in after_sum} == {1}
        running = []
        for device in devices:
            channel = hub.channel(Role.DEVICE, device.name)
            hub.stack.push_async_callback(channel.close)
            store = ResponseStore(tmp_path / device.name / "responses.sqlite")
            hub.stack.callback(store.close)
            answering = SurveyDevice(
                name=device.name,
                coordinator=hub.process._credentials.identity.uri,
                client=QuestionClient("hub", channel, "survey", GENEROUS_S),
                store=store,
                records=device.records,
                fixed=frozenset(),
                budget=device.budget,
                max_epsilon=4.0,
                entropy=SystemEntropy(),
            )
            running.append(asyncio.create_task(answer_questions(lambda answering=answering: answering)))
        question = SurveyQuestion(
            **FIELDS, until=FAR, responses=8, smoothing=1, quantiles=(0.5,), queries=((0.0, 50.0),)
        )
        by_responses = result_of(await heard(hub, question))
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert by_responses.keys() <= by_sums.keys()
        assert np.shape(by_responses["quantiles"]) == np.shape(by_sums["quantiles"])
        assert np.shape(by_responses["queries"]) == np.shape(by_sums["queries"])
        for device, before in zip(devices, after_sum, strict=True):
            standing = device.budget.standing()
            assert standing["committed_jobs"] == 2
            assert standing["spent_epsilon"] > before["spent_epsilon"] > 0


async def test_a_cohort_that_fails_is_named_and_the_others_are_the_result(tmp_path):
    async with sum_federation(tmp_path, 8) as hub:
        await start_devices(hub)
        for name in hub.names[4:]:
            await hub.kill(name)
            hub.silent.add(name)
        result = result_of(await heard(hub, masked_question(cohort=4, stage_s=SKIPPED_S)))
        assert result["survivors"] == list(hub.names[:4])
        assert result["vanished"].keys() == set(hub.names[4:])
        assert all(isinstance(reason, str) and reason for reason in result["vanished"].values())
        assert result["cohorts"] == [4]


async def test_a_masked_survey_that_cannot_be_answered_says_why(tmp_path):
    async with sum_federation(tmp_path, 4) as hub:
        for changes, what in (
            ({"members": ["zoe"]}, "zoe"),
            ({"delta": 0.4}, "delta"),
            ({"members": ["walker-1"]}, "3"),
        ):
            with pytest.raises(InvalidRequestError, match=what):
                await heard(hub, masked_question(**changes))
        happenings = await heard(hub, masked_question(colluding=3))
        assert isinstance(happenings[-1], Failed)
        assert "colluding" in happenings[-1].reason
        channel = hub.channel(Role.DEVICE, "walker-1")
        hub.stack.push_async_callback(channel.close)
        client = QuestionClient("hub", channel, "survey", GENEROUS_S)
        with pytest.raises(NotFoundError, match="never asked here"):
            await client.answer(happenings[0].question_id, b"\0")
        with pytest.raises(NotFoundError):
            await heard(hub, question_id=bytes(16))


async def test_a_masked_survey_does_not_outlive_its_coordinator(tmp_path):
    async with sum_federation(tmp_path, 4) as hub:
        hub.silent |= set(hub.names)
        stored = hub.process._survey_store.add(bytes(16), "ada", masked_question().canonical_json())
        await hub.process.stop()
        hub.process = CoordinatorProcess(
            hub.config.model_copy(update={"listen": hub.address}), hub.process._credentials
        )
        await hub.process.start()
        happenings = await heard(hub, question_id=stored.question_id)
        assert happenings[-1] == Failed("the coordinator was restarted; ask again")
