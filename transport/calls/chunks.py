"""Chunked messages: a protobuf message of any size is sent as chunks of its bytes.

No request is longer on the wire than one chunk and a little. gRPC holds what has come of a message, for each call in
flight, before anybody can look at it: with short messages that is little, however many calls there are.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol, TypeVar

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from wire.v1.aggregation_pb2 import Chunk

from service.errors import TooMuchError, UnreadableError
from service.limits import CHUNK_BYTES, MAX_REQUEST_BYTES, request_arrives_in_time

M_co = TypeVar("M_co", covariant=True)


class _Kind(Protocol[M_co]):
    def FromString(self, data: bytes, /) -> M_co:  # noqa: N802 - protobuf's name
        """Return what the bytes hold."""


def chunks_of(message: Any) -> Iterator[Chunk]:
    """Yield a generated message in chunks."""
    yield from _chunks(message.SerializeToString())


def chunks_of_text(text: str) -> Iterator[Chunk]:
    """Yield a text in chunks."""
    yield from _chunks(text.encode())


def _chunks(content: bytes) -> Iterator[Chunk]:
    data = memoryview(content)
    for start in range(0, max(1, len(data)), CHUNK_BYTES):
        yield Chunk(data=bytes(data[start : start + CHUNK_BYTES]))


async def gather_chunks(
    chunks: AsyncIterator[Chunk],
    most_bytes: int,
    what: str = "a message of a masked sum is longer than its round needs",
) -> bytes:
    """Return the bytes of all chunks.

    Args:
        chunks: chunks as they arrive.
        most_bytes: maximum number of bytes of all together.
        what: the text of the refusal of more.

    Raises:
        TooMuchError: more than `most_bytes`.
    """
    data = bytearray()  # not a list of chunks, which costs memory for each, however small
    async for chunk in chunks:
        if len(data) + len(chunk.data) > most_bytes:
            raise TooMuchError(what)
        data += chunk.data
    return bytes(data)


async def gather_request(chunks: AsyncIterator[Chunk], kind: _Kind[M_co]) -> M_co:
    """Return the request that comes in chunks.

    Raises:
        TooMuchError: more than MAX_REQUEST_BYTES.
        TimedOutError: it has not come within REQUEST_S.
        UnreadableError: the bytes are no such message.
    """
    async with request_arrives_in_time():
        data = await gather_chunks(chunks, MAX_REQUEST_BYTES, f"a request has at most {MAX_REQUEST_BYTES} bytes")
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise UnreadableError("the request cannot be decoded") from error
