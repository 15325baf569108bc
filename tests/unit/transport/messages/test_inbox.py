import asyncio

import numpy as np
import pytest

from mpc.errors import PeerLostError, PeerSilentError, PeerViolationError
from service.errors import AlreadyExistsError, WrongStateError
from transport.messages.frames import array_frames, end_frame
from transport.messages.inbox import Inbox
from transport.messages.memory_limits import ReceiveMemory

BANK, TELCO = 1, 2
NAMES = {BANK: "bank", TELCO: "telco"}


def inbox_with_room(sender_bytes):
    room = ReceiveMemory(sender_bytes)
    return Inbox(NAMES, shares={member: room.share_of(member) for member in NAMES})


class Stream:
    """Frames as a network would yield them: one at a time, counting how many were taken."""

    def __init__(self, *arrays, first=0, ends=True):
        self.frames = [frame for i, array in enumerate(arrays, first) for frame in array_frames(array, i)]
        self.frames += [end_frame()] * ends
        self.n_taken = 0

    async def __aiter__(self):
        for frame in self.frames:
            await asyncio.sleep(0)
            self.n_taken += 1
            yield frame


def words(n_words, value=0):
    return np.full(n_words, value, dtype=np.uint64)


async def settle():
    for _ in range(200):
        await asyncio.sleep(0)


async def receive(inbox, member, stage, shape=(4,), dtype=np.uint64, deadline_s=60.0):
    return await inbox.receive(member, stage, shape, dtype, deadline_s)


async def test_arrays_of_a_stage_come_in_order_and_stages_do_not_mix():
    inbox = Inbox(NAMES)
    assert await inbox.take(BANK, "a", aiter(Stream(words(4, 1), words(4, 2)))) == 2
    assert await inbox.take(BANK, "b", aiter(Stream(words(4, 3)))) == 1
    assert await inbox.take(TELCO, "a", aiter(Stream(words(4, 4)))) == 1
    got = [await receive(inbox, *which) for which in ((TELCO, "a"), (BANK, "b"), (BANK, "a"), (BANK, "a"))]
    assert [int(array[0]) for array in got] == [4, 3, 1, 2]
    assert inbox.waiting_bytes == 0
    assert inbox.bytes_received == {"a": 96, "b": 32}


async def test_a_waiting_receiver_is_woken():
    inbox = Inbox(NAMES)
    waiting = asyncio.create_task(receive(inbox, BANK, "a"))
    await settle()
    await inbox.take(BANK, "a", aiter(Stream(words(4, 7))))
    assert (await waiting)[0] == 7


async def test_receivers_of_one_stage_are_served_in_order():
    inbox = Inbox(NAMES)
    waiting = [asyncio.create_task(receive(inbox, BANK, "a")) for _ in range(3)]
    await settle()
    await inbox.take(BANK, "a", aiter(Stream(*(words(4, i) for i in range(3)))))
    assert [int((await task)[0]) for task in waiting] == [0, 1, 2]


async def test_each_receiver_of_a_stage_has_its_own_shape():
    inbox = Inbox(NAMES)
    waiting = [asyncio.create_task(receive(inbox, BANK, "a", (n,))) for n in (2, 3)]
    await settle()
    await inbox.take(BANK, "a", aiter(Stream(words(2), words(3))))
    assert [(await task).shape for task in waiting] == [(2,), (3,)]


async def test_a_full_stage_stops_reading_until_something_is_received():
    inbox = Inbox(NAMES, stage_bytes=3 * 8000)
    stream = Stream(*(words(1000, i) for i in range(10)))
    taking = asyncio.create_task(inbox.take(BANK, "a", aiter(stream)))
    await settle()
    assert (inbox.waiting_bytes, stream.n_taken) == (24_000, 7)  # three arrays, and the header of the fourth
    for i in range(10):
        assert (await receive(inbox, BANK, "a", (1000,)))[0] == i
        assert inbox.waiting_bytes <= 24_000
        await settle()
    assert await taking == 10


async def test_many_empty_arrays_are_bounded_too():
    inbox = Inbox(NAMES, stage_bytes=10 * 1024)
    stream = Stream(*(words(0) for _ in range(100)))
    taking = asyncio.create_task(inbox.take(BANK, "a", aiter(stream)))
    await settle()
    assert stream.n_taken == 11
    taking.cancel()


async def test_a_member_cannot_fill_the_memory_with_many_stages():
    inbox = inbox_with_room(20_000)
    taking = [asyncio.create_task(inbox.take(BANK, f"{i}", aiter(Stream(words(1000))))) for i in range(5)]
    await settle()
    assert inbox.waiting_bytes == 16_000
    for task in taking:
        task.cancel()


