"""A party's part in judging the proofs of a batch's answers, and its sum of those that hold.

When the parties have compared their lists, in one conversation they

1. tell each other whether they have closed the batch before, and what was rejected then: if any has, that stands. They
   compare what they heard, for a party that tells others different things would have some wait for the others;
2. send each other a seed; the coin is the hash of all. No device could know it when its answer was fixed, as parties
   tell their seeds to those only that have the same list. A party's seed follows from its key for the batch and the
   list, and it opens nothing under another coin than the first one: that would tell of vectors (`mpc.vector_proofs`).
   Where parties may be missing, seeds are those of others in another attempt; so they first tell each other which coin
   they have noted, and the one that any has noted stands;
3. send each other, block by block, what they open of each answer, and add up those that hold.

That every vector in the sum keeps its bounds takes all parties: one that lies here can have any device rejected, or let
any device in. No lie tells anything of other devices.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream, derive_key
from mpc.errors import InconsistentSharesError, PeerViolationError
from mpc.prime import kernels as prime_kernels
from mpc.prime.kernels import PRIME
from mpc.protocol.concurrency import run_together
from mpc.protocol.session import COORDINATOR
from mpc.transcript import DIGEST_BYTES, digest
from mpc.vector_proofs.prover import challenge_of
from mpc.vector_proofs.verifier import Verifier
from party.batches.collecting import Collection, places_of
from questions.shares import AskedBatch
from transport.batch_codec import AnswerPart

REJECTED_STAGE, HEARD_STAGE, NOTED_STAGE, SEEDS_STAGE, OPENED_STAGE = (
    "rejected", "heard of rejections", "noted coins", "seeds of the coin", "opened of proofs",
)  # fmt: skip

Bits = NDArray[np.bool_]


@dataclass
class Judge:
    """One party's end of the conversation about the proofs of one batch, in one attempt.

    Attributes:
        asked: the question.
        session: my end.
        rejected: what was rejected when I closed the batch; None while it is open. After `judge`: what is rejected.
        openers: numbers of the parties that open; none: all.
    """

    asked: AskedBatch
    session: Any
    rejected: Bits | None = None
    openers: Sequence[int] = ()

    @property
    def _others(self) -> list[int]:
        return [party for party in self.asked.question.openers_of(self.openers) if party != self.session.me]

    async def tell(self, openable: Bits) -> Bits:
        """Tell the others what I rejected when I closed the batch; return what all could open and nobody rejected."""
        told = await self._rejected_before(len(openable))
        return openable if told is None else openable & ~told

    async def judge(
        self,
        openable: Bits,
        collection: Collection,
        blocks: Callable[[Bits], AsyncIterator[list[AnswerPart]]],
        coin: Callable[[bytes], Awaitable[bytes]],
        seed: bytes,
        noted: bytes | None = None,
    ) -> Bits:
        """Judge proofs, and add the vectors that keep their bounds to the sum of the collection.

        Args:
            openable: what all could open.
            collection: what was shown.
            blocks: returns some answers of the list once more, in blocks that are the same at all parties.
            coin: notes a coin, and returns the first one that was noted.
            seed: mine; the same in all attempts.
            noted: the coin that I have noted in an earlier attempt; it counts where parties may be missing.

        Returns:
            What all could open and is in the sum.

        Raises:
            InconsistentSharesError: others heard other rejections than I did.
            PeerViolationError: another coin comes out than before, or a party sends what is no element.
            PeerError: a party is silent or drops out.

        Cost: 3 rounds, 4 where parties may be missing, and one for each block; `Table.opened` elements for each answer,
        pair and direction.
        """
        told = await self._rejected_before(len(openable))
        verifier = None
        if told is None:
            found = await self._standing(noted) or await self._toss(seed)
            if await coin(found) != found:
                what = "another coin came out for this batch than before: nothing is opened under a second one"
                raise PeerViolationError(COORDINATOR, SEEDS_STAGE, what)
            claim = self.asked.question.claim
            assert claim is not None, "only proofs are judged"
            first = self.asked.question.openers_of(self.openers)[0]
            verifier = Verifier(claim, KeyStream(found), is_first=self.session.me == first)
        wanted = openable if told is None else openable & ~told
        rejected = openable & ~wanted
        places = places_of(wanted)
        async for parts in blocks(wanted):
            mine, places = places[: len(parts)], places[len(parts) :]
            shares = await self.session.compute(collection.opened_again, parts, mine)
            holds = await self._holds(verifier, collection, parts, shares)
            rejected[[place for place, one in zip(mine, holds, strict=True) if not one]] = True
        collection.opened_again((), places)
        self.rejected = rejected
        return openable & ~rejected

    async def _rejected_before(self, n: int) -> Bits | None:
        """Return what was rejected where any party has closed the batch before."""
        before = np.zeros(n, dtype=np.bool_) if self.rejected is None else self.rejected
        packed = np.packbits(np.append(self.rejected is not None, before))
        told = await self._exchanged(REJECTED_STAGE, packed)
        all_bits = [np.unpackbits(one, count=n + 1).astype(np.bool_) for one in (packed, *told)]
        closed = [bits[1:] for bits in all_bits if bits[0]]
        found: Bits | None = np.logical_or.reduce(closed) if closed else None
        heard = digest("batch rejections", b"open" if found is None else np.packbits(found).tobytes())
        others = await self._exchanged(HEARD_STAGE, np.frombuffer(heard, dtype=np.uint8))
        if any(one.tobytes() != heard for one in others):
            raise InconsistentSharesError("a party told others different things about what was rejected before")
        return found

    async def _exchanged(self, stage: str, mine: NDArray[Any]) -> list[NDArray[Any]]:
        """Send an array to all others and return theirs, of the same shape and type, in the order of the others."""
        await run_together(*(self.session.send(other, stage, mine) for other in self._others))
        return await run_together(
            *(self.session.receive(other, stage, mine.shape, mine.dtype.type) for other in self._others)
        )

    async def _standing(self, noted: bytes | None) -> bytes | None:
        """Return the coin that any party has noted; None where none has, or where all toss the same one each time."""
        if not self.asked.question.may_miss:
            return None
        none = bytes(DIGEST_BYTES)
        told = await self._exchanged(NOTED_STAGE, np.frombuffer(noted or none, dtype=np.uint8))
        coins = {noted or none, *(one.tobytes() for one in told)} - {none}
        if len(coins) > 1:
            what = "parties have noted different coins for this batch: nothing is opened under a second one"
            raise PeerViolationError(COORDINATOR, NOTED_STAGE, what)
        return coins.pop() if coins else None

    async def _toss(self, seed: bytes) -> bytes:
        told = await self._exchanged(SEEDS_STAGE, np.frombuffer(seed, dtype=np.uint8))
        seeds = {self.session.me: seed} | {other: one.tobytes() for other, one in zip(self._others, told, strict=True)}
        return digest("batch coin", self.asked.digest, *(seeds[party] for party in sorted(seeds)))

    async def _holds(
        self,
        verifier: Verifier | None,
        collection: Collection,
        parts: Sequence[AnswerPart],
        shares: Sequence[bytes],
    ) -> list[bool]:
        """Return which answers of a block keep their bounds, and add those; without a verifier all do."""
        if verifier is None:
            await self.session.compute(collection.sum.add, shares)
            return [True] * len(parts)
        challenges = [challenge_of(verifier.claim, KeyStream(collection.challenge(part))) for part in parts]

        def opened() -> NDArray[np.uint64]:
            both = map(collection.sum.both, shares)
            return np.stack([verifier.share_of(*one, of) for one, of in zip(both, challenges, strict=True)])

        total = await self.session.compute(opened)
        told = await self._exchanged(OPENED_STAGE, total)
        total = total.copy()  # what is sent may be on its way still
        for other, theirs in zip(self._others, told, strict=True):
            if int(theirs.max()) >= PRIME:
                name = self.session.names[other]
                raise PeerViolationError(other, OPENED_STAGE, f"{name} opens what is no element of the field")
            prime_kernels.add_to(total.reshape(-1), np.ascontiguousarray(theirs).reshape(-1))

        def judged() -> list[bool]:
            holds = [verifier.accepts(one, of) for one, of in zip(total, challenges, strict=True)]
            collection.sum.add([share for share, one in zip(shares, holds, strict=True) if one])
            return holds

        found: list[bool] = await self.session.compute(judged)
        return found


def seed_of(private: bytes, shown: bytes) -> bytes:
    """Return a party's seed of the coin: it follows from its key for the batch, and the list that it was shown."""
    return derive_key(private, salt=shown, info=b"moiety batch coin")
