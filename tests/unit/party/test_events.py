"""Events of a job that come soon after one another are told together; a new stage and the end are told at once."""

import asyncio

from virtual_time import run_in_virtual_time

from party.events import TOGETHER_S, FailedEvent, FinishedEvent, ProgressEvent, events_together

SILENT_S = 5.0


def told(*script):
    """Return (seconds, events) of each message, of a queue that gets (seconds, event) of the script."""

    async def run():
        queue, loop = asyncio.Queue(), asyncio.get_running_loop()
        for at_s, event in script:
            loop.call_later(at_s, queue.put_nowait, event)
        began_s, told_at_s, messages = loop.time(), float("-inf"), []
        while not messages or isinstance(messages[-1][1][-1], ProgressEvent):
            events = await events_together(queue, SILENT_S, told_at_s)
            told_at_s = loop.time()
            messages.append((round(told_at_s - began_s, 3), events))
            if not events:
                break
        return messages

    return run_in_virtual_time(run())


def quarters(stage):
    return [ProgressEvent(stage, percent) for percent in (0, 25, 50, 75, 100)]


def test_the_first_event_is_told_at_once_and_the_next_ones_together_and_in_order():
    a, b = quarters("a"), quarters("b")
    script = [(0.001 * i, event) for i, event in enumerate((*a, *b))]
    first, second, third = told(*script, (TOGETHER_S + 0.02, FinishedEvent()))
    assert first == (0.0, a[:1])
    assert second == (TOGETHER_S, [*a[1:], *b])
    assert third == (TOGETHER_S + 0.02, [FinishedEvent()])


def test_the_end_takes_with_it_what_waits():
    first, second = told(
        (0.0, ProgressEvent("a", 0)), (0.001, ProgressEvent("a", 25)), (0.002, FailedEvent("a", "why"))
    )
    assert first == (0.0, [ProgressEvent("a", 0)])
    assert second == (0.002, [ProgressEvent("a", 25), FailedEvent("a", "why")])


def test_a_stage_that_begins_after_a_pause_is_told_at_once():
    messages = told((0.0, ProgressEvent("a", 0)), (1.0, ProgressEvent("b", 0)), (2.0, FinishedEvent()))
    assert [at_s for at_s, _ in messages] == [0.0, 1.0, 2.0]


def test_nobody_who_listens_ends_it_at_once():
    assert told((0.0, ProgressEvent("a", 0)), (0.001, None))[-1] == (0.001, [None])


def test_silence_is_an_empty_list():
    assert told()[-1] == (SILENT_S, [])
