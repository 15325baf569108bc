"""Who reaches whom in a federation, asked by its coordinator of every party."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed
from typing import Any

from cli.doctor.member import Member
from service.errors import ServiceError
from service.identity import Role
from service.reach.attempt import Peer, reach_all
from service.reach.check import Check, Outcome, failed, passed, warning
from service.tls import Credentials, load_credentials, open_proxy
from service.trust.protocol import PROTOCOL
from transport.calls.channel import open_channel
from transport.calls.party_client import PartyClient, Reached

UNKNOWN = "?"


@dataclass(frozen=True)
class Row:
    """One member's view.

    Attributes:
        name: name of the member.
        version: version of its Moiety; `UNKNOWN` where it did not state it. The coordinator's is that of this program,
            which is the one that is installed on its machine: a coordinator that was not restarted since may be of an
            earlier one.
        checks: other member's name to what came of the attempt; without those of whom it told nothing.
    """

    name: str
    version: str
    protocol: int
    checks: dict[str, Check]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        reaches = [{**check.as_dict(), "name": name} for name, check in self.checks.items()]
        return {"name": self.name, "version": self.version, "protocol": self.protocol, "reaches": reaches}


def check_federation(member: Member, timeout_s: float) -> list[Row]:
    """Let every party dial all others.

    Args:
        member: the coordinator, on its own machine.
        timeout_s: seconds to wait for each attempt.

    Returns:
        A row per member, the coordinator's first. A party that does not answer has none of its own attempts.

    Raises:
        ServiceError: the coordinator's certificate cannot be used.
    """
    credentials = load_credentials(
        authority=member.authority,
        certificate=member.certificate,
        key=member.key,
        revoked=member.revoked,
        proxy=open_proxy(member.proxy),
    )
    own = dict(zip(_names(member.peers), reach_all(member.peers, member.caller, timeout_s), strict=True))
    reached = [peer for peer in member.peers if own[peer.identity.name].outcome is Outcome.OK]
    answers = asyncio.run(_ask_all(reached, credentials, timeout_s))
    rows = []
    for peer in member.peers:
        answer = answers.get(peer.identity.name)
        if isinstance(answer, ServiceError):
            fix = f"Look into the log of {peer.identity.name}, and compare versions (`moiety --version`)."
            own[peer.identity.name] = failed(own[peer.identity.name].name, f"it serves, but: {answer}", fix)
        told = answer if isinstance(answer, tuple) else (UNKNOWN, 0, [])
        rows.append(_row(peer, *told, member=member))
    return [Row(member.name or "coordinator", installed("moiety"), PROTOCOL, own), *rows]


async def _ask_all(
    peers: Sequence[Peer], credentials: Credentials, timeout_s: float
) -> dict[str, tuple[str, int, list[Reached]] | ServiceError]:
    async def ask(peer: Peer) -> tuple[str, int, list[Reached]] | ServiceError:
        channel = open_channel(peer.address, peer.identity, credentials)
        try:
            return await PartyClient(peer.identity.name, channel).reach(timeout_s)
        except ServiceError as error:
            return error
        finally:
            await channel.close()

    return dict(zip(_names(peers), await asyncio.gather(*map(ask, peers)), strict=True))


def _row(peer: Peer, version: str, protocol: int, attempts: Sequence[Reached], *, member: Member) -> Row:
    """Return what a party told, and that it does not list somebody of our roster."""
    who = peer.identity.name
    coordinator = member.name or "coordinator"
    expected = {(str(Role.COORDINATOR), coordinator): coordinator}
    expected |= {(str(Role.PARTY), other): other for other in _names(member.peers) if other != who}
    checks = {}
    for attempt in attempts:
        name = expected.pop((attempt.role, attempt.name), attempt.name)
        label = f"reach {attempt.name}"
        if attempt.outcome == Outcome.OK:
            checks[name] = passed(label, attempt.found)
        else:
            make = warning if attempt.outcome == Outcome.WARNING else failed
            checks[name] = make(label, attempt.found, attempt.fix or f"Run `moiety doctor` at {who}.")
    if attempts:
        for name in expected.values():
            found = f"the configuration of {who} does not list {name}: it refuses jobs with it"
            checks[name] = warning(
                f"reach {name}", found, f"Add {name} to [peers] of {who}, if they are to compute together."
            )
    return Row(who, version, protocol, checks)


def _names(peers: Sequence[Peer]) -> list[str]:
    return [peer.identity.name for peer in peers]
