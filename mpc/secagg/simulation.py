"""A whole round as one loop without a network: the real members and the real coordinator, called in turn."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import FromMembers, SumCoordinator
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.keys import IdentityKey
from mpc.secagg.member import SumMember
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.stage import Stage

Integers = NDArray[np.int64]


def run_locally(
    config: RoundConfig,
    values_of: Callable[[int], Integers],
    identities: Mapping[int, IdentityKey],
    entropy_of: Callable[[int], Entropy],
    *,
    policy: MemberPolicy | None = None,
    public_input: bytes = b"",
    noise_of: Callable[[int, tuple[bytes, ...]], Integers] | None = None,
    vanishing: Mapping[int, Stage] | None = None,
    meter: "Meter | None" = None,
) -> OpenedSum:
    """Run one round.

    Args:
        config: of the round.
        values_of: member to its integers, shape (n_elements,).
        identities: member to its identity key; public halves as in the roster.
        entropy_of: member to its randomness.
        policy: of all members; by default one that pins the roster and asks for nothing else.
        public_input: what all members start from.
        noise_of: member and its surplus seeds to the noise that it adds.
        vanishing: member to the first stage at which it does not answer any more.
        meter: told who is about to work.

    Raises:
        ProtocolError: what a member or the coordinator raised.
    """
    gone_from, watch = dict(vanishing or {}), meter or Meter()
    policy = policy or MemberPolicy(
        pinned={entry.name: entry.identity_public for entry in config.roster},
        smallest_cohort=2,
        largest_degree=config.n_members,
        smallest_degree=2,
        largest_attempt=config.round_id.attempt,
    )

    def alive(members: Collection[int], stage: Stage) -> list[int]:
        order = list(Stage)
        return [m for m in sorted(members) if m not in gone_from or order.index(gone_from[m]) > order.index(stage)]

    with watch.coordinator():
        coordinator = SumCoordinator(config, public_input)

    def deliver(message: FromMembers) -> None:
        watch.sent(message)
        with watch.coordinator():
            coordinator.receive(message)

    members: dict[int, SumMember] = {}
    for me in alive(range(1, config.n_members + 1), Stage.ADVERTISE):
        with watch.member(me):
            members[me] = SumMember(
                config,
                me,
                identity=identities[me],
                policy=policy,
                journal=MemoryJournal(),
                public_input=public_input,
                entropy=entropy_of(me),
            )
            advertisement = members[me].advertise()
        deliver(advertisement)
    with watch.coordinator():
        member_list = coordinator.close_advertising()
    for me in alive([ad.member for ad in member_list.advertisements], Stage.SHARE):
        with watch.member(me):
            shares = members[me].share_keys(member_list)
        deliver(shares)
    with watch.coordinator():
        deliveries = coordinator.close_sharing()
    for me in alive(deliveries, Stage.MASK):
        values = values_of(me)
        noise = None if noise_of is None else noise_of(me, members[me].surplus_seeds)
        with watch.member(me):
            masked = members[me].mask_input(deliveries[me], values, noise)
        deliver(masked)
    with watch.coordinator():
        survivors = coordinator.close_inputs()
    for me in alive(survivors.survivors, Stage.AGREE):
        with watch.member(me):
            signature = members[me].sign_survivors(survivors)
        deliver(signature)
    with watch.coordinator():
        signed = coordinator.close_signatures()
    for me in alive([signature.member for signature in signed.signatures], Stage.UNMASK):
        with watch.member(me):
            unmasking = members[me].unmask(signed)
        deliver(unmasking)
    with watch.coordinator():
        return coordinator.open_sum()


class Meter:
    """Told who works and what members send; this one does not measure. `bench` has one that does."""

    def sent(self, message: FromMembers) -> None:
        """Learn of a message on its way to the coordinator."""

    def member(self, member: int) -> AbstractContextManager[object]:
        """Return a context in which a member works."""
        return nullcontext()

    def coordinator(self) -> AbstractContextManager[object]:
        """Return a context in which the coordinator works."""
        return nullcontext()
