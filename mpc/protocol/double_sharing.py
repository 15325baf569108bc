"""Element-wise products with double sharings: less to send than by resharing, in more rounds [DN07].

The parties prepare random elements r, each shared twice: with degree t and with degree 2t. A product x * y of shares
has degree 2t; the parties send x * y - r to a *king*, which opens it and sends out the value e; [r]_t + e is the
product with degree t. Nobody learns r, so e is uniform and tells nothing. The elements of a batch are divided among all
parties, and each is the king of some: the load is even.

Three things make it cheap here. N dealers that share one random element each make N - t random elements that no t of
them know, not one. Shares are derived from pairwise keys, those of degree N - 1 without anything to send. And a king
does not tell e to all: it is public anyway, so its sharing of degree t is the one in which t parties have share 0.

All parties are needed, so this is for N = 2t + 1, where the same is true of resharing (`mpc.protocol.reduction`).
"""

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from entropy import KeyStream
from mpc.arithmetic.field import ResidueField, Weights
from mpc.arithmetic.matmul import matrix_product
from mpc.arithmetic.shamir import lagrange_weights
from mpc.errors import InconsistentSharesError, TooFewPartiesError
from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import ShareExchange, Words, check_from
from mpc.protocol.reduction import SEGMENT, Part

N_COMBINATIONS = 2
"""Checks per segment: an error modulo one 21-bit prime is missed with probability below 2^-39."""

N_FOLDS = 32
"""Parts of a segment that are summed with random factors before the sum of what is left: that costs little then."""


LINK_NS_PER_BYTE = 8.0
EXTRA_ROUNDS_S = 3e-3
EXTRA_FIXED_S = 2.5e-3
"""What the rule assumes of the network, one gigabit and one millisecond per round, and what
`bench.protocols.reduction` measured: processor time per call beyond that of resharing. docs/decisions/007 has the
figures."""


def double_sharings_win(n_parties: int, t: int, n_elements: int, n_words: int) -> bool:
    """Whether a reduction of so many products takes less time this way than by resharing: public, the same for all.

    Per word of a product and party, in processor time, measured for N = 3 .. 11 by `bench.protocols.reduction`, and
    words sent:

        resharing           (5 + 20 t) ns     t
        double sharings    (48 +  8 t) ns     t / (t + 1) + 3 t / N

    It is never used if N > 2t + 1: resharing then tolerates dropouts and names parties with corrupted shares; this way
    does neither.
    """
    if n_parties != 2 * t + 1:
        return False
    word_ns = 8 * LINK_NS_PER_BYTE
    resharing_ns = 5 + 20 * t + word_ns * t
    double_sharings_ns = 48 + 8 * t + word_ns * (t / (t + 1) + 3 * t / n_parties)
    saved_s = 1e-9 * n_elements * n_words * (resharing_ns - double_sharings_ns)
    return saved_s > EXTRA_ROUNDS_S + EXTRA_FIXED_S


def extraction_weights(field: ResidueField, n_parties: int, t: int) -> list[dict[int, Weights]]:
    """Return N - t combinations of N elements that are uniform if any N - t of the elements are.

        r_k = x_k + sum_j l_k(j) * x_j,    l_k(j) = prod_{i != k} (j - i) / (k - i)

    for k = 1 .. N - t, j = N - t + 1 .. N, i over 1 .. N - t: the generator matrix of a Reed-Solomon code of dimension
    N - t in systematic form, any N - t columns of which are invertible. Source: [DN07], section 3, with a Vandermonde
    matrix; this one has the same property and an identity in it, which saves half of the products.

    Returns:
        Per combination, dealer to factor.
    """
    nodes = range(1, n_parties - t + 1)
    one = (1,) * len(field.primes)
    rows: list[dict[int, Weights]] = [{node: one} for node in nodes]
    for dealer in range(n_parties - t + 1, n_parties + 1):
        for row, factor in zip(rows, lagrange_weights(field, nodes, at=dealer), strict=True):
            row[dealer] = factor
    return rows


@dataclass(frozen=True, repr=False)
class _Masked:
    """One segment on its way: my shares of r, degree t, and of x * y - r, degree 2t."""

    block: int
    where: slice
    mask: Words
    masked: Words


