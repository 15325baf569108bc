import asyncio
from contextlib import ExitStack

import pytest
from masked_sums import OpenRound, make_config
from wire.v1 import aggregation_pb2 as pb

from mpc.secagg.config import Topology
from mpc.secagg.messages import SEAL_BYTES, SealedShares, UnmaskingShares
from mpc.secagg.secret.secret_sharing import SHARE_BYTES
from mpc.secagg.vector.prime_group import PrimeGroup
from service.errors import InvalidRequestError, NotFoundError, TimedOutError, TooMuchError
from service.identity import Identity, Role
from transport import aggregation
from transport.aggregation import (
    MAX_CALLS,
    MAX_ENCODED,
    MAX_FETCHES_EACH,
    AggregationService,
    AnswerTurns,
    CallCount,
    ReadingRoom,
    RoundStep,
    longest_answer_bytes,
)
from transport.sum_codec import Ended, decode_to_member, encode_from_member, parse_to_member

ANN, BEN = (Identity("walkers", Role.DEVICE, name) for name in ("ann", "ben"))


def test_at_most_500_calls_are_in_flight():
    count = CallCount()
    with ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(count.call())
        with pytest.raises(TooMuchError, match="try again"), count.call():
            pass
    assert (MAX_CALLS, count.n_calls) == (500, 0)
    with count.call():
        assert count.n_calls == 1


def test_a_call_that_fails_is_counted_out():
    count = CallCount()
    with pytest.raises(ValueError, match="boom"), count.call(), count.fetch(ANN):
        raise ValueError("boom")
    assert (count.n_calls, count.n_waiting) == (0, 0)


def test_thousands_of_callers_wait_and_none_of_them_takes_the_place_of_an_answer():
    count = CallCount()
    with ExitStack() as stack:
        for i in range(5000):
            stack.enter_context(count.fetch(Identity("walkers", Role.DEVICE, f"walker-{i}")))
        with count.call():
            assert (count.n_calls, count.n_waiting) == (1, 5000)


async def enter(room, n_bytes, order, may_leave):
    async with room.room_for(n_bytes):
        order.append(n_bytes)
        await may_leave.wait()


async def test_answers_are_read_as_far_as_there_is_room_in_the_order_of_coming():
    room, order, may_leave = ReadingRoom(100), [], asyncio.Event()
    tasks = [asyncio.create_task(enter(room, n, order, may_leave)) for n in (60, 40, 50, 1, 300)]
    await ticks()
    assert order == [60, 40]  # the one that needs 1 does not pass the one that needs 50
    tasks[2].cancel()
    may_leave.set()
    async with asyncio.timeout(20):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [60, 40, 1, 300]  # one that needs more than there ever is comes alone
    assert (room._used_bytes, len(room._queue)) == (0, 0)


async def test_who_leaves_while_being_admitted_leaves_the_room_as_it_was():
    room, order, may_leave = ReadingRoom(100), [], asyncio.Event()
    first, second, third = (asyncio.create_task(enter(room, 100, order, may_leave)) for _ in range(3))
    await ticks()
    first.cancel()
    while not room._queue[0][1].done() and len(room._queue) == 2:  # noqa: ASYNC110 -- until the second is admitted
        await asyncio.sleep(0)
    second.cancel()
    may_leave.set()
    async with asyncio.timeout(20):
        await asyncio.gather(first, second, third, return_exceptions=True)
    assert order in ([100, 100], [100, 100, 100])
    assert (room._used_bytes, len(room._queue)) == (0, 0)


def test_one_caller_waits_a_few_times_only():
    count = CallCount()
    with ExitStack() as stack:
        for _ in range(MAX_FETCHES_EACH):
            stack.enter_context(count.fetch(ANN))
        with (
            pytest.raises(TooMuchError, match="ann already has 4 waiting calls here; try again in a moment"),
            count.fetch(ANN),
        ):
            pass
        with count.fetch(BEN):
            pass
    with count.fetch(ANN):
        pass
    assert not count._n_fetches


async def ticks(n=10):
    for _ in range(n):
        await asyncio.sleep(0)


class Answering:
    """A call that holds its turn until it may leave, or until it is replaced and has tidied up."""

    def __init__(self, turns, caller, tidy=None):
        self.is_in, self.may_leave, self.tidy = asyncio.Event(), asyncio.Event(), tidy
        self.task = asyncio.create_task(self.run(turns, caller))

    async def run(self, turns, caller):
        async with turns.turn(caller):
            self.is_in.set()
            try:
                await self.may_leave.wait()
            finally:
                if self.tidy is not None:
                    await self.tidy.wait()
        return "done"


