"""All outlets of one job to one member: which stream an array takes, and which streams stay open."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from transport.messages.first_arrays import FirstArrays, first_array_frame
from transport.messages.frames import FIRST_ARRAYS, Array
from transport.messages.outlet import Outlet, delivery


class Outlets:
    """The outlets to one member. Each is made when it is needed.

    Args:
        channel: channel to the member.
        job_id: the job.
        max_open: streams of stages that stay open while nothing is written to them, besides that of first arrays.
        member, name, deadline_s, calls, on_lost: see `Outlet`.
    """

    def __init__(
        self,
        channel: Any,
        job_id: str,
        *,
        max_open: int,
        member: int,
        name: str,
        deadline_s: float,
        calls: asyncio.Semaphore,
        on_lost: Callable[[int, str], None],
    ) -> None:
        self._job_id = job_id
        self._max_open = max_open
        self._common: dict[str, Any] = {
            "member": member,
            "name": name,
            "deadline_s": deadline_s,
            "calls": calls,
            "on_lost": on_lost,
        }
        self._deliver = delivery(channel)
        self._first_arrays: FirstArrays | None = None
        self._of_stages: dict[str, Outlet] = {}
        self._in_use: dict[str, Outlet] = {}
        """Those that were not ended since their last use, least recently used first: few, where a job has many."""

    async def write(self, stage: str, message: Array) -> None:
        """Write one array; raises as `Outlet.send`."""
        first_arrays = self._first_arrays
        came_first = first_arrays is not None and stage in first_arrays.stages
        if stage not in self._of_stages and not came_first and (frame := first_array_frame(stage, message)) is not None:
            if first_arrays is None:
                first_arrays = self._first_arrays = FirstArrays(
                    self._deliver, self._job_id, FIRST_ARRAYS, **self._common
                )
            await first_arrays.send_first(stage, frame)
            return
        outlet = self._of_stages.get(stage)
        if outlet is None:
            outlet = Outlet(self._deliver, self._job_id, stage, **self._common, after_first=came_first)
        self._of_stages[stage] = outlet
        self._in_use.pop(stage, None)
        self._in_use[stage] = outlet
        await outlet.send(message)
        await self._end_some()

    async def flush(self) -> None:
        """End all streams, and wait until the member has acknowledged everything; raises as `Outlet.acknowledged`."""
        raise_first(await asyncio.gather(*map(_finish, self._all()), return_exceptions=True))

    def cancel(self, reason: str) -> None:
        """Give up at once: what waits to be sent fails with this reason."""
        for outlet in self._all():
            outlet.cancel(reason)

    def _all(self) -> list[Outlet]:
        return [*([] if self._first_arrays is None else [self._first_arrays]), *self._of_stages.values()]

    async def _end_some(self) -> None:
        """End streams that nothing is being written to, least recently used first, until few are open.

        The member's service reads so many of each job at the same time (`service.limits`), and those that wait for
        their turn are not read: a stream that is open for later must not take the turn of one that is needed now.
        """
        while len(self._in_use) > self._max_open:
            idle = [stage for stage, outlet in self._in_use.items() if not outlet.is_busy]
            if len(idle) <= self._max_open:
                return
            await self._in_use.pop(idle[0]).end()  # removed before the wait: users of the outlet put it back


async def _finish(outlet: Outlet) -> None:
    await outlet.end()
    await outlet.acknowledged()


def raise_first(ends: Sequence[object]) -> None:
    """Raise the first exception among what `asyncio.gather` returned."""
    for end in ends:
        if isinstance(end, BaseException):
            raise end
