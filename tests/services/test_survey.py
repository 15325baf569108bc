"""Surveys over real services: devices with certificates, an analyst, a coordinator that may restart."""

import asyncio
import contextlib
import json

import pytest
from deadlines import GENEROUS_S, until
from sum_federation import COORDINATOR, sum_federation
from surveys import OF_CATEGORIES, OF_PERSONS, asked, kept, survey_device, survey_question
from wire.v1.questions_pb2 import QuestionAnswer

from coordinator.questions import answered_host
from coordinator.server import CoordinatorProcess
from coordinator.stores.question import Outcome
from coordinator.stores.surveys import Given
from device.budget import SumBudgetConfig
from device.questions.answering import answer_questions
from device.response_store import read_responses
from questions.responses import AskedQuestion
from results.registry import device_text
from service.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotAllowedError,
    NotFoundError,
    WrongStateError,
)
from service.identity import Role
from transport.batch_codec import OfferedQuestion
from transport.happenings import Counted, Failed, Opened, Refused, Result
from transport.question_client import QuestionClient, ask


@pytest.fixture
async def hub(tmp_path):
    async with sum_federation(tmp_path, 2) as federation:
        yield federation


async def client_of(hub, name, role=Role.DEVICE):
    channel = hub.channel(role, name)
    hub.stack.push_async_callback(channel.close)
    return QuestionClient("hub", channel, "survey", GENEROUS_S)


class Proposal:
    """An analyst who asks, and what it has heard."""

    def __init__(self, hub, question=None, *, question_id=b"", analyst="ada"):
        self.happenings = []
        self._hub, self._question, self._id, self._analyst = hub, question, question_id, analyst
        self.task = asyncio.create_task(self._run())

    async def _run(self):
        text = "" if self._question is None else self._question.canonical_json()
        async with self._hub.channel(Role.ANALYST, self._analyst) as channel, asyncio.timeout(GENEROUS_S):
            async for happening in ask("hub", channel, "survey", text, self._id):
                self.happenings.append(happening)

    async def opened(self):
        await until(lambda: self.happenings or self.task.done())
        if self.task.done():
            await self.task
        assert isinstance(self.happenings[0], Opened)
        return self.happenings[0].question_id

    async def result(self):
        await self.task
        assert isinstance(self.happenings[-1], Result), self.happenings[-1]
        return json.loads(self.happenings[-1].result_json)


async def fetched(client):
    found = None
    while found is None:
        found = await client.fetch(0)
    return AskedQuestion.from_json(found.text)


async def answered_by_hand(hub, name, value=40.0):
    """One device's question, and the body with which it would answer."""
    client = await client_of(hub, name)
    question = await fetched(client)
    with survey_device(hub.folder / name, name=name, records={"wage": kept(value)}) as device:
        return client, question, device.answer_once(question)


@pytest.mark.parametrize(
    ("method", "buckets", "n"), [("wave", 32, 12), ("tree", 32, 12), ("prefixes", 1000, 40), ("grid", 32, 12)]
)
async def test_devices_answer_and_the_analyst_gets_the_estimate(hub, method, buckets, n):
    asking = Proposal(hub, survey_question(method=method, buckets=buckets, epsilon=4.0, responses=n))

    def record_of(i):
        return {"prefixes": (40.0,), "grid": (60.0, 9.0)}.get(method, (5.0 * i,))

    with contextlib.ExitStack() as stack:
        devices = [
            stack.enter_context(
                survey_device(
                    hub.folder / f"d{i}",
                    name=f"d{i}",
                    client=await client_of(hub, f"d{i}"),
                    records={"wage": kept(*record_of(i))},
                )
            )
            for i in range(n)
        ]
        running = [asyncio.create_task(answer_questions(lambda device=device: device)) for device in devices]
        result = await asking.result()
        await until(lambda: all(d.store.known() and d.store.known()[0].outcome == "taken" for d in devices))
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    assert (result["responses"], result["contradictions"], result["method"]) == (n, 0, method)
    if method == "prefixes":
        assert result["frequent"][0][0] == 40.0  # one of twenty results lists another one, too
    elif method == "grid":
        assert max((share, i, j) for i, one in enumerate(result["grid"]["cells"]) for j, (share, *_) in enumerate(one))[
            1:
        ] == (2, 4)
    else:
        assert len(result["probabilities"]) == 32
    views = result["privacy"]["views"]
    assert views["coordinator"]["epsilon"] == views["coalition"]["epsilon"] <= 4.0
    before_the_end = asking.happenings[1:-1]
    assert before_the_end
    assert all(isinstance(happening, Counted) for happening in before_the_end)
    assert "probabilities" not in repr(before_the_end)


