"""One table: internal error -> gRPC status and public text, and back on the other end.

A server turns an exception into a status here, and only here; a client turns the status into the same class again, with
the peer's name in its text. Whatever is not in the table becomes INTERNAL without any detail: an unforeseen exception
could quote data.
"""

import datetime
import os
from typing import Any, NamedTuple

import grpc

from mpc.errors import PeerLostError, PeerSilentError, PeerViolationError, ProtocolError
from mpc.public_text import made_public
from service.codes.coded_text import INTERNAL_CODE, coded, parted, told
from service.reach.entry_faults import fault_at_entry
from service.reach.proxy import are_used, fault_told_by

PUBLIC_TEXT_CHARACTERS = 1000
INTERNAL_TEXT = "internal error; the log of this service has the details"
_NOT_OFFERED = "it does not offer this call; is this the right address, and the same version?"


class ServiceError(Exception):
    """Base of errors whose text is public: a service answers with it, a person reads it."""

    code: str = "request-failed"


class UnauthenticatedError(ServiceError):
    """The certificate does not say who the caller is."""

    code = "not-authenticated"


class NotAllowedError(ServiceError):
    """The caller is known and may not do this."""

    code = "not-allowed"


class NotFoundError(ServiceError):
    """The object that the caller names does not exist here."""

    code = "not-found"


class AlreadyExistsError(ServiceError):
    """The object that the caller wants to open or create already exists."""

    code = "already-exists"


class WrongStateError(ServiceError):
    """Not possible in the present state, for instance after a job's end."""

    code = "wrong-state"


class InvalidRequestError(ServiceError):
    """The request itself is wrong; repeating it is useless."""

    code = "request-invalid"


class UnreadableError(InvalidRequestError):
    """A message cannot be decoded, or is longer than the call allows. Its sender is at fault."""

    code = "message-unreadable"


class TooMuchError(ServiceError):
    """A limit on number or size was reached."""

    code = "limit-reached"


class UnreachableError(ServiceError):
    """The other end cannot be reached, or the connection to it broke."""

    code = "not-reachable"


class TimedOutError(ServiceError):
    """No answer within the deadline."""

    code = "no-answer"


class RemoteFailureError(ServiceError):
    """The other end failed without giving a reason."""

    code = "remote-failure"


# The table. Where several errors share a status, the first is what a client makes of it.
STATUS_OF: dict[type[Exception], grpc.StatusCode] = {
    UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    NotAllowedError: grpc.StatusCode.PERMISSION_DENIED,
    NotFoundError: grpc.StatusCode.NOT_FOUND,
    AlreadyExistsError: grpc.StatusCode.ALREADY_EXISTS,
    WrongStateError: grpc.StatusCode.FAILED_PRECONDITION,
    InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    TooMuchError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    UnreachableError: grpc.StatusCode.UNAVAILABLE,
    TimedOutError: grpc.StatusCode.DEADLINE_EXCEEDED,
    RemoteFailureError: grpc.StatusCode.INTERNAL,
    PeerViolationError: grpc.StatusCode.INVALID_ARGUMENT,
    PeerLostError: grpc.StatusCode.UNAVAILABLE,
    PeerSilentError: grpc.StatusCode.DEADLINE_EXCEEDED,
    ProtocolError: grpc.StatusCode.FAILED_PRECONDITION,
}

_ERROR_OF: dict[grpc.StatusCode, type[ServiceError]] = {
    status: error for error, status in reversed(STATUS_OF.items()) if issubclass(error, ServiceError)
} | {grpc.StatusCode.CANCELLED: UnreachableError}  # where we cancel a call ourselves, no status is read


def status_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """Return the status and the public text with which a server answers.

    The error's own class or its nearest base in the table decides; the text is the error's text only if it is there.
    """
    for kind in type(error).__mro__:
        if kind in STATUS_OF:
            return STATUS_OF[kind], public(told(error))
    return grpc.StatusCode.INTERNAL, coded(INTERNAL_TEXT, code=INTERNAL_CODE)


def error_from(status: grpc.StatusCode, details: str, *, peer: str, doing: str) -> ServiceError:
    """Return the error text of a failed call for people: peer, operation and cause.

    Args:
        status: status code of the call.
        details: its text: the peer's public text, or the gRPC library's account of a lost connection.
        peer: name of the other end.
        doing: what failed, for instance "submit the job"; empty where the peer was only to be reached.
    """
    cause, code = parted(public(details))
    if status is grpc.StatusCode.UNAVAILABLE:
        cause, code = parted(connection_cause(details))
    elif status is grpc.StatusCode.DEADLINE_EXCEEDED:
        cause, code = "no answer within the deadline", ""
    elif status is grpc.StatusCode.UNIMPLEMENTED:
        cause, code = parted(coded(_NOT_OFFERED, code="call-not-offered"))
    elif status is grpc.StatusCode.CANCELLED:
        cause, code = "it has broken off the call: it stops, or more calls wait there than it can take in", ""
    what = f"cannot {doing} at {peer}" if doing else f"cannot reach {peer}"
    error = _ERROR_OF.get(status, RemoteFailureError)(f"{what}: {cause or status.name}")
    error.code = code or error.code
    return error


