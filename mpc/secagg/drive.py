"""The five stages of a masked sum, once: a member's side and the coordinator's side over a link.

| stage | members say | the coordinator answers |
| --- | --- | --- |
| `ADVERTISE` | fresh signed keys | who takes part |
| `SHARE` | shares of their secrets, sealed | the shares that are meant for each |
| `MASK` | masked vectors | whose have arrived |
| `AGREE` | signatures of that set | the signatures |
| `UNMASK` | shares of what takes the masks off | |

The machines (`member`, `coordinator`) decide what is said; a link decides how it travels, how long is waited, and where
heavy work runs. There is a link in one process (`simulation`), one over the session of a job
(`analyses.sums.sessions.session_sum`), and one over gRPC for devices (`coordinator.sums.rounds`, `device.device`).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc.secagg.coordinator import FromMembers, SumCoordinator
from mpc.secagg.member import SumMember
from mpc.secagg.messages import MemberList, NeighbourList, ShareDelivery, SignedSurvivors, SurvivorList
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.stage import Stage

Integers = NDArray[np.int64]
Contribute = Callable[[tuple[bytes, ...]], Awaitable[tuple[Integers, Integers | None]]]
"""From a member's surplus seeds to its values and its noise, both of shape (n_elements,); the noise may be None.

It is called once per attempt, when the keys of the round are agreed and the shares have been checked, so it is the
place to pay for the round and to read what is summed.
"""
ToMember = MemberList | NeighbourList | ShareDelivery | SurvivorList | SignedSurvivors

M = TypeVar("M", MemberList, NeighbourList, ShareDelivery, SurvivorList, SignedSurvivors)
P = ParamSpec("P")
R = TypeVar("R")


class MemberLink(Protocol):
    """How one member reaches the coordinator in one attempt of a round."""

    async def answer(self, stage: Stage, message: FromMembers) -> None:
        """Send the member's message of a stage."""

    async def receive(self, stage: Stage, kind: type[M]) -> M:
        """Wait for the coordinator's message that opens a stage, which is of this kind.

        Raises an error of the link where the round goes on without the member, or has ended.
        """

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run heavy arithmetic where it does not hold up others."""


class CoordinatorLink(Protocol):
    """How the coordinator reaches the members in one attempt of a round."""

    async def collect(self, stage: Stage) -> None:
        """Pass what members send to `SumCoordinator.receive`, until all have answered or the stage is over."""

    async def hand_out(self, stage: Stage, messages: Mapping[int, ToMember]) -> None:
        """Send to each member in `messages` what opens a stage for it. The others are left behind."""

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run heavy arithmetic where it does not hold up others; never two calls on one machine at once."""


async def take_part(member: SumMember, link: MemberLink, contribute: Contribute) -> None:
    """Take a member through one attempt of a round.

    Args:
        member: has just entered the attempt.
        link: link to the coordinator.
        contribute: see `Contribute`.

    Raises:
        ProtocolError: somebody violates the protocol; the member has forgotten its secrets then.
        Exception: what the link or `contribute` raises.

    Cost: 5 messages each way; `Contribute` is called between the second and the third.
    """
    await link.answer(Stage.ADVERTISE, member.advertise())
    members: MemberList | NeighbourList
    if member.is_on_ring:
        members = await link.receive(Stage.SHARE, NeighbourList)
    else:
        members = await link.receive(Stage.SHARE, MemberList)
    await link.answer(Stage.SHARE, await link.compute(member.share_keys, members))
    delivery = await link.receive(Stage.MASK, ShareDelivery)
    await link.compute(member.check_shares, delivery)
    values, noise = await contribute(member.surplus_seeds)
    await link.answer(Stage.MASK, await link.compute(member.mask_input, delivery, values, noise))
    survivors = await link.receive(Stage.AGREE, SurvivorList)
    await link.answer(Stage.AGREE, await link.compute(member.sign_survivors, survivors))
    signed = await link.receive(Stage.UNMASK, SignedSurvivors)
    await link.answer(Stage.UNMASK, await link.compute(member.unmask, signed))


async def host(machine: SumCoordinator, link: CoordinatorLink) -> OpenedSum:
    """Take the coordinator through one attempt of a round.

    Args:
        machine: has received nothing yet.
        link: link to the members.

    Returns:
        What the round came to; noise in excess still in it.

    Raises:
        TooFewMembersError: too few answered a stage in time; a retry needs a new attempt.
        ProtocolError: the sum cannot be opened.
    """
    await link.collect(Stage.ADVERTISE)
    await link.hand_out(Stage.SHARE, await link.compute(machine.close_advertising))
    await link.collect(Stage.SHARE)
    await link.hand_out(Stage.MASK, await link.compute(machine.close_sharing))
    await link.collect(Stage.MASK)
    survivors = await link.compute(machine.close_inputs)
    await link.hand_out(Stage.AGREE, dict.fromkeys(survivors.survivors, survivors))
    await link.collect(Stage.AGREE)
    signed = await link.compute(machine.close_signatures)
    await link.hand_out(Stage.UNMASK, dict.fromkeys(sorted(machine.waiting_for()), signed))
    await link.collect(Stage.UNMASK)
    return await link.compute(machine.open_sum)