async def test_a_newer_answer_takes_the_place_of_the_earlier_ones_of_its_caller_once_they_have_left():
    turns, tidied = AnswerTurns(), asyncio.Event()
    other = Answering(turns, BEN)
    first = Answering(turns, ANN, tidy=tidied)
    await first.is_in.wait()
    second, third = Answering(turns, ANN), Answering(turns, ANN)
    async with asyncio.timeout(20):
        with pytest.raises(TooMuchError, match="a newer call of ann has replaced this one"):
            await second.task
    await ticks()
    assert not first.task.done()
    assert not third.is_in.is_set()
    tidied.set()
    with pytest.raises(TooMuchError, match="a newer call of ann"):
        await first.task
    await third.is_in.wait()
    third.may_leave.set()
    other.may_leave.set()
    assert [await third.task, await other.task] == ["done", "done"]
    assert not turns._latest


async def test_a_newer_answer_that_is_called_off_leaves_the_turn_as_it_was():
    turns, tidied = AnswerTurns(), asyncio.Event()
    first = Answering(turns, ANN, tidy=tidied)
    await first.is_in.wait()
    second = Answering(turns, ANN)
    await ticks()
    second.task.cancel()
    await ticks()
    assert (second.task.cancelled(), first.task.done()) == (True, False)
    tidied.set()
    with pytest.raises(TooMuchError, match="a newer call of ann"):
        await first.task
    third = Answering(turns, ANN)
    third.may_leave.set()
    assert await third.task == "done"


async def test_a_failure_in_a_turn_is_told_as_it_is():
    turns = AnswerTurns()
    for error in (TimeoutError("of something else"), NotFoundError("no round")):
        with pytest.raises(type(error), match=str(error)):
            async with turns.turn(ANN):
                raise error


