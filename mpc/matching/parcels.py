"""Long lists of byte strings between two members, in parcels that only the two can have made.

A list of rows of equal width goes in parcels of `PARCEL_ROWS`, one message each. Behind the rows of a parcel stand 32
bytes: a digest of them under the pair's secret, with the stage, the sender and the number of the parcel. The secret is
bound to the job (`mpc.protocol.pairwise`), so a parcel of another job, of another place of the list, or of somebody
else is refused, and its sender is named. Numbers of rows are public and equal at both ends beforehand.
"""

import hmac
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc.errors import LocalFaultError, PeerSilentError, PeerViolationError
from mpc.protocol.pairwise import PairwiseSecret
from mpc.protocol.session import Session

Bytes = NDArray[np.uint8]

PARCEL_ROWS = 4096
DIGEST_BYTES = 32


def parcels(n_rows: int) -> list[slice]:
    """Return where the parcels of a list begin and end; none for a list without rows."""
    return [slice(start, min(start + PARCEL_ROWS, n_rows)) for start in range(0, n_rows, PARCEL_ROWS)]


def list_bytes(n_rows: int, width: int) -> int:
    """Return how many bytes a list takes on its way, in one direction."""
    return n_rows * width + len(parcels(n_rows)) * DIGEST_BYTES


class ParcelLine:
    """One direction between two members, for one list.

    Args:
        session: my end of the job.
        secret: what the two have in common.
        sender: member number; I am it, or the receiver.
        receiver: the other's.
        stage: name of the messages' stage; one list per stage, direction and job.

    Raises:
        LocalFaultError: I have sent a list of this stage before with this secret.
    """

    def __init__(self, session: Session, secret: PairwiseSecret, sender: int, receiver: int, stage: str) -> None:
        self._session = session
        self._secret = secret
        self._sender = sender
        self._receiver = receiver
        self._stage = stage
        self._number = 0
        if sender == session.me and not secret.claim_seal(sender, stage):
            raise LocalFaultError(f"a list of stage {stage} was sent before with these secrets")

    async def send(self, rows: Bytes) -> None:
        """Send the next parcel, shape (n, width).

        Raises:
            PeerError: the receiver has dropped out, or takes nothing.
        """
        body = rows.tobytes()
        await self._session.send(
            self._receiver, self._stage, np.frombuffer(body + self._next_digest(body), dtype=np.uint8)
        )

    async def send_all(self, rows: Bytes) -> None:
        """Send a whole list; the receiver takes it with `receive_all`."""
        for place in parcels(len(rows)):
            await self.send(rows[place])

    async def receive(self, n_rows: int, width: int, *, patience: int = 1) -> Bytes:
        """Return the next parcel, shape (n_rows, width).

        Args:
            n_rows: rows in the parcel.
            width: bytes of a row.
            patience: how many deadlines to wait: 2 where the sender may itself be waiting for a third member that is
                silent, so that who waits for that one directly says it first.

        Raises:
            PeerViolationError: it has another length, belongs to another job or place, or was altered.
            PeerError: the sender is silent, or has dropped out.
        """
        n_bytes = n_rows * width
        message = await patiently(self._session, self._sender, self._stage, (n_bytes + DIGEST_BYTES,), patience)
        body = message[:n_bytes]
        if not hmac.compare_digest(message[n_bytes:].tobytes(), self._next_digest(body.tobytes())):
            name = self._session.names[self._sender]
            what = f"{name} sent something in stage {self._stage} that does not belong to this job, or was altered"
            raise PeerViolationError(self._sender, self._stage, what)
        return body.reshape(n_rows, width)

    async def receive_all(self, n_rows: int, width: int, *, patience: int = 1) -> AsyncIterator[tuple[slice, Bytes]]:
        """Yield the parcels of a whole list with their places; arguments and errors as `receive`."""
        for place in parcels(n_rows):
            yield place, await self.receive(place.stop - place.start, width, patience=patience)

    def _next_digest(self, body: bytes) -> bytes:
        label = f"parcel {self._number} of {self._stage} from {self._sender}"
        self._number += 1
        return self._secret.digest(label, body)


def leader_of(owners: Sequence[int], sizes: Mapping[int, int]) -> int:
    """Return the owner that decodes: that with the smallest declared size, of several the first."""
    return min(owners, key=lambda owner: (sizes[owner], owner))


@dataclass(frozen=True)
class OwnersOfMatch:
    """What the roles of a match work with; sizes are the declared ones."""

    session: Session
    owners: tuple[int, ...]
    sizes: Mapping[int, int]
    secrets: Mapping[int, PairwiseSecret]

    @property
    def leader(self) -> int:
        """Who decodes."""
        return leader_of(self.owners, self.sizes)

    @property
    def others(self) -> tuple[int, ...]:
        """All owners but the leader."""
        return tuple(owner for owner in self.owners if owner != self.leader)

    def line(self, sender: int, receiver: int, stage: str) -> ParcelLine:
        """Return one direction between me and another owner, for one list."""
        peer = receiver if sender == self.session.me else sender
        return ParcelLine(self.session, self.secrets[peer], sender, receiver, stage)

    def no_point(self, sender: int, stage: str) -> PeerViolationError:
        """Return the error of a sender of bytes that are no element of the group, or its identity."""
        what = "no element of the group, or the identity"
        return PeerViolationError(sender, stage, f"{self.session.names[sender]} sent {what}, in stage {stage}")

    def padded(self, ids: Bytes) -> Bytes:
        """Return my ids and random ones, as many as I have declared: nobody has those, but by guessing 256 bits."""
        n_random, width = self.sizes[self.session.me] - len(ids), ids.shape[1]
        if not n_random:
            return ids
        random = np.frombuffer(self.session.entropy.read(n_random * width), dtype=np.uint8)
        return np.concatenate([ids, random.reshape(n_random, width)])


async def patiently(session: Session, sender: int, stage: str, shape: tuple[int, ...], patience: int) -> Bytes:
    """Receive an array of uint8, waiting for several deadlines; see `ParcelLine.receive`."""
    while True:
        patience -= 1
        try:
            return await session.receive(sender, stage, shape, np.uint8)
        except PeerSilentError:
            if not patience:
                raise
