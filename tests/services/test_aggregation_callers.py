"""Masked sums over real gRPC: calls that break off, and callers that are no members of what they call for."""

import asyncio

import grpc
import pytest
from slow_additions import PATIENCE_S, SlowAdditions
from sum_federation import answer_of, begin, exact_sum, member_of, sum_federation
from wire.v1.aggregation_pb2_grpc import AggregationStub

from coordinator.sums import answering as sums
from coordinator.sums import rounds
from mpc.secagg.messages import MaskedInput
from service.errors import NotAllowedError
from service.identity import Role
from transport import aggregation
from transport.aggregation import RoundStep
from transport.calls.chunks import chunks_of
from transport.sum_codec import encode_from_member


class BreakingClient:
    """Calls of a member whose first call with its vector breaks off while the vector is being added."""

    def __init__(self, client, additions, has_broken):
        self.fetch = client.fetch
        self._client, self._additions, self._has_broken = client, additions, has_broken
        self._breaks = True

    async def answer(self, message):
        if isinstance(message, MaskedInput) and self._breaks:
            self._breaks = False
            call = asyncio.create_task(self._client.answer(message))
            await asyncio.to_thread(self._additions.has_begun.wait, PATIENCE_S)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await self._has_broken()
        await self._client.answer(message)


async def test_a_vector_whose_call_breaks_off_at_the_coordinator_is_in_the_sum_once(tmp_path, monkeypatch):
    additions, handling, left_early = SlowAdditions(monkeypatch, member=1), {}, []

    class RecordingRound(rounds.HostedRound):
        async def receive(self, name, message):
            if isinstance(message, MaskedInput):
                handling.setdefault(name, asyncio.current_task())
            await super().receive(name, message)

    async def has_broken():
        """Wait until the coordinator has noticed, and give it every chance to leave."""
        while not handling["walker-1"].cancelling():  # noqa: ASYNC110 - a task says so to nobody
            await asyncio.sleep(0.01)
        for _ in range(100):
            await asyncio.sleep(0)
        left_early.append(handling["walker-1"].done())
        additions.may_end.set()

    monkeypatch.setattr(sums, "HostedRound", RecordingRound)
    async with sum_federation(tmp_path) as federation:
        client = BreakingClient(await federation.client("walker-1"), additions, has_broken)
        federation.start(await federation.device("walker-1", client=client))
        await federation.start_all(without=("walker-1",))
        happening, reports = await federation.ask()
        assert left_early == [False]
        assert additions.most_at_once == 1
        assert answer_of(happening)["survivors"] == list(federation.names)
        assert answer_of(happening)["sum_in_units"] == exact_sum(federation, federation.names)
        assert not any(report.missing for report in reports)


def stub_of(federation, name, role=Role.DEVICE):
    channel = federation.channel(role, name)
    federation.stack.push_async_callback(channel.close)
    return AggregationStub(channel)


async def never():
    await asyncio.Event().wait()
    yield


async def test_a_party_that_has_the_name_of_a_device_is_a_stranger(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation)
        advertisement = member_of(device, invitation).advertise()
        impostor = await federation.client("walker-1", Role.PARTY)
        with pytest.raises(NotAllowedError, match="walkers/party/walker-1 is not a member"):
            await impostor.answer(advertisement)
        for step in (RoundStep.INVITATION, RoundStep.MEMBERS):
            with pytest.raises(NotAllowedError, match="walkers/party/walker-1 is not a member"):
                await impostor.fetch(step, invitation.round_id)
        await device.client.answer(advertisement)
        asking.cancel()


@pytest.mark.parametrize(
    ("name", "role", "code"),
    [
        ("stranger", Role.DEVICE, grpc.StatusCode.PERMISSION_DENIED),
        ("walker-1", Role.PARTY, grpc.StatusCode.PERMISSION_DENIED),
        ("walker-1", Role.DEVICE, grpc.StatusCode.NOT_FOUND),
    ],
)
async def test_who_is_member_of_no_round_is_refused_before_its_message_has_come(tmp_path, name, role, code):
    async with sum_federation(tmp_path) as federation:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub_of(federation, name, role).Answer(never(), timeout=PATIENCE_S).read()
        assert refused.value.code() is code


async def test_a_member_sends_no_more_than_its_round_needs(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation)
        too_long = MaskedInput(invitation.round_id, 1, bytes(100_000))
        call = stub_of(federation, "walker-1").Answer(chunks_of(encode_from_member(too_long)), timeout=PATIENCE_S)
        with pytest.raises(grpc.aio.AioRpcError, match="longer than its round needs") as refused:
            await call.read()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await device.client.answer(member_of(device, invitation).advertise())
        asking.cancel()


async def test_a_member_that_calls_again_is_heard_though_its_first_call_still_hangs(tmp_path, monkeypatch):
    reading, gather = asyncio.Event(), aggregation.gather_chunks

    async def gather_chunks(chunks, most_bytes):
        reading.set()
        return await gather(chunks, most_bytes)

    monkeypatch.setattr(aggregation, "gather_chunks", gather_chunks)
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation)
        hanging = stub_of(federation, "walker-1").Answer(never(), timeout=PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            await reading.wait()
        await device.client.answer(member_of(device, invitation).advertise())
        with pytest.raises(grpc.aio.AioRpcError, match="a newer call of walker-1") as replaced:
            await hanging.read()
        assert replaced.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        asking.cancel()