async def test_the_stage_that_is_waited_for_has_room_even_when_the_member_has_none():
    inbox = inbox_with_room(8_000)
    taking = [asyncio.create_task(inbox.take(BANK, f"{i}", aiter(Stream(words(1000, i))))) for i in range(3)]
    await settle()
    assert (await receive(inbox, BANK, "2", (1000,)))[0] == 2
    assert (await receive(inbox, BANK, "1", (1000,)))[0] == 1
    assert (await receive(inbox, BANK, "0", (1000,)))[0] == 0
    assert [await task for task in taking] == [1, 1, 1]


async def test_another_shape_than_the_one_waited_for_is_refused_before_its_bytes():
    inbox = Inbox(NAMES)
    waiting = asyncio.create_task(receive(inbox, BANK, "a", (4,)))
    await settle()
    stream = Stream(words(1 << 20))
    with pytest.raises(PeerViolationError, match="bank sent an array of another shape or type than stage a expects"):
        await inbox.take(BANK, "a", aiter(stream))
    assert stream.n_taken == 1
    with pytest.raises(PeerViolationError, match="bank sent an array of another shape"):
        await waiting


@pytest.mark.parametrize("sent", [words(5), words(4).reshape(2, 2), np.zeros(4, np.uint8)])
async def test_another_shape_or_type_that_came_early_is_refused_when_received(sent):
    inbox = Inbox(NAMES)
    await inbox.take(BANK, "a", aiter(Stream(sent)))
    with pytest.raises(PeerViolationError) as caught:
        await receive(inbox, BANK, "a")
    assert (caught.value.member, caught.value.stage) == (BANK, "a")


async def test_a_broken_stream_fails_those_who_wait_for_its_sender():
    inbox = Inbox(NAMES)
    waiting = asyncio.create_task(receive(inbox, BANK, "b"))
    await settle()
    with pytest.raises(PeerViolationError, match="bank broke the protocol in stage a: an array is missing"):
        await inbox.take(BANK, "a", aiter(Stream(words(4), first=1)))
    with pytest.raises(PeerViolationError, match="bank broke the protocol in stage a") as caught:
        await waiting
    assert caught.value.stage == "b"
    assert inbox.waiting_bytes == 0


async def test_silence_is_measured_from_the_last_byte():
    inbox, loop = Inbox(NAMES), asyncio.get_running_loop()

    async def slow_frames():
        for frame in array_frames(words(4 << 17), 0):  # a header and four chunks
            yield frame
            await asyncio.sleep(0.1)
        await asyncio.sleep(60)

    begun_s = loop.time()
    taking = asyncio.create_task(inbox.take(BANK, "a", slow_frames()))
    await receive(inbox, BANK, "a", (4 << 17,), deadline_s=0.25)
    assert loop.time() - begun_s > 0.3
    with pytest.raises(PeerSilentError, match=r"bank sent nothing for 0\.25 s in stage a"):
        await receive(inbox, BANK, "a", deadline_s=0.25)
    taking.cancel()


async def test_bytes_of_another_stage_do_not_break_the_silence():
    inbox = Inbox(NAMES)

    async def chatter():
        for i in range(100):
            for frame in array_frames(words(1), i):
                yield frame
            await asyncio.sleep(0.02)

    taking = asyncio.create_task(inbox.take(BANK, "other", chatter()))
    with pytest.raises(PeerSilentError):
        await receive(inbox, BANK, "a", deadline_s=0.2)
    taking.cancel()


async def test_what_a_silent_member_sends_later_is_still_due():
    inbox = Inbox(NAMES)
    for _ in range(2):
        with pytest.raises(PeerSilentError, match=r"bank sent nothing for 0\.01 s in stage a"):
            await receive(inbox, BANK, "a", deadline_s=0.01)
    await inbox.take(BANK, "a", aiter(Stream(words(4, 6), words(4, 7))))
    assert [int((await receive(inbox, BANK, "a"))[0]) for _ in range(2)] == [6, 7]


async def test_a_stage_that_was_given_up_after_a_silence_is_not_listened_to_and_others_are():
    inbox = Inbox(NAMES)
    with pytest.raises(PeerSilentError) as silence:
        await receive(inbox, BANK, "a", deadline_s=0.01)
    inbox.give_up(silence.value)
    await inbox.take(BANK, "a", aiter(Stream(words(4, 6))))
    with pytest.raises(PeerLostError, match="bank sent nothing"):
        await receive(inbox, BANK, "a")
    await inbox.take(BANK, "b", aiter(Stream(words(4, 7))))
    assert (await receive(inbox, BANK, "b"))[0] == 7


async def test_a_member_that_begins_stages_that_nobody_asks_for_is_held_up_and_no_other(monkeypatch):
    monkeypatch.setattr("transport.messages.stream_reader.MAX_UNASKED_STAGES", 3)
    inbox = Inbox(NAMES)
    for i in range(3):
        await inbox.take(BANK, f"unasked {i}", aiter(Stream()))
    stream = Stream(words(4, 8))
    held_up = asyncio.create_task(inbox.take(BANK, "wanted", aiter(stream)))
    await settle()
    assert stream.n_taken == 0
    assert not held_up.done()
    assert await inbox.take(TELCO, "wanted", aiter(Stream(words(4)))) == 1
    assert (await receive(inbox, BANK, "wanted"))[0] == 8  # who asks for it is served
    assert await held_up == 1


