"""A member that restarts gets all again, says all again, and nothing else than before."""

import asyncio
import tracemalloc

import numpy as np
import pytest
from deadlines import GENEROUS_S

from entropy import InsecureTestEntropy
from mpc.errors import PeerLostError, PeerSilentError, PeerViolationError
from service.errors import UnauthenticatedError, WrongStateError
from transport.messages import returning
from transport.messages import session as sessions
from transport.messages.frames import array_frames, end_frame
from transport.messages.inbox import Inbox
from transport.messages.returning import ReturningReceiver, TooMuchToKeepError
from transport.messages.session import GrpcSession

HUB, BANK = 0, 1
NAMES = {HUB: "hub", BANK: "bank"}


def words(value, n_words=4):
    return np.full(n_words, value, dtype=np.uint64)


async def stream(*values, first=0, ends=True):
    for number, value in enumerate(values, first):
        for frame in array_frames(value, number):
            yield frame
    if ends:
        yield end_frame()


def inbox():
    return Inbox(NAMES, returning=(HUB,))


async def received(box, n_arrays, member=HUB):
    return [int((await box.receive(member, "a", (4,), np.uint64, GENEROUS_S))[0]) for _ in range(n_arrays)]


async def test_what_a_restarted_member_repeats_is_taken_once_and_what_follows_is_new():
    box = inbox()
    assert await box.take(HUB, "a", stream(words(1), words(2))) == 2
    assert await received(box, 1) == [1]
    box.begin_again(HUB)
    assert await box.take(HUB, "a", stream(words(1), words(2), words(3))) == 3
    assert await received(box, 2) == [2, 3]
    assert box.waiting_bytes == 0


async def test_a_restarted_member_may_end_a_stream_amid_its_repetition_and_go_on_in_another():
    box = inbox()
    await box.take(HUB, "a", stream(words(1), words(2)))
    box.begin_again(HUB)
    assert await box.take(HUB, "a", stream(words(1))) == 1
    assert await box.take(HUB, "a", stream(words(2), words(3), first=1)) == 3
    assert await received(box, 3) == [1, 2, 3]


@pytest.mark.parametrize("other", [words(9), words(1, 5), words(1).view(np.uint8), words(1).reshape(2, 2)])
async def test_a_restarted_member_that_says_something_else_breaks_the_protocol(other):
    box = inbox()
    await box.take(HUB, "a", stream(words(1)))
    box.begin_again(HUB)
    told = []
    session_of(box).on_violation(told.append)
    await asyncio.sleep(0)
    assert told == []
    with pytest.raises(PeerViolationError, match="hub says something else in stage a than before it restarted"):
        await box.take(HUB, "a", stream(other))
    await asyncio.sleep(0)
    assert [str(error) for error in told] == ["hub says something else in stage a than before it restarted"]
    assert await received(box, 1) == [1]
    with pytest.raises(PeerViolationError):
        await box.receive(HUB, "a", (4,), np.uint64, GENEROUS_S)


async def test_a_stream_that_was_open_before_the_restart_brings_nothing_more():
    box, may_go_on = inbox(), asyncio.Event()

    async def slowly():
        async for frame in stream(words(1), ends=False):
            yield frame
        await may_go_on.wait()
        async for frame in stream(words(2), first=1):
            yield frame

    before = asyncio.create_task(box.take(HUB, "a", slowly()))
    assert await received(box, 1) == [1]
    box.begin_again(HUB)
    assert await box.take(HUB, "a", stream(words(1), words(3))) == 2
    may_go_on.set()
    with pytest.raises(WrongStateError, match="hub has begun again"):
        await before
    assert await received(box, 1) == [3]


def cut_short(value, n_frames=2):
    """The first frames of an array, after which nothing comes."""

    async def frames():
        for frame, _ in zip(array_frames(value, 0), range(n_frames), strict=False):
            yield frame
        await asyncio.get_running_loop().create_future()

    return frames()


async def until_waiting(box, n_bytes):
    async with asyncio.timeout(GENEROUS_S):
        while box.waiting_bytes != n_bytes:  # noqa: ASYNC110 - the inbox tells nobody
            await asyncio.sleep(0)


async def test_streams_that_a_restarted_member_left_open_take_no_room():
    box, large = inbox(), words(1, n_words=1 << 17)
    awaiting = asyncio.create_task(box.receive(HUB, "a", large.shape, np.uint64, GENEROUS_S))
    await asyncio.sleep(0)
    for _ in range(3):  # what somebody waits for always has room
        reading = asyncio.create_task(box.take(HUB, "a", cut_short(large)))
        await until_waiting(box, large.nbytes)
        box.begin_again(HUB)
        await until_waiting(box, 0)
        with pytest.raises(WrongStateError, match="hub has begun again"):
            await reading
    await box.take(HUB, "a", stream(large))
    assert (await awaiting).shape == large.shape
    assert box.waiting_bytes == 0


