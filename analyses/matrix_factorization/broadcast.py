"""What the coordinator sends to all members, as bytes: the model before a round, and at the end what was released.

Where a job of the vertical setting asks for it, owners then send the coordinator the paid model of their items.

The model before a round is that round's public input, so the members of the round have all received the same: each
signs its digest (`mpc.secagg.series`). It names the round, so that the model of another round is refused. At the end
there is no round any more, so the members tell each other the digest of what they received, and then what they found.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.model import MAX_VALUE, FactorModel
from mpc.errors import LocalFaultError, PeerLostError, PeerSilentError, PeerViolationError
from mpc.protocol.exchange import send_unless_lost
from mpc.protocol.session import COORDINATOR, Session

Integers = NDArray[np.int64]

RELEASED_STAGE = "released model"
PUBLISHED_STAGE = "published items"
ECHO_STAGE = f"{RELEASED_STAGE} echo"
VERDICT_STAGE = f"{RELEASED_STAGE} verdict"

_NUMBER_BYTES = 8
_MAX_UNITS = 1 << 20

RECEIVED_ECHO_BYTES = (32, 1)
"""Bytes that parties tell one another about what they have received: a digest, then whether all are alike."""


@dataclass(frozen=True)
class ModelFormat:
    """How a model of a plan crosses the network: 8 bytes for the number, then 32-bit integers, little-endian.

    Attributes:
        n_rows: the model's rows: items, or users in the vertical setting.
        rank: p.
        units: lattice points per 1.
        has_offsets: whether offsets travel; else all of them are 0.

    Raises:
        LocalFaultError: values of the lattice do not fit into 32 bits.
    """

    n_rows: int
    rank: int
    units: int
    has_offsets: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.units <= _MAX_UNITS:
            raise LocalFaultError(f"a model has 1 to {_MAX_UNITS} lattice points per 1, so that it fits into 32 bits")

    @property
    def n_bytes(self) -> int:
        """Length of a model."""
        return _NUMBER_BYTES + 4 * self.n_rows * (self.has_offsets + self.rank)

    @property
    def _n_offsets(self) -> int:
        return self.n_rows if self.has_offsets else 0

    def write(self, number: int, model: FactorModel) -> bytes:
        """Return a model as bytes.

        Args:
            number: number of the round that starts from it, or of rounds that led to it.
            model: a model of this shape, on this lattice.
        """
        values = np.concatenate([model.offsets_q[: self._n_offsets], model.vectors_q.ravel()])
        assert np.abs(values).max() <= MAX_VALUE * self.units
        return number.to_bytes(_NUMBER_BYTES, "little") + values.astype("<i4").tobytes()

    def read(self, data: bytes, number: int, stage: str, sender: int = COORDINATOR) -> FactorModel:
        """Return the model that the coordinator or another sender sent, checked.

        Raises:
            PeerViolationError: it is of another round, of another shape, or off the lattice. Shows no value.
        """
        if len(data) != self.n_bytes:
            raise PeerViolationError(sender, stage, "broadcast offsets and vectors of another shape than the plan")
        if data[:_NUMBER_BYTES] != number.to_bytes(_NUMBER_BYTES, "little"):
            raise PeerViolationError(sender, stage, "broadcast the offsets and vectors of another round")
        values = np.frombuffer(data, dtype="<i4", offset=_NUMBER_BYTES).astype(np.int64)
        offsets = np.zeros(self.n_rows, dtype=np.int64)
        offsets[: self._n_offsets] = values[: self._n_offsets]
        vectors = values[self._n_offsets :].reshape(self.n_rows, self.rank)
        model = FactorModel(offsets, vectors.copy(), self.units)
        model.check(self.n_rows, self.rank, self.units, sender, stage)
        return model


@dataclass(frozen=True)
class Released:
    """What all members receive at the end: what stage 3 starts from.

    Attributes:
        n_opened: how many rounds were opened, at least 1.
        model: after the last of them.
        opened: the sum that stage 3 needs, with its noise: of round 0, in the vertical setting of the last round; empty
            in the form sgd, whose stage 3 needs none.
        survivors: numbers of the members whose vectors are in that sum.
    """

    n_opened: int
    model: FactorModel
    opened: Integers = field(repr=False)
    survivors: tuple[int, ...]


async def send_released(session: Session, how: ModelFormat, released: Released, n_parties: int, stage_s: float) -> None:
    """Send what was released to all parties that are still there; whoever is not needs nothing more."""
    flags = [int(party in released.survivors) for party in range(1, n_parties + 1)]
    header = np.array([released.n_opened, *flags], dtype=np.uint64)
    opened = np.ascontiguousarray(released.opened, dtype=np.int64).view(np.uint64)
    model = np.frombuffer(how.write(released.n_opened, released.model), dtype=np.uint8)

    async def send(party: int) -> None:
        try:
            async with asyncio.timeout(stage_s):
                await session.send(party, RELEASED_STAGE, header)
                if len(opened):
                    await session.send(party, RELEASED_STAGE, opened)
                await session.send(party, RELEASED_STAGE, model)
        except (PeerLostError, PeerSilentError, TimeoutError):
            return

    await asyncio.gather(*(send(party) for party in range(1, n_parties + 1)))


async def publish_items(session: Session, how: ModelFormat, n_opened: int, items: FactorModel) -> None:
    """Send the coordinator the model of my own items, if it is still there."""
    message = np.frombuffer(how.write(n_opened, items), dtype=np.uint8)
    await send_unless_lost(session, COORDINATOR, PUBLISHED_STAGE, message)


async def receive_items(
    session: Session, formats: Mapping[int, ModelFormat], n_opened: int, stage_s: float
) -> dict[int, FactorModel]:
    """Return the models of the owners' items, by party; without those of parties that dropped out meanwhile.

    Raises:
        PeerViolationError: one is of another shape than the party declares, or off the lattice. Shows no value.
    """

    async def of(party: int, how: ModelFormat) -> FactorModel | None:
        try:
            async with asyncio.timeout(stage_s):
                data = await session.receive(party, PUBLISHED_STAGE, (how.n_bytes,), np.uint8)
        except (PeerLostError, PeerSilentError, TimeoutError):
            return None
        return how.read(data.tobytes(), n_opened, PUBLISHED_STAGE, party)

    found = await asyncio.gather(*(of(party, how) for party, how in formats.items()))
    return {party: model for party, model in zip(formats, found, strict=True) if model is not None}


async def receive_released(
    session: Session,
    how: ModelFormat,
    lengths: Sequence[int],
    n_parties: int,
    publish: Callable[[Released], Awaitable[None]] | None = None,
) -> Released:
    """Return what the coordinator says was released, once all parties that can be reached received the same.

    Args:
        session: my end of the job.
        how: the model travels.
        lengths: lengths of the sum that is sent, by the number of opened rounds less 1.
        n_parties: the job's parties.
        publish: what is to be done before parties wait for each other: the coordinator does not wait for that.

    Raises:
        PeerViolationError: it is not what a plan can lead to, or another party received something else.
        PeerError: the coordinator is lost or silent.

    Cost: 2 rounds, 33 bytes per pair of parties and direction.
    """
    header = await session.receive(COORDINATOR, RELEASED_STAGE, (1 + n_parties,))
    n_opened = int(header[0])
    if not 1 <= n_opened <= len(lengths) or not np.isin(header[1:], (0, 1)).all():
        raise PeerViolationError(COORDINATOR, RELEASED_STAGE, "names rounds or survivors that the plan does not have")
    opened, length = np.zeros(0, dtype=np.uint64), lengths[n_opened - 1]
    if length:
        opened = await session.receive(COORDINATOR, RELEASED_STAGE, (length,))
    model = await session.receive(COORDINATOR, RELEASED_STAGE, (how.n_bytes,), np.uint8)
    received = hashlib.sha256(header.tobytes() + opened.tobytes() + model.tobytes()).digest()
    others = [party for party in range(1, n_parties + 1) if party != session.me]
    survivors = tuple(int(place) + 1 for place in np.flatnonzero(header[1:]))

    @cache  # one that is damaged is told after all have compared, unless items are published before
    def released() -> Released:
        return Released(n_opened, how.read(model.tobytes(), n_opened, RELEASED_STAGE), opened.view(np.int64), survivors)

    if publish is not None:
        await publish(released())
    await _compare(session, received, others)
    return released()


async def _compare(session: Session, received: bytes, others: Sequence[int]) -> None:
    """Compare digests with all others; whoever dropped out has nothing to compare.

    Whoever finds a difference leaves the job, and what it sent may be lost with it. Therefore all say after that what
    they found, and nobody leaves before it has heard so from everybody: whoever says it has read our digest.

    Raises:
        PeerViolationError: another party received something else, or says so; names the coordinator.
    """
    digests = await _exchanged(session, ECHO_STAGE, received, others, others)
    differing = [other for other, theirs in digests.items() if not hmac.compare_digest(theirs, received)]
    verdicts = await _exchanged(session, VERDICT_STAGE, bytes([bool(differing)]), others, list(digests))
    differing += [other for other, theirs in verdicts.items() if theirs != bytes([False])]
    if differing:
        names = session.names
        what = f"the coordinator sent different offsets or vectors to {names[differing[0]]} and {names[session.me]}"
        raise PeerViolationError(COORDINATOR, RELEASED_STAGE, what)


async def _exchanged(
    session: Session, stage: str, mine: bytes, receivers: Sequence[int], senders: Sequence[int]
) -> dict[int, bytes]:
    """Send bytes to the receivers and return the senders', of the same length; without those that dropped out."""
    message = np.frombuffer(mine, dtype=np.uint8)
    await asyncio.gather(*(send_unless_lost(session, receiver, stage, message) for receiver in receivers))

    async def of(sender: int) -> bytes | None:
        try:
            return (await session.receive(sender, stage, message.shape, np.uint8)).tobytes()
        except (PeerLostError, PeerSilentError):
            return None

    answers = await asyncio.gather(*(of(sender) for sender in senders))
    return {sender: theirs for sender, theirs in zip(senders, answers, strict=True) if theirs is not None}
