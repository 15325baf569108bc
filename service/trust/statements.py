"""Statements that others can check without a connection: signed with the key of a certificate, shown with it."""

import datetime
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from service.certificate_rules import check_issued_by, check_member, check_valid_at, read_as
from service.errors import UnauthenticatedError
from service.identity import Identity, PeerCertificate, Role, identity_of
from service.tls import Credentials
from service.trust.passed_certificates import PassedCertificates

MAX_CERTIFICATE_BYTES = 4096
MAX_SIGNATURE_BYTES = 1024

_LABEL = b"This is a statement by the holder of a certificate of a Moiety federation, and no part of a TLS handshake:\n"
"""Before every statement. A handshake signs other bytes: where TLS 1.3 has 64 spaces, and TLS 1.2 the server's random
bytes, this has words. So neither signature can be passed off as the other."""

_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)


@dataclass(frozen=True)
class Signed:
    """Whose statement it is, and that it is theirs.

    Attributes:
        certificate: certificate of the signer, DER.
        signature: signature of the statement.
    """

    certificate: bytes
    signature: bytes


def sign(credentials: Credentials, statement: bytes) -> Signed:
    """Sign a statement with the key of our certificate.

    Args:
        credentials: ours.
        statement: what is stated; it begins with a label of its own.
    """
    message = _LABEL + statement
    match key := credentials.key:
        case ec.EllipticCurvePrivateKey():
            signature = key.sign(message, ec.ECDSA(hashes.SHA256()))
        case rsa.RSAPrivateKey():
            signature = key.sign(message, _PSS, hashes.SHA256())
        case ed25519.Ed25519PrivateKey():
            signature = key.sign(message)
        case _:
            raise AssertionError("credentials with such a key are refused when they are loaded")
    return Signed(credentials.certificate_der, signature)


@dataclass(frozen=True)
class StatementCheck:
    """Checks who has signed a statement, as TLS checks who calls.

    Attributes:
        credentials: ours: the authority that we trust, and the list of revoked certificates.
        now: the clock.
        passed: what remembers certificates whose issuer and rules were checked; None: each is checked anew.
    """

    credentials: Credentials = field(repr=False)
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)
    passed: PassedCertificates | None = None

    @cached_property
    def _authority(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.credentials.authority_pem)

    def signer(self, signed: Signed, statement: bytes, role: Role) -> Identity:
        """Return who has signed a statement.

        Args:
            signed: signature and certificate, as received.
            statement: what is stated.
            role: that the signer must have; and it must be of our federation.

        Raises:
            UnauthenticatedError: its certificate is not one of our authority, not valid now, revoked, weak or for
                another role, or the signature is not its.
        """
        with _refusing(signed):
            certificate = certificate_of(signed)
            self._check_once(certificate, signed.certificate)
            identity = identity_of(certificate)
            check_signature(certificate, signed.signature, statement)
        moment = self.now()
        try:
            check_valid_at(certificate, moment)
        except ValueError as error:
            raise UnauthenticatedError(f"the certificate of {identity} {error}") from error
        if identity.federation != self.credentials.identity.federation or identity.role is not role:
            raise UnauthenticatedError(f"{identity} is no {role} of {self.credentials.identity.federation}")
        if self.credentials.revoked is not None:
            self.credentials.revoked.check(certificate.serial_number, identity, moment)
        return identity

    def _check_once(self, certificate: x509.Certificate, der: bytes) -> None:
        """Check what follows from a certificate and our authority alone, where it is not remembered.

        Raises:
            ValueError: the authority has not issued it, or it is weak or not for a member.
        """
        authority = self.credentials.authority_pem
        if self.passed is not None and self.passed.has(der, authority):
            return
        check_issued_by(certificate, self._authority)
        check_member(certificate, dials=True)
        if self.passed is not None:
            self.passed.add(der, authority)

    def signer_of_call(self, signed: Signed, statement: bytes, caller: PeerCertificate) -> Identity:
        """Return who has signed a statement that came in a call.

        Where it was signed with the very certificate that the caller has shown, TLS and the server have checked that
        one: its issuer, its rules, and that it is not revoked. Then only its end and the signature are left to be
        checked. Any other, such as the certificate that the caller had before it got a new one, is checked by `signer`.

        Args:
            signed: signature and certificate, as received.
            statement: what is stated.
            caller: who has made the call; the server has let it through.

        Raises:
            UnauthenticatedError: see `signer`; the role is that of the caller.
        """
        is_shown = hashlib.sha256(signed.certificate).digest() == caller.fingerprint
        if not is_shown or self.now() > caller.not_valid_after:
            return self.signer(signed, statement, caller.identity.role)
        with _refusing(signed):
            certificate = certificate_of(signed)
            check_signature(certificate, signed.signature, statement)
        return caller.identity


def check_signature(certificate: x509.Certificate, signature: bytes, statement: bytes) -> None:
    """Check that a statement was signed with the key of a certificate, of which nothing else is checked.

    Raises:
        ValueError, InvalidSignature: it was not, or the key is of a kind that signs no statements.
    """
    message = _LABEL + statement
    with read_as("its key is of an unknown kind"):
        key = certificate.public_key()
    match key:
        case ec.EllipticCurvePublicKey():
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        case rsa.RSAPublicKey():
            key.verify(signature, message, _PSS, hashes.SHA256())
        case ed25519.Ed25519PublicKey():
            key.verify(signature, message)
        case _:
            raise ValueError("no key of this kind signs statements")


def certificate_of(signed: Signed) -> x509.Certificate:
    """Return the certificate that a statement came with.

    Raises:
        ValueError: it is none.
    """
    with read_as("no certificate"):
        return x509.load_der_x509_certificate(signed.certificate)


@contextmanager
def _refusing(signed: Signed) -> Iterator[None]:
    """Refuse what is too long, and what the body finds to be no certificate of ours or no signature of it."""
    if len(signed.certificate) > MAX_CERTIFICATE_BYTES or len(signed.signature) > MAX_SIGNATURE_BYTES:
        raise UnauthenticatedError("a signed statement has a certificate or a signature that is too long")
    try:
        yield
    except (ValueError, InvalidSignature) as error:
        raise UnauthenticatedError("a statement is not signed by a member of the federation") from error
