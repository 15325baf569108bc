"""An attempt to reach a member, told apart by where it ends.

An attempt is what a service does, with the standard library alone: a name is resolved, it connects, TLS proves both
ends, the health service answers.
"""

import contextlib
import datetime
import socket
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from service.certificate_rules import check_member, dates_fault, read_as
from service.errors import ServiceError, unused_proxies
from service.identity import Identity, identity_of
from service.reach.addresses import split_address
from service.reach.check import Check, Outcome, failed, passed, warning
from service.reach.dial import connect
from service.reach.health_call import SERVING, HealthConnection, UnknownServiceError, client_context, remaining_s
from service.reach.proxy import Proxy, ProxyError
from service.reach.proxy_config import ProxyConfig
from service.reach.relays import ByRelays, RelayError, Way, open_by_relays
from service.settings_tree import SettingsError
from service.tls import (
    CredentialsError,
    check_issuer,
    load_credentials,
    open_proxy,
    parse_certificate,
    read_pem,
    read_revoked,
)
from service.trust.protocol import PROTOCOL, PROTOCOL_SERVICE

_EXPIRED, _NOT_YET_VALID, _OTHER_NAME = 10, 9, 62
"""Numbers of OpenSSL's X509_V_ERR_...: CERT_HAS_EXPIRED, CERT_NOT_YET_VALID, HOSTNAME_MISMATCH."""

_MOST_AT_ONCE = 16


@dataclass(frozen=True)
class Peer:
    """A member that this one dials.

    Attributes:
        identity: identity that its certificate must state.
        address: way to it: host:port, or by relays.
        others: further addresses, of coordinators that share the identity and of which one leads.
    """

    identity: Identity
    address: Way
    others: tuple[str, ...] = ()

    @property
    def at(self) -> str:
        """The way to it, as the end of a sentence."""
        return f"at {self.address}" if isinstance(self.address, str) else str(self.address)


