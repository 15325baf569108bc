"""Certificates of a federation: one authority, one certificate per member. Pure functions; files are the command's.

A certificate states one identity URI and the DNS name derived from it, never a host or an address: a member may move
without a new certificate. ECDSA on P-256 with SHA-256 throughout.
"""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from service.certificate_rules import read_as
from service.identity import SERVING_ROLES, Identity, Role, check_name

CLOCK_SKEW = datetime.timedelta(hours=1)
"""How long before their issue certificates become valid, for members whose clocks are behind."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both PEM. Never shown by repr."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


def create_authority(federation: str, *, days: int, now: datetime.datetime) -> KeyPair:
    """Make the certificate authority of a federation.

    Args:
        federation: its name; the authority's subject keeps it, and every certificate issued takes it from there.
        days: validity.
        now: the present time, with time zone.

    Raises:
        ValueError: the name breaks the rule of names, or the validity is not positive.
    """
    check_name("federation", federation)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, federation),
            x509.NameAttribute(NameOID.COMMON_NAME, "Moiety certificate authority"),
        ]
    )
    builder = (
        _certificate(subject, subject, key.public_key(), days=days, now=now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return KeyPair(_signed(builder, key), private_pem(key))


def issue(authority: KeyPair, role: Role, name: str, *, days: int, now: datetime.datetime) -> KeyPair:
    """Issue a fresh key and a certificate for one member of the authority's federation.

    Raises:
        ValueError: see `certify`.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    return KeyPair(certify(authority, role, name, key.public_key(), days=days, now=now), private_pem(key))


def certify(
    authority: KeyPair,
    role: Role,
    name: str,
    public_key: ec.EllipticCurvePublicKey,
    *,
    days: int,
    now: datetime.datetime,
) -> bytes:
    """Issue a certificate, PEM, for one member of the authority's federation, who has the private key.

    Parties, their workers and the coordinator may serve and dial, analysts and devices only dial. The certificate never
    outlives the authority.

    Raises:
        ValueError: the name breaks the rule of names, or the authority has expired or cannot be read.
    """
    return _certified(*read_pair(authority), role, name, public_key, days=days, now=now)


def _certified(
    ca_certificate: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    role: Role,
    name: str,
    public_key: ec.EllipticCurvePublicKey,
    *,
    days: int,
    now: datetime.datetime,
) -> bytes:
    if ca_certificate.not_valid_after_utc <= now:
        raise ValueError(f"the authority expired on {ca_certificate.not_valid_after_utc:%Y-%m-%d}; make a new one")
    identity = Identity(federation_of(ca_certificate), role, name)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, identity.federation),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, identity.role),
            x509.NameAttribute(NameOID.COMMON_NAME, identity.name),
        ]
    )
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role in SERVING_ROLES:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    names = [x509.UniformResourceIdentifier(identity.uri), x509.DNSName(identity.dns_name)]
    until = ca_certificate.not_valid_after_utc
    builder = (
        _certificate(subject, ca_certificate.subject, public_key, days=days, now=now, until=until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    return _signed(builder, ca_key)


def read_pair(authority: KeyPair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the certificate and the key of an authority.

    Raises:
        ValueError: they cannot be read, or do not belong together.
    """
    with read_as("the authority's certificate is damaged: it is not a PEM certificate"):
        ca_certificate = x509.load_pem_x509_certificate(authority.certificate_pem)
        own_key = ca_certificate.public_key()
    ca_key = _signing_key(authority.key_pem)
    if ca_key.public_key() != own_key:
        raise ValueError("the authority's key does not belong to its certificate")
    return ca_certificate, ca_key


def issue_all(
    authority: KeyPair, members: Iterable[tuple[Role, str]], *, days: int, now: datetime.datetime
) -> Mapping[tuple[Role, str], KeyPair]:
    """Issue one certificate for each (role, name), in this order.

    Raises:
        ValueError: see `issue`; or a member appears twice.
    """
    issued: dict[tuple[Role, str], KeyPair] = {}
    pair = read_pair(authority)
    for role, name in members:
        if (role, name) in issued:
            raise ValueError(f"{role}/{name} is named twice")
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certified(*pair, role, name, key.public_key(), days=days, now=now)
        issued[role, name] = KeyPair(certificate, private_pem(key))
    return issued


def federation_of(ca_certificate: x509.Certificate) -> str:
    """Return the federation whose authority this is.

    Raises:
        ValueError: the certificate does not name one: it was not made by `create_authority`.
    """
    with read_as("the authority's certificate is damaged: its subject cannot be read"):
        names = ca_certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if len(names) != 1:
        raise ValueError("the authority's certificate names no federation; make one with `moiety pki init`")
    return str(names[0].value)


def _signing_key(key_pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except TypeError:
        raise ValueError("the authority's key is encrypted; keys with a password are not supported") from None
    except Exception as error:  # the library has a class of its own for each kind of damage
        raise ValueError("the authority's key is damaged: it is not a PEM private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic curve key; make one with `moiety pki init`")
    return key


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    *,
    days: int,
    now: datetime.datetime,
    until: datetime.datetime | None = None,
) -> x509.CertificateBuilder:
    if days < 1:
        raise ValueError(f"a certificate must be valid for at least one day, not {days}")
    end = now + datetime.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(end if until is None else min(end, until))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _signed(builder: x509.CertificateBuilder, ca_key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
