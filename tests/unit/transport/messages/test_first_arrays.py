"""The stream of first arrays at its receiver: what has room, what a restarted member repeats, and what it may say."""

import asyncio

import numpy as np
import pytest

from mpc.errors import PeerViolationError
from service.errors import WrongStateError
from transport.messages.first_arrays import FIRST_BYTES, MAX_FIRST_FRAME_BYTES, first_array_frame, read_first_array
from transport.messages.frames import FIRST_ARRAYS, SMALL_FRAME_BYTES, FrameError, array_frames, end_frame, message_of
from transport.messages.inbox import Inbox
from transport.messages.memory_limits import MIN_CHARGE_BYTES, ReceiveMemory

HUB, BANK = 0, 1
NAMES = {HUB: "hub", BANK: "bank"}


def words(n_words, value=0):
    return np.full(n_words, value, dtype=np.uint64)


async def stream(*arrays, ends=True):
    """Frames as a network would yield them, of (stage, array)."""
    for stage, array in arrays:
        await asyncio.sleep(0)
        yield first_array_frame(stage, array)
    if ends:
        yield end_frame()


async def take(inbox, member, *arrays, ends=True):
    return await inbox.take(member, FIRST_ARRAYS, stream(*arrays, ends=ends))


async def receive(inbox, member, stage, shape=(4,)):
    return await inbox.receive(member, stage, shape, np.uint64, 60.0)


async def settle():
    for _ in range(200):
        await asyncio.sleep(0)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64])
@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (2, 0, 5), (100,)])
def test_a_first_array_is_what_was_sent(shape, dtype):
    array = np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)
    stage, read = read_first_array(first_array_frame("deal", array))
    assert (stage, read.dtype, read.shape) == ("deal", array.dtype, shape)
    assert np.array_equal(read, array)


@pytest.mark.parametrize("n_words", range(150, 210, 7))
def test_what_is_longer_than_small_frames_may_be_is_no_first_array(n_words):
    frame = first_array_frame("s" * 100, words(n_words))
    assert (frame is None) == (8 * n_words + 100 > MAX_FIRST_FRAME_BYTES - 20)
    assert frame is None or len(message_of(frame)) < SMALL_FRAME_BYTES


def test_what_is_no_message_at_all_is_our_fault():
    with pytest.raises(ValueError, match="must be an array of uint8 or uint64"):
        first_array_frame("deal", np.zeros(3))


def test_another_frame_is_no_first_array():
    with pytest.raises(FrameError, match="another frame"):
        read_first_array(end_frame())


async def test_first_arrays_go_to_their_stages_and_later_ones_follow_them():
    inbox = Inbox(NAMES)
    assert await take(inbox, BANK, ("a", words(4, 1)), ("b", words(4, 2))) == 2
    later = (*array_frames(words(4, 3), 1), end_frame())

    async def frames():
        for frame in later:
            yield frame

    assert await inbox.take(BANK, "a", frames(), after_first=True) == 2
    got = [await receive(inbox, BANK, stage) for stage in ("b", "a", "a")]
    assert [int(array[0]) for array in got] == [2, 1, 3]
    assert inbox.waiting_bytes == 0
    assert inbox.bytes_received == {"a": 64, "b": 32}
    assert inbox.n_received(BANK, FIRST_ARRAYS) == 2


async def test_a_stage_whose_first_array_never_comes_is_not_read_until_the_job_ends():
    inbox = Inbox(NAMES)
    reading = asyncio.create_task(inbox.take(BANK, "a", stream(), after_first=True))
    await settle()
    assert not reading.done()
    inbox.close("it was cancelled")
    with pytest.raises(WrongStateError, match="it was cancelled"):
        await reading


