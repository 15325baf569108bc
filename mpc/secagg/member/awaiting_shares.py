"""State of a member that has shared its secrets, until it receives the others' shares and masks its vector."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidTag
from numpy.typing import NDArray

from mpc.errors import OutOfRangeError, PeerViolationError, ShapeError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.errors import (
    DeclaredDeadError,
    SplitMembersError,
    TooFewMembersError,
    UnopenableShareError,
    WrongNeighboursError,
)
from mpc.secagg.graph import Neighbourhood
from mpc.secagg.member.awaiting_survivors import AwaitingSurvivors
from mpc.secagg.member.context import MemberContext
from mpc.secagg.member.held_shares import SHARE_KIND, HeldShares
from mpc.secagg.messages import MaskedInput, ShareDelivery
from mpc.secagg.secret.keys import SealedChannel
from mpc.secagg.secret.mask import Mask, apply_masks
from mpc.secagg.stage import Stage

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class AwaitingShares:
    """The state after the second answer.

    Attributes:
        context: context of the round.
        graph: who is whose neighbour.
        transcript: hash of what the members agreed on.
        absent: who is known not to take part, in the complete graph all of these.
        own_mask_key: key of my own mask.
        pair_mask_keys: neighbour to the key of the mask that we have in common.
        channels: channels to my neighbours that take part.
        own_shares: my shares of my own secrets, in the complete graph.
    """

    context: MemberContext
    graph: Neighbourhood
    transcript: bytes
    absent: frozenset[int]
    own_mask_key: bytes = field(repr=False)
    pair_mask_keys: Mapping[int, bytes] = field(repr=False)
    channels: Mapping[int, SealedChannel] = field(repr=False)
    own_shares: HeldShares | None = field(repr=False)

    def receive(
        self, delivery: ShareDelivery, values: Integers, noise: Integers | None
    ) -> tuple[MaskedInput, AwaitingSurvivors]:
        """Open what the neighbours sealed for me, then mask my vector.

            masked = values + noise + PRG(own mask) + sum_{j > i} PRG(mask i j) - sum_{j < i} PRG(mask i j)

        over the neighbours j that have shared, i being me [Bonawitz17, figure 4, round 2].

        Args:
            delivery: message from the coordinator.
            values: shape (n_elements,), as the encoding made them.
            noise: shape (n_elements,), of any size, or None.

        Raises:
            SplitMembersError: a neighbour was shown another member list.
            UnopenableShareError: a neighbour's shares do not open.
            WrongNeighboursError: the coordinator delivers from others than those that have shared.
            TooFewMembersError: too few have shared, in all or among my neighbours.
            EncodingOverflowError: a value is too large for the proof that the sum fits.
        """
        context, config = self.context, self.context.config
        held = self.open(delivery)
        config.encoding.check_values(values)
        if noise is not None and (noise.shape != values.shape or noise.dtype != np.int64):
            raise ShapeError("the noise must have the shape and type of the values")
        group = config.group
        total = group.encode(values)
        if noise is not None:
            group.accumulate(total, group.encode(noise))
        apply_masks(group, total, self._masks(sorted(delivery.sealed)))
        state = AwaitingSurvivors(context, self.graph, self.transcript, delivery.sharers, held)
        return MaskedInput(config.round_id, context.me, group.pack(total)), state

    def open(self, delivery: ShareDelivery) -> dict[int, HeldShares]:
        """Return the shares that I hold for their owners, once everything about the delivery is as it must be.

        Raises:
            PeerViolationError, TooFewMembersError: see `receive`; raised here for wrong values.
        """
        self._check_delivery(delivery)
        held = {j: self._open(j, sealed) for j, sealed in delivery.sealed.items()}
        if self.own_shares is not None:
            held[self.context.me] = self.own_shares
        return held

    def _check_delivery(self, delivery: ShareDelivery) -> None:
        context, config = self.context, self.context.config
        context.check_round(delivery.round_id, Stage.MASK)
        present = frozenset(range(1, config.n_members + 1)) - self.absent
        context.check_set(delivery.sharers, present, Stage.MASK, "members that shared keys")
        if context.me not in delivery.sharers:
            raise DeclaredDeadError(
                COORDINATOR, Stage.MASK, "the coordinator claims that we shared no keys, although we did"
            )
        due = set(self.channels) & set(delivery.sharers)
        if set(delivery.sealed) != due or set(delivery.transcripts) != due:
            raise WrongNeighboursError(
                COORDINATOR,
                Stage.MASK,
                "the coordinator delivered shares of members that are not our neighbours in the graph",
            )
        n_holders = len(self.graph.holders(context.me) & set(delivery.sharers))
        if n_holders < config.topology.n_required:
            raise TooFewMembersError(
                f"only {n_holders} holders of our shares are left, but {config.topology.n_required} are needed to "
                "open the sum"
            )
        for j in sorted(due):
            if delivery.transcripts[j] != self.transcript:
                what = f"{config.name_of(j)} received a list of members that differs from ours"
                raise SplitMembersError(j, Stage.MASK, what)

    def _open(self, owner: int, sealed: bytes) -> HeldShares:
        config = self.context.config
        name = config.name_of(owner)
        try:
            return HeldShares.decode(self.channels[owner].open(SHARE_KIND, sealed), config.n_surplus_seeds)
        except InvalidTag as error:
            what = (
                f"the sealed shares of {name} cannot be opened: they were altered, replayed or meant for another member"
            )
            raise UnopenableShareError(owner, Stage.MASK, what) from error
        except OutOfRangeError as error:
            raise PeerViolationError(owner, Stage.MASK, f"{name} sealed invalid shares: {error}") from error

    def _masks(self, neighbours: list[int]) -> list[Mask]:
        pairs = [Mask(self.pair_mask_keys[j], is_negative=j < self.context.me) for j in neighbours]
        return [Mask(self.own_mask_key, is_negative=False), *pairs]
