import grpc
import pytest

from mpc.errors import FieldMismatchError, PeerLostError, PeerSilentError, PeerViolationError
from service.codes.coded_text import told
from service.errors import (
    INTERNAL_TEXT,
    PUBLIC_TEXT_CHARACTERS,
    STATUS_OF,
    NotFoundError,
    RemoteFailureError,
    ServiceError,
    TimedOutError,
    UnreachableError,
    error_from,
    public,
    status_of,
)


class JobNotFoundError(NotFoundError):
    pass


@pytest.mark.parametrize("kind", [kind for kind in STATUS_OF if issubclass(kind, ServiceError)])
def test_a_service_error_survives_the_way_to_the_client(kind):
    status, text = status_of(kind("the reason"))
    back = error_from(status, text, peer="bank", doing="submit the job")
    assert type(back) is kind
    assert str(back).startswith("cannot submit the job at bank: ")


def test_the_code_of_an_error_survives_the_way_to_the_client_whatever_is_before_it_and_however_long_it_is():
    for text in ("no job 7", "x" * 5000):
        status, answer = status_of(JobNotFoundError(text))
        assert len(answer) <= 1000
        back = error_from(status, answer, peer="acme", doing="show the job")
        assert (back.code, "[" in str(back)) == ("not-found", False)
    closer = error_from(grpc.StatusCode.FAILED_PRECONDITION, "bank: no [budget-exhausted]", peer="acme", doing="run")
    assert (closer.code, told(closer)) == ("budget-exhausted", "cannot run at acme: bank: no [budget-exhausted]")


def test_a_broken_connection_has_the_code_of_its_cause():
    found = error_from(grpc.StatusCode.UNAVAILABLE, "Connect failed: Connection refused", peer="bank", doing="run")
    assert told(found) == "cannot run at bank: nothing listens at its address [nothing-listens]"
    assert error_from(grpc.StatusCode.UNIMPLEMENTED, "", peer="bank", doing="run").code == "call-not-offered"


def test_a_subclass_is_answered_as_its_base():
    assert status_of(JobNotFoundError("no job 7")) == (grpc.StatusCode.NOT_FOUND, "no job 7 [not-found]")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (PeerViolationError(1, "deal", "why"), grpc.StatusCode.INVALID_ARGUMENT, "peer-violation"),
        (PeerLostError(1, "deal", "why"), grpc.StatusCode.UNAVAILABLE, "peer-lost"),
        (PeerSilentError(1, "deal", "why"), grpc.StatusCode.DEADLINE_EXCEEDED, "peer-silent"),
        (FieldMismatchError("why"), grpc.StatusCode.FAILED_PRECONDITION, "protocol-failed"),
    ],
)
def test_protocol_errors_have_their_statuses(error, status, code):
    assert status_of(error) == (status, f"why [{code}]")


@pytest.mark.parametrize("error", [ValueError("row 7 holds 3.5"), KeyError("secret"), ZeroDivisionError()])
def test_an_unforeseen_error_tells_nothing(error):
    assert status_of(error) == (grpc.StatusCode.INTERNAL, f"{INTERNAL_TEXT} [internal-error]")


def test_every_status_of_the_library_becomes_an_error_with_a_cause():
    for status in grpc.StatusCode:
        text = str(error_from(status, "", peer="bank", doing="greet"))
        assert text.startswith("cannot greet at bank: ")
        assert len(text) > len("cannot greet at bank: ")


# What grpcio 1.85 says, taken from real calls.
@pytest.mark.parametrize(
    ("details", "meaning"),
    [
        (
            "last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused",
            "nothing listens",
        ),
        ("errors resolving x:1: [field:hostname lookup error: Domain name not found]", "cannot be resolved"),
        ("SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: unable to get local issuer", "another authority"),
        ("CERTIFICATE_VERIFY_FAILED: unsupported certificate purpose: OK", "not for serving"),
        ("Custom verification check failed: UNAUTHENTICATED: Hostname Verification Check failed.", "somebody else"),
        ("Tls handshake failed: SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER", "does not speak TLS"),
        ("Handshake read failed (Endpoint closing)", "handshake failed"),
        ("ipv4:127.0.0.1:7100: Cannot check peer: missing selected ALPN property.", "something else listens there"),
        ("last error: UNAVAILABLE: ipv4:127.0.0.1:46867: Socket closed", "closed the connection"),
    ],
)
def test_a_failed_connection_is_explained_in_plain_words(details, meaning):
    error = error_from(grpc.StatusCode.UNAVAILABLE, details, peer="bank", doing="greet")
    assert isinstance(error, UnreachableError)
    assert meaning in str(error)
    assert "ipv4" not in str(error)
    assert "SSL" not in str(error)


def test_a_deadline_and_an_unknown_call_are_explained():
    late = error_from(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", peer="bank", doing="greet")
    assert isinstance(late, TimedOutError)
    unknown = error_from(grpc.StatusCode.UNIMPLEMENTED, "Method not found!", peer="bank", doing="greet")
    assert isinstance(unknown, RemoteFailureError)
    assert "same version" in str(unknown)


def test_a_peers_text_cannot_forge_lines_or_flood_the_terminal():
    assert public("one\ntwo\x1b[31m\tthree") == "one two\\x1b[31m three"
    assert len(public("x" * 10_000)) == PUBLIC_TEXT_CHARACTERS
