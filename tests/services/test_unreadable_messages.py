"""Bytes that are no message, over real services: an error of one line that names who sent them, and no traceback."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

import grpc
import numpy as np
import pytest
from deadlines import GENEROUS_S
from mailbox_federation import JOB, running_federation
from wire.v1.mailbox_pb2 import ArrayHeader, Frame

from mpc.errors import PeerLostError, PeerViolationError
from service.authorization import Permissions
from service.errors import UnreadableError
from service.identity import Role
from service.server import Server
from transport.aggregation import RoundStep
from transport.aggregation_client import AggregationClient
from transport.calls.channel import open_channel
from transport.calls.coordinator_client import CoordinatorClient
from transport.calls.party_client import PartyClient
from transport.messages.frames import envelope_frame

NO_MESSAGE = b"\xff\xff\xff"
OPEN = envelope_frame(JOB, "s").SerializeToString()


@pytest.fixture
async def federation(tmp_path):
    async with running_federation(tmp_path, 2) as running:
        yield running


async def deliver(channel, messages):
    """Send bytes as frames; return the refusal."""
    call = channel.stream_unary("/moiety.v1.Mailbox/Deliver", request_serializer=None, response_deserializer=None)()
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # refused before the last one
        for message in messages:
            await call.write(message)
        await call.done_writing()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


FRAMES = {
    "no message": [NO_MESSAGE],
    "cut short": [Frame(chunk=bytes(100)).SerializeToString()[:50]],
    "an empty array that NumPy cannot make": [
        Frame(header=ArrayHeader(element_type=2, shape=[0, *[1 << 30] * 7])).SerializeToString()
    ],
    "too many dimensions": [Frame(header=ArrayHeader(element_type=2, shape=[1] * 9, n_bytes=8)).SerializeToString()],
    "longer than any frame": [bytes(129 << 10)],
}


@pytest.mark.parametrize("messages", FRAMES.values(), ids=FRAMES.keys())
async def test_a_frame_that_cannot_be_read_is_a_violation_of_its_sender(federation, messages, capsys, caplog):
    waiting = asyncio.create_task(federation.session(1, deadline_s=GENEROUS_S).receive(2, "other", (4,)))
    await asyncio.sleep(0.02)
    error = await deliver(federation.members[2].channels[1], [OPEN, *messages])
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details().startswith("party-2 broke the protocol in stage s: ")
    with pytest.raises(PeerViolationError, match="party-2 broke the protocol in stage s") as caught:
        await waiting
    assert caught.value.member == 2
    assert "\n" not in caught.value.what
    assert "Traceback" not in capsys.readouterr().out + caplog.text


@pytest.mark.parametrize("message", [NO_MESSAGE, b""])
async def test_a_stream_that_begins_with_no_envelope_is_an_invalid_request(federation, message, capsys):
    error = await deliver(federation.members[2].channels[1], [message])
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "Traceback" not in capsys.readouterr().out


async def babble(request, context):
    return NO_MESSAGE


async def babble_on(request, context):
    yield NO_MESSAGE


@asynccontextmanager
async def babbling_service(federation, service, **methods):
    """A channel to a member that answers with bytes that are no message."""
    hub = federation.members[0]
    roles = dict.fromkeys((f"/moiety.v1.{service}/{name}" for name in methods), frozenset(Role))
    handlers = grpc.method_handlers_generic_handler(f"moiety.v1.{service}", methods)
    server = Server(hub.credentials, Permissions("acme", roles), [lambda s: s.add_generic_rpc_handlers((handlers,))])
    port = await server.start("127.0.0.1:0")
    channel = open_channel(f"127.0.0.1:{port}", hub.identity, federation.members[1].credentials)
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(0)


async def all_of(stream):
    return [item async for item in stream]


CALLS = {
    "propose": lambda party: party.propose("j", "{}", {1: "a"}, analyst="ada", timeout_s=GENEROUS_S),
    "reserve": lambda party: all_of(party.reserve("j", [], b"")),
    "run": lambda party: all_of(party.run("j")),
    "cancel": lambda party: party.cancel("j", "", timeout_s=GENEROUS_S),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_an_answer_of_a_party_that_cannot_be_read_names_the_party(federation, call, caplog):
    methods = {
        "Propose": grpc.stream_unary_rpc_method_handler(babble),
        "Reserve": grpc.stream_stream_rpc_method_handler(babble_on),
        "Run": grpc.unary_stream_rpc_method_handler(babble_on),
        "Cancel": grpc.unary_unary_rpc_method_handler(babble),
    }
    async with babbling_service(federation, "Party", **methods) as channel:
        with pytest.raises(UnreadableError, match="at bank: its answer cannot be decoded"):
            await call(PartyClient("bank", channel))
    assert "Traceback" not in caplog.text


async def test_an_answer_of_a_coordinator_that_cannot_be_read_names_it(federation, caplog):
    methods = {
        "Submit": grpc.stream_unary_rpc_method_handler(babble),
        "Watch": grpc.unary_stream_rpc_method_handler(babble_on),
        "List": grpc.unary_stream_rpc_method_handler(babble_on),
        "Show": grpc.unary_stream_rpc_method_handler(babble_on),
    }
    async with babbling_service(federation, "Coordinator", **methods) as channel:
        client = CoordinatorClient("hub", channel)
        for call in (client.submit("{}", "key"), all_of(client.watch("j")), client.jobs(), client.show("j")):
            with pytest.raises(UnreadableError, match="at hub: its answer cannot be decoded"):
                await call
    assert "Traceback" not in caplog.text


async def test_a_member_of_a_sum_that_cannot_read_its_coordinator_says_so(federation, caplog):
    methods = {"Fetch": grpc.unary_stream_rpc_method_handler(babble_on)}
    async with babbling_service(federation, "Aggregation", **methods) as channel:
        with pytest.raises(UnreadableError, match="at hub: its answer cannot be decoded"):
            await AggregationClient("hub", channel).fetch(RoundStep.INVITATION)
    assert "Traceback" not in caplog.text


async def test_an_acknowledgement_that_cannot_be_read_names_the_receiver(federation, caplog):
    async def take_all(frames, context):
        async for frame in frames:
            if Frame.FromString(frame).WhichOneof("part") == "end":
                break
        return NO_MESSAGE

    methods = {"Deliver": grpc.stream_unary_rpc_method_handler(take_all)}
    async with babbling_service(federation, "Mailbox", **methods) as channel:
        session = federation.session(1, channels={2: channel})
        await session.send(2, "s", np.zeros(4, dtype=np.uint64))
        with pytest.raises(PeerLostError, match=r"party-2.*its answer cannot be decoded"):
            await session.finish()
    assert "Traceback" not in caplog.text
