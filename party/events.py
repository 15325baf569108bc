"""What a party tells the coordinator of a job that runs."""

import asyncio
import contextlib
from dataclasses import dataclass


@dataclass(frozen=True)
class ProgressEvent:
    """The progress of a stage in quarters: see `mpc.progress`."""

    stage: str
    percent: int
    waits_for: str = ""
    """The member that we have waited for during half of the deadline; others that wait for us should blame it."""


@dataclass(frozen=True)
class FinishedEvent:
    """Our part is done and every message was received."""


@dataclass(frozen=True)
class FailedEvent:
    """The party gave up; the text is public.

    Attributes:
        stage: where.
        reason: why.
        culprit: name of the member at fault; empty if it is ourselves, or one of several others.
        is_finding: whether somebody else was caught at something, rather than missed.
    """

    stage: str
    reason: str
    culprit: str = ""
    is_finding: bool = False


JobEvent = ProgressEvent | FinishedEvent | FailedEvent

TOGETHER_S = 0.03
"""A small job has forty events in so long, and a message takes both sides a good part of a millisecond."""


async def events_together(
    queue: "asyncio.Queue[JobEvent | None]", silent_s: float, told_at_s: float
) -> list[JobEvent | None]:
    """Return the next event, and those that come until TOGETHER_S after the last ones were told.

    A stage that begins after a pause is told at once, and so is how the job ended.

    Args:
        queue: queue of the events; None when nobody listens any more.
        silent_s: if nothing comes for so long, the list is empty.
        told_at_s: when the last events were told, on the event loop's clock.
    """
    events: list[JobEvent | None] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(silent_s):
            events.append(await queue.get())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(told_at_s + TOGETHER_S):
            while events and isinstance(events[-1], ProgressEvent):
                events.append(await queue.get())
    return events
