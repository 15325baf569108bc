"""Loads and checks a member's certificate and key, so that errors are found before anything listens or dials."""

import datetime
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from service.certificate_rules import check_authority, check_issued_by, check_member, check_valid_at, read_as
from service.errors import ServiceError
from service.identity import SERVING_ROLES, Identity, Role, identity_of
from service.reach.proxy import Proxy, parse_proxy
from service.reach.proxy_config import ProxyConfig
from service.settings import TlsFiles
from service.trust.revocation import LIST_WARNING_DAYS, RevocationList, read_list

EXPIRY_WARNING_DAYS = 30
"""Services say every day that their certificate expires, and `moiety doctor` warns, where fewer days are left."""


class CredentialsError(ServiceError):
    """Certificate files that cannot be used; the text names the file and what to do."""

    code = "credentials-unusable"


@dataclass(frozen=True)
class Credentials:
    """This process's identity in TLS, and in front of it that at its proxy. The key is never shown by repr.

    Attributes:
        identity: identity in our certificate.
        authority_pem: the certificate of the federation's authority: the only one we trust.
        certificate_pem: our certificate.
        not_valid_after: when it expires.
        files: where our certificate and our key are stored, for what can only be given files.
        revoked: the certificates that we refuse although our authority has signed them; None where we have no list.
        proxy: proxy through which we dial others; None for none.
    """

    identity: Identity
    authority_pem: bytes = field(repr=False)
    certificate_pem: bytes = field(repr=False)
    key_pem: bytes = field(repr=False)
    not_valid_after: datetime.datetime
    files: tuple[Path, Path] | None = field(default=None, repr=False)
    revoked: RevocationList | None = field(default=None, repr=False)
    proxy: Proxy | None = None

    @cached_property
    def key(self) -> PrivateKeyTypes:
        """Our key, for what we sign."""
        return serialization.load_pem_private_key(self.key_pem, password=None)

    @cached_property
    def certificate_der(self) -> bytes:
        """Our certificate as it stands beside what we sign."""
        return x509.load_pem_x509_certificate(self.certificate_pem).public_bytes(serialization.Encoding.DER)

    @cached_property
    def authority_not_valid_after(self) -> datetime.datetime:
        """When the authority's certificate expires, and with it every certificate that it has signed."""
        return x509.load_pem_x509_certificate(self.authority_pem).not_valid_after_utc

    def expiry_warnings(self, now: datetime.datetime | None = None) -> list[str]:
        """Return what to log where our certificate or our revocation list expires soon.

        Args:
            now: the moment; the system's clock where absent.
        """
        days, found = days_left(self.not_valid_after, now), []
        if days < EXPIRY_WARNING_DAYS:
            found.append(f"the certificate expires in {days} days: renew it")
        if self.revoked is not None and (days := days_left(self.revoked.not_valid_after, now)) < LIST_WARNING_DAYS:
            found.append(f"the revocation list expires in {days} days: ask the authority for a new one")
        return found

    def check_successor(self, after: "Credentials") -> None:
        """Refuse credentials that a running service may not take up in the place of these.

        Raises:
            CredentialsError: they are somebody else's, or their list of revoked certificates is older or missing.
        """
        if after.identity != self.identity:
            raise CredentialsError(f"the new certificate is that of {after.identity}, not of {self.identity}")
        if self.revoked is not None:
            if after.revoked is None:
                raise CredentialsError("a revocation list is in use; a service forgets it only when it is restarted")
            if after.revoked.number < self.revoked.number:
                raise CredentialsError("the revocation list is older than the one in use")

    @property
    def certificate_configuration(self) -> Any:
        """What a gRPC server shows and trusts."""
        return grpc.ssl_server_certificate_configuration(
            [(self.key_pem, self.certificate_pem)], root_certificates=self.authority_pem
        )

    def for_server(self, renewed: Callable[[], Any]) -> Any:
        """Return gRPC server credentials that demand a certificate of our authority from every caller.

        Args:
            renewed: called at every handshake, in any thread; returns a new `certificate_configuration`, or None.
        """
        return grpc.dynamic_ssl_server_credentials(
            self.certificate_configuration, renewed, require_client_authentication=True
        )

    def for_channel(self) -> Any:
        """Return gRPC channel credentials: our certificate, and trust in our authority only."""
        return grpc.ssl_channel_credentials(
            root_certificates=self.authority_pem, private_key=self.key_pem, certificate_chain=self.certificate_pem
        )


