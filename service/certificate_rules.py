"""Rules for certificates beyond what TLS checks: strong, made for this use, and issued by the authority itself.

TLS accepts more than a federation means. gRPC's library takes a member's certificate from any authority that ours has
signed, whatever path length ours allows; it takes one without key usage, and RSA keys of 1024 bits. Whoever may sign
for one organisation could then name itself after any member. So the certificates of both ends of a connection are
looked at here once more; `moiety pki` issues what passes.
"""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

MIN_CURVE_BITS = 256
MIN_RSA_BITS = 3072
"""Smallest key sizes; both give 128 bits of security: NIST SP 800-57 part 1, revision 5, table 2."""

MIN_DIGEST_BYTES = hashes.SHA256.digest_size

T = TypeVar("T", bound=x509.ExtensionType)


@contextmanager
def read_as(what: str) -> Iterator[None]:
    """Read a certificate, a key, a request or a list that may be damaged.

    The library decodes some parts only when they are asked for, and what it raises then follows from the damage:
    unknown algorithms, versions, names and extensions each have a class of their own. So the body holds calls of the
    library alone, and everything that they raise means one thing.

    Args:
        what: the text of the error; says what was expected.

    Raises:
        ValueError: the library has raised something.
    """
    try:
        yield
    except Exception as error:
        raise ValueError(what) from error


def check_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> None:
    """Check that an authority has signed a certificate itself.

    Raises:
        ValueError: it has not, or the certificate is damaged.
    """
    with read_as("another authority signed it, not the federation's own"):
        certificate.verify_directly_issued_by(authority)


def check_authority(certificate: x509.Certificate) -> None:
    """Check the certificate of a federation's authority.

    Raises:
        ValueError: it is not that of an authority, may not sign certificates, or is weak; the text says what.
    """
    _check_strength(certificate)
    constraints = extension_of(certificate, x509.BasicConstraints)
    if constraints is None or not constraints.ca:
        raise ValueError("it is not a certificate of an authority")
    usage = extension_of(certificate, x509.KeyUsage)
    if usage is None or not usage.key_cert_sign:
        raise ValueError("its key usage does not allow it to sign certificates")


def check_member(certificate: x509.Certificate, *, dials: bool = False, serves: bool = False) -> None:
    """Check the certificate of a member.

    Args:
        certificate: certificate whose issuer's signature TLS or the caller has checked.
        dials: whether it is used to call others.
        serves: whether it is used to answer others.

    Raises:
        ValueError: it is weak, or not made for this; the text says what.
    """
    _check_strength(certificate)
    constraints = extension_of(certificate, x509.BasicConstraints)
    if constraints is None or constraints.ca:
        raise ValueError(
            "it is a certificate of an authority, or does not state that it is not one (basic constraints)"
        )
    usage = extension_of(certificate, x509.KeyUsage)
    if usage is None or not usage.digital_signature or usage.key_cert_sign:
        raise ValueError("its key usage must include digital signature and must not include certificate signing")
    purposes = list(extension_of(certificate, x509.ExtendedKeyUsage) or ())
    if dials and ExtendedKeyUsageOID.CLIENT_AUTH not in purposes:
        raise ValueError("its extended key usage does not name client authentication")
    if serves and ExtendedKeyUsageOID.SERVER_AUTH not in purposes:
        raise ValueError("its extended key usage does not name server authentication")


def check_valid_at(certificate: x509.Certificate, moment: datetime.datetime) -> None:
    """Check that a certificate is valid at a moment.

    Raises:
        ValueError: it is not; the text says so as the rest of a sentence about the certificate.
    """
    with read_as("has no dates that can be read"):
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if fault := dates_fault(begin, end, moment):
        raise ValueError(fault)


def is_self_signed(certificate: x509.Certificate) -> bool:
    """Return whether a certificate is signed by its own key, in its own name."""
    try:
        check_issued_by(certificate, certificate)
    except ValueError:
        return False
    return True


def extension_of(certificate: x509.Certificate, kind: type[T]) -> T | None:
    """Return an extension of a certificate; None where it has none of the kind.

    Raises:
        ValueError: the extensions cannot be read.
    """
    with read_as("its extensions cannot be read"):
        return next((one.value for one in certificate.extensions if isinstance(one.value, kind)), None)


def _check_strength(certificate: x509.Certificate) -> None:
    with read_as("its key or its signature is of an unknown kind"):
        key, digest = certificate.public_key(), certificate.signature_hash_algorithm
    match key:
        case ec.EllipticCurvePublicKey():
            is_strong = key.key_size >= MIN_CURVE_BITS
        case rsa.RSAPublicKey():
            is_strong = key.key_size >= MIN_RSA_BITS
        case _:
            is_strong = isinstance(key, ed25519.Ed25519PublicKey)
    if not is_strong:
        raise ValueError(
            f"its key is too weak: use an elliptic curve of at least {MIN_CURVE_BITS} bits, Ed25519, or RSA with at "
            f"least {MIN_RSA_BITS} bits"
        )
    if digest is not None and digest.digest_size < MIN_DIGEST_BYTES:  # None where it needs none, as for Ed25519
        raise ValueError(f"it is signed with {digest.name}, which is too weak: use SHA-256 or better")


def dates_fault(begin: datetime.datetime, end: datetime.datetime, moment: datetime.datetime) -> str:
    """Return why a certificate or a list is not valid at a moment, with both clocks; empty where it is.

    The clock is asked about first: one that is wrong makes good certificates look bad, and a new one would not help.

    Args:
        begin: start of its validity.
        end: end of its validity.
        moment: time by the clock of this machine.
    """
    clock = f"is the clock of this machine right? It says {moment:%Y-%m-%d %H:%M} UTC"
    if moment < begin:
        return f"is not yet valid: it is valid only from {begin:%Y-%m-%d %H:%M} UTC on; {clock}"
    if moment > end:
        return f"expired on {end:%Y-%m-%d %H:%M} UTC; {clock}"
    return ""
