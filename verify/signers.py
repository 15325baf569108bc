"""Who has signed a receipt: certificate, chain, role and identity, by the authority that the reader trusts."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from service.certificate_rules import check_authority, check_issued_by, check_member, check_valid_at, read_as
from service.errors import UnauthenticatedError
from service.identity import Role, identity_of
from service.pki import federation_of
from service.trust.receipts import SignedReceipt, canonical_json, statement_of
from service.trust.revocation import RevocationList, read_list
from service.trust.statements import certificate_of, check_signature


class SignerError(ValueError):
    """A receipt that no party of the federation has signed so; the text says why."""


@dataclass(frozen=True)
class Authority:
    """The authority that the reader of a result trusts.

    Attributes:
        certificate: its certificate.
        revoked: its list of revoked certificates; None where the reader has none.
    """

    certificate: x509.Certificate = field(repr=False)
    revoked: RevocationList | None = None

    @classmethod
    def of_pem(cls, pem: bytes, revoked_pem: bytes | None = None) -> "Authority":
        """Read the PEM files of an authority. A list counts whatever its dates are: what it revokes stays revoked.

        Raises:
            ValueError: one of them cannot be used; the text says why.
        """
        with read_as("the authority's certificate is damaged: it is not a PEM certificate"):
            certificate = x509.load_pem_x509_certificate(pem)
        try:
            check_authority(certificate)
        except ValueError as error:
            raise ValueError(f"the authority's certificate cannot be used: {error}") from error
        federation_of(certificate)
        if revoked_pem is None:
            return cls(certificate)
        try:
            return cls(certificate, read_list(revoked_pem, certificate))
        except ValueError as error:
            raise ValueError(f"the revocation list cannot be used: {error}") from error

    @property
    def federation(self) -> str:
        """Name of the federation."""
        return federation_of(self.certificate)

    def signer(self, found: SignedReceipt) -> str:
        """Return the name of the party that has signed a receipt.

        The certificate has to be valid at the time that the receipt states: it may have expired since.

        Raises:
            SignerError: the certificate is damaged, another authority's, weak, revoked, of another role or federation,
                or was not valid; or the signature is not that of this receipt.
        """
        try:
            certificate = certificate_of(found.signed)
            check_issued_by(certificate, self.certificate)
            check_member(certificate, dials=True)
            identity = identity_of(certificate)
        except (ValueError, UnauthenticatedError) as error:
            raise SignerError(f"the certificate is not accepted: {error}") from error
        if identity.role is not Role.PARTY or identity.federation != self.federation:
            raise SignerError(f"{identity} is no party of {self.federation}")
        try:
            check_signature(certificate, found.signed.signature, statement_of(canonical_json(found.fields)))
        except (ValueError, InvalidSignature) as error:
            raise SignerError(f"{identity.name} has not signed what it states") from error
        if found.fields.get("party") != identity.uri:
            raise SignerError(f"{identity.name} has signed in the name of another")
        _check_dates(identity.name, certificate, self.certificate, found.fields)
        if self.revoked is not None and certificate.serial_number in self.revoked.serials:
            raise SignerError(f"the certificate of {identity.name} is revoked")
        return identity.name


def _check_dates(
    name: str, certificate: x509.Certificate, authority: x509.Certificate, fields: Mapping[str, Any]
) -> None:
    try:
        moment = datetime.datetime.fromtimestamp(fields["signed_at_s"], datetime.UTC)
    except (LookupError, TypeError, ValueError, OverflowError, OSError) as error:
        raise SignerError(f"{name} does not say when it signed") from error
    for whose, one in ((f"the certificate of {name}", certificate), ("the authority's certificate", authority)):
        try:
            check_valid_at(one, moment)
        except ValueError as error:
            raise SignerError(f"{whose} was not valid when the receipt says that it was signed") from error
