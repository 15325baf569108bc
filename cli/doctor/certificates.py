"""Checks of a member's certificate, its key and its authority: the steps of `service.tls.load_credentials`, each named.

A service stops at the first fault. Here each step is taken that does not need one that failed.
"""

import datetime
from collections.abc import Callable
from pathlib import Path

from cryptography import x509

from cli.doctor.member import Member
from service.certificate_rules import check_authority, check_member
from service.errors import ServiceError
from service.identity import SERVING_ROLES, Identity, Role, identity_of
from service.reach.check import Check, failed, passed, warning
from service.tls import (
    EXPIRY_WARNING_DAYS,
    CredentialsError,
    check_dates,
    check_issuer,
    check_key,
    check_key_rights,
    check_rules,
    days_left,
    parse_certificate,
    read_pem,
    read_revoked,
)
from service.trust.revocation import LIST_WARNING_DAYS

REQUEST = "`moiety pki request`, then `moiety pki sign`"


def check_certificates(member: Member) -> list[Check]:
    """Check a member's authority, certificate, chain, identity, revocation list and key, as of now."""
    moment = datetime.datetime.now(datetime.UTC)
    trusted, checks = _authority(member, moment)
    own, more = _certificate(member, moment)
    checks += more
    if own is not None and trusted is not None:
        checks.append(
            _attempt(
                "chain",
                lambda: check_issuer(member.certificate, own, member.authority, trusted),
                f"the authority in {member.authority} signed {member.certificate}",
                f"Ask the federation's authority for its certificate and for one that it signed ({REQUEST}).",
            )
        )
    if own is not None:
        checks.append(_identity(member, own))
    if member.revoked is not None and trusted is not None:
        checks.append(_revoked(member, member.revoked, trusted, own, moment))
    return [*checks, *_key(member, own)]


def _attempt(name: str, step: Callable[[], None], found: str, fix: str) -> Check:
    try:
        step()
    except CredentialsError as error:
        return failed(name, str(error), fix)
    return passed(name, found)


def _read(name: str, path: Path, what: str, fix: str) -> tuple[x509.Certificate | None, list[Check]]:
    try:
        return parse_certificate(path, read_pem(path, what)), []
    except CredentialsError as error:
        return None, [failed(name, str(error), fix)]


def _authority(member: Member, moment: datetime.datetime) -> tuple[x509.Certificate | None, list[Check]]:
    path = member.authority
    fix = f"Copy the certificate of the federation's authority, ca.pem, to {path}."
    trusted, checks = _read("authority", path, "the authority's certificate", fix)
    if trusted is not None:
        found = _attempt("authority", lambda: check_rules(path, lambda: check_authority(trusted)), "", fix)
        checks.append(found if found.fix else _validity("authority", path, trusted, moment, fix))
    return trusted, checks


def _certificate(member: Member, moment: datetime.datetime) -> tuple[x509.Certificate | None, list[Check]]:
    path = member.certificate
    fix = (
        f"Let the authority sign a new request ({REQUEST}), put the certificate at {path}, and send the service SIGHUP."
    )
    own, checks = _read("certificate", path, "the certificate", fix)
    if own is not None:
        serves = member.role in SERVING_ROLES
        step = lambda: check_rules(path, lambda: check_member(own, dials=True, serves=serves))  # noqa: E731
        found = _attempt("certificate", step, "", fix)
        checks.append(found if found.fix else _validity("certificate", path, own, moment, fix))
    return own, checks


def _validity(name: str, path: Path, certificate: x509.Certificate, moment: datetime.datetime, fix: str) -> Check:
    """Check the dates. A certificate that is not yet valid is a matter of the clock, whose check has its own name."""
    is_early = moment < certificate.not_valid_before_utc
    try:
        check_dates(path, certificate, moment)
    except CredentialsError as error:
        if is_early:
            return failed("clock", str(error), "Set the clock of this machine, or wait until the certificate is valid.")
        return failed(name, str(error), f"Check the clock of this machine; if it is right: {fix[0].lower()}{fix[1:]}")
    days = days_left(certificate.not_valid_after_utc, moment)
    found = f"{path} is valid for {days} more days"
    return warning(name, found, fix) if days < EXPIRY_WARNING_DAYS else passed(name, found)


def _identity(member: Member, own: x509.Certificate) -> Check:
    path = member.certificate
    fix = f"Correct name or federation in {member.path}, or put this member's own certificate at {path}."
    try:
        found = identity_of(own)
    except ServiceError as error:
        return failed("identity", f"{path}: {error}", fix)
    if member.name is None:
        expected = f"an analyst of {member.federation}"
        is_right = (found.federation, found.role) == (member.federation, Role.ANALYST)
    else:
        own_identity = Identity(member.federation, member.role, member.name)
        expected = str(own_identity)
        is_party = member.role is Role.DEVICE and found == Identity(member.federation, Role.PARTY, member.name)
        is_right = found == own_identity or is_party
    if not is_right:
        return failed("identity", f"{path} is the certificate of {found}, and the configuration is for {expected}", fix)
    return passed("identity", f"the certificate states {found}, as configured")


def _revoked(
    member: Member, path: Path, trusted: x509.Certificate, own: x509.Certificate | None, moment: datetime.datetime
) -> Check:
    name = "revocation list"
    fix = f"Ask the federation's authority for its present list (`moiety pki revoke`) and put it at {path}."
    try:
        known = read_revoked(path, trusted, moment)
    except CredentialsError as error:
        return failed(name, str(error), fix)
    if own is not None and own.serial_number in known.serials:
        what = f"{member.certificate} is revoked, says {path}"
        return failed(name, what, f"Ask the authority for a new certificate ({REQUEST}).")
    days = days_left(known.not_valid_after, moment)
    found = f"{path} revokes {len(known.serials)} certificates and is valid for {days} more days"
    return warning(name, found, fix) if days < LIST_WARNING_DAYS else passed(name, found)


def _key(member: Member, own: x509.Certificate | None) -> list[Check]:
    key = member.key
    try:
        pem = read_pem(key, "the key")
    except CredentialsError as error:
        return [failed("key", str(error), f"Put the key that `moiety pki request` made here to {key}.")]
    checks = []
    try:
        check_key_rights(key)
    except CredentialsError as error:
        checks.append(failed("key rights", str(error), f"Run chmod 600 {key}."))
    else:
        checks.append(passed("key rights", f"only its owner can read {key}"))
    if own is not None:
        fix = f"Put the key of {member.certificate} at {key}, or request a new certificate ({REQUEST})."
        step = lambda: check_key(key, pem, member.certificate, own)  # noqa: E731
        checks.append(_attempt("key", step, f"{key} belongs to the certificate", fix))
    return checks