async def reduce_with_double_sharings(
    exchange: ShareExchange, name: str, first_block: int, product_share: Part, n_elements: int
) -> Words:
    """Turn my share of a product, degree 2t, into a share of degree t of the same value. N must be 2t + 1.

    Args:
        exchange: dealing and taking of shares.
        name: begins the names of the stages.
        first_block: number of the first segment, the same for all parties, never used before under this name.
        product_share: mine, degree 2t.
        n_elements: how many.

    Returns:
        Shape (n_words, n_elements).

    Raises:
        TooFewPartiesError: N is not 2t + 1.
        PeerError: a member drops out, is silent or sent an invalid share.
        InconsistentSharesError: a party sent a corrupted share of x * y - r, or a king a wrong value.

    Privacy: passive, at most t corrupt. The honest parties' N - t contributions make every r uniform and its sharing of
    degree 2t a uniform polynomial with value r, so x * y - r is a uniform polynomial, whoever sees all of it.
    Cost: 4 rounds, the last one small; per element t / (t + 1) + 3 t / N words sent.
    """
    if exchange.n_parties != 2 * exchange.t + 1:
        raise TooFewPartiesError(
            f"double sharings are for N = 2t + 1 parties, not for {exchange.n_parties} with t = {exchange.t}"
        )
    multiplication = _Multiplication(exchange, name, product_share, n_elements)
    await run_together(multiplication.deal(first_block), multiplication.mask(first_block), multiplication.open())
    await multiplication.check(first_block)
    return multiplication.result


