"""The stream of small first arrays: most stages have one array of some bytes, and a stream costs more than they do.

All stages of a job that begin with a small array share one stream to each member for it. It stays open until the job
ends: that it breaks is how the receiver learns at once that we are gone. What is sent at the same time travels in one
message. Later arrays of such a stage take a stream of their own, whose envelope says that the first one came here.

One array that waits for room would hold up those behind it, which the stages' own streams exclude. So there is room
here for FIRST_BYTES that nobody has asked for, whatever else is in the inbox (`transport.messages.memory_limits`). A
stage has one array here: a sender is sixty stages or more ahead of the receiver before that is used up.
"""

import asyncio
from itertools import islice
from typing import Any

import numpy as np
from wire.v1.mailbox_pb2 import FirstArray, Frame

from transport.messages.frames import (
    DTYPE_OF,
    FIRST_ARRAYS,
    MAX_BUNDLED,
    SMALL_FRAME_BYTES,
    AnyFrame,
    Array,
    Chunk,
    FrameError,
    bundle_of,
    check_name,
    check_shape,
    element_type_of,
    part_of,
)
from transport.messages.outlet import Outlet

MAX_FIRST_FRAME_BYTES = SMALL_FRAME_BYTES - 512
"""Largest size of the frame of a first array: the envelope of the stream has room beside it in a bundle."""
BUNDLE_OVERHEAD_BYTES = 8
"""Bytes around a frame in a bundle, and around the bundle itself: at most a tag and a length of three bytes each."""
FIRST_BYTES = 128 << 10
"""What of one sender's first arrays in one job has room, whatever else waits to be received."""


def place_of(stage: str) -> str:
    """Return how texts name the stream of a stage, or that of first arrays."""
    return f"in stage {stage}" if stage != FIRST_ARRAYS else "in the stream of first arrays"


def first_array_frame(stage: str, array: Array) -> Frame | None:
    """Return the frame of the first array of a stage; None where it would be longer than first arrays may be.

    Raises:
        ValueError: the array is no valid message. We are at fault.
    """
    element_type = element_type_of(array)
    if array.nbytes > MAX_FIRST_FRAME_BYTES:
        return None
    content = np.ascontiguousarray(array, dtype=DTYPE_OF[element_type]).tobytes()
    frame = Frame(first=FirstArray(stage=stage, element_type=element_type, shape=array.shape, content=content))
    return frame if frame.ByteSize() <= MAX_FIRST_FRAME_BYTES else None


def read_first_array(frame: AnyFrame) -> tuple[str, Array]:
    """Return the stage and the array of a frame in the stream of first arrays.

    Raises:
        FrameError: it is another frame, or breaks a rule.
    """
    if isinstance(frame, Chunk) or part_of(frame) != "first":
        raise FrameError("a stream of first arrays has another frame")
    first = frame.first
    check_name("stage of a first array", first.stage)
    announced = check_shape(first.element_type, first.shape, len(first.content))
    return first.stage, np.frombuffer(first.content, announced.dtype).reshape(announced.shape).copy()


class FirstArrays(Outlet):
    """Small first arrays of all stages on their way to one member; made as an `Outlet` is."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.stages: set[str] = set()
        """Those whose first array was sent here."""
        self._waiting: dict[str, Frame] = {}
        """Unsent frames by stage, at most one each."""

    async def send_first(self, stage: str, frame: Frame) -> None:
        """Write the first array of a stage, see `first_array_frame`; raises as `Outlet.send`."""
        self.stages.add(stage)
        self._waiting[stage] = frame
        try:
            await asyncio.sleep(0)  # what others send at the same time travels with it
            async with self._turn:
                while stage in self._waiting:
                    await self._write_some(stage)
        finally:
            self._waiting.pop(stage, None)

    async def _write_some(self, stage: str) -> None:
        """Write as many of those that wait as have room in one message."""
        frames = [] if self._accepts else [self._envelope()]
        n_bytes = BUNDLE_OVERHEAD_BYTES + sum(frame.ByteSize() + BUNDLE_OVERHEAD_BYTES for frame in frames)
        written = []
        for waiting, frame in islice(self._waiting.items(), MAX_BUNDLED - len(frames)):
            n_bytes += frame.ByteSize() + BUNDLE_OVERHEAD_BYTES
            if frames and n_bytes > SMALL_FRAME_BYTES:
                break
            frames.append(frame)
            written.append(waiting)
        self._stage = stage
        if not self._accepts:
            await self._begin()
        await self._write(bundle_of(frames))
        self._n_sent += len(written)
        for one in written:
            self._waiting.pop(one, None)
