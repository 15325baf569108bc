"""An attempt to reach a member, told apart by where it ends.

An attempt is what a service does, with the standard library alone: a name is resolved, TCP connects, TLS proves both
ends, the health service answers.
"""

import contextlib
import datetime
import socket
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from service.certificate_rules import check_member
from service.errors import ServiceError
from service.identity import Identity, identity_of
from service.reach.check import Check, Outcome, failed, passed, warning
from service.reach.health_call import SERVING, ask_health, client_context, remaining_s
from service.settings_tree import SettingsError
from service.tls import CredentialsError, check_issuer, parse_certificate, read_pem, read_revoked

_EXPIRED, _NOT_YET_VALID, _OTHER_NAME = 10, 9, 62
"""Of OpenSSL's X509_V_ERR_...: CERT_HAS_EXPIRED, CERT_NOT_YET_VALID, HOSTNAME_MISMATCH."""

_MOST_AT_ONCE = 16


@dataclass(frozen=True)
class Peer:
    """A member that this one dials.

    Attributes:
        identity: that its certificate must state.
        address: host:port.
        others: further addresses, of coordinators that share the identity and of which one leads.
    """

    identity: Identity
    address: str
    others: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, int]:
        """Host and port, an IPv6 host without brackets."""
        return split_address(self.address)


