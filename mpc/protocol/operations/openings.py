"""How values leave a computation: checked, hidden but for what they are, and opened to those that may know them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.moduli import check_galois
from mpc.errors import FieldTooSmallError, PeerError, PeerViolationError
from mpc.hidden import Hidden
from mpc.protocol.exchange import Words, send_unless_lost
from mpc.protocol.operations.core import ComputationCore, parameters_digest
from mpc.protocol.session import COORDINATOR
from mpc.protocol.shared import SharedArray


@dataclass(frozen=True, eq=False)
class OpenedArray(Hidden):
    """The result of an opening at a receiver.

    Attributes:
        values: signed integers; int64, or Python integers in a field of more than three primes. Not shown by repr.
        wrong: numbers of the parties whose corrupted shares were corrected so far: shares of these values, of earlier
            ones, or (if this member holds shares) of checks on the way.
        dropped_out: numbers of the parties that failed on the way, as far as this member knows.
        field: where the elements live.
    """

    instead = "ask its `values`"

    values: NDArray[Any] = attribute(repr=False)
    wrong: tuple[int, ...]
    dropped_out: tuple[int, ...]
    field: ResidueField

    def to(self, galois_field: Any) -> Any:
        """Return the values modulo p as an array of a `galois` field: `opened.to(galois.GF(p))`.

        Raises:
            FieldMismatchError: it is no prime of the field in which they were opened.
        """
        check_galois(galois_field, self.field.primes)
        return galois_field(np.asarray(self.values % int(galois_field.characteristic), dtype=np.int64))


class Openings(ComputationCore):
    """The part of `Computation` that opens."""

    async def check_products(self) -> None:
        """Check what has been reduced so far, before a result of it is opened by another computation (`beside`).

        Raises:
            PeerViolationError, InconsistentSharesError, PeerError: see `open`.

        Cost: 2 rounds where N > 2t + 1 and something was reduced since the last check; else none.
        """
        with self._step():
            await self._check_reduced()

    async def open(self, x: SharedArray, receivers: Sequence[int] = (COORDINATOR,)) -> OpenedArray | None:
        """Reveal an array to some members; None for the others.

        Products may be opened as they are: a sharing of zero of their degree hides all but the values. Surplus shares
            are checked. If there are enough of them, corrupted shares are corrected and their senders named
            (`mpc.arithmetic.opening`).
        Before that, surplus dealers of the reductions that led here are checked (`mpc.protocol.product_check`). If N =
        2t + 1 there is no surplus: a corrupted share of an opened product, or one that entered the reduction of a small
        batch, is not detected and leads to a wrong value.

        Args:
            x: any degree below N.
            receivers: member numbers; 0 is the coordinator.

        Raises:
            TooFewPartiesError: the degree is too high for the roster.
            FieldTooSmallError: a value might have wrapped around the field.
            FieldMismatchError: an array of another field.
            InconsistentSharesError: shares contradict each other, and too few are there to tell which are wrong.
            PeerViolationError: a party multiplied corrupted shares on the way; or, at the coordinator, so many have
                another field, roster, t or name of the computation than I have that too few are left.
            PeerError: fewer than degree + 1 parties answered; names one that did not.

        Privacy: reveals the values to the receivers and to nobody else, and nothing besides.
        Cost: 1 round, with 32 bytes from each party to the coordinator the first time; 1 more for products.
        Where N > 2t + 1, 1 more for what has been reduced, and 1 more for products.
        """
        words = await self._opened_words(x, receivers)
        if words is None:
            return None
        values = await self._exchange.compute(words.size, self.field.decode, words)
        dropped_out = self._agreement.dropped_out.keys() | self._differing
        return OpenedArray(values, tuple(sorted(self._wrong)), tuple(sorted(dropped_out)), self.field)

    async def _opened_words(self, x: SharedArray, receivers: Sequence[int], *, is_fresh: bool = False) -> Words | None:
        """Reveal an array as `open` does, and return its elements, shape (n_words, *shape).

        Args:
            x: array given to `open`.
            receivers: receivers given to `open`.
            is_fresh: whether each polynomial is uniform but for its value already, so that products need no zeros.
        """
        self._check(x)
        if x.bound is not None and x.bound > self.field.half_order:
            raise FieldTooSmallError(
                f"the opened values may have {x.bound.bit_length()} bits and a sign, which do not fit into a field of "
                f"{self.field.order.bit_length()} bits: use more primes or tighter bounds"
            )
        with self._step():
            await self._check_reduced()
            if x.degree > self.t and not is_fresh:
                x = x + await self._zeros(x.shape, x.degree)
            number = self._n_openings
            self._n_openings += 1
            needed = x.degree + 1
            senders = await self._agreement.senders_with_one_view(self._stage(f"view {number}"), receivers, needed)
            if COORDINATOR in receivers:
                senders = await self._compare_with_coordinator(senders, needed)
            stage = self._stage(f"opening {number}")
            share = None if x.share is None else x.share.reshape(self.field.n_words, -1)
            opening = await self._exchange.open(
                stage, share, (x.size,), x.degree, receivers, senders, deviating=self._deviating
            )
            if opening is None:
                return None
            self._wrong.update(opening.wrong)
            return opening.words.reshape(self.field.n_words, *x.shape)

    def outline(self, shape: tuple[int, ...], degree: int, bound: int | None) -> SharedArray:
        """Return what a member without shares knows of an array, to open it."""
        return SharedArray(self.field, shape, degree, bound, None)

    async def _compare_with_coordinator(self, senders: list[int] | None, n_required: int) -> list[int] | None:
        """Send my parameters to the coordinator, once: it shares no key with anyone from which it could infer them.

        Returns:
            At the coordinator, those of the senders that compute with the same; else the senders.

        Raises:
            PeerViolationError, PeerError: at the coordinator, too few do; names one that does not.
        """
        exchange, session, stage = self._exchange, self._exchange.session, self._stage("parameters")
        if self._coordinator_knows:
            return None if senders is None else [party for party in senders if party not in self._differing]
        self._coordinator_knows = True
        mine = np.frombuffer(parameters_digest(self.field, exchange.n_parties, self.t, self._name), dtype=np.uint8)
        if exchange.am_receiver:
            await send_unless_lost(session, COORDINATOR, stage, mine)
        if self.me != COORDINATOR or senders is None:
            return senders

        async def compare(party: int) -> None:
            theirs = await session.receive(party, stage, mine.shape, np.uint8)
            if not np.array_equal(mine, theirs):
                what = f"{session.names[party]} computes with a different field, roster, t or name of the computation"
                raise PeerViolationError(party, stage, what)

        answers = await asyncio.gather(*map(compare, senders), return_exceptions=True)
        failures: list[PeerError] = []
        for answer in answers:
            if isinstance(answer, PeerError):
                failures.append(answer)
            elif answer is not None:
                raise answer
        if len(senders) - len(failures) < n_required:
            raise failures[0]
        self._differing.update(failure.member for failure in failures)
        return [party for party in senders if party not in self._differing]
