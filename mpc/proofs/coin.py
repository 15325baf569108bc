"""A public coin: randomness that nobody knows before all parties have received what it is to judge.

Each toss is one round among the compute parties, and the first one two:

    commit   before the first toss each party sends a commitment, SHA-256 of a fresh seed
    reveal   as soon as a party has received all that was dealt to it, it sends the seed that it is committed to, the
             commitment to its next seed, and a digest of the commitments of all that it saw

The coin is a hash of all seeds, so nobody knows it before the last honest party has revealed: that party by then has
received all that was dealt to it, as each honest one has that revealed before. Seeds of others are of no use: they are
fixed by commitments that were told before any seed of this toss was. A party can end the job by not revealing, but
it cannot choose, and commitments that differ between two receivers are found by the digests before either uses the
coin. Source: [Blum81], with a hash as commitment.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.errors import InconsistentSharesError, PeerViolationError
from mpc.protocol.concurrency import run_together
from mpc.protocol.session import Session

SEED_BYTES = 32
DIGEST_BYTES = 32

Bytes = NDArray[np.uint8]


class PublicCoin:
    """One member's end of the tosses of one computation. Tosses are awaited one after another, by all members alike.

    Args:
        session: my end of the job.
        n_parties: compute parties 1..n_parties, who toss.
        name: begins the names of the stages.
        listeners: members beside them that learn the coin: owners that prove but hold no shares.
    """

    def __init__(self, session: Session, n_parties: int, name: str, listeners: Collection[int] = ()) -> None:
        self._session = session
        self._parties = range(1, n_parties + 1)
        self._others = [party for party in self._parties if party != session.me]
        self._receivers = [*self._others, *(member for member in sorted(listeners) if member != session.me)]
        self._commitment_stage, self._seed_stage = f"{name}/coin commitments", f"{name}/coin seeds"
        self._n_tossed = 0
        self._seed = b""
        self._commitments: Mapping[int, bytes] = {}

    async def toss(self) -> KeyStream:
        """Return the stream of the next coin; call it when everything that it is to judge has been received.

        Raises:
            PeerViolationError: a party revealed another seed than it committed to.
            InconsistentSharesError: a party saw other commitments than I did. It, or whoever made them, is at fault:
                nobody can tell, so no member is named.
            PeerError: a party is silent or drops out.

        Cost: 1 round, 96 bytes from each party to each other one and to each listener; before the first one another
        round and 32 bytes.
        """
        session, me = self._session, self._session.me
        number = self._n_tossed
        self._n_tossed += 1
        if not self._commitments:
            mine = self._next_commitment(number)
            await self._tell(self._commitment_stage, mine)
            self._commitments = {**await self._hear(self._commitment_stage, DIGEST_BYTES), me: mine}
        commitments, seed = self._commitments, self._seed
        digest = hashlib.sha256(b"".join(commitments[party] for party in self._parties)).digest()
        mine = self._next_commitment(number + 1)
        await self._tell(self._seed_stage, seed + mine + digest)
        revealed = await self._hear(self._seed_stage, SEED_BYTES + 2 * DIGEST_BYTES)
        for party, message in revealed.items():
            theirs, seen = message[:SEED_BYTES], message[SEED_BYTES + DIGEST_BYTES :]
            if not hmac.compare_digest(self._commitment(number, party, theirs), commitments[party]):
                what = f"{session.names[party]} revealed another seed than it had committed to"
                raise PeerViolationError(party, self._seed_stage, what)
            if not hmac.compare_digest(seen, digest):
                what = f"{session.names[party]} does not have the commitments to a coin that {session.names[me]} has"
                raise InconsistentSharesError(f"{what}: one of them, or whoever told both, is at fault")
        following = {party: message[SEED_BYTES:][:DIGEST_BYTES] for party, message in revealed.items()}
        self._commitments = {**following, me: mine}
        seeds = {me: seed} | {party: message[:SEED_BYTES] for party, message in revealed.items()}
        text = self._label(b"coin", number) + b"".join(seeds[party] for party in self._parties)
        return KeyStream(hashlib.sha256(text).digest())

    def _next_commitment(self, number: int) -> bytes:
        """Draw my seed of a toss and return what commits me to it; nothing where I only listen."""
        if self._session.me not in self._parties:
            return b""
        self._seed = self._session.entropy.read(SEED_BYTES)
        return self._commitment(number, self._session.me, self._seed)

    async def _tell(self, stage: str, message: bytes) -> None:
        if self._session.me not in self._parties:
            return
        array = np.frombuffer(message, dtype=np.uint8)
        await asyncio.gather(*(self._session.send(receiver, stage, array) for receiver in self._receivers))

    async def _hear(self, stage: str, n_bytes: int) -> Mapping[int, bytes]:
        arrived = await run_together(
            *(self._session.receive(party, stage, (n_bytes,), np.uint8) for party in self._others)
        )
        return {party: array.tobytes() for party, array in zip(self._others, arrived, strict=True)}

    def _label(self, what: bytes, number: int) -> bytes:
        return b"moiety %b %d of %b\0" % (what, number, self._session.binding)

    def _commitment(self, number: int, party: int, seed: bytes) -> bytes:
        """A party's number is in it: nobody passes another's commitment off as its own."""
        return hashlib.sha256(self._label(b"commitment of %d to coin" % party, number) + seed).digest()
