"""How the parties of a batch agree on the devices that are in it, before any of them lets its share of the sum out.

Each party has been shown a list of answers by the coordinator, and could open some of them. In one conversation, over
connections on which the parties have authenticated each other, they

1. compare a digest of the whole list, names and signed answers in their order (`exchange_public_keys` compares the
   question at the same time): whoever was shown another list ends the batch;
2. tell each other, as bits, which answers they could open: the cohort is what all of them could;
3. compare a digest of the cohort, so that a party that told two others different things ends the batch, too. A party
   that has closed the batch with another cohort in an earlier attempt says none: without its digest nobody closes.

Where devices prove their vectors, the parties judge the proofs between 2 and 3, and the cohort is what passes.

Two honest parties that come to the end, in the same attempt or in different ones, have the same cohort. A party that
lies can leave devices out, down to the smallest cohort, as the coordinator can. It cannot bring two honest ones to
different cohorts, nor one device into the cohort that an honest party has not opened.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mpc.errors import PeerViolationError, ProtocolError
from mpc.protocol.concurrency import run_together
from mpc.protocol.greeting import GREETING_STAGE, exchange_public_keys
from mpc.protocol.session import COORDINATOR, Session
from mpc.transcript import DIGEST_BYTES, digest

OPENABLE_STAGE, COHORT_STAGE = "openable", "cohort"

_COUNT_BYTES = 8


class CohortTooSmallError(ProtocolError):
    """Fewer devices are in a batch than its question asks for, or more; nothing is opened."""

    code = "cohort-too-small"


class ListDigest:
    """The digest of a list of answers, made as they come."""

    def __init__(self, batch: bytes) -> None:
        self._hash = hashlib.sha256(b"moiety batch list:" + batch)

    def add(self, name: str, answer: bytes) -> None:
        """Take in the next device: its name, and the digest of its signed answer, 32 bytes."""
        encoded = name.encode()
        self._hash.update(len(encoded).to_bytes(2, "big") + encoded + answer)

    def digest(self) -> bytes:
        """Return the digest of what was taken in."""
        return self._hash.digest()


@dataclass(frozen=True)
class ShownList:
    """What a party was shown, and what it could open of it.

    Attributes:
        digest: digest of the list.
        openable: per answer, in the order of the list.
    """

    digest: bytes
    openable: NDArray[np.bool_] = field(repr=False)

    def cohort_digest(self, cohort: NDArray[np.bool_]) -> bytes:
        """Return the digest of a cohort of this list."""
        return digest("batch cohort", self.digest, len(cohort), np.packbits(cohort).tobytes())


async def agree(
    session: Session,
    parties: Sequence[int],
    shown: ShownList,
    bounds: tuple[int, int],
    closed: NDArray[np.bool_] | None = None,
    judge: Callable[[NDArray[np.bool_]], Awaitable[NDArray[np.bool_]]] | None = None,
) -> NDArray[np.bool_]:
    """Return the cohort that all parties agree on, shape (answers,).

    Args:
        session: my end, bound to the question.
        parties: all member numbers, mine among them.
        shown: to me.
        bounds: the least and the most devices that a cohort may have.
        closed: the cohort with which I have closed the batch in an earlier attempt; None where I have not.
        judge: returns, of what all could open, what proves that it keeps its bounds; None where nothing is proven.

    Raises:
        DifferentTermsError: another party was asked another question.
        PeerViolationError: parties were shown different lists, or one says different things to others, or other things
            than in the attempt in which I have closed the batch.
        CohortTooSmallError: the cohort is not within its bounds.
        PeerError: a party is silent or drops out.

    Privacy: names of devices, digests and bits that say which answers open; no share and nothing that depends on one.
    Cost: 3 rounds; 104 bytes and a bit per answer, per pair and direction.
    """
    others = [party for party in parties if party != session.me]
    names = session.names
    n = len(shown.openable)
    head = shown.digest + n.to_bytes(_COUNT_BYTES, "big")
    for party, theirs in (await exchange_public_keys(session, others, head)).items():
        if not hmac.compare_digest(theirs, head):
            what = (
                f"coordinator {names[COORDINATOR]} showed different answers of this batch to {names[session.me]} and "
                f"{names[party]}, unless {names[party]} does not tell the truth"
            )
            raise PeerViolationError(COORDINATOR, GREETING_STAGE, what)
    mine = np.packbits(shown.openable)
    cohort = shown.openable.copy()

    async def bits_of(party: int) -> NDArray[np.bool_]:
        await session.send(party, OPENABLE_STAGE, mine)
        theirs = await session.receive(party, OPENABLE_STAGE, mine.shape, np.uint8)
        return np.unpackbits(theirs, count=n).astype(np.bool_)

    if n:
        for bits in await run_together(*map(bits_of, others)):
            cohort &= bits
    if judge is not None:
        cohort = await judge(cohort)
    if closed is not None and not np.array_equal(cohort, closed):
        what = "the batch was closed here with another cohort, whose sum may be out: no other is opened"
        raise PeerViolationError(COORDINATOR, COHORT_STAGE, what)
    final = np.frombuffer(shown.cohort_digest(cohort), dtype=np.uint8)

    async def compare_with(party: int) -> None:
        await session.send(party, COHORT_STAGE, final)
        theirs = await session.receive(party, COHORT_STAGE, (DIGEST_BYTES,), np.uint8)
        if not hmac.compare_digest(theirs.tobytes(), final.tobytes()):
            what = (
                f"{names[party]} comes to another cohort than {names[session.me]}: a party told others different things"
            )
            raise PeerViolationError(party, COHORT_STAGE, what)

    await run_together(*map(compare_with, others))
    check_cohort(int(cohort.sum()), bounds)
    return cohort


def check_cohort(n_devices: int, bounds: tuple[int, int]) -> None:
    """Refuse a cohort of too few or too many devices.

    Raises:
        CohortTooSmallError: it is one.
    """
    least, most = bounds
    if n_devices < least:
        raise CohortTooSmallError(
            f"only {n_devices} devices are in the batch, and at least {least} must be: nothing is opened"
        )
    if n_devices > most:
        raise CohortTooSmallError(f"{n_devices} devices are in the batch, and at most {most} may be: nothing is opened")