def days_left(end: datetime.datetime, now: datetime.datetime | None = None) -> int:
    """Return the whole days until a certificate expires, by the system's clock where no moment is given."""
    return (end - (datetime.datetime.now(datetime.UTC) if now is None else now)).days


def load_credentials(
    *,
    authority: Path,
    certificate: Path,
    key: Path,
    revoked: Path | None = None,
    proxy: Proxy | None = None,
    now: Callable[[], datetime.datetime] | None = None,
) -> Credentials:
    """Read and check a member's PEM files.

    Args:
        authority: the certificate of the federation's authority.
        certificate: ours.
        key: ours; must be readable by its owner only.
        revoked: the authority's list of revoked certificates, if we have one.
        proxy: proxy through which we dial others; None for none.
        now: the clock; the system's where absent.

    Raises:
        CredentialsError: a file is missing or unreadable, the key is readable by others or belongs to another
            certificate, the certificate is expired or not yet valid, comes from another authority, does not state
            exactly one identity, or breaks a rule of `service.certificate_rules`; or a file holds several. The list
            is unsigned or not valid now, or our own certificate is in it.
    """
    authority_pem = read_pem(authority, "the authority's certificate")
    certificate_pem = read_pem(certificate, "the certificate")
    check_key_rights(key)
    key_pem = read_pem(key, "the key")
    trusted, own = parse_certificate(authority, authority_pem), parse_certificate(certificate, certificate_pem)
    moment = now() if now is not None else datetime.datetime.now(datetime.UTC)
    check_dates(authority, trusted, moment)
    check_dates(certificate, own, moment)
    check_issuer(certificate, own, authority, trusted)
    check_key(key, key_pem, certificate, own)
    try:
        identity = identity_of(own)
    except ServiceError as error:
        raise CredentialsError(f"{certificate}: {error}; issue a new one with `moiety pki issue`") from error
    check_rules(authority, lambda: check_authority(trusted))
    check_rules(certificate, lambda: check_member(own, dials=True, serves=identity.role in SERVING_ROLES))
    known = None if revoked is None else read_revoked(revoked, trusted, moment)
    if known is not None and own.serial_number in known.serials:
        raise CredentialsError(f"{certificate} is revoked, says {revoked}; ask the authority for a new one")
    end = own.not_valid_after_utc
    return Credentials(identity, authority_pem, certificate_pem, key_pem, end, (certificate, key), known, proxy)


def credentials_of(files: TlsFiles, proxy: ProxyConfig | None = None) -> Credentials:
    """Return `load_credentials` of the files that a configuration names, and `open_proxy` of its proxy."""
    return load_credentials(
        authority=files.authority,
        certificate=files.certificate,
        key=files.key,
        revoked=files.revoked,
        proxy=open_proxy(proxy),
    )


@overload
def open_proxy(config: ProxyConfig) -> Proxy: ...
@overload
def open_proxy(config: ProxyConfig | None) -> Proxy | None: ...
def open_proxy(config: ProxyConfig | None) -> Proxy | None:
    """Return the proxy that a configuration names, with the password from its file; None for none.

    Raises:
        CredentialsError: the file is missing or unreadable, is open to other users, or holds no password.
    """
    if config is None:
        return None
    user, address = parse_proxy(config.url)
    password = "" if config.password_file is None else _read_password(config.password_file)
    return Proxy(address, user, password, config.direct)


def _read_password(path: Path) -> str:
    try:
        mode, text = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="utf-8")
    except OSError as error:
        raise CredentialsError(f"the file {path} of the proxy's password cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise CredentialsError(f"the file {path} of the proxy's password is not text in UTF-8") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CredentialsError(
            f"the file {path} of the proxy's password is open to other users (mode {mode:04o}); run: chmod 600 {path}"
        )
    password = text.partition("\n")[0].removesuffix("\r")
    if not password or not password.isprintable():
        raise CredentialsError(f"the first line of {path}, the proxy's password, is empty or has control characters")
    return password


