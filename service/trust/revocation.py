"""Lists of revoked certificates (RFC 5280): made by the authority, spread as a file, looked at in every call.

A list states until when it is valid. After that nobody is accepted: who could keep a newer list from a member would
otherwise decide for how long a thief of a key may go on.
"""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from service.certificate_rules import MIN_DIGEST_BYTES, dates_fault, read_as
from service.errors import UnauthenticatedError
from service.pki import CLOCK_SKEW, KeyPair, read_pair

LIST_WARNING_DAYS = 7
"""Services and `moiety doctor` warn where a list has fewer days left."""


@dataclass(frozen=True)
class RevocationList:
    """A list whose signature is the authority's.

    Attributes:
        number: grows with each list of the authority.
        serials: serial numbers of the revoked certificates.
        not_valid_after: the end of the list's validity.
    """

    number: int
    serials: frozenset[int]
    not_valid_after: datetime.datetime

    def check(self, serial: int, who: object, now: datetime.datetime | None = None) -> None:
        """Refuse a certificate that is revoked, and any where this list has expired.

        Args:
            serial: serial number of the certificate.
            who: its holder, for the error text.
            now: the moment; the system's clock where absent.

        Raises:
            UnauthenticatedError: says which of the two.
        """
        if serial in self.serials:
            raise UnauthenticatedError(f"the certificate of {who} is revoked")
        if (datetime.datetime.now(datetime.UTC) if now is None else now) > self.not_valid_after:
            raise UnauthenticatedError(
                f"nobody is accepted: the revocation list here expired on {self.not_valid_after:%Y-%m-%d %H:%M} UTC; "
                "the authority makes a new one with `moiety pki revoke`"
            )


def create_list(
    authority: KeyPair,
    serials: Iterable[int],
    *,
    days: int,
    now: datetime.datetime,
    before: RevocationList | None = None,
) -> bytes:
    """Return a list, PEM, that the authority signs.

    Args:
        authority: certificate and key.
        serials: serial numbers of the certificates to revoke.
        days: validity.
        now: the present time, with time zone.
        before: the previous list, whose certificates stay revoked.

    Raises:
        ValueError: the authority cannot be read.
    """
    issuer, key = read_pair(authority)
    all_serials = set(serials) | (set() if before is None else before.serials)
    # By the clock, so that the numbers grow on even where the authority has lost its previous list.
    number = max(int(now.timestamp()), 0 if before is None else before.number + 1)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .last_update(now - CLOCK_SKEW)
        .next_update(now + datetime.timedelta(days=days))
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    for serial in sorted(all_serials):
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def read_list(pem: bytes, authority: x509.Certificate, now: datetime.datetime | None = None) -> RevocationList:
    """Read a list and check that the authority has signed it and that it is valid now.

    Args:
        pem: the file's content.
        authority: authority that must have signed it.
        now: the moment; None takes a list whatever its dates are.

    Raises:
        ValueError: it cannot be used; the text says why, as a sentence that begins with "it".
    """
    with read_as("it is not a PEM revocation list"):
        found = x509.load_pem_x509_crl(pem)
    with read_as("it was not signed by the federation's authority"):
        is_signed = _is_signed_by(found, authority)
    if not is_signed:
        raise ValueError("it was not signed by the federation's authority")
    with read_as("it has no number"):
        number = found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    if any(extension.critical for extension in found.extensions):
        raise ValueError("it is not a complete list of all revoked certificates")  # those of a part say so critically
    with read_as("it is damaged"):
        start, end, serials = (
            found.last_update_utc,
            found.next_update_utc,
            frozenset(one.serial_number for one in found),
        )
    if end is None:
        raise ValueError("it does not say until when it is valid")
    if now is not None and (fault := dates_fault(start, end, now)):
        raise ValueError(f"it {fault}")
    return RevocationList(number, serials, end)


def _is_signed_by(found: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    digest = found.signature_hash_algorithm
    if found.issuer != authority.subject or (digest is not None and digest.digest_size < MIN_DIGEST_BYTES):
        return False
    return found.is_signature_valid(authority.public_key())  # type: ignore[arg-type]  # TypeError for others
