"""What all sums share, over devices and over parties' tables: kinds, common fields, noise, and the round that follows.

A question (`secure_sum.SumParams`) and a job (`parameters.TableSumParams`) state differently how large one
contribution can be; from there on, all is the same. The encoding bounds what a member contributes, the
sensitivities follow from that bound (`vector_bound`, `noise.SumSensitivity`), the noise from them and the target, the
ring from encoding and noise.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field

from analyses.job.job import Finite, JobError, PrivacyTarget, PublicModel
from analyses.sums.least_variance import least_variance
from analyses.sums.noise import SumNoise, SumSensitivity, survivor_levels
from dp.cost.accounting import CalibrationError
from dp.cost.views import View
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from mpc.secagg.config import RosterEntry, RoundConfig, Topology
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.secagg.vector.group import MAX_RING_BITS, MIN_RING_BITS, RingGroup
from mpc.transcript import RoundId

SUM, MEAN, HISTOGRAM = "secure-sum", "secure-mean", "secure-histogram"
TREE = "secure-distribution"

RING_EXCESS = Fraction(1, 20)
"""Largest excess of the noise, relative to the intended one, with more than 128 members; it saves shares."""


class SumFields(PublicModel):
    """What every sum may state.

    Attributes:
        edges: edges of the bins of a histogram, ascending; each bin includes its lower edge, the last both edges.
        attempts: number of rounds, each with fresh keys, before a sum fails that too few members answer.
    """

    edges: tuple[Finite, ...] = ()
    attempts: Annotated[int, Field(ge=1, le=8)] = 2

    def check_edges(self) -> None:
        """Refuse edges between which there are no bins.

        Raises:
            ValueError: there are fewer than two, or they do not ascend.
        """
        if len(self.edges) < 2 or list(self.edges) != sorted(set(self.edges)):
            raise ValueError("edges: a histogram needs at least two edges in ascending order")


def levels_of(topology: Topology) -> tuple[int, ...]:
    """Return the numbers of survivors at which exactly the intended noise stays; see `SumNoise`."""
    excess = Fraction(0) if topology.is_complete else RING_EXCESS
    return survivor_levels(topology.fewest_survivors, topology.n_members, excess)


def topology_of_parties(n_parties: int, t: int) -> Topology:
    """Return who shares with whom in a masked sum of the parties of a job: all with all.

    Of two parties, masks hide each vector from the coordinator alone: the other party subtracts its own from the sum.
    What protects from that one is noise, which is calibrated for t = 1 all the same.
    """
    return Topology.complete(n_parties, t if n_parties > 2 else 0)


def calibrated(
    sensitivities: Mapping[View, SumSensitivity],
    target: PrivacyTarget,
    length: int,
    topology: Topology,
    *,
    of_any_kind: bool = True,
    n_corrupt: int | None = None,
) -> SumNoise:
    """Return the least noise that meets a target, whoever drops out.

    Args:
        sensitivities: how far one protected unit moves the sum, in both views.
        target: what the noise must give.
        length: elements of the sum.
        topology: topology of the round.
        of_any_kind: whether shares of discrete Laplace noise may be chosen; else only Skellam noise.
        n_corrupt: members whose noise may be known; None for those of the topology.

    Raises:
        JobError: no noise on offer meets it.
    """
    try:
        calibrate = least_variance if of_any_kind else SumNoise.calibrate
        return calibrate(
            sensitivities,
            target.view,
            epsilon=target.epsilon,
            delta=target.delta,
            length=length,
            levels=levels_of(topology),
            n_corrupt=topology.n_corrupt if n_corrupt is None else n_corrupt,
        )
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error


def ring_for(n_members: int, encoding: VectorEncoding, noise: SumNoise | None) -> RingGroup:
    """Return the smallest ring that holds the sum of all members' integers and the noise.

    Raises:
        EncodingOverflowError: none does.
    """
    bound = noise_bound(noise)
    n_bits = (n_members * encoding.largest_element + bound).bit_length() + 1
    ring = RingGroup(min(MAX_RING_BITS, max(MIN_RING_BITS, n_bits)))
    encoding.check_fits(ring, n_members, bound)
    return ring


def configure(
    round_id: RoundId,
    members: Sequence[tuple[str, bytes]],
    topology: Topology,
    group: RingGroup,
    vector: str,
    encoding: VectorEncoding,
    noise: SumNoise | None,
) -> RoundConfig:
    """Return the configuration of an attempt.

    Args:
        round_id: identifier of the attempt.
        members: name and identity key of each, in the order of their numbers.
        topology: who shares with whom.
        group: see `ring_for`.
        vector: name of what is summed.
        encoding: encoding of each contribution.
        noise: None for an exact sum.

    Raises:
        ProtocolError: these do not fit each other.
    """
    return RoundConfig(
        round_id=round_id,
        roster=tuple(RosterEntry(i, name, key) for i, (name, key) in enumerate(members, start=1)),
        topology=topology,
        group=group,
        vector=vector,
        encoding=encoding,
        noise_bound=noise_bound(noise),
        surplus_levels=() if noise is None or len(noise.levels) < 2 else noise.levels,
    )


def participation(opened: OpenedSum, config: RoundConfig) -> dict[str, Any]:
    """Return who is in a sum and who is not, JSON-able: names, and the stage at which each dropped out."""
    names = {entry.number: entry.name for entry in config.roster}
    return {
        "survivors": [names[member] for member in opened.survivors],
        "vanished": {names[member]: str(stage) for member, stage in sorted(opened.dropped_out.items())},
        "silent_after": {names[member]: str(stage) for member, stage in opened.silent_after.items()},
        "wrong_shares_from": [names[member] for member in opened.liars],
        "attempt": config.round_id.attempt,
    }


def members_of(names: tuple[str, ...], identities: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return those that are asked, name to Ed25519 key, in the order of their numbers.

    Args:
        names: names of the question; empty for all.
        identities: identity keys of all members that the coordinator knows.

    Raises:
        JobError: a name is unknown, or appears twice.
    """
    chosen = names or tuple(identities)
    strangers = [name for name in chosen if name not in identities]
    if strangers:
        raise JobError(f"members: this coordinator does not know {strangers[0]!r}")
    if len(set(chosen)) != len(chosen):
        raise JobError("members: a name appears more than once")
    return {name: identities[name] for name in chosen}


def noise_bound(noise: SumNoise | None) -> int:
    """Return an integer that the noise in a sum does not exceed, but with a negligible probability; 0 without noise."""
    return 0 if noise is None else noise.tail_bound(LOG2_WRAP_PROBABILITY)
