"""The coordinator's half of a round: it collects, relays and adds up messages, and removes the masks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from mpc.errors import LocalFaultError, ProtocolError
from mpc.secagg.config import RoundConfig, input_digest
from mpc.secagg.coordinator.collecting_advertisements import CollectingAdvertisements
from mpc.secagg.coordinator.collecting_inputs import CollectingInputs
from mpc.secagg.coordinator.collecting_shares import CollectingShares
from mpc.secagg.coordinator.collecting_signatures import CollectingSignatures
from mpc.secagg.coordinator.collecting_unmasking import ClosedStages, CollectingUnmasking
from mpc.secagg.errors import LateMessageError, RoundAbortedError
from mpc.secagg.graph import Neighbourhood, draw_graph
from mpc.secagg.member_tree import MemberTree
from mpc.secagg.messages import (
    Advertisement,
    MaskedInput,
    MemberList,
    NeighbourList,
    SealedShares,
    ShareDelivery,
    SignedSurvivors,
    SurvivorList,
    SurvivorSignature,
    UnmaskingShares,
    member_transcript,
    ring_transcript,
    survivor_digest,
)
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.stage import Stage

R = TypeVar("R")
FromMembers = Advertisement | SealedShares | MaskedInput | SurvivorSignature | UnmaskingShares

_STAGE_OF: dict[type, Stage] = {
    Advertisement: Stage.ADVERTISE,
    SealedShares: Stage.SHARE,
    MaskedInput: Stage.MASK,
    SurvivorSignature: Stage.AGREE,
    UnmaskingShares: Stage.UNMASK,
}


@dataclass
class _Collections:
    """The stages reached so far."""

    advertisements: CollectingAdvertisements
    shares: CollectingShares | None = None
    inputs: CollectingInputs | None = None
    signatures: CollectingSignatures | None = None
    unmasking: CollectingUnmasking | None = None


class SumCoordinator:
    """The coordinator's half of a round. It is trusted with liveness only.

    `receive` takes what members send, in any order within a stage; the service decides when a stage is over (all have
    answered, or its deadline has passed) and calls the method that closes it, which returns what to send on. A bad
    message raises and changes nothing: its sender counts as silent unless it sends a good one. A stage that closes with
    too few answers aborts the round; a retry needs a new attempt.

    `receive` and the methods that close a stage may run in threads, but never two at once: vectors are added up in
    place, and a message counts as taken only when all of it is.

    Args:
        config: configuration of the round.
        public_input: what all members start from.
    """

    def __init__(self, config: RoundConfig, public_input: bytes) -> None:
        self.config = config
        self.stage = Stage.ADVERTISE
        self._input_digest = input_digest(config.round_id, public_input)
        self._reached = _Collections(CollectingAdvertisements(config, self._input_digest))
        self._transcript = b""
        self._graph: Neighbourhood | None = None
        self._abort_reason: str | None = None

    def receive(self, message: FromMembers) -> None:
        """Take in a member's message; a repetition changes nothing, even when its stage is over.

        Raises:
            LateMessageError: it is the first of its member for a stage that is over. It is not used: its sender counts
                as dropped out, and its secrets may have been opened accordingly.
            PeerViolationError: it is not what its member may send; see the stages.
            RoundAbortedError: the round is over.
        """
        self._check_not_aborted()
        collection = self._collection(_STAGE_OF[type(message)])
        if collection is None:
            stage = _STAGE_OF[type(message)]
            raise LocalFaultError(
                f"a message of the stage {stage!s} arrived while the round is at stage {self.stage!s}"
            )
        if collection.stage is not self.stage and message.member not in collection.answers:
            name = self.config.name_of(message.member) if 1 <= message.member <= self.config.n_members else "a stranger"
            what = f"{name} answered at the stage {collection.stage!s} when it was over"
            raise LateMessageError(message.member, collection.stage, what)
        collection.receive(message)

    def waiting_for(self) -> frozenset[int]:
        """Return who may still answer in this stage."""
        collection = self._collection(self.stage)
        return frozenset() if collection is None else collection.expected - set(collection.answers)

    @property
    def n_missing(self) -> int:
        """How many may still answer in this stage."""
        collection = self._collection(self.stage)
        return 0 if collection is None else int(collection.n_missing)

    def has_quorum(self) -> bool:
        """Return whether enough have answered this stage for the round to go on; see the stages.

        Whether more are waited for is the service's choice: who is left behind is not in the sum. In the fourth stage
        as many are asked for as in those before it, though fewer signatures suffice: those that sign are those that are
        asked for shares.
        """
        collection = self._collection(self.stage)
        return collection is not None and bool(collection.has_quorum())

    def is_infeasible(self, n_declined: int) -> bool:
        """Return whether the first stage can only fail, as so many members have declined."""
        return self.stage is Stage.ADVERTISE and self.config.n_members - n_declined < (
            self.config.topology.fewest_survivors
        )

    def close_advertising(self) -> Mapping[int, MemberList | NeighbourList]:
        """End the first stage; each member in it gets who takes part: on a ring, which of its neighbours do.

        Raises:
            TooFewMembersError: too few have answered; the round is aborted. Also for the other stages.
        """
        advertised, config = self._reached.advertisements, self.config
        members = self._close(Stage.ADVERTISE, Stage.SHARE, advertised.member_list)
        tree = None if config.topology.is_complete else MemberTree(config.n_members, advertised.answers)
        if tree is None:
            self._transcript = member_transcript(config.digest, self._input_digest, members.advertisements)
        else:
            self._transcript = ring_transcript(config.digest, self._input_digest, tree.root)
        self._graph = draw_graph(config.n_members, config.topology.degree, config.round_id, self._transcript)
        numbers = tuple(ad.member for ad in members.advertisements)
        self._reached.shares = CollectingShares(config, numbers, self._transcript, self._graph)
        return dict.fromkeys(numbers, members) if tree is None else advertised.neighbour_lists(tree, self._graph)

    def close_sharing(self) -> Mapping[int, ShareDelivery]:
        """End the second stage; each member that has shared gets its delivery."""
        shares = self._reached.shares
        assert shares is not None
        deliveries = self._close(Stage.SHARE, Stage.MASK, shares.deliveries)
        self._reached.inputs = CollectingInputs(self.config, sorted(deliveries))
        return deliveries

    def close_inputs(self) -> SurvivorList:
        """End the third stage; the list goes to all in it."""
        inputs = self._reached.inputs
        assert inputs is not None
        survivors = self._close(Stage.MASK, Stage.AGREE, inputs.survivor_list)
        set_digest = survivor_digest(self._transcript, tuple(sorted(inputs.expected)), survivors.survivors)
        self._reached.signatures = CollectingSignatures(self.config, survivors.survivors, set_digest)
        return survivors

    def close_signatures(self) -> SignedSurvivors:
        """End the fourth stage; the signatures go to all that have signed."""
        reached = self._reached
        signatures, inputs = reached.signatures, reached.inputs
        assert signatures is not None
        assert inputs is not None
        assert self._graph is not None
        signed = self._close(Stage.AGREE, Stage.UNMASK, signatures.signed_survivors)
        before = ClosedStages(
            self._transcript,
            self._graph,
            reached.advertisements.answers,
            tuple(sorted(inputs.expected)),
            tuple(sorted(inputs.answers)),
            tuple(sorted(signatures.answers)),
        )
        reached.unmasking = CollectingUnmasking(self.config, before, inputs.total)
        return signed

    def open_sum(self) -> OpenedSum:
        """End the last stage: remove the masks. This is heavy arithmetic; run it off the event loop.

        Raises:
            TooFewSharesError, WrongSharesError: the sum cannot be opened; the round is aborted.
        """
        unmasking = self._reached.unmasking
        assert unmasking is not None
        elements, liars, surplus_seeds = self._close(Stage.UNMASK, Stage.DONE, unmasking.open)
        before = unmasking.before
        dropped_out = dict.fromkeys(range(1, self.config.n_members + 1), Stage.ADVERTISE)
        dropped_out |= dict.fromkeys(before.advertisements, Stage.SHARE) | dict.fromkeys(before.sharers, Stage.MASK)
        silent_after = dict.fromkeys(set(before.survivors) - set(before.signers), Stage.AGREE)
        silent_after |= dict.fromkeys(set(before.signers) - set(unmasking.answers), Stage.UNMASK)
        return OpenedSum(
            group=self.config.group,
            elements=elements,
            survivors=before.survivors,
            dropped_out={member: stage for member, stage in dropped_out.items() if member not in before.survivors},
            silent_after=dict(sorted(silent_after.items())),
            liars=liars,
            surplus_seeds=surplus_seeds,
        )

    def abort(self, reason: str) -> None:
        """End the round for good."""
        self.stage, self._abort_reason = Stage.ABORTED, reason

    def _collection(self, stage: Stage) -> Any:
        reached = self._reached
        return {
            Stage.ADVERTISE: reached.advertisements,
            Stage.SHARE: reached.shares,
            Stage.MASK: reached.inputs,
            Stage.AGREE: reached.signatures,
            Stage.UNMASK: reached.unmasking,
        }.get(stage)

    def _close(self, stage: Stage, following: Stage, close: Callable[[], R]) -> R:
        self._check_not_aborted()
        if self.stage is not stage:
            raise LocalFaultError(f"the stage {stage!s} cannot be closed at {self.stage!s}")
        try:
            result = close()
        except ProtocolError as error:
            self.abort(str(error))
            raise
        self.stage = following
        return result

    def _check_not_aborted(self) -> None:
        if self._abort_reason is not None:
            raise RoundAbortedError(f"the round was aborted: {self._abort_reason}")
