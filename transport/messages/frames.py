"""Arrays on the wire: `moiety.v1.Frame` to and from NumPy, without trust in what arrives.

One stream carries an envelope once, then per array a header and its bytes in chunks. The decoder checks every length,
type, shape and number before it allocates or copies anything. Each message costs a service some tenths of a
millisecond, whatever its length, so what belongs to a small array travels as a bundle, in one message, and small first
arrays of all stages share a stream (`transport.messages.first_arrays`). Chunks are written and read here: protobuf
would copy their bytes twice each way.

No error text states a shape, a length or a count: texts travel to the coordinator, which must not learn how many rows
the parties have.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from numpy.typing import NDArray
from wire.v1.mailbox_pb2 import (
    ELEMENT_TYPE_UINT8,
    ELEMENT_TYPE_UINT64,
    ArrayHeader,
    Bundle,
    ElementType,
    End,
    Envelope,
    Frame,
)

from mpc.protocol.session import MAX_ARRAY_BYTES
from service.limits import ARRAY_CHUNK_BYTES, MAX_MESSAGE_BYTES

DELIVER = "/moiety.v1.Mailbox/Deliver"

SMALL_FRAME_BYTES = 2048
"""Largest size on the wire of a frame that is not a chunk: larger than an envelope with the longest names."""
MAX_BUNDLED = 16
"""Frames in a bundle."""
FIRST_ARRAYS = ""
"""In the place of the stage: a stream of the small first arrays of all stages."""
MAX_DIMENSIONS = 8
MAX_NAME_CHARACTERS = 200

_CHUNK_TAG = bytes([Frame.CHUNK_FIELD_NUMBER << 3 | 2])  # how the wire marks the field, of protobuf's type 2
_VARINT_BITS, _VARINT_MASK = 7, 0x7F  # lengths on the wire: seven bits a byte, the lowest ones first
_MAX_VARINT_BYTES = 4

Array = NDArray[Any]

DTYPE_OF: dict[int, np.dtype[Any]] = {ELEMENT_TYPE_UINT8: np.dtype("u1"), ELEMENT_TYPE_UINT64: np.dtype("<u8")}
_ELEMENT_TYPE_OF: dict[np.dtype[Any], ElementType] = {
    np.dtype("u1"): ELEMENT_TYPE_UINT8,
    np.dtype("<u8"): ELEMENT_TYPE_UINT64,
}


class FrameError(ValueError):
    """The received stream of frames is not valid; the text says which rule it breaks. The sender is at fault."""


@dataclass(frozen=True)
class Announcement:
    """The header of one array, checked: its shape, type and length agree and are within the limits."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    n_bytes: int


class Chunk:
    """A frame that is a chunk, as it is on the wire: `message`. Its `chunk` is a view of it.

    Args:
        message: on the wire.
        start: where the bytes of the array begin; they go on to the end.
    """

    __slots__ = ("chunk", "message")

    def __init__(self, message: bytes, start: int) -> None:
        self.message = message
        self.chunk = memoryview(message)[start:]

    @classmethod
    def of(cls, content: memoryview) -> Self:
        """Return the frame of some bytes; they are copied."""
        head, n_left = bytearray(_CHUNK_TAG), len(content)
        while n_left >> _VARINT_BITS:
            head.append(n_left & _VARINT_MASK | 1 << _VARINT_BITS)
            n_left >>= _VARINT_BITS
        head.append(n_left)
        return cls(b"".join((head, content)), len(head))

    @classmethod
    def read(cls, message: bytes) -> Self | None:
        """Return the frame that a message is, or None where it has another field, or more than the one."""
        length = 0
        for i, byte in enumerate(message[len(_CHUNK_TAG) : len(_CHUNK_TAG) + _MAX_VARINT_BYTES]):
            length |= (byte & _VARINT_MASK) << (_VARINT_BITS * i)
            if byte <= _VARINT_MASK:
                start = len(_CHUNK_TAG) + i + 1
                return cls(message, start) if start + length == len(message) else None
        return None


AnyFrame = Frame | Chunk


def message_of(frame: AnyFrame) -> bytes:
    """Return the bytes of a frame on the wire."""
    return frame.message if isinstance(frame, Chunk) else frame.SerializeToString()


def part_of(frame: AnyFrame) -> str | None:
    """Return the name of the kind of a frame; None if it is empty."""
    if isinstance(frame, Chunk):
        return "chunk"
    part: str | None = frame.WhichOneof("part")
    return part


def read_frame(data: bytes) -> AnyFrame:
    """Return the frame that some bytes from the network hold.

    A frame that is no chunk is measured before it is decoded: a megabyte of dimensions would become eight.

    Raises:
        FrameError: they are no frame, or a longer one than any member has reason to send; a bundle in a bundle, or one
            of no frames or too many.
    """
    is_chunk = data[:1] == _CHUNK_TAG
    if len(data) > (MAX_MESSAGE_BYTES if is_chunk else SMALL_FRAME_BYTES):
        raise FrameError("a frame is longer than frames of its kind may be")
    if is_chunk and (chunk := Chunk.read(data)) is not None:
        return chunk
    try:
        frame: Frame = Frame.FromString(data)
    except DecodeError as error:
        raise FrameError("a frame cannot be decoded") from error
    part = frame.WhichOneof("part")
    if part != "chunk" and len(data) > SMALL_FRAME_BYTES:
        raise FrameError("a frame is longer than frames of its kind may be")
    if part == "bundle" and (
        not 0 < len(frame.bundle.frames) <= MAX_BUNDLED
        or any(inner.WhichOneof("part") == "bundle" for inner in frame.bundle.frames)
    ):
        raise FrameError("a bundle is empty, holds another one, or holds too many frames")
    return frame


