"""Rules for certificates beyond what TLS checks: strong, made for this use, and issued by the authority itself.

TLS accepts more than a federation means. gRPC's library takes a member's certificate from any authority that ours has
signed, whatever path length ours allows; it takes one without key usage, and RSA keys of 1024 bits. Whoever may sign
for one organisation could then name itself after any member. So the certificates of both ends of a connection are
looked at here once more; `moiety pki` issues what passes.
"""

from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

MIN_CURVE_BITS = 256
MIN_RSA_BITS = 3072
"""Smallest key sizes; both give 128 bits of security: NIST SP 800-57 part 1, revision 5, table 2."""

MIN_DIGEST_BYTES = hashes.SHA256.digest_size

T = TypeVar("T", bound=x509.ExtensionType)


def check_authority(certificate: x509.Certificate) -> None:
    """Check the certificate of a federation's authority.

    Raises:
        ValueError: it is not that of an authority, may not sign certificates, or is weak; the text says what.
    """
    _check_strength(certificate)
    constraints = _extension(certificate, x509.BasicConstraints)
    if constraints is None or not constraints.ca:
        raise ValueError("it is not a certificate of an authority")
    usage = _extension(certificate, x509.KeyUsage)
    if usage is None or not usage.key_cert_sign:
        raise ValueError("its key usage does not allow it to sign certificates")


def check_member(certificate: x509.Certificate, *, dials: bool = False, serves: bool = False) -> None:
    """Check the certificate of a member.

    Args:
        certificate: of which TLS, or the caller, has checked the issuer's signature.
        dials: whether it is used to call others.
        serves: whether it is used to answer others.

    Raises:
        ValueError: it is weak, or not made for this; the text says what.
    """
    _check_strength(certificate)
    constraints = _extension(certificate, x509.BasicConstraints)
    if constraints is None or constraints.ca:
        raise ValueError(
            "it is a certificate of an authority, or does not state that it is not one (basic constraints)"
        )
    usage = _extension(certificate, x509.KeyUsage)
    if usage is None or not usage.digital_signature or usage.key_cert_sign:
        raise ValueError("its key usage must include digital signature and must not include certificate signing")
    purposes = list(_extension(certificate, x509.ExtendedKeyUsage) or ())
    if dials and ExtendedKeyUsageOID.CLIENT_AUTH not in purposes:
        raise ValueError("its extended key usage does not name client authentication")
    if serves and ExtendedKeyUsageOID.SERVER_AUTH not in purposes:
        raise ValueError("its extended key usage does not name server authentication")


def is_self_signed(certificate: x509.Certificate) -> bool:
    """Return whether a certificate is signed by its own key, in its own name."""
    try:
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _extension(certificate: x509.Certificate, kind: type[T]) -> T | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _check_strength(certificate: x509.Certificate) -> None:
    key = certificate.public_key()
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
    digest = certificate.signature_hash_algorithm  # None where the signature needs none, as Ed25519's
    if digest is not None and digest.digest_size < MIN_DIGEST_BYTES:
        raise ValueError(f"it is signed with {digest.name}, which is too weak: use SHA-256 or better")
