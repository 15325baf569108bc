"""Decoding of other members' answers: bytes that cannot be decoded raise an error that names the sender.

grpc.aio logs a traceback and hands out None where an answer cannot be decoded. Here its decoder never fails: it hands
out a mark instead, and `readable` turns that into the error.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from service.errors import UnreadableError

M = TypeVar("M")


class _Unreadable:
    """Stands for an answer that could not be decoded."""


_UNREADABLE = _Unreadable()


class AnswerChannel:
    """A channel for generated stubs; their answers go through `readable`.

    Args:
        channel: an aio channel.
    """

    def __init__(self, channel: Any) -> None:
        self.unary_unary = _tolerant(channel.unary_unary)
        self.unary_stream = _tolerant(channel.unary_stream)
        self.stream_unary = _tolerant(channel.stream_unary)
        self.stream_stream = _tolerant(channel.stream_stream)


def readable(answer: M, peer: str, doing: str) -> M:
    """Return an answer that could be decoded.

    Args:
        answer: answer to a call through an `AnswerChannel`.
        peer: name of who sent it.
        doing: what the call was for, for instance "submit the job".

    Raises:
        UnreadableError: it could not; the peer is at fault.
    """
    if answer is _UNREADABLE:
        raise UnreadableError(f"cannot {doing} at {peer}: its answer cannot be decoded")
    return answer


def _tolerant(make_call: Callable[..., Any]) -> Callable[..., Any]:
    def make(method: str, *, response_deserializer: Callable[[bytes], Any], **options: Any) -> Any:
        def decode(data: bytes) -> Any:
            try:
                return response_deserializer(data)
            except DecodeError:
                return _UNREADABLE

        return make_call(method, response_deserializer=decode, **options)

    return make