async def test_who_asks_hears_how_many_devices_refuse_by_the_class_of_their_reason_and_of_no_record(hub):
    """One has a lower limit, one no such record, one keeps its reason to itself, one has a record that is unusable."""
    both = Refused((("policy", 1), ("question", 1)))
    asking = Proposal(hub, survey_question(epsilon=4.0, responses=1))
    await asking.opened()
    kinds = {
        "ann": {"max_epsilon": 1.0},
        "ben": {"records": {"weight": kept(40.0)}},
        "cem": {"max_epsilon": 1.0, "tells_refusals": False},
        "dan": {"records": {"wage": kept("no number")}},
    }
    for name, fields in kinds.items():
        client = await client_of(hub, name)
        with survey_device(
            hub.folder / name, **{"name": name, "client": client, "records": {"wage": kept(40.0)}} | fields
        ) as device:
            if name == "dan":
                await until(lambda: both in asking.happenings)
            await device.answer(await client.fetch(0))
    assert (await asking.result())["responses"] == 1
    assert {h.refusals for h in asking.happenings if isinstance(h, Refused)} <= {
        (("policy", 1),),
        (("policy", 1), ("question", 1)),
    }


async def test_the_same_bytes_again_are_taken_and_others_refused(hub):
    asking = Proposal(hub, survey_question(responses=2))
    client, question, body = await answered_by_hand(hub, "ann")
    for _ in range(3):
        await client.answer(question.question_id, body)
    other = bytes([(body[0] + 1) % question.question.inquiry.n_outputs])
    for _ in range(2):
        with pytest.raises(AlreadyExistsError, match="ann has given another answer"):
            await client.answer(question.question_id, other)
    assert await client.fetch(0) is None
    second, _, its_body = await answered_by_hand(hub, "ben")
    await second.answer(question.question_id, its_body)
    result = await asking.result()
    assert (result["responses"], result["contradictions"]) == (2, 2)
    ((names, responses),) = hub.process._survey_store.responses(1)
    assert names == ("ann", "ben")
    assert responses.tolist() == [body[0], its_body[0]]


async def test_a_wrong_body_and_a_wrong_question_are_refused_by_the_name_of_the_caller(hub):
    asking = Proposal(hub, survey_question(responses=1))
    client, question, body = await answered_by_hand(hub, "ann")
    n_outputs = question.question.inquiry.n_outputs
    for wrong in (b"", body + b"\0", bytes(3), bytes([n_outputs]), b"\xff"):
        with pytest.raises(InvalidRequestError, match="ann: a response to this question"):
            await client.answer(question.question_id, wrong)
    for unknown in (b"", bytes(16), question.question_id + b"\0"):
        with pytest.raises(NotFoundError, match="ann answers a question that was never asked here"):
            await client.answer(unknown, body)
    await client.answer(question.question_id, body)
    await asking.result()
    late = await client_of(hub, "ben")
    with pytest.raises(WrongStateError, match="ben comes too late: the survey is closed"):
        await late.answer(question.question_id, body)
    await client.answer(question.question_id, body)  # its `Taken` may have been lost


