"""Checks of connections: the own port, and each member that is dialled.

Of the other direction one side sees little: whether it serves, and whether it listens where others could reach it.
`moiety doctor --federation` asks the others.
"""

import errno
import socket
from collections.abc import Sequence
from dataclasses import replace

from cli.doctor.member import Member
from service.errors import unused_proxies
from service.identity import Role
from service.reach.addresses import dialled, is_loopback, split_address
from service.reach.attempt import Peer, reach_all
from service.reach.check import Check, failed, passed, warning
from service.reach.relays import RelayError, RelayPoint, ask_round_trip
from service.tls import CredentialsError, load_credentials, open_proxy


def check_connections(member: Member, timeout_s: float) -> list[Check]:
    """Check the own port and all members that this one dials, these at the same time.

    Args:
        member: member whose view it is.
        timeout_s: seconds to wait for each attempt.
    """
    checks = []
    if member.listen is not None:
        checks += [_port(member, timeout_s)]
        if member.stays:
            checks += [_connected(member)]
        elif member.role is not Role.RELAY:
            checks += _inbound(member.listen, member.peers)
    checks += [*_relays(member, timeout_s), *_proxies(member)]
    return checks + reach_all(member.peers, member.caller, timeout_s)


def _proxies(member: Member) -> list[Check]:
    """Say through which proxy members are dialled, and that one of the environment is not used."""
    name = "proxies"
    if member.proxy is None:
        return [passed(name, direct)] if (direct := unused_proxies()) else []
    try:
        proxy = open_proxy(member.proxy)
    except CredentialsError as error:
        return [failed(name, str(error), f"Mend that file, or `password_file` of [proxy] in {member.path}.")]
    through = f"through the proxy {proxy}" + (f" as user {proxy.user}" if proxy.user else "")
    if proxy.direct:
        through += f", and directly where they are on {', '.join(proxy.direct)}"
    return [passed(name, unused_proxies(through) or f"members are called {through}")]


def _connected(member: Member) -> Check:
    """Say by which relays others reach a member that only dials out."""
    names = ", ".join(relay.identity.name for relay in member.relays)
    found = f"this party accepts no connection from outside; its service stays connected to {names}"
    return passed("inbound", found)


def _own_relay(member: Member) -> RelayPoint:
    assert member.identity is not None and member.listen is not None, "a relay has a name and listens"  # noqa: PT018
    return RelayPoint(member.identity, dialled(member.listen))


def _relays(member: Member, timeout_s: float) -> list[Check]:
    """Ask each relay for a sign of life; of a party that only dials out, as it asks for itself."""
    if not member.relays:
        return []
    try:
        credentials = load_credentials(
            authority=member.authority,
            certificate=member.certificate,
            key=member.key,
            revoked=member.revoked,
            proxy=open_proxy(member.proxy),
        )
    except CredentialsError:
        return []  # the checks of certificates and of proxies say why
    checks = []
    for relay in member.relays:
        name = f"relay {relay.identity.name}"
        try:
            round_trip_s = ask_round_trip(relay, credentials, timeout_s)
            checks.append(passed(name, f"{relay} answers; round trip {1000 * round_trip_s:.0f} ms"))
        except RelayError as error:
            checks.append(failed(name, str(error), error.fix.format(who=relay.identity.name)))
    return checks


def _port(member: Member, timeout_s: float) -> Check:
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
    if member.role is Role.RELAY:
        (own,) = _relays(replace(member, relays=(_own_relay(member),)), timeout_s)
        if own.fix:
            return failed(name, f"{member.listen} is taken, and not by this relay: {own.found}", own.fix)
        return passed(name, f"this relay serves at {member.listen}")
    identity = member.identity
    assert identity is not None, "members that serve have names"
    (own,) = reach_all([Peer(identity, dialled(member.listen))], member.caller._replace(proxy=None), timeout_s)
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
    direct = {peer.identity.name: peer.address for peer in peers if isinstance(peer.address, str)}
    afar = [name for name, address in direct.items() if not is_loopback(split_address(address)[0])]
    if afar and is_loopback(split_address(listen)[0]):
        found = f"the service listens at {listen}, on this machine only, and {afar[0]} is on another"
        return [failed("inbound", found, f"Listen at 0.0.0.0:{split_address(listen)[1]}, and run doctor at {afar[0]}.")]
    found = f"the service listens at {listen}; whether others reach it, moiety doctor tells where they are"
    return [passed("inbound", found)]