def error_from_call(error: Any, *, peer: str, doing: str) -> ServiceError:
    """Return `error_from` of a `grpc.aio.AioRpcError`."""
    return error_from(error.code(), error.details() or "", peer=peer, doing=doing)


class _Cause(NamedTuple):
    signs: tuple[str, ...]  # in the library's words, in lower case
    meaning: str
    code: str


# What the gRPC library reports of a connection -> what it means. First match wins.
_CAUSES = (
    _Cause(
        ("hostname verification",),
        "the certificate shown there belongs to somebody else",
        code="certificate-of-another",
    ),
    _Cause(
        ("unsupported certificate purpose",),
        "its certificate is not for serving: it belongs to an analyst or a device",
        code="certificate-not-for-serving",
    ),
    _Cause(
        ("not yet valid",),
        "its certificate is not yet valid by the clock of this machine, which says {now}",
        code="certificate-not-yet-valid",
    ),
    _Cause(
        ("certificate has expired",),
        "its certificate has expired by the clock of this machine, which says {now}",
        code="certificate-expired",
    ),
    _Cause(
        ("certificate_verify_failed",),
        "another authority signed its certificate, or it cannot be used",
        code="certificate-not-trusted",
    ),
    _Cause(("wrong_version_number",), "what listens there does not speak TLS", code="no-tls-there"),
    _Cause(
        ("handshake", "selected alpn"),
        "the TLS handshake failed: something else listens there, or the service hangs",
        code="handshake-failed",
    ),
    _Cause(("connection refused",), "nothing listens at its address", code="nothing-listens"),
    _Cause(
        ("connection reset", "socket closed", "broken pipe"),
        "it closed the connection: it went away, or does not accept our certificate",
        code="connection-closed",
    ),
    _Cause(("goaway",), "it is shutting down", code="shutting-down"),
    _Cause(("hostname lookup", "domain name"), "its host name cannot be resolved", code="host-unknown"),
    _Cause(("no route",), "there is no route to its address", code="no-route"),
    _Cause(("unreachable",), "its network cannot be reached", code="network-unreachable"),
    _Cause(
        ("keepalive", "ping timeout"),
        "it does not answer any more: it hangs, or the network is cut",
        code="answers-no-more",
    ),
    _Cause(("timed out", "timeout"), "its address does not answer", code="address-silent"),
)


PROXY_VARIABLES = ("https_proxy", "http_proxy", "grpc_proxy", "all_proxy")
"""Variables of the environment that name proxies, in lower or upper case. Members are not dialled by them."""

_WAYS_OF_PROXIES = frozenset({"address-silent", "no-route", "network-unreachable", "host-unknown", "nothing-listens"})
"""Codes of what a machine finds that reaches others by a proxy only."""

_BY_PROXIES_TOO = frozenset({"connection-closed", "answers-no-more"})
"""Codes of what a proxy may have done as well as the member behind it."""


def unused_proxies(through: str = "") -> str:
    """Return that a proxy of the environment is not used between members; empty where the environment names none.

    Args:
        through: how members are called instead; empty: directly, unless this process has used a proxy.
    """
    named = [name for name in (*PROXY_VARIABLES, *map(str.upper, PROXY_VARIABLES)) if os.environ.get(name)]
    through = through or ("through the proxy of the configuration" if are_used() else "directly")
    return f"members are called {through}: the proxy of {named[0]} is not used" if named else ""


def connection_cause(details: str) -> str:
    """Return in plain words why a connection failed, with a code, given the gRPC library's description."""
    if text := fault_at_entry(details):
        return text
    if (fault := fault_told_by(details)) is not None:
        return coded(fault.meaning, code=fault.code)
    lower, now = details.lower(), f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    for cause in _CAUSES:
        if any(sign in lower for sign in cause.signs):
            of_proxies = unused_proxies() if cause.code in _WAYS_OF_PROXIES else ""
            if cause.code in _BY_PROXIES_TOO and are_used():
                of_proxies = "or our proxy, through which it is called"
            meaning = cause.meaning.replace("{now}", now) + (f" ({of_proxies})" if of_proxies else "")
            return coded(meaning, code=cause.code)
    return public(details) or "the connection failed"


def public(text: str) -> str:
    """Return a peer's text fit for a log line or a terminal: see `mpc.public_text`. It keeps its code."""
    text, code = parted(text)
    if not code:
        return made_public(text, PUBLIC_TEXT_CHARACTERS)
    return coded(made_public(text, PUBLIC_TEXT_CHARACTERS - len(code) - len(" []")), code=code)