async def test_a_response_to_one_question_is_none_to_another(hub):
    """The identifier of a question binds what is answered: nothing of a survey can be replayed in another one."""
    first, second = (Proposal(hub, survey_question(responses=1)) for _ in range(2))
    ids = {await first.opened(), await second.opened()}
    assert len(ids) == 2
    client, question, body = await answered_by_hand(hub, "ann")
    await client.answer(question.question_id, body)
    await until(lambda: first.task.done() or second.task.done())
    assert first.task.done() is not second.task.done()
    for asking in (first, second):
        asking.task.cancel()


async def test_devices_of_one_person_answer_about_a_record_each_and_patterns_are_counted(hub):
    """Three records of 8 persons, one of whom has no device for the last, at an epsilon at which hardly any lies."""
    bits = {f"p{i}": (i % 2, i % 2, i < 3) for i in range(8)}
    names = [(person, place) for person in bits for place in range(3) if (person, place) != ("p7", 2)]
    asking = Proposal(hub, survey_question(**OF_PERSONS, epsilon=14.0, order=3, responses=len(names)))
    await asking.opened()
    records = ("smokes", "runs", "sleeps-well")
    for person, place in names:
        name = f"{person}-{records[place]}"
        fields = {"client": await client_of(hub, name), "records": {records[place]: kept(float(bits[person][place]))}}
        with survey_device(hub.folder / name, name=name, max_epsilon=50.0, **fields) as device:
            assert await device.answer(await device.client.fetch(0))
    assert read_responses(hub.folder / "p3-runs" / "responses.sqlite")[0]["record"] == ", ".join(records)
    result = await asking.result()
    assert (result["persons"], result["responses"], result["contradictions"]) == (8, 23, 0)
    found = {(*row["records"], *row["values"]): (round(row["count"]), row["persons"]) for row in result["patterns"]}
    assert found["smokes", 1] == (4, 8)
    assert found["smokes", "runs", 1, 1] == (4, 8)
    assert found["smokes", "runs", 1, 0] == (0, 8)
    assert found["smokes", "runs", "sleeps-well", 1, 1, 1] == (1, 7)
    assert [round(row["sum"]) for row in result["powers"]] == [9, 19, 45]
    lines = device_text(result)
    assert "smokes, runs, sleeps-well: 23 responses about 8 persons" in lines
    assert "smokes 1, runs 1, sleeps-well 1" in lines


async def test_devices_of_one_person_answer_about_categories_and_combinations_of_them_are_counted(hub):
    """Of four ways to travel one is nobody's, and a record holds none of them; hardly any response lies."""
    people = {f"p{i}": (i % 2, (1, 3, 4, 3)[i % 4], i < 3) for i in range(8)} | {"p8": (1.0, float("nan"), 0.0)}
    asking = Proposal(hub, survey_question(**OF_CATEGORIES, epsilon=14.0, order=3, responses=27))
    await asking.opened()
    records = ("smokes", "travels-by", "sleeps-well")
    for person, values in people.items():
        for record, value in zip(records, values, strict=True):
            name = f"{person}-{record}"
            fields = {"client": await client_of(hub, name), "records": {record: kept(float(value))}}
            with survey_device(hub.folder / name, name=name, max_epsilon=50.0, **fields) as device:
                assert await device.answer(await device.client.fetch(0))
    result = await asking.result()
    assert (result["persons"], result["responses"], result["contradictions"]) == (9, 27, 0)
    assert result["privacy"]["views"]["coordinator"]["epsilon"] == pytest.approx(42.0, abs=0.01)
    found = {(*row["records"], *row["values"]): (round(row["count"]), row["persons"]) for row in result["patterns"]}
    assert len(found) == 8 + 20 + 16
    assert [found["travels-by", value][0] for value in (1, 2, 3, 4)] == [2, 0, 4, 2]
    assert found["smokes", "travels-by", 1, 3] == (4, 9)
    assert found["smokes", "travels-by", 0, 3] == (0, 9)
    assert found["smokes", "travels-by", "sleeps-well", 1, 3, 1] == (1, 9)
    assert "smokes 1, travels-by 3" in device_text(result)


