"""What runs in a thread, and a caller that is cancelled meanwhile."""

import asyncio
import contextvars
import gc
import threading

import pytest

from mpc.protocol.concurrency import run_to_its_end

PATIENCE_S = 300.0
SETTING = contextvars.ContextVar("SETTING", default="none")


async def turns_of_the_loop(n=10):
    for _ in range(n):
        await asyncio.sleep(0)


class Work:
    """Work that lasts until the test lets it end."""

    def __init__(self, error=None):
        self.began, self.may_end, self.has_ended, self.error = threading.Event(), threading.Event(), False, error

    def __call__(self, result):
        self.began.set()
        assert self.may_end.wait(PATIENCE_S)
        self.has_ended = True
        if self.error is not None:
            raise self.error
        return result


async def test_the_result_and_the_error_of_the_work_come_back():
    assert await run_to_its_end(lambda a, b: a + b, 2, b=3) == 5
    with pytest.raises(ZeroDivisionError):
        await run_to_its_end(lambda: 1 // 0)


async def test_the_work_runs_in_the_context_of_its_caller():
    SETTING.set("mine")
    assert await run_to_its_end(SETTING.get) == "mine"


@pytest.mark.parametrize("error", [None, ValueError("boom")])
async def test_a_cancelled_caller_leaves_when_the_work_has_ended_however_often_it_is_cancelled(error):
    work, complaints = Work(error), []
    asyncio.get_running_loop().set_exception_handler(lambda loop, complaint: complaints.append(complaint))
    caller = asyncio.create_task(run_to_its_end(work, "result"))
    await asyncio.to_thread(work.began.wait, PATIENCE_S)
    for _ in range(3):
        caller.cancel()
        await turns_of_the_loop()
        assert not caller.done()
    work.may_end.set()
    await asyncio.wait({caller})
    assert (work.has_ended, caller.cancelled()) == (True, True)
    del caller
    await turns_of_the_loop()
    gc.collect()
    assert complaints == []  # of an error that nobody has looked at


async def test_what_a_lock_keeps_apart_stays_apart_when_its_holder_is_cancelled():
    lock, first, second = asyncio.Lock(), Work(), Work()

    async def step(work):
        async with lock:
            await run_to_its_end(work, None)

    one = asyncio.create_task(step(first))
    await asyncio.to_thread(first.began.wait, PATIENCE_S)
    one.cancel()
    two = asyncio.create_task(step(second))
    await turns_of_the_loop()
    assert lock.locked()
    assert not second.began.is_set()
    first.may_end.set()
    second.may_end.set()
    await two
    assert one.cancelled()


async def test_a_deadline_is_still_a_deadline_but_the_work_is_waited_for():
    work = Work()
    loop = asyncio.get_running_loop()

    async def in_time():
        async with asyncio.timeout(None) as deadline:
            deadlines.append(deadline)
            await run_to_its_end(work, None)

    deadlines = []
    caller = asyncio.create_task(in_time())
    await asyncio.to_thread(work.began.wait, PATIENCE_S)
    deadlines[0].reschedule(loop.time())
    await turns_of_the_loop()
    assert not caller.done()
    work.may_end.set()
    with pytest.raises(TimeoutError):
        await caller
    assert work.has_ended