async def test_a_reader_that_is_cancelled_by_others_is_cancelled():
    box = inbox()
    reading = asyncio.create_task(box.take(HUB, "a", cut_short(words(1, n_words=1 << 17))))
    await until_waiting(box, 8 << 17)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert box.waiting_bytes == 0


async def test_what_a_restarted_member_repeats_is_compared_and_not_kept():
    box, large = inbox(), words(1, n_words=1 << 20)
    await box.take(HUB, "a", stream(large))
    await box.receive(HUB, "a", large.shape, np.uint64, GENEROUS_S)
    box.begin_again(HUB)
    tracemalloc.start()
    try:
        assert await box.take(HUB, "a", stream(large)) == 1
        assert tracemalloc.get_traced_memory()[1] < large.nbytes / 2
    finally:
        tracemalloc.stop()


async def test_a_stream_that_a_crash_cut_short_is_no_violation_of_who_may_restart():
    box = inbox()
    assert await box.take(HUB, "a", stream(words(1), ends=False)) is None
    box.mark_cut_off(HUB, "a")  # the connection was still well a moment after, as on a busy machine
    box.begin_again(HUB)
    assert await box.take(HUB, "a", stream(words(1), words(2))) == 2
    assert await received(box, 2) == [1, 2]
    box.mark_cut_off(BANK, "a")
    with pytest.raises(PeerViolationError):
        await received(box, 1, BANK)


async def test_only_a_member_that_may_restart_is_not_lost_when_its_connection_breaks():
    box = inbox()
    box.mark_lost(HUB, "it broke")
    box.mark_lost(BANK, "it broke")
    with pytest.raises(PeerLostError):
        await box.receive(BANK, "a", (4,), np.uint64, GENEROUS_S)
    with pytest.raises(PeerSilentError):
        await box.receive(HUB, "a", (4,), np.uint64, 0.01)


class Wire:
    """The way to the hub: `took` is what its present process has; `is_there` whether it has one."""

    def __init__(self, deadline_s=GENEROUS_S):
        self.took, self.is_there = [], True
        self.n_flushed = 0
        self.tried = asyncio.Event()
        self.way = ReturningReceiver(
            HUB, "hub", write=self.write, flush=self.flush, renew=self.renew, deadline_s=deadline_s
        )

    async def write(self, stage, array):
        await asyncio.sleep(0)
        self.check()
        self.took.append((stage, int(array[0])))

    async def flush(self):
        await asyncio.sleep(0)
        self.check()
        self.n_flushed += 1

    async def renew(self):
        await asyncio.sleep(0)
        self.check()

    def check(self):
        if not self.is_there:
            self.tried.set()
            raise PeerLostError(HUB, "a", "it broke")

    def restart(self):
        self.took, self.is_there = [], True


async def test_a_restarted_member_gets_all_again_in_order_though_the_arrays_were_overwritten_since():
    wire, array = Wire(), words(1)
    for value in (1, 2):
        array[:] = value
        await wire.way.send("a", array)
    await wire.way.send("b", words(3))
    wire.restart()
    await wire.way.begin_again()
    assert wire.took == [("a", 1), ("a", 2), ("b", 3)]
    await wire.way.send("a", words(4))
    assert wire.took[-1] == ("a", 4)


async def test_what_is_sent_while_the_member_is_away_waits_and_comes_once():
    wire = Wire()
    await wire.way.send("a", words(1))
    wire.is_there = False
    sending = [asyncio.create_task(wire.way.send(stage, words(2))) for stage in ("a", "b")]
    await wire.tried.wait()
    await wire.way.begin_again()  # dies again at once
    assert not any(task.done() for task in sending)
    wire.restart()
    await wire.way.begin_again()
    await asyncio.gather(*sending)
    assert sorted(wire.took) == [("a", 1), ("a", 2), ("b", 2)]


