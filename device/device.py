"""A member of masked sums over outgoing connections only: it waits for invitations and does not trust the coordinator.

Whether it takes part is decided by what its owner configured, by its ledger and by the question. Its records are opened
for the first time once the cost of the round is committed, so nothing that others see of it before depends on them; and
whatever they hold, one masked vector of the round's size leaves afterwards.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from analyses.job.job import LEAST_EPSILON, JobError
from analyses.sums.records import Contribution
from analyses.sums.secure_sum import SumParams, round_config
from device.answered_round import AnsweredRound
from device.budget import DeviceBudget, cost_of
from device.factors import FactorDevice
from device.records import KeptRecord
from device.refusing import check_least_epsilon, surviving, why_failed, why_refused
from device.report import write_sum_report
from entropy import Entropy
from ledger.books import ChargeError
from ledger.entry import LedgerError
from mpc.errors import PeerViolationError, ProtocolError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import FromMembers
from mpc.secagg.drive import M, take_part
from mpc.secagg.errors import PolicyRefusalError
from mpc.secagg.journal import MemberJournal
from mpc.secagg.member import SumMember
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import IdentityKey
from mpc.secagg.stage import Stage
from mpc.secagg.vector.encoding import EncodedVector
from mpc.transcript import RoundId
from service.codes.coded_text import told
from service.errors import ServiceError
from transport.aggregation import STEP_OF, RoundStep
from transport.aggregation_client import AggregationClient
from transport.refusal import Declined
from transport.sum_codec import Ended, Invitation, RefusedInvitationError

PAUSE_S = 2.0
"""Seconds to wait before the next attempt if the coordinator cannot be reached or repeats an invitation."""

MAX_ROUNDS_REMEMBERED = 1024
"""Number of past rounds that a device keeps in memory, more than a coordinator runs at once. The journal has older
ones."""

Integers = NDArray[np.int64]

P = ParamSpec("P")
R = TypeVar("R")

_log = structlog.get_logger(__name__)


class RoundEndedError(Exception):
    """The coordinator reports that the round has ended or continues without us; the text is its reason.

    Attributes:
        outcome: what a series of rounds has come to, where it is over; public.
    """

    code: str = "round-ended"

    def __init__(self, reason: str, outcome: bytes = b"") -> None:
        super().__init__(reason)
        self.outcome = outcome


@dataclass(frozen=True)
class Device:
    """One member.

    Attributes:
        name: name in its certificate and in rosters.
        client: calls to the coordinator.
        identity: its key.
        policy: its floor.
        journal: its lasting memory.
        records: what it keeps, by name; read anew for each round.
        entropy: where its randomness comes from.
        budget: its ledger; None in simulations, which then answer no noisy sum.
        data_dir: where the private report of each round is kept; None for none.
        largest_epsilon: largest epsilon of one round, in its worst view, at the budget's delta; None: the budget's.
        least_epsilon: least epsilon of a noisy round, at its own delta.
        exact_sums: whether it answers sums without noise.
        factors: its part in matrix factorizations; None where it keeps no ratings.
        tells_refusals: whether the coordinator is told the class of a refusal's reason.

    Raises:
        ValueError: the entropy is reproducible: whoever knew its seed would know all masks and noise.
    """

    name: str
    client: AggregationClient
    identity: IdentityKey
    policy: MemberPolicy
    journal: MemberJournal
    records: Mapping[str, KeptRecord]
    entropy: Entropy
    budget: DeviceBudget | None = None
    data_dir: Path | None = None
    largest_epsilon: float | None = None
    least_epsilon: float = LEAST_EPSILON
    exact_sums: bool = False
    factors: FactorDevice | None = None
    tells_refusals: bool = True

    def __post_init__(self) -> None:
        if not self.entropy.is_secure:
            raise ValueError("a service needs secure randomness")

    async def run(self) -> None:
        """Take part in every round that this member is invited to and agrees with, until cancelled."""
        await answer_rounds(lambda: self)

    @surviving
    async def answer(self, invitation: Invitation) -> bool:
        """Take part in one round, or refuse it; say whether its sum was opened. What goes wrong is logged."""
        log = _log.bind(member=self.name, round=str(invitation.round_id))
        try:
            await self.take_part(invitation)
        except (ProtocolError, JobError, ServiceError, RoundEndedError) as error:
            log.warning("left the round", reason=told(error))
            return False
        finally:
            await self._give_back(invitation.round_id)
        try:
            standing = None if self.budget is None else await asyncio.to_thread(self.budget.standing)
        except LedgerError as error:
            log.error("the sum is open; the budget cannot be read", reason=str(error))
        else:
            log.info("the sum is open", **describe_standing(standing))
        return True

    async def _give_back(self, round_id: RoundId) -> None:
        """Give back what the round holds and did not use; what stays is given back at the next start."""
        if self.budget is None:
            return
        try:
            await asyncio.to_thread(self.budget.release, round_id, "the round was left")
        except LedgerError as error:
            _log.error("reservation kept", member=self.name, round=str(round_id), reason=str(error))

    async def take_part(self, invitation: Invitation) -> None:
        """Take part in one round to its end.

        Raises:
            ProtocolError: the round is below our floor, we took part in it before, or somebody violates the protocol.
            JobError: what we declare does not fit the question.
            ChargeError, LedgerError: our budget does not cover it, or cannot be written.
            ServiceError: the coordinator cannot be reached, or does not know the round any more.
            RoundEndedError: it was ended, or goes on without us.
        """
        number, client, outcome = self._number_in(invitation), self.client, b""
        try:
            answered = await asyncio.to_thread(self._answered, invitation)
            config = answered.config
            await asyncio.to_thread(self.policy.check, config, number, self.identity.public_bytes)
            await asyncio.to_thread(answered.admit)
        except Exception as error:  # also one that nobody foresaw: it depends on the question and declarations alone
            await self._decline(invitation, error)
            raise
        try:
            member = await asyncio.to_thread(self._enter, config, number, invitation.public_input)

            async def contribute(seeds: tuple[bytes, ...]) -> tuple[Integers, Integers | None]:
                await asyncio.to_thread(answered.commit)
                return await asyncio.to_thread(answered.contribute, seeds)

            await take_part(member, _Link(client, config.round_id), contribute)
            end = await client.fetch(RoundStep.END, config.round_id)
            outcome = end.outcome if isinstance(end, Ended) else b""
            if not isinstance(end, Ended) or end.reason:
                raise RoundEndedError(end.reason if isinstance(end, Ended) else "the coordinator did not end the round")
        except RoundEndedError as error:
            outcome = outcome or error.outcome
            raise
        finally:
            await asyncio.to_thread(answered.leave, outcome)

    async def _decline(self, invitation: Invitation, error: Exception) -> None:
        """Tell the coordinator that we do not enter the round, by the class of the reason; no record has been read.

        Nothing depends on whether it hears of it: it would find us silent.
        """
        why, number, round_id = why_refused(error), self._number_in(invitation), invitation.round_id
        if why is None or number == 0 or not self.tells_refusals:
            return
        try:
            await self.client.answer(Declined(round_id, number, why))
        except ServiceError as failure:
            _log.info("refusal not told", member=self.name, round=str(round_id), reason=told(failure))

    def _answered(self, invitation: Invitation) -> AnsweredRound:
        """Return the round, by the kind of its question.

        Raises:
            JobError: the question cannot be read or answered, or is none that this device answers.
            PeerViolationError: the round does not match its question.
        """
        if self.factors is not None and (found := self.factors.entered(invitation)) is not None:
            return found
        params, round_id = SumParams.from_json(invitation.public_input), invitation.round_id
        config = round_config(params, round_id.session, invitation.identities, round_id.attempt)
        return _SumRound(self, params, invitation.checked(config))

    def _number_in(self, invitation: Invitation) -> int:
        """Return our number in the roster; 0, which no policy accepts, where it does not list us."""
        return next((entry.number for entry in invitation.roster if entry.name == self.name), 0)

    def _admit(self, params: SumParams, config: RoundConfig) -> None:
        """Refuse a round that the owner rules out; otherwise reserve budget for it.

        The records are not looked at: what decides about them is what their owner declares.
        """
        if params.record not in self.records:
            raise JobError(f"record: {self.name} declares no record {params.record}")
        self.records[params.record].declared.check(params)
        noise = params.noise(config.topology)
        if noise is None or params.privacy is None:
            if not self.exact_sums:
                what = f"an exact sum is asked for; {self.name} takes part in noisy ones only (policy.exact_sums)"
                raise PolicyRefusalError(COORDINATOR, Stage.ADVERTISE, what)
            return
        if self.budget is None:
            raise ChargeError(f"{self.name} keeps no privacy ledger, so it takes part in no noisy sum")
        check_least_epsilon(params.privacy.epsilon, self.least_epsilon)
        delta = self.budget.check_delta(params)
        epsilon = cost_of(noise).epsilon(delta).epsilon
        if self.largest_epsilon is not None and epsilon > self.largest_epsilon:
            what = f"epsilon is {epsilon:.3g} at delta {delta:g}, in its worst view; "
            raise PolicyRefusalError(COORDINATOR, Stage.ADVERTISE, what + f"at most {self.largest_epsilon:g} here")
        self.budget.reserve(config.round_id, params, noise)

    def _contribute(
        self, seeds: tuple[bytes, ...], params: SumParams, config: RoundConfig
    ) -> tuple[Integers, Integers | None]:
        """Read the record; return what it contributes, and the noise. The round is paid, and no record stops this."""
        contributed, encoded = self.records[params.record].encoded(params, self.entropy)
        noise = params.noise(config.topology)
        drawn = None if noise is None else noise.draw(self.entropy, seeds)
        self._report(params, config, contributed, encoded)
        return encoded.values, drawn

    def _report(
        self, params: SumParams, config: RoundConfig, contributed: Contribution, encoded: EncodedVector
    ) -> None:
        """Store the private report. An error does not fail the round, because others would learn about this device."""
        if self.data_dir is None:
            return
        try:
            standing = None if self.budget is None else self.budget.standing()
            write_sum_report(self.data_dir, params, config, contributed, encoded, standing)
        except Exception as error:
            _log.error("report not kept", member=self.name, round=str(config.round_id), reason=why_failed(error))

    def _enter(self, config: RoundConfig, number: int, public_input: bytes) -> SumMember:
        return SumMember(
            config,
            number,
            identity=self.identity,
            policy=self.policy,
            journal=self.journal,
            public_input=public_input,
            entropy=self.entropy,
        )


async def answer_rounds(current: Callable[[], Device]) -> None:
    """Take part in every round that a member is invited to and agrees with, until cancelled.

    A round is answered only once, whatever its outcome. If a coordinator offers it again, the device polls again after
    a pause, and neither ledger nor journal changes.

    Args:
        current: returns the device as it is configured now; a round goes on with the one that it began with.
    """
    last = RoundId("", 0, 0)
    answered: deque[RoundId] = deque(maxlen=MAX_ROUNDS_REMEMBERED)
    while True:
        device = current()
        try:
            invitation = await device.client.fetch(RoundStep.INVITATION, last)
        except RefusedInvitationError as error:
            invitation, last = None, error.round_id
            _log.warning("refused the round", member=device.name, round=str(last), reason=told(error))
        except Exception as error:  # whatever the coordinator sends, the loop goes on
            _log.warning("no invitation", member=device.name, reason=why_failed(error))
            await asyncio.sleep(PAUSE_S)
            continue
        if isinstance(invitation, Invitation):
            last = invitation.round_id
        if last in answered:
            await asyncio.sleep(PAUSE_S)
            continue
        answered.append(last)
        if isinstance(invitation, Invitation):
            await current().answer(invitation)


@dataclass(frozen=True)
class _SumRound:
    """The one round of a sum; see `device.answered_round.AnsweredRound`."""

    device: Device
    params: SumParams
    config: RoundConfig

    def admit(self) -> None:
        self.device._admit(self.params, self.config)

    def commit(self) -> None:
        if self.device.budget is not None:
            self.device.budget.commit(self.config.round_id, self.params)

    def contribute(self, seeds: tuple[bytes, ...]) -> tuple[Integers, Integers | None]:
        return self.device._contribute(seeds, self.params, self.config)

    def leave(self, outcome: bytes) -> None:
        """Do nothing: `Device.answer` gives back what the round holds."""


class _Link:
    """A device's link (`mpc.secagg.drive`): it asks the coordinator for what is due, and calls it to answer."""

    def __init__(self, client: AggregationClient, round_id: RoundId) -> None:
        self._client = client
        self._round_id = round_id

    async def answer(self, stage: Stage, message: FromMembers) -> None:
        """See `MemberLink`."""
        await self._client.answer(message)

    async def receive(self, stage: Stage, kind: type[M]) -> M:
        """See `MemberLink`.

        Raises:
            RoundEndedError: the round was ended, or goes on without us.
            PeerViolationError: the coordinator sent a message of another stage.
        """
        message = await self._client.fetch(STEP_OF[stage], self._round_id)
        if isinstance(message, Ended):
            raise RoundEndedError(message.reason or "its sum was opened without us", message.outcome)
        if not isinstance(message, kind):
            what = f"the coordinator did not send a {kind.__name__}"
            raise PeerViolationError(COORDINATOR, Stage.ADVERTISE, what)
        return message

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """See `MemberLink`."""
        return await asyncio.to_thread(work, *args, **kwargs)


def describe_standing(standing: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a device's log says of its budget; nothing where it has none."""
    if standing is None:
        return {}
    return {
        "period": standing["period"],
        "epsilon": standing["epsilon"],
        "spent_epsilon": round(standing["spent_epsilon"], 4),
        "remaining_epsilon": round(standing["remaining_epsilon"], 4),
    }
