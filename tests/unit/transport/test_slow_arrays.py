"""A member that sends little at a time, in virtual time: how long it holds up whoever waits, and who is named."""

import asyncio

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from mpc.errors import PeerSilentError, PeerSlowError
from transport.messages.frames import array_frames, end_frame
from transport.messages.inbox import Inbox
from transport.messages.waits import MIN_BYTES_PER_S, Waits

BANK = 1
NAMES = {BANK: "bank", 2: "telco"}
DEADLINE_S = 30.0


def frames_of(n_bytes, piece_bytes):
    header, *chunks = array_frames(np.zeros(n_bytes, dtype=np.uint8), 0)
    data = b"".join(frame.chunk for frame in chunks)
    yield header
    for start in range(0, n_bytes, piece_bytes):
        yield type(header)(chunk=data[start : start + piece_bytes])


async def trickle(frames, pause_s):
    for frame in frames:
        yield frame
        await asyncio.sleep(pause_s)


async def received_after_s(inbox, n_bytes, frames, pause_s, deadline_s=DEADLINE_S, transfer_s=None):
    """Receive while frames come; return the time that it took, or the error and the time."""
    loop = asyncio.get_running_loop()
    taking = asyncio.create_task(inbox.take(BANK, "s", trickle(frames, pause_s)))
    began_s = loop.time()
    try:
        await inbox.receive(BANK, "s", (n_bytes,), np.uint8, deadline_s, transfer_s)
    except PeerSilentError as error:
        return error, loop.time() - began_s
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
    return None, loop.time() - began_s


def in_virtual_time(work):
    async def main():
        return await work(Inbox(NAMES))

    return run_in_virtual_time(main())


def test_a_byte_every_three_seconds_holds_nobody_longer_than_the_deadline_and_the_least_rate():
    n_bytes = 10_000
    error, took_s = in_virtual_time(lambda inbox: received_after_s(inbox, n_bytes, frames_of(n_bytes, 1), 3.0))
    assert isinstance(error, PeerSlowError)
    assert error.member == BANK
    assert "bank is too slow in stage s" in error.what
    assert took_s == pytest.approx(DEADLINE_S + n_bytes / MIN_BYTES_PER_S)


def test_an_array_at_the_least_rate_is_received():
    seconds = 120
    n_bytes = seconds * MIN_BYTES_PER_S
    frames = list(frames_of(n_bytes, MIN_BYTES_PER_S))
    error, took_s = in_virtual_time(lambda inbox: received_after_s(inbox, n_bytes, frames, 1.0))
    assert error is None
    assert took_s == pytest.approx(seconds)


def test_silence_amid_an_array_is_noticed_after_the_deadline():
    error, took_s = in_virtual_time(lambda inbox: received_after_s(inbox, 1 << 24, _half(1 << 24), 0.0))
    assert type(error) is PeerSilentError
    assert took_s == pytest.approx(DEADLINE_S)


def _half(n_bytes):
    frames = list(array_frames(np.zeros(n_bytes, dtype=np.uint8), 0))
    return frames[: len(frames) // 2]


def test_streams_that_end_and_begin_again_are_no_sign_of_life():
    async def work(inbox):
        async def reopen():
            while True:
                await inbox.take(BANK, "s", trickle([end_frame()], 0.0))
                await asyncio.sleep(3.0)

        reopening = asyncio.create_task(reopen())
        loop = asyncio.get_running_loop()
        with pytest.raises(PeerSilentError):
            await inbox.receive(BANK, "s", (4,), np.uint8, DEADLINE_S)
        reopening.cancel()
        return loop.time()

    assert in_virtual_time(work) == pytest.approx(DEADLINE_S)


def test_asking_again_gives_a_slow_array_no_more_time():
    n_bytes = 10_000

    async def work(inbox):
        taking = asyncio.create_task(inbox.take(BANK, "s", trickle(frames_of(n_bytes, 1), 3.0)))
        for _ in range(3):
            with pytest.raises(PeerSlowError):
                await inbox.receive(BANK, "s", (n_bytes,), np.uint8, DEADLINE_S)
        taking.cancel()
        return asyncio.get_running_loop().time()

    assert in_virtual_time(work) == pytest.approx(DEADLINE_S + n_bytes / MIN_BYTES_PER_S)


def test_who_waits_for_ever_for_an_array_to_begin_does_not_wait_so_for_its_end():
    error, took_s = in_virtual_time(
        lambda inbox: received_after_s(inbox, 100, frames_of(100, 1), 3.0, deadline_s=1e9, transfer_s=DEADLINE_S)
    )
    assert isinstance(error, PeerSlowError)
    assert took_s == pytest.approx(DEADLINE_S, abs=0.1)


def test_time_before_anybody_waits_is_not_counted():
    async def work(inbox):
        taking = asyncio.create_task(inbox.take(BANK, "s", trickle(frames_of(40, 1), 3.0)))
        await asyncio.sleep(100.0)  # slow, but nobody was kept waiting
        array = await inbox.receive(BANK, "s", (40,), np.uint8, DEADLINE_S)
        await taking
        return array.shape

    assert in_virtual_time(work) == (40,)


def test_waits_know_the_present_one_and_the_costliest():
    now_s = [0.0]
    waits = Waits(lambda: now_s[0])
    assert (waits.longest(0.0), waits.costliest()) == (None, None)
    with waits.waiting_for(1):
        now_s[0] = 10.0
        with waits.waiting_for(2):
            now_s[0] = 13.0
            assert waits.longest(13.0) == 1
            assert waits.longest(13.5) is None
    assert waits.longest(0.0) is None
    assert waits.costliest() == 1  # 13 of 13 s
    now_s[0] = 30.0
    assert waits.costliest() is None  # 13 of 30 s
