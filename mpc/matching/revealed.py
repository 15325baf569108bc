"""Private matching that reveals to the owners which of their rows all of them have, and to nobody anything else."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mpc.errors import LocalFaultError, ShapeError
from mpc.matching.group import Bytes, InvalidPointError, Scalar, spread
from mpc.matching.okvs import Okvs
from mpc.matching.oprf import ID_BYTES, PAD_WORDS, TAG_BYTES, MatchingFunction, Values
from mpc.matching.parcels import OwnersOfMatch, leader_of, list_bytes, parcels, patiently
from mpc.matching.sodium import POINT_BYTES
from mpc.matching.transfer import match as transfers
from mpc.matching.transfer.rows import MATCHED as MATCHED
from mpc.matching.transfer.rows import PATIENCE, Matched, find_matched, is_zero, permutation
from mpc.matching.zero_sharing import ZeroSharing
from mpc.protocol.concurrency import run_together
from mpc.protocol.pairwise import PairwiseSecret
from mpc.protocol.session import Session

BLINDED, EVALUATED, STORE, PACE = (f"matching/{name}" for name in ("blinded", "evaluated", "store", "pace"))
"""Stages: points of the leader, their powers, stores of the others, signs that it goes on; at the end `MATCHED`."""

_ENTRY_BYTES = 8 * PAD_WORDS
TRANSFERS_FROM = 8192
"""Ids of all owners together from which the transfers that are extended cost less than exponentiations for each id."""

WINDOW = 4
"""Parcels of points that the leader has under way, so that nobody waits long and little is kept."""


class TooManyIdsError(LocalFaultError):
    """An owner has more rows than it has declared."""

    code = "too-many-ids"


class RepeatedIdsError(LocalFaultError):
    """Two rows of one owner are identified by the same id."""

    code = "ids-repeated"


async def match_revealed(
    session: Session,
    owners: Sequence[int],
    ids: Bytes | None,
    sizes: Mapping[int, int],
    secrets: Mapping[int, PairwiseSecret],
    *,
    strict: bool = False,
) -> NDArray[np.int64] | None:
    """Find the ids that all owners have. Called by every member of the job; those that own nothing return at once.

    The leader L is the owner with the smallest declared size. Ids are padded with random ones to the declared sizes.
    Source: [KMPRT17], with a function by Diffie-Hellman [JKK14] and fewer messages.

    1. L draws a scalar r, and sends H(x)^r for each of its ids x, in an order drawn at random, to every other owner.
    2. Owner i draws a key k_i, checks that each is an element of the group and not its identity, and returns its power
       k_i. L takes the power 1/r: it has F_i(x) = Hash(x, H(x)^k_i) (`mpc.matching.oprf`). Its parts are a seed, a pad
       and a tag.
    3. The owners but L have random s_i(x) whose XOR is zero, for any x (`mpc.matching.zero_sharing`). Owner i sends L a
       store that maps the seeds of its own ids y to s_i(y) XOR pad_i(y) (`mpc.matching.okvs`). L decodes its own ids,
       and takes the XOR of all it decodes and of all pads: where x is everybody's it is zero; otherwise it is uniform
       in 128 bits.
    4. L sends owner i the tags of the ids that matched among random tags, as many as it has declared ids, in an order
       drawn at random. Each owner finds the rows that they name.

    What each learns, if all follow the protocol, under the decisional Diffie-Hellman assumption (DDH) in ristretto255
    and with hashes as random oracles:

    - The leader's blinding hides its ids. Owner i receives H(x_1)^r, H(x_2)^r, ... of distinct x_j. H(x_j) = g^(a_j)
      with independent uniform a_j, so by DDH (its tuples can be re-randomised) the points are indistinguishable from
      independent uniform ones, whatever the x_j are, even for who guesses them. All owners see the same points.
    - Owner i's key hides its ids. By the same argument H(y)^k_i is indistinguishable from uniform for all y outside L's
      list, so F_i(y) is a random string to L there. Conditioned on all F_i(x) of L's list, the values of the stores are
      uniform but for one relation: the XOR over all owners of what x decodes to, with its pads, is zero where x is
      everybody's. (Where one owner or more lacks x, the s_i(x) of the others are uniform and independent.) A store
      with uniform values is a uniform table, whatever its keys are. So L's view follows from the matches alone: powers
      of uniform points, and uniform tables under that relation. In particular it does not depend on whether x is held
      by some of the others. A ring of exponentiations would show that to whoever compares.
    - What L sends in step 4 are tags that owner i has itself, and random ones: it learns which of its ids matched.
    - Members without ids, and the coordinator, receive nothing.

    Collusion. Owners without L learn together what they learn alone. L and some owners C learn, for the at most
    sizes[L] ids that L blinded, whether all owners outside C have them: with one owner outside C, its rows among them.
    Any owner may invent ids, as many as it has declared, and so learn who of an invented list everybody knows; nothing
    can prevent that where ids can be guessed. Who deviates can make matches wrong, and does not see more than the
    above. Where owners then have different lists, or another order, the comparison of rows afterwards notices it: a
    compute party that deviates can forge that, but where it is proven (`mpc.proofs.proven_equality`).

    Args:
        session: my end of the job.
        owners: member numbers; the same at all members.
        ids: mine, uint8 of shape (rows, 32): a digest of what identifies each row; None if I own nothing.
        sizes: owner to the public, declared number of its rows: the most that it may have.
        secrets: what I have in common with the other owners, confirmed (`mpc.protocol.exchange`). They serve for one
            match only.
        strict: whether the leader gets as many evaluations of the function as it has declared ids, also where it
            deviates: with many ids it takes longer (`mpc.matching.transfer.function`).

    Returns:
        At an owner, the numbers of its rows that all owners have, in an order common to all owners; else None.

    Raises:
        TooManyIdsError, RepeatedIdsError: my own ids are too many or repeated.
        LocalFaultError: a size or a secret is missing, or the secrets were used for a match before.
        PeerViolationError: a member sent a number of points that is not the declared one, something that is no point,
            or something of another job.
        PlacementFailedError: with probability below 2^-50, see `mpc.matching.okvs`.
        PeerError: a member is silent or drops out.

    Privacy: passive; any coalition, as said above. The work of each member, and the number and sizes of its messages,
    follow from the declared sizes. Cost: 3 flights, and 2 more for each further 16,384 declared rows of L
    (`mpc.traffic.matching`); `sent_bytes`; m exponentiations by L for each of its ids with m owners, and one by each
    other owner for each id of L and each of its own.
    """
    owners = sorted(set(owners))
    if session.me not in owners:
        if ids is not None:
            raise LocalFaultError("only an owner has ids")
        return None
    if ids is None or not set(owners) <= sizes.keys():
        raise LocalFaultError("an owner needs its ids, and the declared sizes of all owners")
    await session.compute(_check_ids, ids, sizes[session.me], session.names[session.me])
    if len(owners) == 1:
        return np.arange(len(ids))
    if not set(owners) <= {session.me, *secrets}:
        raise LocalFaultError("an owner needs a pairwise secret with every other owner")
    if by_transfers(owners, sizes, strict=strict):
        large = OwnersOfMatch(session, tuple(owners), sizes, secrets)
        return await (transfers.lead(large, ids) if session.me == large.leader else transfers.follow(large, ids))
    match = _Match(session, tuple(owners), sizes, secrets, MatchingFunction(session.binding))
    return await (_lead(match, ids) if session.me == match.leader else _follow(match, ids))


def by_transfers(owners: Sequence[int], sizes: Mapping[int, int], *, strict: bool) -> bool:
    """Return whether the function is evaluated by extended transfers (`mpc.matching.transfer`): for many ids."""
    return not strict and len(owners) > 1 and sum(sizes[owner] for owner in owners) >= TRANSFERS_FROM


def sent_bytes(owners: Sequence[int], sizes: Mapping[int, int], *, strict: bool = False) -> dict[int, int]:
    """Return how many bytes each owner sends in a match, to all members together. They are public.

    With declared sizes n of the leader and n_i of owner i, m owners, c(n) = ceil(n / 4096) parcels of a list, and
    D(n, w) = n w + 32 c(n) bytes of a list of n rows of w bytes:

        leader      (m - 1) (D(n, 32) + D(n, 16) + c(n) + sum_i c(n_i))
        owner i     D(n, 32) + D(s_i, 16) + c(n_i),     s_i = 3 (ceil(1.3 n_i / 3) + 8) + 64

    By transfers, with p = max(ceil(n / 65,536), ceil(largest size / 262,144)) parts, each with room for r(n) ids:

        leader      (m - 1) (D(2, 32) + p (D(s + 128, 59) + D(128, 80)) + D(n, 16)),    s as s_i, of r(n)
        owner i     D(944, 32) + p D(s_i, 16),                                          s_i of r(n_i)
    """
    if by_transfers(owners, sizes, strict=strict):
        return transfers.sent_bytes_by_transfers(owners, sizes)
    leader = leader_of(owners, sizes)
    others = [owner for owner in owners if owner != leader]
    n = sizes[leader]
    n_paces = sum(len(parcels(sizes[owner])) for owner in owners)
    to_each = list_bytes(n, POINT_BYTES) + list_bytes(n, TAG_BYTES) + n_paces
    of_others = {
        owner: list_bytes(n, POINT_BYTES)
        + list_bytes(_store_of(sizes[owner]).n_rows, _ENTRY_BYTES)
        + len(parcels(sizes[owner]))
        for owner in others
    }
    return {leader: len(others) * to_each} | of_others


@dataclass(frozen=True)
class _Match(OwnersOfMatch):
    """What both roles work with."""

    function: MatchingFunction

    @property
    def n_paces(self) -> int:
        """Number of parcels whose end the leader tells: of its own points, and of the ids of each other owner."""
        return sum(len(parcels(self.sizes[owner])) for owner in self.owners)


async def _lead(match: _Match, ids: Bytes) -> NDArray[np.int64]:
    session, others, me = match.session, match.others, match.session.me
    n = match.sizes[me]
    row_of = permutation(session.entropy, n)
    shuffled = match.padded(ids)[row_of]
    blinding = Scalar.draw(session.entropy)
    unblinding = blinding.inverse()
    values = {other: Values.empty(n) for other in others}
    window = asyncio.Semaphore(WINDOW)
    pace = _Pace(match)
    unfinished = {place.start: len(others) for place in parcels(n)}

    async def blind() -> None:
        lines = [match.line(me, other, BLINDED) for other in others]
        for place in parcels(n):
            await window.acquire()
            pieces = await spread(session, partial(match.function.raised, exponent=blinding), shuffled[place])
            points = np.concatenate(pieces)
            await run_together(*(line.send(points) for line in lines))

    async def unblind(other: int) -> None:
        work = partial(match.function.values_from, unblinding=unblinding)
        async for place, powers in match.line(other, me, EVALUATED).receive_all(n, POINT_BYTES):
            try:
                pieces = await spread(session, work, shuffled[place], powers)
            except InvalidPointError as error:
                raise match.no_point(other, EVALUATED) from error
            _put(values[other], place, pieces)
            unfinished[place.start] -= 1
            if not unfinished[place.start]:
                window.release()
                await pace.tell()

    async def relay_pace(other: int) -> None:
        for _ in parcels(match.sizes[other]):
            await session.receive(other, PACE, (1,), np.uint8)
            await pace.tell()

    async def decode(other: int) -> NDArray[np.uint64]:
        store = _store_of(match.sizes[other])
        table = np.empty((store.n_rows, _ENTRY_BYTES), dtype=np.uint8)
        async for place, rows in match.line(other, me, STORE).receive_all(store.n_rows, _ENTRY_BYTES):
            table[place] = rows
        words = table.view("<u8").astype(np.uint64, copy=False)
        await session.compute(_decode_over_pads, store, words, values[other])
        return values[other].pads

    async def hear(other: int) -> NDArray[np.uint64]:
        await run_together(unblind(other), relay_pace(other))
        return await decode(other)

    _, *decoded = await run_together(blind(), *map(hear, others))
    found = np.flatnonzero(is_zero(decoded) & (row_of < len(ids)))
    matched = await session.compute(Matched, match)
    matched.add(row_of[found], [values[other].tags[found] for other in others])
    return await matched.tell()


async def _follow(match: _Match, ids: Bytes) -> NDArray[np.int64]:
    session, me, leader = match.session, match.session.me, match.leader
    n, n_of_leader = match.sizes[me], match.sizes[leader]
    key = Scalar.draw(session.entropy)
    sharing = ZeroSharing(me, match.others, match.secrets)
    values = Values.empty(n)

    def values_of(some: Bytes) -> Values:
        """Return my function's values, with s_me beneath the pads: what the store holds."""
        mine = match.function.values_under(some, key)
        return Values(mine.seeds, mine.pads ^ sharing.values(some), mine.tags)

    async def evaluate() -> None:
        line = match.line(me, leader, EVALUATED)
        async for _, points in match.line(leader, me, BLINDED).receive_all(n_of_leader, POINT_BYTES, patience=PATIENCE):
            try:
                pieces = await spread(session, key.multiply, points)
            except InvalidPointError as error:
                raise match.no_point(leader, BLINDED) from error
            await line.send(np.concatenate(pieces))

    async def store() -> None:
        padded = match.padded(ids)
        for place in parcels(n):
            _put(values, place, await spread(session, values_of, padded[place]))
            await session.send(leader, PACE, np.ones(1, dtype=np.uint8))
        del padded  # when memory is used most
        table = await session.compute(_store_of(n).encode, values.seeds, values.pads, session.entropy)
        rows = table.astype("<u8", copy=False).view(np.uint8)
        await match.line(me, leader, STORE).send_all(rows)

    async def keep_pace() -> None:
        for done in range(match.n_paces):
            await patiently(session, leader, PACE, (1,), PATIENCE)
            session.progress("matching", done + 1, match.n_paces)

    await run_together(evaluate(), store(), keep_pace())
    return await find_matched(match, values.tags[: len(ids)])