class Caller(NamedTuple):
    """Who dials: the PEM files of a member.

    Attributes:
        authority, certificate, key: the files.
        whose: the member or its configuration, for texts of errors.
        revoked: the authority's list of revoked certificates, if the member names one.
        proxy: proxy through which it dials, if it names one.
    """

    authority: Path
    certificate: Path
    key: Path
    whose: str
    revoked: Path | None = None
    proxy: ProxyConfig | None = None

    def context(self) -> ssl.SSLContext:
        """Return what it takes to dial others.

        Raises:
            SettingsError: the files cannot be used.
        """
        return client_context(self.authority, self.certificate, self.key, whose=self.whose)

    def connect(self, peer: "Peer", proxy: Proxy | None, timeout_s: float) -> "tuple[socket.socket, Peer]":
        """Connect to a peer, where its TLS begins next; return a peer with the way taken.

        Raises:
            OSError, RelayError, CredentialsError: it did not work; relays are shown our certificate.
        """
        if isinstance(peer.address, str):
            return connect(peer.address, proxy, timeout_s), peer
        credentials = load_credentials(
            authority=self.authority, certificate=self.certificate, key=self.key, revoked=self.revoked, proxy=proxy
        )
        plain, relay = open_by_relays(peer.address, peer.identity, credentials, timeout_s)
        return plain, replace(peer, address=ByRelays((relay,)))


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
        caller: identity to call with. Where its files cannot be used, TCP alone is tried; the checks of certificates
            say why.
        timeout_s: seconds to wait for each attempt.
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
        caller: identity to call with.
        context: TLS context, see `Caller.context`; None where the own certificate cannot be used, and only TCP is
            tried.
        timeout_s: seconds for the whole attempt without the resolution of the name, which the system limits.
    """
    name = f"reach {peer.identity.name}"
    end_s = time.monotonic() + timeout_s
    by, round_trip_s = "", 0.0
    try:
        proxy = open_proxy(caller.proxy)
        is_proxied = proxy is not None and isinstance(peer.address, str) and proxy.leads_to(peer.address)
        by = f" through the proxy {proxy}" if is_proxied else ""
        plain, peer = _connect(peer, caller, proxy, timeout_s)
        with plain:
            if context is None:
                found = f"it connects {peer.at}; TLS was not tried, because the own certificate cannot be used"
                return _Dialled(warning(name, found, "Mend the own certificate and key first."))
            plain.settimeout(remaining_s(end_s))
            with _secured(plain, peer, caller, context) as channel:
                _check_rules(channel, peer, caller)
                round_trip_s = _check_serves(channel, peer, end_s)
    except TimeoutError:
        found = f"{peer.identity.name} {peer.at} takes the connection{by} and then says nothing for {timeout_s:g} s"
        fix = f"Look whether it is {peer.identity.name} that runs there, and whether it hangs; restart it."
        return _Dialled(failed(name, found, fix))
    except CredentialsError as error:
        return _Dialled(failed(name, f"it was not dialled: {error}", f"Mend that file of {caller.whose}."))
    except _RefusedError as refusal:
        return _Dialled(failed(name, str(refusal), refusal.fix), isinstance(refusal, _StandsByError))
    in_ms = f"round trip {1000 * round_trip_s:.0f} ms"
    return _Dialled(passed(name, f"{peer.identity.name} serves {peer.at}{by} and accepts this member ({in_ms})"))


def _connect(peer: Peer, caller: Caller, proxy: Proxy | None, timeout_s: float) -> tuple[socket.socket, Peer]:
    """Connect; return the peer with the way taken.

    Raises:
        _RefusedError: it did not work.
    """
    host, port = ("", 0) if isinstance(peer.address, ByRelays) else split_address(peer.address)
    try:
        return caller.connect(peer, proxy, timeout_s)
    except (ProxyError, RelayError) as error:
        raise _RefusedError(str(error), error.fix.format(who=peer.identity.name)) from error
    except socket.gaierror as error:
        raise _RefusedError(
            f"the name {host} cannot be resolved: {error.strerror}{_of_proxies()}",
            f"Correct the address of {peer.identity.name}, or the DNS of this machine.",
        ) from error
    except TimeoutError as error:
        raise _RefusedError(
            f"TCP to {peer.address}: no answer at all within {timeout_s:g} s; packets are dropped on the way"
            + _of_proxies(),
            f"Open port {port} in the firewalls between here and {host}, and check that {host} is up.",
        ) from error
    except ConnectionRefusedError as error:
        raise _RefusedError(
            f"TCP to {peer.address} is refused: nothing listens there{_of_proxies()}",
            f"Start {peer.identity.name}, or correct its address and port.",
        ) from error
    except OSError as error:
        raise _RefusedError(
            f"TCP to {peer.address}: {error.strerror or error}{_of_proxies()}",
            f"Correct the address of {peer.identity.name}, or the routes of this machine.",
        ) from error


def _of_proxies() -> str:
    """Return that a proxy of the environment was not used, where there is one: without it nothing may be reached."""
    found = unused_proxies()
    return f" ({found})" if found else ""


def _secured(plain: socket.socket, peer: Peer, caller: Caller, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Shake hands by TLS.

    Raises:
        _RefusedError: it did not work.
        TimeoutError: no answer.
    """
    who, at = peer.identity.name, peer.at
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
            f"what listens {at} does not speak TLS",
            f"Correct the address of {who}, and let no proxy between end or change TLS.",
        ) from error


def _refused_by_us(error: ssl.SSLCertVerificationError, peer: Peer, caller: Caller) -> _RefusedError:
    who, at = peer.identity.name, peer.at
    if error.verify_code == _OTHER_NAME:
        return _RefusedError(
            f"{at} is {_shown_at(peer, caller)}, and not {peer.identity}",
            f"Correct the address of {who}; if it is right, let {who} use its own certificate.",
        )
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        now = datetime.datetime.now(datetime.UTC)
        clock = f"is not valid by the clock of this machine, which says {now:%Y-%m-%d %H:%M} UTC"
        fault = _dates_fault_at(peer, caller, now) or clock
        fix = f"Check the clock of this machine and that of {who}"
        more = (
            "." if error.verify_code == _NOT_YET_VALID else f"; if both are right, ask {who} to renew its certificate."
        )
        return _RefusedError(f"the certificate of {who} {at} {fault}", fix + more)
    return _RefusedError(
        f"another authority than ours signed the certificate {at}: {error.verify_message}",
        f"Compare the fingerprints of ca.pem with {who}; all members need the same authority.",
    )


def _refused_by_it(error: OSError, peer: Peer) -> _RefusedError:
    alert = getattr(error, "reason", None) if _is_alert(error) else None
    return _RefusedError(
        f"{peer.identity.name} {peer.at} refuses our certificate: "
        + (alert.replace("_", " ").lower() if alert else "it ends the connection after the handshake"),
        f"Ask {peer.identity.name} whether its ca.pem is ours, and check that our certificate is valid by its clock.",
    )


