"""One member of one round: it takes the coordinator's messages in order, checks each and answers it once."""

from collections.abc import Callable
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy
from mpc.errors import ProtocolError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RoundConfig, input_digest
from mpc.secagg.errors import ContradictoryMessageError, OutOfOrderError, RoundAbortedError
from mpc.secagg.journal import MemberJournal
from mpc.secagg.member.awaiting_members import AwaitingMembers
from mpc.secagg.member.awaiting_shares import AwaitingShares
from mpc.secagg.member.awaiting_signatures import AwaitingSignatures
from mpc.secagg.member.awaiting_survivors import AwaitingSurvivors
from mpc.secagg.member.context import MemberContext
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
)
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import IdentityKey
from mpc.secagg.secret.surplus import SurplusSeeds
from mpc.secagg.stage import Stage

Integers = NDArray[np.int64]
State = AwaitingMembers | AwaitingShares | AwaitingSurvivors | AwaitingSignatures | None
Answer = TypeVar("Answer", Advertisement, SealedShares, MaskedInput, SurvivorSignature, UnmaskingShares)


class SumMember:
    """A member's half of a round [Bonawitz17, active security].

    Each method takes one message of the coordinator and returns the answer, or raises. A repeated message gets the same
    answer, byte for byte; a different one in its place, or one out of turn, aborts. After any error the member is
    aborted: it has forgotten its secrets and refuses everything. Nothing here can be restored after a crash: a member
    that restarts has dropped out of the round, and its journal prevents it from entering the round again.

    Args:
        config: configuration that the coordinator proposes.
        me: my number in its roster.
        identity: my key.
        policy: my floor.
        journal: my lasting memory; the round is opened in it here.
        public_input: what all members start from, as I was given it.
        entropy: where my randomness comes from.

    Raises:
        PolicyRefusalError: the round is below my floor.
        RoundReusedError: I have taken part in it before.
    """

    def __init__(
        self,
        config: RoundConfig,
        me: int,
        *,
        identity: IdentityKey,
        policy: MemberPolicy,
        journal: MemberJournal,
        public_input: bytes,
        entropy: Entropy,
    ) -> None:
        policy.check(config, me, identity.public_bytes)
        journal.open_round(config.round_id)
        digest = input_digest(config.round_id, public_input)
        first = AwaitingMembers.begin(MemberContext(config, me, identity, journal, digest, entropy))
        self.me = me
        self.is_on_ring = not config.topology.is_complete
        self.stage = Stage.SHARE
        self._advertisement = first.advertisement
        self._surplus: SurplusSeeds | None = first.secrets.surplus
        self._state: State = first
        self._abort_reason: str | None = None
        self._answered: dict[Stage, tuple[object, object]] = {}

    def advertise(self) -> Advertisement:
        """Return my fresh keys, signed."""
        self._check_not_aborted()
        return self._advertisement

    @property
    def surplus_seeds(self) -> tuple[bytes, ...]:
        """My surplus seeds, for the parts of my vector that may be taken away again. Secret."""
        self._check_not_aborted()
        assert self._surplus is not None
        return self._surplus.seeds

    def share_keys(self, members: MemberList | NeighbourList) -> SealedShares:
        """Share my secrets with those that take part; see `AwaitingMembers.receive`."""

        def step() -> tuple[SealedShares, State]:
            assert isinstance(self._state, AwaitingMembers)
            return self._state.receive(members)

        return self._answer(Stage.SHARE, Stage.MASK, members, step)

    def check_shares(self, delivery: ShareDelivery) -> None:
        """Refuse a delivery that `mask_input` would refuse, before any cost is committed and any data are read.

        Raises:
            PeerViolationError, TooFewMembersError: see `AwaitingShares.receive`; the member aborts.
        """
        self._check_not_aborted()
        if Stage.MASK in self._answered:  # `mask_input` compares it with what was answered
            return
        if self.stage is not Stage.MASK:
            what = f"a message of the stage {Stage.MASK!s} came while {self.stage!s} was due"
            self._fail(OutOfOrderError(COORDINATOR, Stage.MASK, what))
        assert isinstance(self._state, AwaitingShares)
        try:
            self._state.open(delivery)
        except BaseException as error:
            self._abort_after(error)
            raise

    def mask_input(self, delivery: ShareDelivery, values: Integers, noise: Integers | None = None) -> MaskedInput:
        """Mask my vector; see `AwaitingShares.receive`. A repetition ignores `values` and `noise`."""

        def step() -> tuple[MaskedInput, State]:
            assert isinstance(self._state, AwaitingShares)
            return self._state.receive(delivery, values, noise)

        return self._answer(Stage.MASK, Stage.AGREE, delivery, step)

    def sign_survivors(self, survivors: SurvivorList) -> SurvivorSignature:
        """Sign who has survived; see `AwaitingSurvivors.receive`."""

        def step() -> tuple[SurvivorSignature, State]:
            assert isinstance(self._state, AwaitingSurvivors)
            return self._state.receive(survivors)

        return self._answer(Stage.AGREE, Stage.UNMASK, survivors, step)

    def unmask(self, signed: SignedSurvivors) -> UnmaskingShares:
        """Release my shares, once; see `AwaitingSignatures.receive`."""

        def step() -> tuple[UnmaskingShares, State]:
            assert isinstance(self._state, AwaitingSignatures)
            return self._state.receive(signed), None

        return self._answer(Stage.UNMASK, Stage.DONE, signed, step)

    def abort(self, reason: str) -> None:
        """Leave the round and forget its secrets."""
        self._state, self._answered, self._surplus = None, {}, None
        self.stage, self._abort_reason = Stage.ABORTED, reason

    def _answer(
        self, stage: Stage, following: Stage, request: object, step: Callable[[], tuple[Answer, State]]
    ) -> Answer:
        self._check_not_aborted()
        if stage in self._answered:
            seen, answer = self._answered[stage]
            if seen != request:
                what = f"a second, different message came at the stage {stage!s}; each is answered once"
                self._fail(ContradictoryMessageError(COORDINATOR, stage, what))
            return answer  # type: ignore[return-value]  # stored by this very stage
        if self.stage is not stage:
            what = f"a message of the stage {stage!s} came while {self.stage!s} was due"
            self._fail(OutOfOrderError(COORDINATOR, stage, what))
        try:
            answer, self._state = step()
        except (
            BaseException
        ) as error:  # also an error of the journal: an entry that could not be written must not be retried
            self._abort_after(error)
            raise
        self.stage = following
        self._answered[stage] = (request, answer)
        return answer

    def _abort_after(self, error: BaseException) -> None:
        self.abort(str(error) if isinstance(error, ProtocolError) else f"{type(error).__name__} in this member")

    def _fail(self, error: ProtocolError) -> NoReturn:
        self.abort(str(error))
        raise error

    def _check_not_aborted(self) -> None:
        if self._abort_reason is not None:
            raise RoundAbortedError(f"the round was aborted: {self._abort_reason}")