async def test_a_member_held_up_by_its_stages_goes_on_when_one_of_them_is_asked_for_and_ends_with_the_job(monkeypatch):
    monkeypatch.setattr("transport.messages.stream_reader.MAX_UNASKED_STAGES", 1)
    inbox = Inbox(NAMES)
    await inbox.take(BANK, "first", aiter(Stream(words(4, 1))))
    second, third = (asyncio.create_task(inbox.take(BANK, stage, aiter(Stream(words(4))))) for stage in "ab")
    await settle()
    assert not second.done()
    await receive(inbox, BANK, "first")
    await settle()
    assert second.done()
    assert not third.done()
    inbox.close("it was cancelled")
    with pytest.raises(WrongStateError, match="it was cancelled"):
        await third


async def test_a_lost_member_s_earlier_arrays_are_still_received():
    inbox = Inbox(NAMES)
    await inbox.take(BANK, "a", aiter(Stream(words(4, 5))))
    inbox.mark_lost(BANK, "it was killed")
    assert (await receive(inbox, BANK, "a"))[0] == 5
    with pytest.raises(PeerLostError, match="bank has dropped out: it was killed") as caught:
        await receive(inbox, BANK, "a")
    assert (caught.value.member, caught.value.stage) == (BANK, "a")


async def test_losing_a_member_wakes_those_who_wait_for_it_and_nobody_else():
    inbox = Inbox(NAMES)
    for_bank, for_telco = (asyncio.create_task(receive(inbox, member, "a")) for member in (BANK, TELCO))
    await settle()
    inbox.mark_lost(BANK, "it was killed")
    await settle()
    assert for_bank.done()
    assert not for_telco.done()
    with pytest.raises(PeerLostError):
        await for_bank
    for_telco.cancel()


async def test_a_second_open_stream_of_a_stage_is_refused():
    inbox = Inbox(NAMES, stage_bytes=8)
    taking = asyncio.create_task(inbox.take(BANK, "a", aiter(Stream(words(9), words(9)))))
    await settle()
    with pytest.raises(AlreadyExistsError, match="bank already has an open stream of stage a"):
        await inbox.take(BANK, "a", aiter(Stream(words(9))))
    taking.cancel()


async def test_a_stage_continues_in_a_later_stream_and_cannot_be_replayed():
    inbox = Inbox(NAMES)
    await inbox.take(BANK, "a", aiter(Stream(words(4, 1))))
    assert await inbox.take(BANK, "a", aiter(Stream(words(4, 2), first=1))) == 2
    with pytest.raises(PeerViolationError, match="repeated"):
        await inbox.take(BANK, "a", aiter(Stream(words(4, 3))))
    assert [int((await receive(inbox, BANK, "a"))[0]) for _ in range(2)] == [1, 2]


async def test_a_stream_without_its_end_is_reported_as_cut_off():
    inbox = Inbox(NAMES)
    assert await inbox.take(BANK, "a", aiter(Stream(words(4), ends=False))) is None


async def test_a_stream_that_breaks_in_an_array_gives_its_memory_back():
    inbox = Inbox(NAMES)
    stream = Stream(words(1000), ends=False)
    stream.frames = stream.frames[:1]
    assert await inbox.take(BANK, "a", aiter(stream)) is None
    assert inbox.waiting_bytes == 0


async def test_closing_fails_those_who_wait_and_refuses_what_comes_later():
    inbox = Inbox(NAMES)
    waiting = asyncio.create_task(receive(inbox, BANK, "a"))
    await settle()
    inbox.close("the hospital refused")
    with pytest.raises(WrongStateError, match="the job has ended: the hospital refused"):
        await waiting
    with pytest.raises(WrongStateError, match="the job has ended"):
        await inbox.take(BANK, "a", aiter(Stream(words(4))))


async def test_a_receive_that_is_given_up_loses_nothing():
    inbox = Inbox(NAMES)
    waiting = asyncio.create_task(receive(inbox, BANK, "a"))
    await settle()
    waiting.cancel()
    await inbox.take(BANK, "a", aiter(Stream(words(4, 6))))
    assert (await receive(inbox, BANK, "a"))[0] == 6


async def test_a_stream_is_read_to_its_end_after_an_orderly_end_of_the_job():
    inbox = Inbox(NAMES, stage_bytes=64)
    stream = Stream(words(4, 1), words(4, 2), words(1 << 18, 3))
    taking = asyncio.create_task(inbox.take(BANK, "a", aiter(stream)))
    await receive(inbox, BANK, "a")
    await settle()
    assert stream.n_taken == 5  # the third array has been announced and finds no room
    inbox.close()
    assert await taking == 1
    assert stream.n_taken == len(stream.frames)