class Unbundled:
    """Frames as they come, and those of bundles one by one. Keeps none that it has handed out."""

    def __init__(self, frames: AsyncIterator[AnyFrame]) -> None:
        self._frames = frames
        self._next: deque[Frame] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AnyFrame:
        if self._next:
            return self._next.popleft()
        frame = await anext(self._frames)
        if part_of(frame) != "bundle":
            return frame
        assert isinstance(frame, Frame), "a chunk is no bundle"
        self._next.extend(frame.bundle.frames)
        return self._next.popleft()


def envelope_frame(job_id: str, stage: str, *, after_first: bool = False) -> Frame:
    """Return the frame that opens a stream.

    Args:
        job_id: the job.
        stage: stage of the arrays; FIRST_ARRAYS for the small first arrays of all stages.
        after_first: whether the first array of this stage comes in the stream of first arrays.
    """
    return Frame(envelope=Envelope(job_id=job_id, stage=stage, after_first=after_first))


def end_frame() -> Frame:
    """Return the frame that ends a stream. Without it, a stream that stops was cut off: TLS does not tell us."""
    return Frame(end=End())


def small_array_frame(array: Array, sequence: int, *before: Frame) -> Frame | None:
    """Return one frame that holds a whole array; None where it would be longer than small frames may be.

    Args:
        array: see `array_frames`.
        sequence: its place in the stage, from 0.
        *before: the envelope, where the stream begins with this array.

    Raises:
        ValueError: see `array_frames`.
    """
    if array.nbytes > SMALL_FRAME_BYTES:
        return None
    parts = array_frames(array, sequence)
    frames = [Frame(chunk=bytes(part.chunk)) if isinstance(part, Chunk) else part for part in parts]
    bundle = bundle_of([*before, *frames])
    return bundle if bundle.ByteSize() <= SMALL_FRAME_BYTES else None


def bundle_of(frames: Sequence[Frame]) -> Frame:
    """Return one frame that holds those frames; a single one as it is."""
    return frames[0] if len(frames) == 1 else Frame(bundle=Bundle(frames=frames))


def element_type_of(array: Array) -> ElementType:
    """Return how the wire names the type of an array.

    Raises:
        ValueError: another type, or too many dimensions. We are at fault.
    """
    element_type = _ELEMENT_TYPE_OF.get(array.dtype.newbyteorder("<"))
    if element_type is None:
        raise ValueError(f"a message must be an array of uint8 or uint64, not of {array.dtype}")
    if array.nbytes > MAX_ARRAY_BYTES or array.ndim > MAX_DIMENSIONS:
        raise ValueError("this array is too large for one message; send it in row blocks")
    return element_type


def array_frames(array: Array, sequence: int) -> Iterator[AnyFrame]:
    """Yield the header of one array and then its bytes in chunks.

    Each chunk is copied once, when it is yielded: the array may be overwritten after the last frame was taken.

    Args:
        array: uint8 or uint64, of any shape and memory order.
        sequence: its place in the stream, from 0.

    Raises:
        ValueError: another element type, or too large for one message. We are at fault.
    """
    element_type = element_type_of(array)
    yield Frame(
        header=ArrayHeader(sequence=sequence, element_type=element_type, shape=array.shape, n_bytes=array.nbytes)
    )
    wire_bytes = np.ascontiguousarray(array, dtype=DTYPE_OF[element_type]).reshape(-1).view(np.uint8)
    for start in range(0, wire_bytes.size, ARRAY_CHUNK_BYTES):
        yield Chunk.of(wire_bytes[start : start + ARRAY_CHUNK_BYTES].data)


