"""Checks of connections: the own port, and each member that is dialled, told apart by where the attempt ends.

An attempt is what a service does, with the standard library alone: a name is resolved, TCP connects, TLS proves both
ends, the health service answers. Of the other direction one side sees little: whether it serves, and whether it listens
where others could reach it.
"""

import contextlib
import errno
import ipaddress
import socket
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cryptography import x509

from cli.doctor.check import Check, failed, passed, warning
from cli.doctor.member import Member, Peer, split_address
from cli.doctor.probe import SERVING, ask_health, client_context, dialled, remaining_s
from service.certificate_rules import check_member
from service.errors import ServiceError
from service.identity import identity_of
from service.settings_tree import SettingsError
from service.tls import CredentialsError, check_issuer, parse_certificate, read_pem

_EXPIRED, _NOT_YET_VALID, _OTHER_NAME = 10, 9, 62
"""Of OpenSSL's X509_V_ERR_...: CERT_HAS_EXPIRED, CERT_NOT_YET_VALID, HOSTNAME_MISMATCH."""

_MOST_AT_ONCE = 16


class _RefusedError(Exception):
    """An attempt has ended: what was found, and what mends it."""

    def __init__(self, found: str, fix: str) -> None:
        super().__init__(found)
        self.fix = fix


def check_connections(member: Member, timeout_s: float) -> list[Check]:
    """Check the own port and all members that this one dials, these at the same time.

    Args:
        member: whose view it is.
        timeout_s: of each attempt.
    """
    context = None
    with contextlib.suppress(SettingsError):  # the checks of certificates say why
        context = client_context(member.authority, member.certificate, member.key, whose=str(member.path))
    checks = []
    if member.listen is not None:
        checks += [_port(member, context, timeout_s), *_inbound(member.listen, member.peers)]
    if member.peers:
        with ThreadPoolExecutor(min(_MOST_AT_ONCE, len(member.peers))) as threads:
            checks += threads.map(lambda peer: reach(peer, member, context, timeout_s), member.peers)
    return checks


def reach(peer: Peer, member: Member, context: ssl.SSLContext | None, timeout_s: float) -> Check:
    """Dial another member and ask whether it serves.

    Args:
        peer: whom.
        member: as whom.
        context: of `client_context`; None where the own certificate cannot be used, and only TCP is tried.
        timeout_s: for the whole of it, but for the resolution of a name, which the system limits.
    """
    name = f"reach {peer.identity.name}"
    end_s = time.monotonic() + timeout_s
    try:
        with _connect(peer, timeout_s) as plain:
            if context is None:
                return warning(
                    name,
                    f"TCP connects to {peer.address}; TLS was not tried, because the own certificate cannot be used",
                    "Mend the own certificate and key first.",
                )
            plain.settimeout(remaining_s(end_s))
            with _secured(plain, peer, member, context) as channel:
                _check_rules(channel, peer, member.authority)
                _check_serves(channel, peer, end_s)
    except TimeoutError:
        return failed(
            name,
            f"{peer.address} takes the connection and then says nothing for {timeout_s:g} s",
            f"Look whether it is {peer.identity.name} that runs there, and whether it hangs; restart it.",
        )
    except _RefusedError as refusal:
        return failed(name, str(refusal), refusal.fix)
    return passed(name, f"{peer.identity.name} serves at {peer.address} and accepts this member")


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


def _secured(plain: socket.socket, peer: Peer, member: Member, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Shake hands by TLS.

    Raises:
        _RefusedError: it did not work.
        TimeoutError: no answer.
    """
    who, at = peer.identity.name, peer.address
    try:
        return context.wrap_socket(plain, server_hostname=peer.identity.dns_name)
    except ssl.SSLCertVerificationError as error:
        raise _refused_by_us(error, peer, member) from error
    except TimeoutError:
        raise
    except OSError as error:
        if _is_alert(error):
            raise _refused_by_it(error, peer) from error
        raise _RefusedError(
            f"what listens at {at} does not speak TLS",
            f"Correct the address of {who}, and let no proxy between end or change TLS.",
        ) from error


def _refused_by_us(error: ssl.SSLCertVerificationError, peer: Peer, member: Member) -> _RefusedError:
    who, at = peer.identity.name, peer.address
    if error.verify_code == _OTHER_NAME:
        return _RefusedError(
            f"at {at} is {_shown_at(peer, member)}, and not {peer.identity}",
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


def _shown_at(peer: Peer, member: Member) -> str:
    """Return whose certificate is shown at an address, over another connection."""
    context = client_context(member.authority, member.certificate, member.key, whose=str(member.path))
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


def _check_rules(channel: ssl.SSLSocket, peer: Peer, authority: Path) -> None:
    """Apply the rules that services apply beyond what TLS checks."""
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
        raise _RefusedError(
            f"{who} at {at} answers but is not serving: it is starting or stopping",
            f"Wait, and look into the log of {who} if it stays so.",
        )


def _port(member: Member, context: ssl.SSLContext | None, timeout_s: float) -> Check:
    """Check whether the own port is free, or taken by this very member."""
    assert member.listen is not None, "only members that serve have a port"
    host, port = split_address(member.listen)
    name = "port"
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
        return passed(name, f"{member.listen} is free: the service can start")
    except socket.gaierror as error:
        return failed(name, f"the name {host} of `listen` cannot be resolved: {error.strerror}", _listen_fix(member))
    except PermissionError:
        fix = f"Choose a port of 1024 or more in `listen` of {member.path}."
        return failed(name, f"this user must not listen at {member.listen}", fix)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            found = f"{member.listen} cannot be listened at: {error.strerror}; it is not an address of this machine"
            return failed(name, found, _listen_fix(member))
    identity = member.identity
    assert identity is not None, "members that serve have names"
    own = reach(Peer(identity, dialled(member.listen)), member, context, timeout_s)
    if own.outcome == "failed":
        fix = f"End the program that uses port {port}, or choose another port in `listen` of {member.path}."
        return failed(name, f"{member.listen} is taken, and not by this service: {own.found}", fix)
    if own.fix:
        return warning(name, f"{member.listen} is taken; whether by this service cannot be told", own.fix)
    return passed(name, f"this service serves at {member.listen}")


def _listen_fix(member: Member) -> str:
    return f"Write an address of this machine, or 0.0.0.0 for all of them, into `listen` of {member.path}."


def _inbound(listen: str, peers: Sequence[Peer]) -> list[Check]:
    """Compare where we listen with where the others are. Whether they reach us, only they can tell."""
    afar = [peer.identity.name for peer in peers if not _is_loopback(peer.place[0])]
    if afar and _is_loopback(split_address(listen)[0]):
        found = f"the service listens at {listen}, on this machine only, and {afar[0]} is on another"
        return [failed("inbound", found, f"Listen at 0.0.0.0:{split_address(listen)[1]}, and run doctor at {afar[0]}.")]
    found = f"the service listens at {listen}; whether others reach it, moiety doctor tells where they are"
    return [passed("inbound", found)]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