CONFIGS = {
    "complete": make_config(),
    "two colluding, surplus seeds": make_config(9, topology=Topology.complete(9, 2), surplus_levels=(6, 7, 8, 9)),
    "prime": make_config(5, 40, group=PrimeGroup()),
    "long": make_config(5, 100_000),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_message_of_a_member_is_within_the_limit_of_its_round_and_the_limit_is_near(name):
    held = OpenRound(CONFIGS[name]).up_to("sign")
    held.unmasking = {m: held.members[m].unmask(held.signed) for m in list(held.members)[:2]}
    kinds = (held.advertisements, held.sealed, held.masked, held.signatures, held.unmasking)
    sizes = [encode_from_member(message).ByteSize() for kind in kinds for message in kind.values()]
    assert max(sizes) <= longest_answer_bytes(held.config) <= 1.4 * max(sizes) + 1200


def test_messages_on_a_ring_are_within_the_limit_too():
    config = make_config(130, topology=Topology.ring(130, 6, 6))
    holders = range(130 - config.topology.degree, 131)  # all neighbours, and the member itself
    sealed = SealedShares(config.round_id, 1, bytes(32), {m: bytes(2 * SHARE_BYTES + SEAL_BYTES) for m in holders})
    shares = {m: bytes(SHARE_BYTES) for m in holders}
    for message in (sealed, UnmaskingShares(config.round_id, 1, shares, {}, shares)):
        assert encode_from_member(message).ByteSize() <= longest_answer_bytes(config)


class KnowsAnn:
    """Rounds of which ann is the only member."""

    longest = 1000

    def longest_answer_bytes(self, caller):
        if caller != ANN:
            raise NotFoundError(
                "this coordinator has no round of anybody else: the round has ended, or the coordinator was restarted"
            )
        return self.longest

    async def wait(self, caller, round_id, step, patience_s):
        await asyncio.Event().wait()


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setattr(aggregation, "peer_identity", lambda caller: caller)
    return AggregationService(KnowsAnn())


class Chunks:
    """A message that never ends: `n` chunks, then nothing for good."""

    def __init__(self, n=0):
        self.n_read, self.n = 0, n

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.n_read >= self.n:
            await asyncio.Event().wait()
        self.n_read += 1
        return pb.Chunk(data=bytes(400))


async def test_nothing_is_read_of_a_caller_that_is_member_of_no_round(service):
    chunks = Chunks(5)
    async with asyncio.timeout(20):
        with pytest.raises(NotFoundError):
            await anext(service.Answer(chunks, BEN))
    assert chunks.n_read == 0


async def test_a_member_is_read_as_far_as_its_round_needs(service):
    chunks = Chunks(10_000)
    async with asyncio.timeout(20):
        with pytest.raises(TooMuchError, match="longer than its round needs"):
            await anext(service.Answer(chunks, ANN))
    assert chunks.n_read == 3


async def test_an_answer_that_does_not_arrive_is_not_waited_for(service, monkeypatch):
    monkeypatch.setattr(aggregation, "CALL_S", 0.05)
    async with asyncio.timeout(20):
        with pytest.raises(TimedOutError, match=r"did not arrive within 0\.05 s"):
            await anext(service.Answer(Chunks(2), ANN))
    assert service._room._used_bytes == 0


async def test_a_question_is_not_longer_than_the_name_of_a_round(service):
    question = pb.FetchRequest(round_id=pb.RoundId(session="s" * 2000))
    with pytest.raises(InvalidRequestError, match="name of the round"):
        await anext(service.Fetch(question, ANN))


async def test_a_caller_that_asks_too_often_at_once_is_asked_to_come_again(service):
    def ask(caller):
        return asyncio.ensure_future(anext(service.Fetch(pb.FetchRequest(), caller)))

    waiting = [ask(ANN) for _ in range(MAX_FETCHES_EACH)]
    await ticks()
    async with asyncio.timeout(20):
        with pytest.raises(TooMuchError, match="ann already has"):
            await ask(ANN)
    waiting.append(ask(BEN))
    await ticks()
    assert service.calls.n_waiting == MAX_FETCHES_EACH + 1
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (service.calls.n_calls, service.calls.n_waiting) == (0, 0)


class SaysTheSameToAll(KnowsAnn):
    """Rounds in which many callers get one message, and each a delivery of its own."""

    def __init__(self):
        held = OpenRound().up_to("share")
        self.members, self.deliveries = held.member_list, held.deliveries
        self.n_made = 0

    async def wait(self, caller, round_id, step, patience_s):
        """What anybody asks for is there."""

    def due(self, caller, round_id, step):
        self.n_made += 1
        return self.members if step is RoundStep.MEMBERS else self.deliveries[round_id.number]


async def test_what_many_members_get_is_encoded_once(monkeypatch):
    encoded, encode = [], aggregation.encode_to_member

    def counted(message):
        encoded.append(type(message).__name__)
        return encode(message)

    monkeypatch.setattr(aggregation, "encode_to_member", counted)
    monkeypatch.setattr(aggregation, "peer_identity", lambda caller: caller)
    rounds = SaysTheSameToAll()
    service = AggregationService(rounds)

    async def fetched(step, number):
        request = pb.FetchRequest(round_id=pb.RoundId(number=number), step=int(step))
        data = b"".join([chunk.data async for chunk in service.Fetch(request, ANN)])
        return decode_to_member(parse_to_member(data))

    assert [await fetched(RoundStep.MEMBERS, m) for m in (1, 2, 3, 4, 5)] == [rounds.members] * 5
    assert encoded == ["MemberList"]
    assert [await fetched(RoundStep.SHARES, m) for m in (1, 2, 3)] == [rounds.deliveries[m] for m in (1, 2, 3)]
    assert encoded == ["MemberList"] + ["ShareDelivery"] * 3


async def test_messages_are_made_when_there_is_room_to_send_them(monkeypatch):
    """All that wait are woken at once; a message of each would be kept at the same time."""
    monkeypatch.setattr(aggregation, "peer_identity", lambda caller: caller)
    rounds = SaysTheSameToAll()
    service = AggregationService(rounds)
    service._sending = asyncio.Semaphore(2)

    def fetching(number):
        return service.Fetch(pb.FetchRequest(round_id=pb.RoundId(number=number), step=int(RoundStep.SHARES)), ANN)

    calls = [fetching(number) for number in (1, 2, 3, 4)]
    sending = [asyncio.ensure_future(anext(call)) for call in calls]
    await ticks()
    assert (rounds.n_made, [task.done() for task in sending]) == (2, [True, True, False, False])
    for call in calls[:2]:
        await call.aclose()
    assert all([await task for task in sending])
    assert rounds.n_made == 4
    assert service.calls.n_waiting == 0


async def test_only_the_bytes_of_the_last_messages_are_kept(monkeypatch):
    monkeypatch.setattr(aggregation, "peer_identity", lambda caller: caller)
    service = AggregationService(KnowsAnn())
    for i in range(3 * MAX_ENCODED):
        list(service._chunks(Ended(f"reason {i}")))
    assert len(service._encoded) == MAX_ENCODED
