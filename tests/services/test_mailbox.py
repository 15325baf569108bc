"""`Mailbox.Deliver` against callers that break its rules, over mutual TLS on loopback."""

import asyncio
import datetime

import grpc
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from deadlines import GENEROUS_S, until
from mailbox_federation import JOB, running_federation
from wire.v1.mailbox_pb2 import ArrayHeader, Bundle, FirstArray, Frame

from mpc.errors import PeerViolationError
from service.identity import Identity, Role
from service.tls import Credentials
from transport.calls.final_status import FinalStatus
from transport.messages.first_arrays import first_array_frame
from transport.messages.frames import (
    ARRAY_CHUNK_BYTES,
    FIRST_ARRAYS,
    array_frames,
    bundle_of,
    end_frame,
    envelope_frame,
    small_array_frame,
)
from transport.messages.outlet import delivery

OPEN = envelope_frame(JOB, "s")
OPEN_FIRST = envelope_frame(JOB, FIRST_ARRAYS)
ARRAY = np.arange(4, dtype=np.uint64)
FRAMES = list(array_frames(ARRAY, 0))


def header(**changes) -> Frame:
    return Frame(header=ArrayHeader(**{"element_type": 2, "shape": [4], "n_bytes": 32, **changes}))


@pytest.fixture
async def federation(tmp_path):
    async with running_federation(tmp_path, 2) as running:
        yield running


async def deliver(channel, frames):
    """Send raw frames; return (status, text) of the refusal, or the acknowledgement."""

    async def stream():
        for frame in frames:
            yield frame

    call = delivery(channel)(stream(), timeout=GENEROUS_S)
    status, details = await FinalStatus(call).wait()
    return await call if status is grpc.StatusCode.OK else (status, details)


async def refusal_of_stranger(federation, credentials: Credentials):
    channel = federation.dial(1, credentials)
    answer = await deliver(channel, [OPEN, *FRAMES, end_frame()])
    await channel.close()
    return answer


async def test_a_valid_stream_is_acknowledged_with_the_number_of_its_arrays(federation):
    frames = [OPEN, *FRAMES, *array_frames(ARRAY, 1), end_frame()]
    answer = await deliver(federation.members[2].channels[1], frames)
    assert answer.n_arrays == 2
    assert np.array_equal(await federation.session(1).receive(2, "s", (4,)), ARRAY)


async def test_a_small_array_comes_in_one_message_with_the_envelope_of_its_stream(federation):
    together = small_array_frame(ARRAY, 0, OPEN)
    answer = await deliver(federation.members[2].channels[1], [together, end_frame()])
    assert answer.n_arrays == 1
    assert np.array_equal(await federation.session(1).receive(2, "s", (4,)), ARRAY)


def first(stage="s", array=ARRAY) -> Frame:
    return first_array_frame(stage, array)


async def test_first_arrays_of_several_stages_come_in_one_stream(federation):
    frames = [bundle_of([OPEN_FIRST, first("s"), first("r", ARRAY[:2])]), first("q", ARRAY[:0]), end_frame()]
    answer = await deliver(federation.members[2].channels[1], frames)
    assert answer.n_arrays == 3
    for stage, n in (("q", 0), ("s", 4), ("r", 2)):
        assert np.array_equal(await federation.session(1).receive(2, stage, (n,)), ARRAY[:n])


async def test_a_stage_waits_for_its_first_array_where_that_comes_in_the_other_stream(federation):
    channel = federation.members[2].channels[1]
    opens = envelope_frame(JOB, "s", after_first=True)
    later = asyncio.create_task(deliver(channel, [opens, *array_frames(ARRAY + 1, 1), end_frame()]))
    await asyncio.sleep(0.05)
    assert not later.done()
    assert (await deliver(channel, [OPEN_FIRST, first(), end_frame()])).n_arrays == 1
    assert (await later).n_arrays == 2
    got = [await federation.session(1).receive(2, "s", (4,)) for _ in range(2)]
    assert np.array_equal(got, [ARRAY, ARRAY + 1])


FIRST_VIOLATIONS = {
    "twice": ([first(), first()], "in stage s: the first array of a stage came twice"),
    "a header": ([header()], "in the stream of first arrays: a stream of first arrays has another frame"),
    "a chunk": ([Frame(chunk=b"x")], "a stream of first arrays has another frame"),
    "an envelope": ([envelope_frame(JOB, "s")], "a stream of first arrays has another frame"),
    "no stage": ([Frame(first=FirstArray(element_type=2, content=bytes(8)))], "the stage of a first array must have"),
    "a long stage": ([first("s" * 201)], "the stage of a first array must have 1 to 200"),
    "a shape above its bytes": (
        [Frame(first=FirstArray(stage="s", element_type=2, shape=[3], content=bytes(16)))],
        "does not match its shape",
    ),
    "a huge shape": (
        [Frame(first=FirstArray(stage="s", element_type=2, shape=[1 << 40, 0, 1 << 40]))],
        "an array is larger than",
    ),
    "an unknown type": ([Frame(first=FirstArray(stage="s", element_type=7))], "element type 7 is unknown"),
    "cut short": ([first(), None], "in the stream of first arrays: the stream was cut short"),
}


