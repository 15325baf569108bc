"""Calls are repeated where the library has replaced the status that came."""

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from service.errors import NotFoundError, RemoteFailureError
from transport.calls.final_status import REPLACED_TEXT
from transport.repeated_calls import RepeatedCalls


def failure(code, details):
    return AioRpcError(code, Metadata(), Metadata(), details=details)


def repeating(*failures):
    left = list(failures)

    async def call():
        raise left.pop(0)

    return RepeatedCalls("hub", object(), patience_s=60.0)(call, "answer"), left


async def test_a_status_that_the_library_has_replaced_is_asked_for_again():
    answer, left = repeating(failure(grpc.StatusCode.INTERNAL, REPLACED_TEXT), failure(grpc.StatusCode.NOT_FOUND, "no"))
    with pytest.raises(NotFoundError):
        await answer
    assert left == []


async def test_the_other_end_s_own_internal_error_is_not():
    answer, left = repeating(failure(grpc.StatusCode.INTERNAL, "its own"), failure(grpc.StatusCode.NOT_FOUND, "no"))
    with pytest.raises(RemoteFailureError):
        await answer
    assert len(left) == 1