class _Pace:
    """Tells the other owners that the match goes on, once per parcel, so that no silence grows with the sizes."""

    def __init__(self, match: _Match) -> None:
        self._match = match
        self._n_told = 0
        self._telling = asyncio.Lock()

    async def tell(self) -> None:
        session, others = self._match.session, self._match.others
        async with self._telling:
            self._n_told += 1
            session.progress("matching", self._n_told, self._match.n_paces)
            await run_together(*(session.send(other, PACE, np.ones(1, dtype=np.uint8)) for other in others))


def _decode_over_pads(store: Okvs, table: NDArray[np.uint64], values: Values) -> None:
    """Add to the pads, in place, what a table decodes to: a parcel at a time, which takes little memory."""
    for place in parcels(len(values)):
        values.pads[place] ^= store.decode(values.seeds[place], table)


def _store_of(size: int) -> Okvs:
    """Return the shape of the store of an owner of this declared size."""
    return Okvs(n_keys=size, n_words=PAD_WORDS)


def _check_ids(ids: Bytes, size: int, name: str) -> None:
    if ids.ndim != 2 or ids.shape[1] != ID_BYTES or ids.dtype != np.uint8:
        raise ShapeError(f"ids are uint8 of shape (rows, {ID_BYTES}), not {ids.dtype} of {ids.shape}")
    if len(ids) > size:
        raise TooManyIdsError(f"{name} has more rows than the {size} that it has declared")
    first = ids[:, :8].copy().view("<u8").reshape(-1)
    first.sort()
    if (first[1:] == first[:-1]).any() and len(np.unique(ids, axis=0)) < len(ids):
        raise RepeatedIdsError(f"two rows of {name} have the same id")


def _put(values: Values, place: slice, pieces: Sequence[Values]) -> None:
    """Write the values of one parcel."""
    start = place.start
    for piece in pieces:
        values.put(slice(start, start + len(piece)), piece)
        start += len(piece)