async def test_devices_of_a_person_that_share_her_budget_answer_as_long_as_their_parts_last(hub):
    """Three devices have a third of epsilon 1.2 each: a response of 0.3 leaves too little for another question."""
    whole = SumBudgetConfig(period="2026", epsilon=1.2, delta=1e-6, reason="first", devices_of_person=3)
    records, asking = ("smokes", "runs", "sleeps-well"), []
    for n_answers in (3, 1):
        asking.append(Proposal(hub, survey_question(**OF_PERSONS, epsilon=0.3, responses=n_answers)))
        await asking[-1].opened()
    spent = {}
    for record in records:
        name = f"p1-{record}"
        fields = {"client": await client_of(hub, name), "records": {record: kept(1.0)}, "budget": whole.as_budget()}
        with survey_device(hub.folder / name, name=name, **fields) as device:
            offered = await device.client.fetch(0)
            assert await device.answer(offered)
            assert not await device.answer(await device.client.fetch(offered.number))
            spent[record] = device.budget.standing()["spent_epsilon"]
    assert (await asking[0].result())["persons"] == 1
    assert sum(spent.values()) <= whole.epsilon
    asking[1].task.cancel()


async def test_a_response_is_one_to_the_record_of_the_device_that_gives_it(hub):
    """A record of two categories has three outputs, one of four has five; each is checked by its own."""
    asking = Proposal(hub, survey_question(**OF_CATEGORIES, responses=2))
    question_id = await asking.opened()
    with pytest.raises(InvalidRequestError, match="below 3"):
        await (await client_of(hub, "p1-smokes")).answer(question_id, b"\3")
    with pytest.raises(InvalidRequestError, match="below 5"):
        await (await client_of(hub, "p1-travels-by")).answer(question_id, b"\5")
    await (await client_of(hub, "p1-travels-by")).answer(question_id, b"\4")
    await (await client_of(hub, "p1-smokes")).answer(question_id, b"\2")
    assert (await asking.result())["persons"] == 1


async def test_a_device_answers_once_about_the_record_of_its_certificate_and_about_no_other(hub):
    """What a person's name and record are stands in the certificate: nobody answers twice, or in another's place."""
    asking = Proposal(hub, survey_question(**OF_PERSONS, responses=2))
    question_id = await asking.opened()
    for stranger in ("p1", "p1-walks", "smokes"):
        client = await client_of(hub, stranger)
        with pytest.raises(InvalidRequestError, match="PERSON-RECORD"):
            await client.answer(question_id, b"\1")
    client = await client_of(hub, "p1-runs")
    with pytest.raises(InvalidRequestError, match="below 3"):
        await client.answer(question_id, b"\3")
    await client.answer(question_id, b"\1")
    with pytest.raises(AlreadyExistsError):
        await client.answer(question_id, b"\2")
    await (await client_of(hub, "p2-runs")).answer(question_id, b"\2")
    result = await asking.result()
    assert (result["persons"], result["contradictions"]) == (2, 1)
    assert [row["persons"] for row in result["patterns"] if row["records"] == ["runs"]] == [2, 2]
    assert {row["persons"] for row in result["patterns"] if row["records"] != ["runs"]} == {0}


async def test_roles_call_their_own_methods_only(hub):
    for role in (Role.ANALYST, Role.PARTY, Role.COORDINATOR):
        client = await client_of(hub, "somebody", role)
        with pytest.raises(NotAllowedError, match="may be called by device"):
            await client.fetch(0)
        with pytest.raises(NotAllowedError, match="may be called by device"):
            await client.answer(bytes(16), b"\0")
    for role in (Role.DEVICE, Role.PARTY, Role.COORDINATOR):
        async with hub.channel(role, "somebody") as channel:
            with pytest.raises(NotAllowedError, match="may be called by analyst"):
                [happening async for happening in ask("hub", channel, "survey", survey_question().canonical_json())]
    with pytest.raises(NotAllowedError, match="not in the list"):
        await Proposal(hub, survey_question(), analyst="eve").task


