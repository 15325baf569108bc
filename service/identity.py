"""The identity of a member: one URI in its certificate, never a field in a message."""

import datetime
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from service.certificate_rules import check_member, extension_of, is_self_signed, read_as
from service.errors import InvalidRequestError, UnauthenticatedError

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
"""Names of federations and members: what fits a host name, a file name and a certificate (as in `analyses.job.job`)."""

DNS_SUFFIX = "moiety.internal"
_URI = re.compile(r"spiffe://([^/]+)/([^/]+)/([^/]+)")


class Role(StrEnum):
    """The role of a certificate's holder in a federation."""

    PARTY = "party"
    COORDINATOR = "coordinator"
    ANALYST = "analyst"
    DEVICE = "device"
    WORKER = "worker"
    """Processes that do part of a party's work, and bear its name; they call, and are called by, other workers only."""
    RELAY = "relay"
    """Forwards sealed bytes to members that only dial out (`transport.relay`); it calls nobody."""


SERVING_ROLES = frozenset({Role.PARTY, Role.COORDINATOR, Role.WORKER, Role.RELAY})
"""The roles that may answer calls; analysts and devices only make calls."""


@dataclass(frozen=True, order=True)
class Identity:
    """A member of a federation: `spiffe://<federation>/<role>/<name>`.

    Raises:
        ValueError: a name does not match `NAME_PATTERN`.
    """

    federation: str
    role: Role
    name: str

    def __post_init__(self) -> None:
        check_name("federation", self.federation)
        check_name(self.role, self.name)

    def __str__(self) -> str:
        return self.uri

    @property
    def uri(self) -> str:
        """The URI of the certificate's subject alternative name."""
        return f"spiffe://{self.federation}/{self.role}/{self.name}"

    @property
    def dns_name(self) -> str:
        """The name that TLS checks when we dial this member, whatever its address.

        Each part is a valid DNS label because of `NAME_PATTERN`, so two identities never share a name.
        """
        return f"{self.name}.{self.role}.{self.federation}.{DNS_SUFFIX}"

    @classmethod
    def from_uri(cls, uri: str) -> Self:
        """Read a URI.

        Raises:
            ValueError: not of the form above; the text says what is wrong.
        """
        match = _URI.fullmatch(uri)
        if match is None:
            raise ValueError(f"{uri!r} is not of the form spiffe://FEDERATION/ROLE/NAME")
        federation, role, name = match.groups()
        return cls(federation, role_named(role), name)


def role_named(text: str) -> Role:
    """Return the role of this name.

    Raises:
        ValueError: there is none; the text lists those there are.
    """
    try:
        return Role(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a role; the roles are {', '.join(Role)}") from None


def check_name(what: str, name: str) -> None:
    """Refuse a name that does not fit host names, file names and certificates.

    Raises:
        ValueError: names the rule.
    """
    if re.fullmatch(NAME_PATTERN, name) is None:
        raise ValueError(f"{what} name {name!r}: use 1 to 63 lower-case letters, digits and inner hyphens")


def check_analyst(name: str) -> None:
    """Refuse a name of an analyst that came from outside.

    Raises:
        InvalidRequestError: it is no name; it is not shown.
    """
    if re.fullmatch(NAME_PATTERN, name) is None:
        raise InvalidRequestError(
            "the name of the analyst is not valid: use 1 to 63 lower-case letters, digits and inner hyphens"
        )


def identity_of(certificate: x509.Certificate) -> Identity:
    """Return the identity that a certificate states.

    Raises:
        UnauthenticatedError: it cannot be read, has not exactly one URI as subject alternative name, or that is not an
            identity.
    """
    try:
        names = extension_of(certificate, x509.SubjectAlternativeName)
        uris = [] if names is None else names.get_values_for_type(x509.UniformResourceIdentifier)
        if len(uris) != 1:
            raise ValueError(f"a certificate must state exactly one identity URI; this one states {len(uris)}")
        return Identity.from_uri(uris[0])
    except ValueError as error:
        raise UnauthenticatedError(f"the certificate's identity is not valid: {error}") from error


def peer_identity(context: Any) -> Identity:
    """Return the identity of the other end of a call.

    Args:
        context: the servicer context of the call; TLS has already checked that the certificate leads to our authority.

    It must do so directly: whoever shows another authority between is refused. TLS trusts our authority alone and
    learns of others from the caller only. One between would be signed by the key of the one above it; so where all that
    the caller showed beside its own certificate is signed by its own key, as our authority's is, which some TLS
    libraries send along, the caller's certificate was signed by ours. gRPC keeps what was shown also where a session is
    resumed.

    Raises:
        UnauthenticatedError: no certificate, not exactly one valid identity in it, one that breaks a rule of
            `service.certificate_rules`, or one that another authority has issued.
    """
    return peer_certificate(context).identity


@dataclass(frozen=True)
class PeerCertificate:
    """What the certificate of the other end of a call states.

    Attributes:
        identity: identity of the member.
        serial: its number at the authority.
        not_valid_after: when it expires.
        fingerprint: SHA-256 of the certificate, 32 bytes.
        not_valid_before: when it begins to be valid.
    """

    identity: Identity
    serial: int
    not_valid_after: datetime.datetime
    fingerprint: bytes
    not_valid_before: datetime.datetime


def peer_certificate(context: Any) -> PeerCertificate:
    """Return what the certificate of the other end of a call states; raises as `peer_identity`."""
    shown = context.auth_context()
    certificates = shown.get("x509_pem_cert", ())
    if len(certificates) != 1:
        raise UnauthenticatedError("the connection carries no client certificate")
    return _identity_of_caller(certificates[0], b"".join(shown.get("x509_pem_cert_chain", ())))


@lru_cache(maxsize=4096)
def _identity_of_caller(certificate_pem: bytes, others_pem: bytes) -> PeerCertificate:
    try:
        with read_as("it is damaged"):
            certificate = x509.load_pem_x509_certificate(certificate_pem)
            others = x509.load_pem_x509_certificates(others_pem) if others_pem else []
    except ValueError as error:
        raise UnauthenticatedError("the client certificate cannot be read") from error
    identity = identity_of(certificate)
    if any(other != certificate and not is_self_signed(other) for other in others):
        raise UnauthenticatedError(
            f"the certificate of {identity} is not accepted: another authority signed it, not the federation's own"
        )
    try:
        check_member(certificate, dials=True)
    except ValueError as error:
        raise UnauthenticatedError(f"the certificate of {identity} is not accepted: {error}") from error
    fingerprint = certificate.fingerprint(hashes.SHA256())
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return PeerCertificate(identity, certificate.serial_number, end, fingerprint, begin)