class Caller(NamedTuple):
    """Who dials: the PEM files of a member.

    Attributes:
        authority, certificate, key: the files.
        whose: the member or its configuration, for texts of errors.
        revoked: the authority's list of revoked certificates, if the member names one.
    """

    authority: Path
    certificate: Path
    key: Path
    whose: str
    revoked: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return what it takes to dial others.

        Raises:
            SettingsError: the files cannot be used.
        """
        return client_context(self.authority, self.certificate, self.key, whose=self.whose)


class _RefusedError(Exception):
    """An attempt has ended: what was found, and what mends it."""

    def __init__(self, found: str, fix: str) -> None:
        super().__init__(found)
        self.fix = fix


class _StandsByError(_RefusedError):
    """What answers proves to be the member, and does not serve."""


def reach_all(peers: Sequence[Peer], caller: Caller, timeout_s: float) -> list[Check]:
    """Dial several members at the same time.

    Args:
        peers: whom.
        caller: as whom. Where its files cannot be used, TCP alone is tried; the checks of certificates say why.
        timeout_s: of each attempt.
    """
    context = None
    with contextlib.suppress(SettingsError):
        context = caller.context()
    if not peers:
        return []
    with ThreadPoolExecutor(min(_MOST_AT_ONCE, len(peers))) as threads:
        dials = partial(_dial, caller=caller, context=context, timeout_s=timeout_s)
        each = [
            [threads.submit(dials, Peer(peer.identity, at)) for at in (peer.address, *peer.others)] for peer in peers
        ]
        return [_together(peer, [one.result() for one in found]) for peer, found in zip(peers, each, strict=True)]


class _Dialled(NamedTuple):
    check: Check
    stands_by: bool = False


def _together(peer: Peer, dialled: Sequence[_Dialled]) -> Check:
    """Return what came of a member with one address or several: one must serve, and the others stand by."""
    checks = [one.check for one in dialled]
    if len(dialled) == 1:
        return checks[0]
    name, who = checks[0].name, peer.identity.name
    found = "; ".join(one.found for one in checks)
    if not any(one.outcome is Outcome.OK for one in checks):
        if any(one.outcome is Outcome.WARNING for one in checks):
            return next(one for one in checks if one.outcome is Outcome.WARNING)
        fix = next((one.check.fix for one in dialled if not one.stands_by), checks[0].fix)
        return failed(name, f"{who} serves at none of its addresses: {found}", fix)
    fix = next((one.check.fix for one in dialled if one.check.fix and not one.stands_by), "")
    return warning(name, found, fix) if fix else passed(name, found)


def _dial(peer: Peer, *, caller: Caller, context: ssl.SSLContext | None, timeout_s: float) -> _Dialled:
    """Dial another member at its first address and ask whether it serves.

    Args:
        peer: whom.
        caller: as whom.
        context: of `Caller.context`; None where the own certificate cannot be used, and only TCP is tried.
        timeout_s: for the whole of it, but for the resolution of a name, which the system limits.
    """
    name = f"reach {peer.identity.name}"
    end_s = time.monotonic() + timeout_s
    try:
        with _connect(peer, timeout_s) as plain:
            if context is None:
                found = f"TCP connects to {peer.address}; TLS was not tried, because the own certificate cannot be used"
                return _Dialled(warning(name, found, "Mend the own certificate and key first."))
            plain.settimeout(remaining_s(end_s))
            with _secured(plain, peer, caller, context) as channel:
                _check_rules(channel, peer, caller)
                _check_serves(channel, peer, end_s)
    except TimeoutError:
        found = f"{peer.address} takes the connection and then says nothing for {timeout_s:g} s"
        fix = f"Look whether it is {peer.identity.name} that runs there, and whether it hangs; restart it."
        return _Dialled(failed(name, found, fix))
    except _RefusedError as refusal:
        return _Dialled(failed(name, str(refusal), refusal.fix), isinstance(refusal, _StandsByError))
    return _Dialled(passed(name, f"{peer.identity.name} serves at {peer.address} and accepts this member"))


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address, an IPv6 host without brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _connect(peer: Peer, timeout_s: float) -> socket.socket:
    """Connect by TCP.

    Raises:
        _RefusedError: it did not work.
    """
    host, port = peer.place
    try:
        return socket.create_connection((host, port), timeout_s)
    except socket.gaierror as error:
        raise _RefusedError(
            f"the name {host} cannot be resolved: {error.strerror}",
            f"Correct the address of {peer.identity.name}, or the DNS of this machine.",
        ) from error
    except TimeoutError as error:
        raise _RefusedError(
            f"TCP to {peer.address}: no answer at all within {timeout_s:g} s; packets are dropped on the way",
            f"Open port {port} in the firewalls between here and {host}, and check that {host} is up.",
        ) from error
    except ConnectionRefusedError as error:
        raise _RefusedError(
            f"TCP to {peer.address} is refused: nothing listens there",
            f"Start {peer.identity.name}, or correct its address and port.",
        ) from error
    except OSError as error:
        raise _RefusedError(
            f"TCP to {peer.address}: {error.strerror or error}",
            f"Correct the address of {peer.identity.name}, or the routes of this machine.",
        ) from error


def _secured(plain: socket.socket, peer: Peer, caller: Caller, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Shake hands by TLS.

    Raises:
        _RefusedError: it did not work.
        TimeoutError: no answer.
    """
    who, at = peer.identity.name, peer.address
    try:
        return context.wrap_socket(plain, server_hostname=peer.identity.dns_name)
    except ssl.SSLCertVerificationError as error:
        raise _refused_by_us(error, peer, caller) from error
    except TimeoutError:
        raise
    except OSError as error:
        if _is_alert(error):
            raise _refused_by_it(error, peer) from error
        raise _RefusedError(
            f"what listens at {at} does not speak TLS",
            f"Correct the address of {who}, and let no proxy between end or change TLS.",
        ) from error


def _refused_by_us(error: ssl.SSLCertVerificationError, peer: Peer, caller: Caller) -> _RefusedError:
    who, at = peer.identity.name, peer.address
    if error.verify_code == _OTHER_NAME:
        return _RefusedError(
            f"at {at} is {_shown_at(peer, caller)}, and not {peer.identity}",
            f"Correct the address of {who}; if it is right, let {who} use its own certificate.",
        )
    if error.verify_code == _EXPIRED:
        return _RefusedError(
            f"the certificate of {who} at {at}, or its authority's, has expired",
            f"Ask {who} to renew its certificate and to restart; is the clock of this machine right?",
        )
    if error.verify_code == _NOT_YET_VALID:
        return _RefusedError(
            f"the certificate of {who} at {at} is not yet valid",
            "Set the clock of this machine, or of the one that issued the certificate.",
        )
    return _RefusedError(
        f"another authority than ours signed the certificate at {at}: {error.verify_message}",
        f"Compare the fingerprints of ca.pem with {who}; all members need the same authority.",
    )