@pytest.mark.parametrize(("frames", "what"), FIRST_VIOLATIONS.values(), ids=FIRST_VIOLATIONS.keys())
async def test_a_broken_stream_of_first_arrays_is_refused_and_blamed_on_its_sender(federation, frames, what):
    frames = [OPEN_FIRST, *frames, end_frame()]
    status, text = await deliver(
        federation.members[2].channels[1], frames[: frames.index(None)] if None in frames else frames
    )
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("party-2 broke the protocol in ")
    assert what in text
    with pytest.raises(PeerViolationError):
        await federation.session(1).receive(2, "other", (4,))


async def test_a_first_array_after_others_of_its_stage_is_refused(federation):
    channel = federation.members[2].channels[1]
    await deliver(channel, [OPEN, *FRAMES, end_frame()])
    status, text = await deliver(channel, [OPEN_FIRST, first(), end_frame()])
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert "the first array of a stage came twice, or after others" in text


async def test_a_second_stream_of_first_arrays_is_refused(federation):
    channel = federation.members[2].channels[1]
    call = delivery(channel)(timeout=GENEROUS_S)
    await call.write(bundle_of([OPEN_FIRST, first("a")]))
    assert np.array_equal(await federation.session(1).receive(2, "a", (4,)), ARRAY)
    status, text = await deliver(channel, [OPEN_FIRST, first("b"), end_frame()])
    assert status is grpc.StatusCode.ALREADY_EXISTS
    assert "already has an open stream of first arrays" in text
    call.cancel()


async def test_an_array_of_another_stage_outside_the_stream_of_first_arrays_is_refused(federation):
    status, text = await deliver(federation.members[2].channels[1], [OPEN, first("r"), end_frame()])
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert "a frame of another kind of stream" in text


VIOLATIONS = {
    "length too large": (
        [header(n_bytes=40)],
        ("a header announces a number of bytes that does not match its shape and element type"),
    ),
    "length too small": (
        [header(n_bytes=24)],
        ("a header announces a number of bytes that does not match its shape and element type"),
    ),
    "frame too long": ([header(), Frame(chunk=bytes(33))], "longer than its header announced"),
    "chunk above 1 MB": (
        [header(shape=[1 << 18], n_bytes=1 << 21), Frame(chunk=bytes(ARRAY_CHUNK_BYTES + 1))],
        "longer than",
    ),
    "cut short": ([header(), Frame(chunk=bytes(8)), end_frame()], "cut short by the end"),
    "cut short by the next": ([header(), Frame(chunk=bytes(8)), header(sequence=1)], "cut short by the header"),
    "half-closed in an array": ([header(), Frame(chunk=bytes(8))], "the stream was cut short"),
    "half-closed without an end": ([*FRAMES], "the stream was cut short"),
    "out of order": ([header(sequence=1)], "out of order"),
    "repeated": ([*FRAMES, *FRAMES], "repeated"),
    "wrong type": ([header(element_type=9)], "element type 9 is unknown"),
    "larger than allowed": ([header(shape=[1 << 40], n_bytes=1 << 43)], "larger than"),
    "second envelope": ([OPEN], "second envelope"),
    "chunk first": ([Frame(chunk=bytes(8))], "without a header"),
    "empty frame": ([Frame()], "without content"),
    "bundle without a frame": (
        [Frame(bundle=Bundle())],
        "a bundle is empty, holds another one, or holds too many frames",
    ),
    "bundle of too many frames": (
        [Frame(bundle=Bundle(frames=[Frame()] * 17))],
        "a bundle is empty, holds another one, or holds too many frames",
    ),
    "bundle in a bundle": (
        [Frame(bundle=Bundle(frames=[Frame(bundle=Bundle(frames=[end_frame()]))]))],
        "a bundle is empty, holds another one, or holds too many frames",
    ),
    "bundled array cut short": (
        [Frame(bundle=Bundle(frames=[header(), Frame(chunk=bytes(8)), end_frame()]))],
        "cut short by the end",
    ),
    "bundled envelope after the first": ([Frame(bundle=Bundle(frames=[OPEN, header()]))], "second envelope"),
}


