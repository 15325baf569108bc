"""A new kind of question touches four places: what is asked, what a device answers, what a coordinator makes of it, and
the list of kinds. The rest is there: here a kind that only this test knows goes all the way, over real services."""

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Literal

import pytest
from deadlines import GENEROUS_S, until
from pydantic import AwareDatetime
from stores import surveys_in
from sum_federation import sum_federation
from surveys import FAR, HUB, kept, survey_device, survey_question

from analyses.job.job import JobError
from coordinator.questions.answered_host import AnsweredHost
from coordinator.stores.surveys import Given
from device.questions.answering import QuestionDevice, answer_questions
from device.records import zeros_if_raised
from device.refusing import SitsOutError
from entropy import SystemEntropy
from questions.question import Asked, Question
from service.errors import InvalidRequestError, NotAllowedError
from service.identity import Role
from transport.happenings import Opened, Refused, Result
from transport.question_client import QuestionClient, ask, call_off, list_open
from transport.refusal import WhyRefused


# 1. What is asked.
class ToyQuestion(Question):
    kind = "toy"

    analysis: Literal["toy"] = "toy"
    record: str
    until: AwareDatetime = FAR
    devices: int = 2


class AskedToy(Asked):
    question: ToyQuestion


# 2. What a device answers: one bit that says nothing.
@dataclass(frozen=True, kw_only=True)
class ToyDevice(QuestionDevice[AskedToy]):
    kind = "toy"
    store_name = "toys.sqlite"

    @classmethod
    def settings(cls, config, credentials):
        return {}

    @classmethod
    def read(cls, text):
        return AskedToy.from_json(text)

    def admit(self, asked, keys):
        if asked.question.record not in self.records:
            raise SitsOutError("no such record", WhyRefused.QUESTION)

    def cost_of(self, asked):
        return survey_question().cost()  # any cost will do

    def make(self, asked, keys):
        return zeros_if_raised(lambda: self.entropy.read(1), lambda why: self.entropy.read(1))


# 3. What a coordinator makes of the answers: it counts them.
class Toys(AnsweredHost):
    kind = "toy"
    plural = "toys"
    asked_class = AskedToy
    ending_is_broken_off = False

    def read(self, text):
        return ToyQuestion.from_tree(json.loads(text))

    async def open(self, analyst, question):
        asked = self.asked_of(question)
        return await self.enter(self._store.add(asked.question_id, analyst, asked.canonical_json()))

    def most_answers(self, question):
        return question.devices

    def given(self, number, asked, caller, body, text):
        if len(body) != 1:
            raise InvalidRequestError(f"{caller.identity.name}: an answer has one byte")
        return Given(number, caller.identity.name, body[0])

    async def result(self, one, stored):
        return json.dumps({"record": one.question.record, "devices": self._store.n_answers(stored.number)}), ""


@contextlib.asynccontextmanager
async def toy_hub(folder):
    async with sum_federation(folder, 2) as hub:
        store = surveys_in(folder / "toys.sqlite")
        hub.stack.callback(store.close)
        # 4. The list of kinds.
        hosts = hub.process._questions._hosts
        hosts["toy"] = Toys(store, HUB, SystemEntropy())
        await hosts["toy"].start()
        yield hub


@contextlib.contextmanager
def toy_device(hub, stack, name, records=("wage",)):
    channel = hub.channel(Role.DEVICE, name)
    stack.push_async_callback(channel.close)
    with survey_device(hub.folder / name, name=name) as survey:
        yield ToyDevice(
            name=name,
            client=QuestionClient("hub", channel, "toy", GENEROUS_S),
            store=survey.store,
            records={record: kept(1.0) for record in records},
            budget=survey.budget,
            entropy=SystemEntropy(),
        )


def toy(**changes):
    return ToyQuestion(record="wage", **changes).canonical_json()


async def test_a_kind_that_nobody_knew_is_asked_answered_once_followed_and_ended(tmp_path):
    async with toy_hub(tmp_path) as hub, contextlib.AsyncExitStack() as stack:
        devices = [stack.enter_context(toy_device(hub, stack, name)) for name in ("ann", "ben")]
        other = stack.enter_context(toy_device(hub, stack, "cem", records=("height",)))
        answering = [asyncio.create_task(answer_questions(lambda one=one: one)) for one in (other, *devices[:1])]
        async with hub.channel(Role.ANALYST, "ada") as channel, asyncio.timeout(GENEROUS_S):
            heard = []
            async for happening in ask("hub", channel, "toy", toy()):
                heard.append(happening)
                if isinstance(happening, Refused):
                    answering.append(asyncio.create_task(answer_questions(lambda: devices[1])))
            assert heard[-1] == Result('{"record": "wage", "devices": 2}')
            assert Refused((("question", 1),)) in heard
            again = [one async for one in ask("hub", channel, question_id=heard[0].question_id)]
            assert again == [heard[0], heard[-1]]
        for one in devices:
            await until(lambda one=one: [known.outcome for known in one.store.known()] == ["taken"])
            assert one.budget.standing()["committed_jobs"] == 1
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)


async def test_it_is_listed_called_off_and_refused_as_every_kind(tmp_path):
    async with toy_hub(tmp_path) as hub, hub.channel(Role.ANALYST, "ada") as channel:
        async for happening in ask("hub", channel, "toy", toy()):
            assert isinstance(happening, Opened)
            break
        (listed,) = await list_open("hub", channel)
        assert (listed.kind, listed.record, listed.question_id) == ("toy", "wage", happening.question_id)
        await call_off("hub", channel, listed.question_id)
        assert await list_open("hub", channel) == []
        with pytest.raises(InvalidRequestError, match="asks no questions of this kind"):
            [one async for one in ask("hub", channel, "game", toy())]
        with pytest.raises(NotAllowedError):
            await QuestionClient("hub", channel, "toy", GENEROUS_S).fetch(0)


def test_a_question_of_another_kind_is_none():
    with pytest.raises(JobError):
        AskedToy.from_json('{"question":{},"asker":"hub","session":""}')