async def test_nothing_is_sent_to_a_new_process_before_it_gets_what_the_one_before_had():
    wire = Wire()
    await wire.way.send("a", words(1))
    wire.way.hold()
    wire.restart()
    sending = asyncio.create_task(wire.way.send("a", words(2)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert wire.took == []
    await wire.way.begin_again()
    await sending
    assert wire.took == [("a", 1), ("a", 2)]


async def test_who_has_finished_gives_all_again_and_waits_for_the_new_acknowledgement():
    wire = Wire()
    await wire.way.send("a", words(1))
    await wire.way.finish()
    wire.restart()
    await wire.way.begin_again()
    assert (wire.took, wire.n_flushed) == ([("a", 1)], 2)


async def test_a_send_fails_where_the_member_does_not_come_back_and_the_end_waits_however_long():
    sends, ends = Wire(deadline_s=0.05), Wire(deadline_s=0.05)
    sends.is_there = ends.is_there = False
    finishing = asyncio.create_task(ends.way.finish())
    await ends.tried.wait()
    ends.way.hold()
    with pytest.raises(PeerLostError, match="it broke"):  # after a deadline that began later
        await sends.way.send("a", words(1))
    assert not finishing.done()
    ends.restart()
    await ends.way.begin_again()
    await finishing


async def test_the_end_fails_where_the_member_has_not_gone_away_and_cannot_be_reached():
    """It calls us, and we cannot call it: nobody else would end that."""
    wire = Wire(deadline_s=0.05)
    wire.is_there = False
    with pytest.raises(PeerLostError, match="it broke"):
        await wire.way.finish()


async def test_the_end_fails_where_a_member_is_back_and_cannot_be_reached():
    wire = Wire(deadline_s=0.05)
    wire.is_there = False
    finishing = asyncio.create_task(wire.way.finish())
    await wire.tried.wait()
    wire.way.hold()
    await asyncio.sleep(1)  # on the virtual clock: so long it may stay away
    assert not finishing.done()
    await wire.way.begin_again()
    with pytest.raises(PeerLostError, match="it broke"):
        await finishing


async def test_while_a_member_gets_all_again_the_end_waits_for_that():
    wire, may_go_on = Wire(deadline_s=0.05), asyncio.Event()
    await wire.way.send("a", words(1))
    wire.is_there = False
    finishing = asyncio.create_task(wire.way.finish())
    await wire.tried.wait()
    wire.way.hold()
    wire.restart()
    write = wire.write

    async def slowly(stage, array):
        await may_go_on.wait()
        await write(stage, array)

    wire.way._write_array = slowly
    beginning = asyncio.create_task(wire.way.begin_again())
    await asyncio.sleep(1)
    assert not finishing.done()
    may_go_on.set()
    await asyncio.gather(beginning, finishing)
    assert wire.took == [("a", 1)]


async def test_what_is_too_much_is_not_kept_and_the_job_goes_on_without(monkeypatch):
    monkeypatch.setattr(returning, "MAX_KEPT_BYTES", words(1).nbytes)
    wire = Wire()
    await wire.way.send("a", words(1))
    await wire.way.send("a", words(2))
    await wire.way.finish()
    assert wire.took == [("a", 1), ("a", 2)]
    with pytest.raises(TooMuchToKeepError):
        await wire.way.begin_again()
    wire.is_there = False
    with pytest.raises(PeerLostError):
        await wire.way.send("a", words(3))


def session_of(box, channel=None):
    return GrpcSession(
        job_id="job",
        terms=b"",
        me=BANK,
        names=NAMES,
        entropy=InsecureTestEntropy("bank"),
        deadline_s=GENEROUS_S,
        inbox=box,
        channels={HUB: channel},
        on_progress=lambda stage, done, total: None,
        returning=(HUB,),
    )


async def test_a_party_that_was_told_something_else_at_the_end_does_not_finish_in_peace():
    box = inbox()
    session = session_of(box)
    await session.finish()
    await box.take(HUB, "a", stream(words(1)))
    box.begin_again(HUB)
    with pytest.raises(PeerViolationError):
        await box.take(HUB, "a", stream(words(2)))
    with pytest.raises(PeerViolationError, match="hub says something else in stage a than before it restarted"):
        await session.finish()


class Reachable:
    async def channel_ready(self):
        """The new process is there."""


async def test_the_certificate_of_a_new_process_is_looked_at_before_anything_is_sent_to_it(monkeypatch):
    looked_at = []

    async def refuse(channel, *, deadline_s):
        looked_at.append(channel)
        raise UnauthenticatedError("the certificate of hub is not accepted")

    monkeypatch.setattr(sessions, "find_leader", refuse)
    session = session_of(inbox(), Reachable())
    for n_looks in (1, 2):
        with pytest.raises(PeerViolationError, match="is not accepted"):
            await session._write(HUB, "a", words(1))
        assert len(looked_at) == n_looks
        await session._renew(HUB)
