"""Matching under shares: rows of several owners meet where their ids are equal, and nobody learns which rows did.

The owner with the smallest declared table is the leader; its rows go into B bins (`mpc.matching.bins`), under a key
that it draws for the job and tells the other owners. Large tables are dealt into parts by the same key, and what is
called a table below is then one store for each part, of a size that follows from declared ones. All tables are brought
into the order of these bins, under shares, and every bin has a shared bit that says whether all owners have the id in
it. Rows are multiplied by it, so that bins without a match hold zeros in all columns.

For each other owner j, with F its function that the leader knows for the one id in each bin only
(`mpc.matching.helped_prf`):

1. j draws for each bin b a uniform tag r_b, and encodes (b, y) -> r_b + pad(F(b, y)) for each own id y and each of the
   three bins b where y may be, in an oblivious key-value store (`mpc.matching.okvs`).
2. The leader decodes at its own ids: y_b. If j has the id in bin b, y_b = r_b; else y_b is unrelated to r_b.
3. The leader shares y_b and whether the bin is occupied, j shares r_b. All test under shares whether all differences
   are zero (`mpc.matching.zero_test`): one bit per bin, for all owners together.
4. For rows, j draws uniform field elements w_b and encodes (b, y) -> string(row(y) - w_b) + pad. The leader decodes u_b
   and shares it, j shares w_b, and [u_b] + [w_b] is the row of j in bin b, or garbage, which the bit removes.

What each member sees, where members follow the protocol and each stands alone (t = 1, the assumption of the shares):

    helper of j    B pseudorandom blocks, whatever the tables hold.
    leader         for each j, F at B points of its own, which are pseudorandom, and a table of public size. Of each bin
                   it can read one key at most, the pads of all others are unknown to it, and what it reads, r_b or a
                   string of row - w_b, is uniform (up to 2^-64 per string) as r_b and w_b are used in no other bin. So
                   the table is uniform, and so is what it decodes: equally for ids that j has and for those that it has
                   not. This needs strings instead of packed words (`mpc.matching.field_strings`), and F at one
                   candidate bin only: with all three, the same r_b would show at ids of the same bin that j has.
    j              no message of the matching but shares.
    all            shares of degree 1, and what the products of shares take (`Computation.reduce`): uniform.

No number of matched rows is revealed to anybody; sizes of messages follow from the declared sizes alone, as a store
hides how many keys it has. So does the work, as owners pad their ids with random ones: a store takes microseconds per
key to make, so the time of a message would tell how many rows its sender has, or how many pass a filter. Where two of
leader, helper and j collude, more is seen: leader and helper can try ids against the tables of j, helper and j can try
ids against the leader's table. So it needs t = 1.

A false match needs r_b = y_b by chance modulo a prime in three independent words for each owner: below 2^-62 per bin.

Source: circuit-based intersection by cuckoo bins and programmable oblivious functions [PSTY19], with the function
evaluated through a third party as in joins of three parties [MRR20], and an oblivious key-value store [GPRTY21].
"""

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from entropy.stream import KEY_BYTES
from mpc.arithmetic.words import Words
from mpc.errors import LocalFaultError, ShapeError
from mpc.matching.bins import ID_BYTES, N_CANDIDATES, Numbers, dealt
from mpc.matching.block_prf import Bytes
from mpc.matching.field_strings import WORDS_PER_STRING, elements_of_strings, elements_of_tags, strings_of_elements
from mpc.matching.helped_prf import evaluate_by_helper, evaluate_own, help_evaluate
from mpc.matching.okvs import Okvs
from mpc.matching.padded_store import receive_store, send_store
from mpc.matching.secret_terms import SecretTerms
from mpc.matching.zero_test import all_zero
from mpc.protocol.computation import Computation
from mpc.protocol.concurrency import run_together
from mpc.protocol.operations.rows import RowsOf
from mpc.protocol.reduction import SEGMENT
from mpc.protocol.session import Session
from mpc.protocol.shared import SharedArray, concatenate

MATCHING_STAGE = "matching"
BINS_STAGE = f"{MATCHING_STAGE}/bins"
N_TAG_WORDS = 3
"""Tags of an owner per bin: each is wrong by chance with a probability of 2^-21 modulo each prime."""

STORE_BYTES = 1 << 26
"""About how large the values of one store may be: tables of many columns go through several stores."""