def _refused_by_it(error: OSError, peer: Peer) -> _RefusedError:
    alert = getattr(error, "reason", None) if _is_alert(error) else None
    return _RefusedError(
        f"{peer.identity.name} at {peer.address} refuses our certificate: "
        + (alert.replace("_", " ").lower() if alert else "it ends the connection after the handshake"),
        f"Ask {peer.identity.name} whether its ca.pem is ours, and check that our certificate is valid by its clock.",
    )


def _is_alert(error: OSError) -> bool:
    return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


def _shown_at(peer: Peer, caller: Caller) -> str:
    """Return whose certificate is shown at an address, over another connection."""
    context = caller.context()
    context.check_hostname = False  # the chain is checked, and nothing is said there
    try:
        with (
            socket.create_connection(peer.place, 2.0) as plain,
            context.wrap_socket(plain, server_hostname=peer.identity.dns_name) as channel,
        ):
            shown = channel.getpeercert(binary_form=True)
        return str(identity_of(x509.load_der_x509_certificate(shown or b"")))
    except (OSError, ValueError, ServiceError):
        return "somebody else"


def _check_rules(channel: ssl.SSLSocket, peer: Peer, caller: Caller) -> None:
    """Apply the rules that services apply beyond what TLS checks.

    A list of revoked certificates that cannot be used is not looked at here: it is the caller's own fault, and the
    check of the caller's certificates says so.
    """
    authority = caller.authority
    shown = x509.load_der_x509_certificate(channel.getpeercert(binary_form=True) or b"")
    try:
        trusted = parse_certificate(authority, read_pem(authority, "the authority's certificate"))
        check_issuer(Path("it"), shown, authority, trusted)
        check_member(shown, serves=True)
    except (CredentialsError, ValueError) as error:
        raise _RefusedError(
            f"the certificate of {peer.identity.name} at {peer.address} breaks a rule: {error}",
            f"Ask {peer.identity.name} for a certificate that `moiety pki sign` made.",
        ) from error
    if caller.revoked is None:
        return
    with contextlib.suppress(CredentialsError):
        if shown.serial_number in read_revoked(caller.revoked, trusted, datetime.datetime.now(datetime.UTC)).serials:
            raise _RefusedError(
                f"the certificate of {peer.identity.name} at {peer.address} is revoked, says {caller.revoked}",
                f"Ask {peer.identity.name} for a new key and certificate.",
            )


def _check_serves(channel: ssl.SSLSocket, peer: Peer, end_s: float) -> None:
    """Ask the health service.

    Raises:
        _RefusedError: it does not serve, or refuses us.
        TimeoutError: no answer.
    """
    who, at = peer.identity.name, peer.address
    try:
        status = ask_health(channel, peer.identity.dns_name, end_s)
    except TimeoutError:
        raise
    except OSError as error:  # since TLS 1.3 both sides have shaken hands when the certificate of the caller is refused
        raise _refused_by_it(error, peer) from error
    except ValueError as error:
        raise _RefusedError(
            f"{who} at {at} proves its identity, but does not answer as a service of Moiety: {error}",
            f"Look in the log of {who} for a refusal, and compare versions (`moiety --version`).",
        ) from error
    if status != SERVING:
        raise _StandsByError(
            f"{who} at {at} answers but is not serving: it is starting or stopping, or stands by",
            f"Wait, and look into the log of {who} if it stays so.",
        )
