"""Checks of connections: the own port, and each member that is dialled.

Of the other direction one side sees little: whether it serves, and whether it listens where others could reach it.
`moiety doctor --federation` asks the others.
"""

import errno
import ipaddress
import socket
from collections.abc import Sequence

from cli.doctor.member import Member
from cli.doctor.probe import dialled
from service.reach.attempt import Peer, reach_all, split_address
from service.reach.check import Check, failed, passed, warning


def check_connections(member: Member, timeout_s: float) -> list[Check]:
    """Check the own port and all members that this one dials, these at the same time.

    Args:
        member: whose view it is.
        timeout_s: of each attempt.
    """
    checks = []
    if member.listen is not None:
        checks += [_port(member, timeout_s), *_inbound(member.listen, member.peers)]
    return checks + reach_all(member.peers, member.caller, timeout_s)


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
    identity = member.identity
    assert identity is not None, "members that serve have names"
    (own,) = reach_all([Peer(identity, dialled(member.listen))], member.caller, timeout_s)
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
