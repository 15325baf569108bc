"""What happens around a call: authorisation, the error table, the log."""

import asyncio
import json
import sys
import time

import grpc
import pytest
from deadlines import GENEROUS_S
from mailbox_federation import running_federation
from wire.v1.coordinator_pb2 import JobEvent, JobRef, SubmitReply, SubmitRequest
from wire.v1.coordinator_pb2_grpc import CoordinatorServicer, CoordinatorStub, add_CoordinatorServicer_to_server

from service.authorization import Permissions
from service.errors import INTERNAL_TEXT, NotFoundError, UnreachableError, error_from
from service.identity import Role
from service.server import SERVER_OPTIONS, UNBEGUN_S, Server
from service.trust.protocol import agent_of_protocol
from service.watch.callers import own_agent
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
        if request.job_json.startswith("busy"):
            time.sleep(float(request.job_json.split()[1]))  # noqa: ASYNC251 - nothing else of the process runs
        if request.job_json == "refused":
            raise NotFoundError("there is no such party [not-found]")
        return SubmitReply()

    async def Watch(self, request, context):
        yield JobEvent(text="first")
        raise NotFoundError("it vanished [not-found]")


@pytest.fixture
def unbegun_s():
    """Seconds for which a call may wait to be begun."""
    return UNBEGUN_S


@pytest.fixture
async def coordinator(tmp_path, monkeypatch, unbegun_s):
    """A coordinator's server, stubs for an analyst and a party, and what another process needs to be the analyst."""
    options = {**dict(SERVER_OPTIONS), "grpc.server_max_unrequested_time_in_server": unbegun_s}
    monkeypatch.setattr("service.server.SERVER_OPTIONS", tuple(options.items()))
    async with running_federation(tmp_path, 1) as federation:
        hub = federation.members[0]
        permissions = Permissions("acme", {SUBMIT: ANALYSTS, WATCH: ANALYSTS})
        server = Server(hub.credentials, permissions, [lambda s: add_CoordinatorServicer_to_server(Coordinator(), s)])
        port = await server.start("127.0.0.1:0")
        members = {"analyst": federation.issue(Role.ANALYST, "ann"), "party": federation.members[1].credentials}
        channels = {
            who: open_channel(f"127.0.0.1:{port}", hub.identity, credentials) for who, credentials in members.items()
        }
        own = members["analyst"]
        as_analyst = {
            "address": f"127.0.0.1:{port}",
            "name": hub.identity.dns_name,
            "agent": agent_of_protocol(own_agent()),
            "authority": own.authority_pem.decode(),
            "key": own.key_pem.decode(),
            "certificate": own.certificate_pem.decode(),
        }
        yield {**{who: CoordinatorStub(channel) for who, channel in channels.items()}, "as analyst": as_analyst}
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


CALLS = """
import json, sys, time
import grpc
from wire.v1.coordinator_pb2 import SubmitRequest
from wire.v1.coordinator_pb2_grpc import CoordinatorStub
from transport.calls.chunks import chunks_of

told = json.load(sys.stdin)
trust = grpc.ssl_channel_credentials(*(told[pem].encode() for pem in ("authority", "key", "certificate")))
name = (("grpc.ssl_target_name_override", told["name"]), ("grpc.primary_user_agent", told["agent"]))
submit = CoordinatorStub(grpc.secure_channel(told["address"], trust, options=name)).Submit

def call(text):
    return submit.future(chunks_of(SubmitRequest(job_json=text)), timeout=told["timeout_s"])

assert call("fine").code() is grpc.StatusCode.OK
busy = call(told["busy"])
time.sleep(0.5)  # by then it is
calls = [call("fine") for _ in range(5)]
print(json.dumps([each.code().name for each in [busy, *calls]]))
"""


async def calls_while_it_is_busy(coordinator, busy_s):
    """Return with which statuses calls of another process end that come while the server begins none for so long."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CALLS, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        told = json.dumps({**coordinator["as analyst"], "busy": f"busy {busy_s}", "timeout_s": GENEROUS_S})
        output, _ = await child.communicate(told.encode())
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    busy, *others = json.loads(output)
    assert busy == "OK"
    return set(others)


@pytest.mark.parametrize("unbegun_s", [1])
async def test_a_call_that_a_busy_process_does_not_begin_is_broken_off_and_may_be_made_again(coordinator):
    statuses = await calls_while_it_is_busy(coordinator, busy_s=3.0)
    assert "CANCELLED" in statuses
    assert isinstance(error_from(grpc.StatusCode.CANCELLED, "CANCELLED", peer="hub", doing="submit"), UnreachableError)


@pytest.mark.slow  # the library's own limit is 30 s
async def test_services_break_off_no_call_that_they_were_too_busy_to_begin(coordinator):
    assert await calls_while_it_is_busy(coordinator, busy_s=33.0) == {"OK"}