class _Multiplication:
    """One party's part in one batch. Three stages follow each other segment by segment, at most two segments apart."""

    def __init__(self, exchange: ShareExchange, name: str, product_share: Part, n_elements: int) -> None:
        self._exchange, self._product_share = exchange, product_share
        self._n_parties, self._t, self._me = exchange.n_parties, exchange.t, exchange.session.me
        self._everybody = range(1, exchange.n_parties + 1)
        self._others = [party for party in self._everybody if party != exchange.session.me]
        self._labels = {exchange.t: f"{name}/masks", 2 * exchange.t: f"{name}/masks of products"}
        self._to_king, self._from_king = f"{name}/masked products", f"{name}/opened masked products"
        self._check_stage = f"{name}/check of masked products"
        self._segments = [slice(i, min(i + SEGMENT, n_elements)) for i in range(0, n_elements, SEGMENT)]
        self._own: asyncio.Queue[dict[int, Words]] = asyncio.Queue(maxsize=2)
        self._masked: asyncio.Queue[_Masked] = asyncio.Queue(maxsize=2)
        self._sums: list[Words] = []
        self.result = np.empty((exchange.field.n_words, n_elements), dtype=np.uint64)

    async def deal(self, first_block: int) -> None:
        """Share my random elements, each with both degrees."""
        stream = KeyStream(self._exchange.session.entropy.read(32))
        for block, segment in enumerate(self._segments, first_block):
            shape = (self._n_dealt(segment),)
            secret = await self._exchange.session.compute(self._exchange.field.random, stream, shape)
            dealt = [self._exchange.deal(label, block, secret, degree) for degree, label in self._labels.items()]
            shares = cast(list[Words], await run_together(*dealt))
            await self._own.put(dict(zip(self._labels, shares, strict=True)))

    async def mask(self, first_block: int) -> None:
        """Take what others dealt, make r of it, send x * y - r to the kings."""
        session = self._exchange.session
        for block, segment in enumerate(self._segments, first_block):
            shapes = {dealer: (self._n_dealt(segment),) for dealer in self._others}
            takes = [self._exchange.take_all(shapes, label, block, degree) for degree, label in self._labels.items()]
            taken = dict(zip(self._labels, await run_together(*takes), strict=True))
            own = await self._own.get()
            dealt = [{p: own[d] if p == self._me else taken[d][p] for p in self._everybody} for d in self._labels]
            size = segment.stop - segment.start
            mask, masked = await session.compute(self._masked_product, segment, *dealt)
            reigns = self._reigns(size)
            sends = [
                session.send(k, self._to_king, np.ascontiguousarray(masked[:, w])) for k, w in reigns if k != self._me
            ]
            await asyncio.gather(*sends)
            await self._masked.put(_Masked(block, segment, mask, masked))

    async def open(self) -> None:
        """Open my part if I am a king; then add to r the values that the kings sent."""
        for _ in self._segments:
            masked = await self._masked.get()
            reigns = self._reigns(masked.where.stop - masked.where.start)
            opened = await run_together(*(self._opened_by(king, where, masked) for king, where in reigns))
            await self._exchange.session.compute(self._finish, masked, reigns, opened)

    async def check(self, name: int) -> None:
        """Open random combinations of x * y - r - e, degree 2t, among all parties: all are 0, or somebody was wrong."""
        if not self._sums:
            return
        share = np.concatenate(self._sums, axis=1)
        stage = f"{self._check_stage} {name}"
        opening = await self._exchange.open(stage, share, share.shape[1:], 2 * self._t, self._everybody)
        assert opening is not None, "every party receives"
        if opening.words.any():
            raise InconsistentSharesError(
                f"the shares of {list(self._everybody)} of the masked products contradict the values that were opened"
            )

    def _n_dealt(self, segment: slice) -> int:
        """Each dealt element makes N - t masks, one to each of N - t parts of the segment."""
        size: int = segment.stop - segment.start
        return -(-size // (self._n_parties - self._t))

    def _reigns(self, size: int) -> list[tuple[int, slice]]:
        """Return the kings of a segment and whose part is which; the last ones of a short segment have none."""
        part = -(-size // self._n_parties)
        reigns = [(king, slice((king - 1) * part, min(king * part, size))) for king in self._everybody]
        return [(king, where) for king, where in reigns if where.start < where.stop]

    def _masked_product(self, where: slice, dealt: dict[int, Words], dealt_2t: dict[int, Words]) -> tuple[Words, Words]:
        """Return my shares of r, degree t, and of x * y - r, degree 2t."""
        size = where.stop - where.start
        product_mask = self._extract(dealt_2t, size)
        masked = self._exchange.field.subtract(self._product_share(where), product_mask)
        return self._extract(dealt, size), masked

    def _extract(self, dealt: dict[int, Words], size: int) -> Words:
        field = self._exchange.field
        masks = np.empty((field.n_words, size), dtype=np.uint64)
        for row, part in zip(extraction_weights(field, self._n_parties, self._t), self._parts(size), strict=True):
            length = part.stop - part.start
            if length:
                field.combine([dealt[d][:, :length] for d in row], list(row.values()), masks[:, part])
        return masks

    def _parts(self, size: int) -> Iterator[slice]:
        n_parts = self._n_parties - self._t
        length = -(-size // n_parts)
        return (slice(min(k * length, size), min((k + 1) * length, size)) for k in range(n_parts))

    async def _opened_by(self, king: int, where: slice, masked: _Masked) -> Words | None:
        """Return a king's values, or None where my share of them is 0."""
        session, field, scheme = self._exchange.session, self._exchange.field, self._exchange.scheme(self._t)
        if self._me in scheme.derived_receivers(king):
            return None
        shape = (field.n_words, where.stop - where.start)
        if king != self._me:
            words = await session.receive(king, self._from_king, shape)
            await session.compute(check_from, field, words, king, self._from_king, session.names[king])
            return words
        shares = {self._me: masked.masked[:, where]}
        for sender in self._others:
            shares[sender] = await session.receive(sender, self._to_king, shape)
            name = session.names[sender]
            await session.compute(check_from, field, shares[sender], sender, self._to_king, name)
        opened = await session.compute(self._exchange.scheme(2 * self._t).recombine, shares)
        subjects = [party for party in scheme.explicit_receivers(king) if party != king]
        await asyncio.gather(*(session.send(subject, self._from_king, opened) for subject in subjects))
        return opened

    def _finish(self, masked: _Masked, reigns: list[tuple[int, slice]], opened: list[Words | None]) -> None:
        """Add my share of e to that of r, and subtract it from that of x * y - r to be checked."""
        field, result = self._exchange.field, self.result[:, masked.where]
        one = (1,) * len(field.primes)
        size = masked.where.stop - masked.where.start
        padded = field.zeros((-(-size // N_FOLDS) * N_FOLDS,))
        differences = padded[:, :size]
        for (king, where), values in zip(reigns, opened, strict=True):
            if values is None:
                result[:, where], differences[:, where] = masked.mask[:, where], masked.masked[:, where]
                continue
            zeros = self._exchange.scheme(self._t).derived_receivers(king)
            factor = lagrange_weights(field, (0, *zeros), at=self._me)[0]
            minus = tuple(p - f for p, f in zip(field.primes, factor, strict=True))
            field.combine([masked.mask[:, where], values], [one, factor], result[:, where])
            field.combine([masked.masked[:, where], values], [one, minus], differences[:, where])
        self._sums.append(self._combinations(masked.block, padded.reshape(field.n_words, N_FOLDS, -1)))

    def _combinations(self, block: int, rows: Words) -> Words:
        """Return public random combinations of elements of shape (n_words, N_FOLDS, m); shape (n_words, combinations).

        The factor of an element is that of its row times that of its column. Where an element is not 0, its column's
        sum is 0 with probability 1 / p; where that is not, the sum of all columns is: missed with less than 2 / p.
        """
        field = self._exchange.field
        text = f"{self._exchange.session.job_id}\0{self._check_stage}\0{block}"
        stream = KeyStream(hashlib.sha256(text.encode()).digest())
        sums = np.empty((field.n_words, N_COMBINATIONS), dtype=np.uint64)
        for i in range(N_COMBINATIONS):
            row_factors = np.stack(field.residues(field.random(stream, (N_FOLDS,))), axis=1).tolist()
            folded = field.combine([rows[:, row] for row in range(N_FOLDS)], row_factors)
            column_factors = field.random(stream, folded.shape[1:])
            sums[:, i] = matrix_product(field, folded[:, None], column_factors[:, :, None])[:, 0, 0]
        return sums
