"""What a masked sum sends over the session of a job, walked through (`mpc.traffic.walk`).

Each message of the coordinator follows a byte that says whether there is one; the sizes are those of
`mpc.secagg.round_arrays`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RoundConfig
from mpc.secagg.messages import (
    Advertisement,
    MaskedInput,
    MemberList,
    SealedShares,
    ShareDelivery,
    SignedSurvivors,
    SurvivorList,
    SurvivorSignature,
    UnmaskingShares,
)
from mpc.secagg.round_arrays import RoundArrays
from mpc.secagg.secret.keys import KEY_BYTES
from mpc.traffic.walk import Sent, Traffic, greet

VERDICT_BYTES = 1

CONVERSATION = (
    (Advertisement, MemberList),
    (SealedShares, ShareDelivery),
    (MaskedInput, SurvivorList),
    (SurvivorSignature, SignedSurvivors),
)
"""What members say, and what the coordinator answers; `UnmaskingShares` come last."""

ATTEMPTS_ARE_NOT_KNOWN = "whether parties drop out: each sum is counted as opened at the first attempt, by all"


def exchange_identities(traffic: Traffic, n_parties: int) -> None:
    """Walk through `analyses.sums.sessions.session_sum.exchange_identities`."""
    parties = range(1, n_parties + 1)
    greet(traffic, parties, n_parties)
    traffic.pass_gate(parties)
    traffic.step(Sent(party, COORDINATOR, n_parties * KEY_BYTES) for party in parties)


def attempt(traffic: Traffic, config: RoundConfig) -> None:
    """Walk through one attempt of a round in which all members answer."""
    arrays, members = RoundArrays(config), range(1, config.n_members + 1)
    for said, answered in CONVERSATION:
        traffic.step(Sent(member, COORDINATOR, prod(arrays.shape(said))) for member in members)
        n_bytes = VERDICT_BYTES + prod(arrays.shape(answered))
        traffic.step(Sent(COORDINATOR, member, n_bytes) for member in members)
    traffic.step(Sent(member, COORDINATOR, prod(arrays.shape(UnmaskingShares))) for member in members)


@dataclass(frozen=True)
class NobodysSession:
    """What a configuration asks of a session, before there is one: sizes of messages do not depend on it.

    Attributes:
        names: member number to a name.
        job_id: a text.
    """

    names: Mapping[int, str]
    job_id: str = "planned"


def planned_identities(n_parties: int) -> dict[int, bytes]:
    """Return something as long as signing keys, before there are any."""
    return {party: party.to_bytes(KEY_BYTES, "big") for party in range(1, n_parties + 1)}


def masked_sum(
    traffic: Traffic, n_parties: int, config_of: Callable[[Any, int, Mapping[int, bytes]], RoundConfig]
) -> Traffic:
    """Walk through `analyses.sums.sessions.session_sum.contribute`, whose first attempt is opened; return the traffic.

    Args:
        traffic: traffic of the job.
        n_parties: parties of the job; all are members.
        config_of: the configuration of an attempt, given a session, its number and the parties' keys.
    """
    names = {party: f"party {party}" for party in range(1, n_parties + 1)}
    exchange_identities(traffic, n_parties)
    attempt(traffic, config_of(NobodysSession(names), 0, planned_identities(n_parties)))
    traffic.end()
    traffic.not_known.append(ATTEMPTS_ARE_NOT_KNOWN)
    return traffic