def _is_alert(error: OSError) -> bool:
    return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


def _shown_at(peer: Peer, caller: Caller) -> str:
    """Return whose certificate is shown at an address, over another connection."""
    try:
        return str(identity_of(_certificate_at(peer, caller)))
    except (OSError, ValueError, ServiceError):
        return "somebody else"


def _dates_fault_at(peer: Peer, caller: Caller, now: datetime.datetime) -> str:
    """Return why the certificate at an address is not valid now; empty where that cannot be found out."""
    try:
        shown = _certificate_at(peer, caller, is_checked=False)
    except (OSError, ValueError):
        return ""
    return dates_fault(shown.not_valid_before_utc, shown.not_valid_after_utc, now)


def _certificate_at(peer: Peer, caller: Caller, *, is_checked: bool = True) -> x509.Certificate:
    """Return the certificate that is shown at an address, over another connection; nothing is said there."""
    context = caller.context()
    context.check_hostname = False
    if not is_checked:  # by the chain
        context.verify_mode = ssl.CERT_NONE
    plain, _ = caller.connect(peer, open_proxy(caller.proxy), 2.0)
    with (
        plain,
        context.wrap_socket(plain, server_hostname=peer.identity.dns_name) as channel,
    ):
        shown = channel.getpeercert(binary_form=True)
    with read_as("it is damaged"):
        return x509.load_der_x509_certificate(shown or b"")


def _check_rules(channel: ssl.SSLSocket, peer: Peer, caller: Caller) -> None:
    """Apply the rules that services apply beyond what TLS checks.

    A list of revoked certificates that cannot be used is not looked at here: it is the caller's own fault, and the
    check of the caller's certificates says so.
    """
    authority = caller.authority
    try:
        with read_as("it is damaged"):
            shown = x509.load_der_x509_certificate(channel.getpeercert(binary_form=True) or b"")
        trusted = parse_certificate(authority, read_pem(authority, "the authority's certificate"))
        check_issuer(Path("it"), shown, authority, trusted)
        check_member(shown, serves=True)
    except (CredentialsError, ValueError) as error:
        raise _RefusedError(
            f"the certificate of {peer.identity.name} {peer.at} breaks a rule: {error}",
            f"Ask {peer.identity.name} for a certificate that `moiety pki sign` made.",
        ) from error
    if caller.revoked is None:
        return
    with contextlib.suppress(CredentialsError):
        if shown.serial_number in read_revoked(caller.revoked, trusted, datetime.datetime.now(datetime.UTC)).serials:
            raise _RefusedError(
                f"the certificate of {peer.identity.name} {peer.at} is revoked, says {caller.revoked}",
                f"Ask {peer.identity.name} for a new key and certificate.",
            )


def _other_protocol(peer: Peer) -> _RefusedError:
    who = peer.identity.name
    return _RefusedError(
        f"{who} {peer.at} speaks another protocol than protocol {PROTOCOL} of the version here",
        f"Install the same version of Moiety here and at {who}, and restart both; no job with it can run before.",
    )


def _check_serves(channel: ssl.SSLSocket, peer: Peer, end_s: float) -> float:
    """Ask the health service; return the seconds of its answer: one round trip.

    Raises:
        _RefusedError: it does not serve, refuses us, or speaks another protocol.
        TimeoutError: no answer.
    """
    who, at = peer.identity.name, peer.at
    asking = HealthConnection(channel, peer.identity.dns_name, end_s)
    try:
        try:
            begin_s = time.monotonic()
            status = asking.ask(PROTOCOL_SERVICE)
            round_trip_s = time.monotonic() - begin_s
        except UnknownServiceError:
            asking.ask()  # does it tell its health at all?
            raise _other_protocol(peer) from None
    except TimeoutError:
        raise
    except OSError as error:  # since TLS 1.3 both sides have shaken hands when the certificate of the caller is refused
        raise _refused_by_it(error, peer) from error
    except ValueError as error:
        raise _RefusedError(
            f"{who} {at} proves its identity, but does not answer as a service of Moiety: {error}",
            f"Look in the log of {who} for a refusal, and compare versions (`moiety --version`).",
        ) from error
    if status != SERVING:
        raise _StandsByError(
            f"{who} {at} answers but is not serving: it is starting or stopping, or stands by",
            f"Wait, and look into the log of {who} if it stays so.",
        )
    return round_trip_s