BAD = {
    "reversed range": ({"range": [5, 1]}, "range"),
    "epsilon too small": ({"epsilon": 0.0009}, "epsilon"),
    "epsilon too large": ({"epsilon": 16.5}, "epsilon"),
    "one bucket": ({"buckets": 1}, "buckets"),
    "too many buckets": ({"buckets": 16385}, "buckets"),
    "ends before it begins": ({"until": "2001-01-01T00:00:00Z"}, "until"),
}


@pytest.mark.parametrize(("changes", "field"), BAD.values(), ids=BAD)
async def test_a_question_that_cannot_be_asked_is_refused_by_its_field(hub, changes, field):
    text = json.dumps(survey_question().model_dump(mode="json") | changes)
    async with hub.channel(Role.ANALYST, "ada") as channel:
        with pytest.raises(InvalidRequestError, match=field):
            [happening async for happening in ask("hub", channel, "survey", text)]
    assert hub.process._survey_store.unended() == []


async def test_an_analyst_sees_its_own_surveys_only(hub):
    asking = Proposal(hub, survey_question())
    question_id = await asking.opened()
    for wrong in (bytes(16), b""):
        with pytest.raises((NotFoundError, InvalidRequestError)):
            await Proposal(hub, question_id=wrong).task
    again = Proposal(hub, question_id=question_id)
    assert await again.opened() == question_id
    for one in (asking, again):
        one.task.cancel()


async def test_a_survey_that_nobody_answers_ends_by_the_clock_without_a_result(hub, monkeypatch):
    monkeypatch.setattr(answered_host, "LOOK_S", 0.01)
    asking = Proposal(hub, survey_question())
    await asking.opened()
    hub.process._questions["survey"]._clock = lambda: 1e11
    await asking.task
    assert asking.happenings[-1] == Failed("no device answered [no-device-answered]")


async def test_a_restarted_coordinator_goes_on_with_its_surveys_and_its_counts(hub):
    asking = Proposal(hub, survey_question(responses=2))
    client, question, body = await answered_by_hand(hub, "ann")
    await client.answer(question.question_id, body)
    await hub.process.stop()
    await asyncio.gather(asking.task, return_exceptions=True)
    config = hub.config.model_copy(update={"listen": hub.address})
    hub.process = CoordinatorProcess(config, hub.issue(Role.COORDINATOR, COORDINATOR.name))
    await hub.process.start()
    again = Proposal(hub, question_id=question.question_id)
    await again.opened()
    await client.answer(question.question_id, body)
    assert hub.process._questions["survey"]._open[question.question_id].n_answers == 1
    second, same, its_body = await answered_by_hand(hub, "ben")
    assert same.digest == question.digest
    await second.answer(question.question_id, its_body)
    assert (await again.result())["responses"] == 2


async def test_a_response_that_was_written_and_not_told_counts_when_it_is_sent_again(hub):
    """As where the connection to a database broke while the response was committed."""
    asking = Proposal(hub, survey_question(responses=1))
    client, question, body = await answered_by_hand(hub, "ann")
    given = Given(1, "ann", question.response_of(body))
    assert hub.process._survey_store.take([given]) == [Outcome.TAKEN]
    assert hub.process._questions["survey"]._open[question.question_id].n_answers == 0
    await client.answer(question.question_id, body)
    assert (await asking.result())["responses"] == 1


async def test_a_question_that_another_coordinator_repeats_is_not_answered(hub):
    """A device that its owner has moved to another coordinator does not answer the first one's question there."""
    asking = Proposal(hub, survey_question())
    client = await client_of(hub, "ann")
    question = await fetched(client)
    other = asked(asker=question.asker.replace("hub", "hub-2"))
    with survey_device(hub.folder / "ann", name="ann", client=client, coordinator=other.asker) as device:
        assert not await device.answer(OfferedQuestion(1, question.canonical_json()))
        assert device.budget.standing()["committed_jobs"] == 0
    assert not hub.process._survey_store.has_answered(1, "ann")
    asking.task.cancel()


def test_an_answer_takes_few_bytes():
    assert QuestionAnswer(kind="survey", question_id=bytes(16), body=bytes(2)).ByteSize() <= 32