async def test_first_arrays_have_room_where_large_ones_fill_the_inbox_and_then_wait_like_them():
    room = ReceiveMemory(sender_bytes=1 << 20)
    inbox = Inbox(NAMES, shares={member: room.share_of(member) for member in NAMES})

    async def large():
        for i in range(2):
            for frame in array_frames(words(1 << 16), i):
                yield frame
        yield end_frame()

    assert await inbox.take(BANK, "large", large()) == 2  # half a megabyte each
    n_free = FIRST_BYTES // MIN_CHARGE_BYTES
    reading = asyncio.create_task(take(inbox, BANK, *((f"small {i}", words(4, i)) for i in range(n_free + 2))))
    await settle()
    assert inbox.waiting_bytes == (1 << 20) + FIRST_BYTES
    assert not reading.done()
    assert (await receive(inbox, BANK, f"small {n_free}"))[0] == n_free  # what somebody waits for always has room
    assert (await receive(inbox, BANK, "small 0"))[0] == 0
    assert await reading == n_free + 2
    for i in range(1, n_free):
        assert (await receive(inbox, BANK, f"small {i}"))[0] == i
    assert (await receive(inbox, BANK, f"small {n_free + 1}"))[0] == n_free + 1
    assert inbox.waiting_bytes == 1 << 20


async def test_stages_that_nobody_asks_for_hold_up_the_stream(monkeypatch):
    monkeypatch.setattr("transport.messages.stream_reader.MAX_UNASKED_STAGES", 2)
    inbox = Inbox(NAMES)
    reading = asyncio.create_task(take(inbox, BANK, *((stage, words(4)) for stage in "abc")))
    await settle()
    assert not reading.done()
    await receive(inbox, BANK, "a")
    assert await reading == 3


async def test_another_shape_than_somebody_waits_for_is_refused_as_it_comes():
    inbox = Inbox(NAMES)
    waiting = asyncio.create_task(receive(inbox, BANK, "a", (5,)))
    await settle()
    with pytest.raises(PeerViolationError, match="another shape or type than stage a expects"):
        await take(inbox, BANK, ("a", words(4)))
    with pytest.raises(PeerViolationError):
        await waiting


async def test_after_the_orderly_end_of_the_job_the_rest_is_read_and_only_what_was_received_is_counted():
    inbox = Inbox(NAMES)
    go_on = asyncio.Event()

    async def frames():
        yield first_array_frame("a", words(4))
        await go_on.wait()
        yield first_array_frame("b", words(4))
        yield end_frame()

    reading = asyncio.create_task(inbox.take(BANK, FIRST_ARRAYS, frames()))
    await receive(inbox, BANK, "a")
    inbox.close()
    go_on.set()
    assert await reading == 1
    assert inbox.waiting_bytes == 0


async def test_what_a_restarted_member_repeats_is_taken_once():
    inbox = Inbox(NAMES, returning=[HUB])
    assert await take(inbox, HUB, ("a", words(4, 1)), ends=False) is None
    assert (await receive(inbox, HUB, "a"))[0] == 1
    inbox.begin_again(HUB)
    assert await take(inbox, HUB, ("a", words(4, 1)), ("b", words(4, 2))) == 2
    assert (await receive(inbox, HUB, "b"))[0] == 2
    assert inbox.waiting_bytes == 0


@pytest.mark.parametrize(
    "other", [words(4, 2), words(5, 1), words(4, 1).view(np.uint8)], ids=["value", "length", "type"]
)
async def test_a_restarted_member_that_says_something_else_breaks_the_protocol(other):
    inbox = Inbox(NAMES, returning=[HUB])
    await take(inbox, HUB, ("a", words(4, 1)))
    inbox.begin_again(HUB)
    with pytest.raises(PeerViolationError, match="hub says something else in stage a than before it restarted"):
        await take(inbox, HUB, ("a", other))


async def test_a_stream_that_was_open_before_the_restart_brings_nothing_more():
    inbox = Inbox(NAMES, returning=[HUB])
    go_on = asyncio.Event()

    async def frames():
        yield first_array_frame("a", words(4))
        await go_on.wait()
        yield first_array_frame("b", words(4, 7))
        yield end_frame()

    old = asyncio.create_task(inbox.take(HUB, FIRST_ARRAYS, frames()))
    await settle()
    inbox.begin_again(HUB)
    go_on.set()
    with pytest.raises(WrongStateError, match="hub has begun again"):
        await old
    assert await take(inbox, HUB, ("a", words(4)), ("b", words(4, 8))) == 2
    assert (await receive(inbox, HUB, "b"))[0] == 8
