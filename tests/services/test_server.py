"""What happens around a call: authorisation, the error table, the log."""

import grpc
import pytest
from mailbox_federation import running_federation
from wire.v1.coordinator_pb2 import JobEvent, JobRef, SubmitReply, SubmitRequest
from wire.v1.coordinator_pb2_grpc import CoordinatorServicer, CoordinatorStub, add_CoordinatorServicer_to_server

from service.authorization import Permissions
from service.errors import INTERNAL_TEXT, NotFoundError
from service.identity import Role
from service.server import Server
from transport.calls.channel import open_channel
from transport.calls.chunks import chunks_of, gather_request

SUBMIT, WATCH = (f"/moiety.v1.Coordinator/{name}" for name in ("Submit", "Watch"))
ANALYSTS = frozenset({Role.ANALYST})


class Coordinator(CoordinatorServicer):
    """Answers, refuses or breaks, as the request asks."""

    async def Submit(self, request_iterator, context):
        request = await gather_request(request_iterator, SubmitRequest)
        if request.job_json == "broken":
            raise ValueError("row 7 holds 3.5")
        if request.job_json == "refused":
            raise NotFoundError("there is no such party [not-found]")
        return SubmitReply()

    async def Watch(self, request, context):
        yield JobEvent(text="first")
        raise NotFoundError("it vanished [not-found]")


@pytest.fixture
async def coordinator(tmp_path):
    """A coordinator's server, and stubs for an analyst and a party."""
    async with running_federation(tmp_path, 1) as federation:
        hub = federation.members[0]
        permissions = Permissions("acme", {SUBMIT: ANALYSTS, WATCH: ANALYSTS})
        server = Server(hub.credentials, permissions, [lambda s: add_CoordinatorServicer_to_server(Coordinator(), s)])
        port = await server.start("127.0.0.1:0")
        members = {"analyst": federation.issue(Role.ANALYST, "ann"), "party": federation.members[1].credentials}
        channels = {
            who: open_channel(f"127.0.0.1:{port}", hub.identity, credentials) for who, credentials in members.items()
        }
        yield {who: CoordinatorStub(channel) for who, channel in channels.items()}
        for channel in channels.values():
            await channel.close()
        await server.stop(0)


async def refusal(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


async def test_the_role_in_the_table_gets_its_answer(coordinator):
    assert await coordinator["analyst"].Submit(chunks_of(SubmitRequest())) == SubmitReply()


async def test_a_party_that_calls_an_analyst_s_method_is_refused(coordinator):
    status, text = await refusal(coordinator["party"].Submit(chunks_of(SubmitRequest())))
    assert status is grpc.StatusCode.PERMISSION_DENIED
    assert text == f"{SUBMIT} may be called by analyst only, not by spiffe://acme/party/party-1 [not-allowed]"


async def test_a_stream_of_answers_is_guarded_too(coordinator):
    status, text = await refusal(coordinator["party"].Watch(JobRef(job_id="x")).read())
    assert status is grpc.StatusCode.PERMISSION_DENIED
    assert f"{WATCH} may be called by analyst" in text


async def test_a_method_outside_the_table_is_for_nobody(coordinator):
    status, text = await refusal(coordinator["analyst"].Cancel(JobRef(job_id="x")).read())
    assert status is grpc.StatusCode.PERMISSION_DENIED
    assert "may be called by nobody" in text


async def test_an_error_of_the_table_is_answered_with_its_status_and_text(coordinator):
    answer = await refusal(coordinator["analyst"].Submit(chunks_of(SubmitRequest(job_json="refused"))))
    assert answer == (grpc.StatusCode.NOT_FOUND, "there is no such party [not-found]")


async def test_an_error_amid_a_stream_follows_the_answers_before_it(coordinator):
    events = coordinator["analyst"].Watch(JobRef(job_id="x"))
    assert (await events.read()).text == "first"
    assert await refusal(events.read()) == (grpc.StatusCode.NOT_FOUND, "it vanished [not-found]")


async def test_an_unforeseen_error_tells_the_caller_nothing(coordinator):
    answer = await refusal(coordinator["analyst"].Submit(chunks_of(SubmitRequest(job_json="broken"))))
    assert answer == (grpc.StatusCode.INTERNAL, f"{INTERNAL_TEXT} [internal-error]")
