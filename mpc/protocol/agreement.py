"""Agreement on the dealers that count when members may drop out in the middle of a round.

Whatever is summed over dealers (a degree reduction, a random element, a sharing of zero) is only consistent if all
parties sum over the same ones. With exactly 2t + 1 parties there is no choice: all must deal, and a dropout ends the
job. With more parties, each party reports to all others from whom it received, and the dealers that count are those
that every answering party received from.

Two parties may still arrive at different sets if a member drops out while it answers. Therefore all sets so far are
hashed into the *view*. The view is part of the name of every later stage and accompanies every opened share, so parties
with different views no longer receive each other's messages. In the worst case too few parties are left and the job
fails, but shares that belong to different sets are never combined in one interpolation. This needs no clock, no
coordinator and no vote.
"""

import asyncio
import hashlib
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.errors import PeerError, PeerLostError, PeerSilentError, PeerViolationError
from mpc.protocol.exchange import ShareExchange, send_unless_lost
from mpc.protocol.session import Array


class DealerAgreement:
    """One member's knowledge of the parties that are still active, and of the sets of dealers agreed on so far.

    A party that failed once is never listened to again by this member: a late message could be taken for the next one.

    Args:
        exchange: exchange of the job.
        name: name of the computation, which begins the names of its stages.
        needs_all: whether any dropout ends the job, however many parties there are.
    """

    def __init__(self, exchange: ShareExchange, name: str, *, needs_all: bool = False) -> None:
        self._exchange = exchange
        self._needs_all = needs_all
        self._name = name
        self._dropped_out: dict[int, PeerError] = {}
        self._everybody = tuple(range(1, exchange.n_parties + 1))
        self._dealers = self._everybody
        self._n_agreements = 0
        self._changes = hashlib.sha256()
        self._has_changed = False
        self._view = 0
        self._n_steps_unheard = 0

    @property
    def has_surplus(self) -> bool:
        """Whether parties may drop out at all: N > 2t + 1, and not all are needed."""
        return not self._needs_all and self._exchange.n_parties > 2 * self._exchange.t + 1

    @property
    def view(self) -> int:
        """A 64-bit digest of the sets agreed on; 0 as long as no party has dropped out."""
        return self._view

    @property
    def dropped_out(self) -> dict[int, PeerError]:
        """The parties that failed, each with its error."""
        return dict(self._dropped_out)

    def stage(self, kind: str) -> str:
        """Return the name of a stage among the parties with my view."""
        return f"{self._name}/{kind}" + (f"@{self._view:016x}" if self._view else "")

    def present(self) -> list[int]:
        """Return the other parties that have not failed."""
        return [p for p in self._everybody if p != self._exchange.session.me and p not in self._dropped_out]

    def miss(self, failure: PeerError) -> None:
        """Continue without a member that failed, if that is possible.

        Raises:
            PeerError: the failure itself, where all parties are needed.
        """
        if not self.has_surplus:
            raise failure
        self._dropped_out.setdefault(failure.member, failure)

    async def agree(self, received: Collection[int], n_required: int) -> tuple[int, ...]:
        """Return the dealers that count in one round, ascending; equal for all parties that communicate later.

        Args:
            received: the dealers whose array I have, myself included.
            n_required: the least number that makes sense.

        Raises:
            PeerError: too few dealers reached everybody; names one that did not.

        Cost: nothing where N = 2t + 1; else 1 round, N bytes per pair and direction.
        """
        if not self.has_surplus:
            return self._everybody
        stage = self.stage("dealers")
        flags = np.array([dealer in received for dealer in self._everybody], dtype=np.uint8)
        session = self._exchange.session
        others = [
            p for p in self._everybody if p != session.me
        ]  # a party that I do not receive from may still receive from me, and continue
        await asyncio.gather(*(send_unless_lost(session, other, stage, flags) for other in others))
        answers = await asyncio.gather(*(self._flags_of(peer, stage) for peer in self.present()))
        for answer in answers:
            if isinstance(answer, PeerError):
                self.miss(answer)
            else:
                flags = flags & answer
        dealers = tuple(dealer for dealer, flag in zip(self._everybody, flags, strict=True) if flag)
        if len(dealers) < n_required:
            raise self._too_few(stage, dealers, n_required)
        self._n_agreements += 1
        if dealers != self._dealers:
            self._changes.update(self._n_agreements.to_bytes(8, "big") + flags.tobytes())
            self._dealers = dealers
            self._has_changed = True
        return dealers

    def begin(self) -> None:
        """Begin a step. Members without shares take no part in it and wait longer for the next opening."""
        self._n_steps_unheard += 1

    def settle(self) -> None:
        """End a step: the sets agreed on in it become part of the view."""
        if self._has_changed:
            self._view = int.from_bytes(self._changes.digest()[:8], "big")

    async def senders_with_one_view(self, stage: str, receivers: Sequence[int], n_required: int) -> list[int] | None:
        """Send my view to the receivers of an opening; as a receiver, return the parties whose shares belong together.

        Args:
            stage: stage of these messages; used for this opening only.
            receivers: member numbers.
            n_required: shares needed.

        Returns:
            The parties with my view or, if I hold no shares, with the commonest one. None if I am no receiver.

        Raises:
            PeerError: too few parties have one view; names one that failed or has another.
        """
        exchange, me = self._exchange, self._exchange.session.me
        if not self.has_surplus:
            return list(self._everybody)
        word = np.array([self._view], dtype=np.uint64)
        if exchange.am_receiver:
            await asyncio.gather(*(send_unless_lost(exchange.session, r, stage, word) for r in receivers if r != me))
        if me not in receivers:
            return None
        peers = self.present()
        views = {me: self._view} if exchange.am_receiver else {}
        patience = 2 if exchange.am_receiver else 2 + 3 * self._n_steps_unheard
        self._n_steps_unheard = 0
        answers = await asyncio.gather(*(self._view_of(peer, stage, patience) for peer in peers))
        for peer, answer in zip(peers, answers, strict=True):
            if isinstance(answer, PeerError):
                self.miss(answer)
            else:
                views[peer] = answer
        found = list(views.values())
        ours = self._view if exchange.am_receiver else max(found, key=found.count, default=0)
        for peer in [p for p in peers if views.get(p, ours) != ours]:
            what = (
                f"{exchange.session.names[peer]} has been cut off: its set of dealers differs from that of the others"
            )
            self.miss(PeerLostError(peer, stage, what))
        senders = [party for party in sorted(views) if views[party] == ours]
        if len(senders) < n_required:
            raise self._too_few(stage, senders, n_required)
        return senders

    async def _flags_of(self, peer: int, stage: str) -> NDArray[np.uint8] | PeerError:
        answer = await self._patient_answer(peer, stage, (len(self._everybody),), np.uint8, patience=2)
        if not isinstance(answer, PeerError) and answer.max() > 1:
            name = self._exchange.session.names[peer]
            return PeerViolationError(peer, stage, f"{name} sent invalid flags in stage {stage}")
        return answer

    async def _view_of(self, peer: int, stage: str, patience: int) -> int | PeerError:
        answer = await self._patient_answer(peer, stage, (1,), np.uint64, patience)
        return answer if isinstance(answer, PeerError) else int(answer[0])

    async def _patient_answer(
        self, peer: int, stage: str, shape: tuple[int, ...], dtype: type, patience: int
    ) -> Array | PeerError:
        """Wait for several deadlines, because the peer may itself be waiting for a third party that is silent."""
        for attempt in range(patience):
            try:
                return await self._exchange.session.receive(peer, stage, shape, dtype)
            except PeerSilentError as error:
                if attempt == patience - 1:
                    return error
            except PeerError as error:
                return error
        raise AssertionError("patience is at least 1")

    def _too_few(self, stage: str, left: Sequence[int], n_required: int) -> PeerError:
        """Return the error that ends the job: the first failure seen here, or that of a party that others missed."""
        failure = next((self._dropped_out[p] for p in self._everybody if p in self._dropped_out), None)
        if failure is not None:
            return failure
        names = self._exchange.session.names
        absent = next(p for p in self._everybody if p not in left)
        return PeerLostError(
            absent,
            stage,
            f"{names[absent]} did not reach all parties: {len(left)} parties are left, but {n_required} are needed",
        )