class StreamDecoder:
    """Reads the frames of one stream. Does no I/O, and reserves no memory before `accept`.

    Feed it frames in order. After an `Announcement` call `accept` once there is room for the array; then feed chunks
    until an array comes back. Or call `pass_over`; then feed chunks until `next_sequence` has grown.

    Args:
        next_sequence: number of the first array: above 0 where the stream continues an earlier one.
    """

    def __init__(self, next_sequence: int = 0) -> None:
        self.next_sequence = next_sequence
        self.has_ended = False
        self._announced: Announcement | None = None
        self._array: Array | None = None
        self._listener: Callable[[bytes | memoryview], None] | None = None
        self._bytes: memoryview | None = None
        self._filled_bytes = 0

    def feed(self, frame: AnyFrame) -> Announcement | Array | None:
        """Take the next frame after the envelope; none is a bundle (`Unbundled`).

        Returns:
            What the frame completes: an announcement, an array with its last chunk, or nothing yet. With the last frame
            of the stream `has_ended` becomes true.

        Raises:
            FrameError: the frame breaks a rule; the decoder must not be used again.
        """
        if self.has_ended:
            raise FrameError("a frame after the end of the stream")
        if isinstance(frame, Chunk):
            return self._feed_chunk(frame.chunk)
        part = frame.WhichOneof("part")
        if part == "chunk":
            return self._feed_chunk(frame.chunk)
        if part == "header":
            if self._announced is not None:
                raise FrameError("an array was cut short by the header of the next")
            self._announced = check_header(frame.header, self.next_sequence)
            return self._announced
        if part == "end":
            if self._announced is not None:
                raise FrameError("an array was cut short by the end of the stream")
            self.has_ended = True
            return None
        if part == "envelope":
            raise FrameError("a second envelope in one stream")
        raise FrameError("a frame without content, or a frame of another kind of stream")

    def accept(self) -> Array | None:
        """Reserve memory for the announced array; return it at once if it is empty."""
        announced = self._announced
        if announced is None or self._array is not None:
            raise RuntimeError("accept follows an announcement")
        self._array = np.empty(announced.shape, dtype=announced.dtype)
        if announced.n_bytes == 0:
            array = self._array
            self._finish()
            return array
        self._bytes = self._array.reshape(-1).view(np.uint8).data
        self._filled_bytes = 0
        return None

    def pass_over(self, listener: Callable[[bytes | memoryview], None]) -> None:
        """Keep nothing of the announced array, and give its bytes to the listener as they come."""
        if self._announced is None or self._array is not None:
            raise RuntimeError("pass_over follows an announcement")
        self._listener, self._filled_bytes = listener, 0
        if self._announced.n_bytes == 0:
            self._finish()

    def _feed_chunk(self, chunk: bytes | memoryview) -> Array | None:
        if self._announced is None:
            raise FrameError("a chunk without a header before it")
        if self._listener is None and self._bytes is None:
            raise RuntimeError("accept comes before the first chunk")
        if not 0 < len(chunk) <= ARRAY_CHUNK_BYTES:
            raise FrameError(f"a chunk is empty or longer than {ARRAY_CHUNK_BYTES} bytes")
        end = self._filled_bytes + len(chunk)
        if end > self._announced.n_bytes:
            raise FrameError("an array is longer than its header announced")
        array = self._array
        if self._listener is not None:
            self._listener(chunk)
        elif self._bytes is not None:
            self._bytes[self._filled_bytes : end] = chunk
        self._filled_bytes = end
        if end < self._announced.n_bytes:
            return None
        self._finish()
        return array

    def _finish(self) -> None:
        self._announced = self._array = self._bytes = self._listener = None
        self.next_sequence += 1


def check_envelope(frame: AnyFrame) -> Envelope:
    """Return the envelope that is the first frame of a stream.

    Raises:
        FrameError: it is not an envelope, or a name in it is too long or not printable, or the job has none.
    """
    part = part_of(frame)
    if isinstance(frame, Chunk) or part != "envelope":
        raise FrameError(f"a stream must begin with an envelope, not with {part or 'an empty frame'}")
    check_name("job id in the envelope", frame.envelope.job_id)
    if frame.envelope.stage != FIRST_ARRAYS:
        check_name("stage in the envelope", frame.envelope.stage)
    return frame.envelope


def check_name(what: str, name: str) -> None:
    """Raise `FrameError` where a name from the network is empty, too long or not printable."""
    if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
        raise FrameError(f"the {what} must have 1 to {MAX_NAME_CHARACTERS} printable characters")


def check_header(header: ArrayHeader, next_sequence: int) -> Announcement:
    """Check the header of an array before anything is reserved for it.

    Raises:
        FrameError: wrong number, or as `check_shape`.
    """
    if header.sequence < next_sequence:
        raise FrameError("an array was repeated")
    if header.sequence > next_sequence:
        raise FrameError("an array is missing, or came out of order")
    return check_shape(header.element_type, header.shape, header.n_bytes)


def check_shape(element_type: int, dimensions: Sequence[int], n_bytes: int) -> Announcement:
    """Check what is said about an array against its number of bytes.

    Raises:
        FrameError: unknown type, too many dimensions, too large, or lengths that contradict each other.
    """
    dtype = DTYPE_OF.get(element_type)
    if dtype is None:
        raise FrameError(f"element type {element_type} is unknown")
    if len(dimensions) > MAX_DIMENSIONS:
        raise FrameError(f"an array has more than {MAX_DIMENSIONS} dimensions")
    shape = tuple(dimensions)
    # NumPy refuses an empty array whose other dimensions are too large together.
    if math.prod(n for n in shape if n) * dtype.itemsize > MAX_ARRAY_BYTES:
        raise FrameError(f"an array is larger than {MAX_ARRAY_BYTES} bytes, the limit for one message")
    if n_bytes != math.prod(shape) * dtype.itemsize:
        raise FrameError("a header announces a number of bytes that does not match its shape and element type")
    return Announcement(dtype, shape, n_bytes)