@pytest.mark.parametrize(("frames", "what"), VIOLATIONS.values(), ids=VIOLATIONS.keys())
async def test_a_broken_stream_is_refused_and_blamed_on_its_sender(federation, frames, what):
    waiting = asyncio.create_task(federation.session(1).receive(2, "other", (4,)))
    await asyncio.sleep(0.02)
    status, text = await deliver(federation.members[2].channels[1], [OPEN, *frames])
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("party-2 broke the protocol in stage s: ")
    assert what in text
    with pytest.raises(PeerViolationError, match="party-2 broke the protocol in stage s") as caught:
        await waiting
    assert caught.value.member == 2


async def test_a_message_above_the_limit_of_the_library_does_not_reach_us(federation):
    status, _ = await deliver(federation.members[2].channels[1], [OPEN, Frame(chunk=bytes(5 << 20))])
    assert status is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("frames", [[], FRAMES, [Frame()]])
async def test_a_stream_without_envelope_is_an_invalid_request(federation, frames):
    status, text = await deliver(federation.members[2].channels[1], frames)
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert "envelope" in text


async def test_an_unknown_job_is_not_found(federation):
    answer = await deliver(federation.members[2].channels[1], [envelope_frame("job-9", "s"), *FRAMES])
    assert answer == (grpc.StatusCode.NOT_FOUND, "there is no job job-9 here [not-found]")


async def test_a_job_that_ended_is_over_and_says_why(federation):
    federation.members[1].mailboxes.close(JOB, "party-2 was silent")
    status, text = await deliver(federation.members[2].channels[1], [OPEN, *FRAMES])
    assert (status, text) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "job job-1 has ended: party-2 was silent [wrong-state]",
    )


async def test_a_second_stream_of_a_stage_is_refused_while_the_first_is_open(federation):
    channel = federation.members[2].channels[1]
    first = delivery(channel)()
    await first.write(OPEN)
    await first.write(FRAMES[0])
    stage = federation.members[1].inbox._stage(2, "s")
    await until(lambda: stage.is_open)
    status, text = await deliver(channel, [OPEN, *FRAMES])
    assert status is grpc.StatusCode.ALREADY_EXISTS
    assert text == "party-2 already has an open stream of stage s [already-exists]"
    await first.write(FRAMES[1])  # the first goes on
    await first.write(end_frame())
    assert (await first).n_arrays == 1


async def test_a_party_of_the_federation_outside_the_roster_is_refused_by_name(federation):
    answer = await refusal_of_stranger(federation, federation.issue(Role.PARTY, "stranger"))
    text = "spiffe://acme/party/stranger is not a member of job job-1 [not-allowed]"
    assert answer == (grpc.StatusCode.PERMISSION_DENIED, text)


async def test_the_name_of_a_member_does_not_help_another_role(federation):
    answer = await refusal_of_stranger(federation, federation.issue(Role.COORDINATOR, "party-2"))
    text = "spiffe://acme/coordinator/party-2 is not a member of job job-1 [not-allowed]"
    assert answer == (grpc.StatusCode.PERMISSION_DENIED, text)


@pytest.mark.parametrize("role", [Role.ANALYST, Role.DEVICE])
async def test_a_role_that_may_not_deliver_is_told_who_may(federation, role):
    status, text = await refusal_of_stranger(federation, federation.issue(role, "party-2"))
    assert status is grpc.StatusCode.PERMISSION_DENIED
    asked = "/moiety.v1.Mailbox/Deliver may be called by coordinator, party only, not by"
    assert text == f"{asked} spiffe://acme/{role}/party-2 [not-allowed]"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (
            ["spiffe://acme/party/party-2", "spiffe://acme/coordinator/hub"],
            "exactly one identity URI; this one states 2",
        ),
        ([], "exactly one identity URI; this one states 0"),
        (["spiffe://evil/party/party-2"], "spiffe://evil/party/party-2 does not belong to federation acme"),
        (["https://acme/party/party-2"], "identity is not valid"),
    ],
)
async def test_a_certificate_of_our_authority_that_is_no_single_identity_is_refused(federation, names, text):
    now = datetime.datetime.now(datetime.UTC)
    ca = x509.load_pem_x509_certificate(federation.authority.certificate_pem)
    ca_key = serialization.load_pem_private_key(federation.authority.key_pem, password=None)
    key = ec.generate_private_key(ec.SECP256R1())
    uris = [x509.UniformResourceIdentifier(name) for name in names] or [x509.DNSName("bank")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - datetime.timedelta(minutes=1))  # the clock of TLS lags behind by some milliseconds
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(uris), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(True, *[False] * 8), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    credentials = Credentials(
        Identity("acme", Role.PARTY, "party-2"),
        federation.authority.certificate_pem,
        certificate.public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain),
        now,
    )
    status, details = await refusal_of_stranger(federation, credentials)
    assert status is grpc.StatusCode.UNAUTHENTICATED
    assert text in details