class SecretMatch:
    """One member's end of a match. Made by `match_secretly`.

    Attributes:
        n_slots: B, the rows of the joint table, public: each is a matched row or zeros.
        matched: 1 where all owners have the id in a bin, else 0; shape (n_slots,), degree t.
    """

    def __init__(self, c: Computation, terms: SecretTerms, ids: NDArray[np.uint8] | None) -> None:
        if c.t != 1:
            raise LocalFaultError("rows are matched under shares only where one party may collude, t = 1")
        if not c.holds_shares and ids is not None:
            raise LocalFaultError("a member that holds no shares brings no table to a match under shares")
        if (ids is None) != (c.me not in terms.owners):
            raise LocalFaultError("only the owners bring ids to a match")
        if ids is not None and (ids.shape != (len(ids), ID_BYTES) or ids.dtype != np.uint8):
            raise ShapeError(f"ids are uint8 of shape (n, {ID_BYTES}), not {ids.shape}")
        if ids is not None and len(ids) > terms.most_rows[c.me]:
            raise LocalFaultError("this member has more rows than it declared")
        if ids is not None and len(np.unique(ids.view(f"V{ID_BYTES}"))) < len(ids):
            raise LocalFaultError("two rows of this member have the same id")
        self._c, self._terms = c, terms
        self._n_own = 0 if ids is None else len(ids)
        self._ids = None if ids is None else self._padded(ids)
        self._bin_of = np.empty(0, dtype=np.int64)
        self._candidates = np.empty((0, N_CANDIDATES), dtype=np.int64)
        self._rows_of_part: list[Numbers] = []
        self._decoding: dict[int, Bytes] = {}
        self._encoding: Bytes | None = None
        self._n_stores: dict[int, int] = dict.fromkeys(terms.others, 0)
        self._n_dealt: dict[tuple[int, str], int] = {}
        self.n_slots = terms.bins(bytes(KEY_BYTES)).n_bins
        self.matched = c.public(np.zeros(self.n_slots, dtype=np.int64))

    @property
    def _session(self) -> Session:
        return self._c.exchange.session

    @property
    def _am_leader(self) -> bool:
        return self._c.me == self._terms.leader

    def _padded(self, ids: Bytes) -> Bytes:
        """Return my ids and random ones, as many as I have declared, so that all work follows what is declared."""
        n_random = self._terms.most_rows[self._c.me] - len(ids)
        random = np.frombuffer(self._session.entropy.read(n_random * ID_BYTES), dtype=np.uint8)
        return np.concatenate([ids, random.reshape(n_random, ID_BYTES)])

    # -- which rows match ------------------------------------------------------------------------------------------

    async def _match(self) -> None:
        """Fill `matched`."""
        if self._ids is not None:
            bins = self._terms.bins(await self._key_of_bins())
            self._candidates = await self._session.compute(bins.candidates, self._ids)
            if self._am_leader:
                self._bin_of = await self._session.compute(bins.place, self._candidates)
            else:
                part = self._candidates[:, 0] // bins.n_of_part
                room = self._terms.room(self._c.me)
                self._rows_of_part = await self._session.compute(dealt, part, bins.n_parts, room)
        await run_together(*map(self._evaluate_for, self._terms.others))
        differences = await run_together(*map(self._differences_of, self._terms.others))
        empty = None
        if self._am_leader:
            is_empty = np.ones((self.n_slots, 1), dtype=np.int64)
            is_empty[self._bin_of[: self._n_own]] = 0
            empty = self._c.field.encode(is_empty)
        differences.append(await self._dealt(self._terms.leader, "empty", (self.n_slots, 1), empty))
        self.matched = await all_zero(self._c, concatenate(differences, axis=1))

    async def _key_of_bins(self) -> bytes:
        """Return the key of the bins, which the leader draws now and tells the other owners.

        A key that followed from the job could be known before: whoever chooses the job's id, the coordinator, could try
        ids until four rows that it guesses have the same three bins, and see by a failed job that all are there.
        """
        if not self._am_leader:
            return (await self._session.receive(self._terms.leader, BINS_STAGE, (KEY_BYTES,), np.uint8)).tobytes()
        key = self._session.entropy.read(KEY_BYTES)
        message = np.frombuffer(key, dtype=np.uint8)
        await run_together(*(self._session.send(owner, BINS_STAGE, message) for owner in self._terms.others))
        return key

    async def _evaluate_for(self, owner: int) -> None:
        terms, secrets, leader = self._terms, self._c.exchange.secrets, self._terms.leader
        helper = terms.helper_of(owner)
        if self._am_leader:
            assert self._ids is not None, "the leader is an owner"
            self._decoding[owner] = await evaluate_by_helper(
                self._session, secrets, owner=owner, helper=helper, ids=self._ids, bin_of=self._bin_of,
                n_bins=self.n_slots,
            )  # fmt: skip
        elif self._c.me == helper:
            await help_evaluate(self._session, secrets, leader=leader, owner=owner, n_bins=self.n_slots)
        elif self._c.me == owner:
            assert self._ids is not None, "it is an owner"
            ids, candidates, me = self._ids, self._candidates, self._c.me
            self._encoding = await self._session.compute(
                lambda: evaluate_own(secrets, me=me, leader=leader, helper=helper, ids=ids, candidates=candidates)
            )

    async def _differences_of(self, owner: int) -> SharedArray:
        """Return the differences of tags of one owner, shape (n_slots, 3)."""
        field, shape = self._c.field, (self.n_slots, N_TAG_WORDS)
        read = tags = None
        n_words = N_TAG_WORDS * field.n_words
        if self._c.me == owner:
            drawn = KeyStream(self._session.entropy.read(KEY_BYTES)).words(self.n_slots * n_words)
            raw = drawn.astype(np.uint64, copy=False).reshape(self.n_slots, n_words)
            await self._send_stores(owner, n_words, lambda rows, number: raw[self._candidates[rows, number]])
            tags = elements_of_tags(field, raw.reshape(*shape, field.n_words))
        elif self._am_leader:
            form = (-1, N_TAG_WORDS, field.n_words)
            read = await self._receive_stores(owner, n_words, lambda some: elements_of_tags(field, some.reshape(form)))
        of_leader, of_owner = await run_together(
            self._dealt(self._terms.leader, f"tags read of {owner}", shape, read),
            self._dealt(owner, "tags", shape, tags),
        )
        return of_leader - of_owner  # type: ignore[no-any-return]

    # -- rows ------------------------------------------------------------------------------------------------------

    async def share_rows(self, widths: Mapping[int, int], mine: RowsOf | None, *, height: int) -> SharedArray:
        """Share all owners' rows in the order of the bins; those of bins without a match are garbage.

        Args:
            widths: owner to the number of its columns, in the order of the joint table.
            mine: my rows, in the order of my ids, shape (rows, my width) per block; None if I am no owner.
            height: rows that `mine` is asked for at once.

        Returns:
            Shape (n_slots, all columns), degree t, without a bound.

        Raises:
            PeerError: an owner is silent, drops out or sent an invalid share.

        Privacy: see the module. Cost: an owner but the leader sends 16 n_words bytes per column and row of its store,
        which has 3.9 rows for each row that it declares, and shares as `Computation.inputs`.
        """
        own = None if mine is None else await self._session.compute(self._own_words, mine, widths[self._c.me], height)
        shared = await run_together(*(self._rows_of(owner, width, own) for owner, width in widths.items()))
        return concatenate(shared, axis=1)

    async def masked(
        self, rows: SharedArray, *, height: int, bound: int | None = None
    ) -> AsyncIterator[tuple[slice, SharedArray]]:
        """Yield the rows block by block, zero in all columns where there is no match.

        Args:
            rows: result of `share_rows`.
            height: rows of a block.
            bound: public bound on the size of all values; None for one that nothing is done with that needs it.

        Yields:
            The numbers of the rows, and the rows, shape (rows of the block, all columns), degree t.

        Cost: 1 round per block (2 where N > 2t + 1), a product per element.
        """
        for start in range(0, self.n_slots, height):
            block = slice(start, min(start + height, self.n_slots))
            product = await self._c.multiply(rows[block], self.matched[block][:, None])
            yield block, SharedArray(product.field, product.shape, product.degree, bound, product.share)

    def _own_words(self, mine: RowsOf, width: int, height: int) -> Words:
        """Return all my rows as field elements, zeros for ids of padding, shape (n_words, declared rows, width)."""
        assert self._ids is not None, "who has rows is an owner"
        field, n = self._c.field, self._n_own
        words = field.zeros((len(self._ids), width))
        for start in range(0, n, height):
            part = slice(start, min(start + height, n))
            words[:, part] = field.encode(mine(part)).reshape(field.n_words, part.stop - start, width)
        return words

    async def _rows_of(self, owner: int, width: int, own: Words | None) -> SharedArray:
        field, leader = self._c.field, self._terms.leader
        if owner == leader:
            placed = None
            if self._am_leader:
                assert own is not None, "the leader is an owner"
                placed = field.zeros((self.n_slots, width))
                placed[:, self._bin_of] = own
            return await self._dealt(leader, "rows", (self.n_slots, width), placed)
        n_at_once = self._columns_at_once(owner)
        parts = []
        for start in range(0, width, n_at_once):
            end = min(start + n_at_once, width)
            columns = own[:, :, start:end] if own is not None and self._c.me == owner else None
            parts.append(await self._columns_of(owner, end - start, columns))
        return concatenate(parts, axis=1) if parts else self._c.public(np.zeros((self.n_slots, 0), dtype=np.int64))

    def _columns_at_once(self, owner: int) -> int:
        """Return how many columns of an owner go into one store; public."""
        value_bytes = 8 * WORDS_PER_STRING * self._c.field.n_words * N_CANDIDATES * max(1, self._terms.room(owner))
        return max(1, STORE_BYTES // value_bytes)

    async def _columns_of(self, owner: int, width: int, own: Words | None) -> SharedArray:
        field, shape = self._c.field, (self.n_slots, width)
        n_words = width * field.n_words * WORDS_PER_STRING
        masks = read = None
        if own is not None:
            stream = KeyStream(self._session.entropy.read(KEY_BYTES))
            masks = chosen = await self._session.compute(field.random, stream, shape)

            def strings(rows: Numbers, number: int) -> Words:
                masked = field.subtract(own[:, rows], chosen[:, self._candidates[rows, number]])
                return strings_of_elements(field, masked, stream).reshape(len(rows), n_words)

            await self._send_stores(owner, n_words, strings)
        elif self._am_leader:
            form = (-1, width, field.n_words, WORDS_PER_STRING)
            elements = lambda some: elements_of_strings(field, some.reshape(form))  # noqa: E731
            read = await self._receive_stores(owner, n_words, elements)
        of_leader, of_owner = await run_together(
            self._dealt(self._terms.leader, f"rows read of {owner}", shape, read),
            self._dealt(owner, "masks", shape, masks),
        )
        return of_leader + of_owner  # type: ignore[no-any-return]

    # -- stores and shares -----------------------------------------------------------------------------------------

    async def _send_stores(self, owner: int, n_words: int, values: Callable[[Numbers, int], Words]) -> None:
        """Send the leader values at all my ids in their candidate bins, a store for each part.

        Args:
            owner: my number.
            n_words: words of a value.
            values: some of my ids, and the number of a candidate, to their values there.
        """
        assert self._encoding is not None, "an owner has evaluated its function"
        for rows in self._rows_of_part:
            keys = [self._encoding[rows, number] for number in range(N_CANDIDATES)]
            store, purpose = self._next_store(owner, n_words)
            await send_store(self._session, self._terms.leader, store, purpose, keys, partial(values, rows))

    async def _receive_stores(self, owner: int, n_words: int, elements: Callable[[Words], Words]) -> Words:
        """Return what an owner's stores hold at the ids in my bins, read as elements; I am the leader."""
        read = []
        for keys in np.split(self._decoding[owner], self._terms.n_parts):
            store, purpose = self._next_store(owner, n_words)
            decoded = await receive_store(self._session, owner, store, purpose, keys)
            read.append(await self._session.compute(elements, decoded))
        return np.concatenate(read, axis=1)

    def _next_store(self, owner: int, n_words: int) -> tuple[Okvs, str]:
        """Return the shape of an owner's next store, and a purpose that no other store has."""
        self._n_stores[owner] += 1
        store = Okvs(N_CANDIDATES * self._terms.room(owner), n_words)
        return store, f"moiety matching store {self._n_stores[owner]}"

    async def _dealt(self, dealer: int, what: str, shape: tuple[int, ...], secret: Words | None) -> SharedArray:
        """Share field elements of a dealer, in pieces; `secret`, shape (n_words, *shape), where I am the dealer."""
        exchange, label = self._c.exchange, f"{MATCHING_STAGE}/{what}"
        size, field = prod(shape), self._c.field
        segments = [slice(start, min(start + SEGMENT, size)) for start in range(0, size, SEGMENT)]
        first = self._n_dealt.get((dealer, label), 0)
        self._n_dealt[dealer, label] = first + len(segments)
        share = np.empty((field.n_words, size), dtype=np.uint64)
        for number, segment in enumerate(segments, start=first):
            if secret is not None:
                part = secret.reshape(field.n_words, size)[:, segment]
                own = await exchange.deal(label, number, part, self._c.t)
                assert own is not None, "owners are compute parties"
                share[:, segment] = own
            else:
                length = segment.stop - segment.start
                share[:, segment] = await exchange.take(dealer, label, number, (length,), self._c.t)
        return SharedArray(field, shape, self._c.t, None, share.reshape(field.n_words, *shape))


async def match_secretly(c: Computation, terms: SecretTerms, ids: NDArray[np.uint8] | None) -> SecretMatch:
    """Match the rows of all owners under shares. All compute parties take part, and nobody else.

    Args:
        c: the computation; t = 1.
        terms: public.
        ids: mine, shape (n, 32), uint8, without two equal ones; None if I am no owner.

    Raises:
        LocalFaultError: t is not 1, or ids are missing, too many or not distinct.
        PlacementFailedError: chance, with a probability below 2^-40.
        PeerError: a member is silent, drops out or sent something invalid.

    Privacy: see the module. Cost: 40 to 100 rounds; per bin and party some 35 products, per declared row of an owner 94
    bytes for the tags (190 with more than three primes).
    """
    match = SecretMatch(c, terms, ids)
    await match._match()
    return match