def party_credentials(files: TlsFiles, federation: str, name: str, proxy: ProxyConfig | None = None) -> Credentials:
    """Return `credentials_of` for a party.

    Raises:
        CredentialsError: they cannot be used, or belong to somebody else.
    """
    credentials, own = credentials_of(files, proxy), Identity(federation, Role.PARTY, name)
    if credentials.identity != own:
        raise CredentialsError(f"{files.certificate} belongs to {credentials.identity}, not to {own}")
    return credentials


def read_revoked(path: Path, trusted: x509.Certificate, moment: datetime.datetime) -> RevocationList:
    """Read the list of revoked certificates.

    Raises:
        CredentialsError: it is missing, unsigned or not valid at this moment.
    """
    try:
        return read_list(path.read_bytes(), trusted, moment)
    except FileNotFoundError:
        raise CredentialsError(f"the revocation list {path} does not exist; `moiety pki revoke` makes one") from None
    except OSError as error:
        raise CredentialsError(f"the revocation list {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CredentialsError(f"the revocation list {path} cannot be used: {error}; ask for a new one") from error


def read_pem(path: Path, what: str) -> bytes:
    """Return the content of one of our files; `what` is what an error calls it.

    Raises:
        CredentialsError: it is missing or cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        how = "copy the one that `moiety pki init` made" if "authority" in what else "`moiety pki issue` makes one"
        raise CredentialsError(f"{what} {path} does not exist; {how}") from None
    except OSError as error:
        raise CredentialsError(f"{what} {path} cannot be read: {error.strerror}") from error


def check_key_rights(key: Path) -> None:
    """Refuse a key that others than its owner may read, write or execute.

    Raises:
        CredentialsError: it is so, or there is no such file.
    """
    try:
        mode = key.stat().st_mode
    except FileNotFoundError:
        raise CredentialsError(f"the key {key} does not exist; `moiety pki issue` makes one") from None
    except OSError as error:
        raise CredentialsError(f"the key {key} cannot be read: {error.strerror}") from error
    if stat.S_IMODE(mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise CredentialsError(
            f"the key {key} is open to other users (mode {stat.S_IMODE(mode):04o}); run: chmod 600 {key}"
        )


def parse_certificate(path: Path, pem: bytes) -> x509.Certificate:
    """Return the one certificate of a file.

    Raises:
        CredentialsError: there is none, or there are several.
    """
    try:
        with read_as("it is not a PEM certificate, or is damaged"):
            found = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CredentialsError(f"{path} is not a PEM certificate") from error
    if len(found) != 1:
        raise CredentialsError(
            f"{path} holds {len(found)} certificates; it must hold exactly one, issued directly by the authority"
        )
    return found[0]


def check_dates(path: Path, certificate: x509.Certificate, moment: datetime.datetime) -> None:
    """Refuse a certificate that is not valid at this moment.

    Raises:
        CredentialsError: it is expired or not yet valid.
    """
    try:
        check_valid_at(certificate, moment)
    except ValueError as error:
        is_over = moment > certificate.not_valid_after_utc
        raise CredentialsError(
            f"{path} {error}" + (". If it is, issue a new certificate" if is_over else "")
        ) from error


def check_issuer(path: Path, own: x509.Certificate, authority: Path, trusted: x509.Certificate) -> None:
    """Refuse a certificate that our authority has not signed itself.

    Raises:
        CredentialsError: it is so.
    """
    try:
        check_issued_by(own, trusted)
    except ValueError as error:
        raise CredentialsError(f"{path} was not issued by the authority in {authority}") from error


def check_rules(path: Path, check: Callable[[], None]) -> None:
    """Apply a rule of `service.certificate_rules`.

    Raises:
        CredentialsError: the certificate breaks it.
    """
    try:
        check()
    except ValueError as error:
        raise CredentialsError(f"{path} cannot be used: {error}; `moiety pki` makes one that can") from error


def check_key(key_path: Path, key_pem: bytes, path: Path, own: x509.Certificate) -> None:
    """Refuse a key that cannot be read, or that belongs to another certificate.

    Raises:
        CredentialsError: it is so.
    """
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except TypeError:
        raise CredentialsError(f"the key {key_path} is encrypted; keys with a password are not supported") from None
    except Exception as error:  # the library has a class of its own for each kind of damage
        raise CredentialsError(f"{key_path} is not a PEM private key") from error
    if key.public_key() != own.public_key():
        raise CredentialsError(f"the key {key_path} does not belong to the certificate {path}")
