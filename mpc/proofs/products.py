"""Computations of which every product is proven before anything that follows from it is opened.

In a reduction of degree 2t dealer j deals h_j = x_j y_j, the product of its own shares, with degree t
(`mpc.protocol.reduction`). A dealer that adds to h_j adds to the product, whatever the owners know of their rows. Here
each of the first 2t + 1 dealers proves that what it dealt is the product of its shares and lies on polynomials of
degree t (`mpc.proofs.inner_products`): one statement about all products since the last proof, and a few about each sum
of products that was reduced as a sum (`mpc.proofs.summed_products`).

The coin of a proof is tossed after all resharings that it is about. It is due before each opening, and earlier where
more than `MOST_PENDING` products wait, which bounds the memory. Errors of a product that enters later ones before they
are proven are masked like all values, and end the job at the proof.

What is opened has degree t, and all N shares count: those of the N - t parties that do not deviate lie on one
polynomial, on which no t wrong shares lie but at its own points. So a wrong share at an opening is found, and corrected
with its sender's name where N - 2t - 1 allows it (`mpc.arithmetic.opening.open_shares`).

Double sharings are not used: the masked products that they open would have to be proven first, round by round.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from mpc.arithmetic.shamir import lagrange_weights
from mpc.arithmetic.words import Words
from mpc.errors import LocalFaultError
from mpc.proofs.coin import PublicCoin
from mpc.proofs.folding import Schedule
from mpc.proofs.inner_products import Proofs, Statement, Total, Vectors
from mpc.proofs.proven_bits import proven_signs
from mpc.proofs.proven_sums import Kept, ProvenGramSum, ProvenProductSum
from mpc.proofs.summed_products import N_VECTORS, Claims, SummedProduct
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.computation import Computation
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.shared import SharedArray, concatenate, stack

MOST_PENDING = 1 << 21
"""Products that wait for a proof at most. What is kept of one until then is N + 2 words, and during a proof as much."""


class ProductProofs:
    """Collects products until they are proven. A `mpc.protocol.product_check.ReductionCheck`.

    Memory: N - t words per product dealt, and the factors, which the computation holds anyway.

    Args:
        exchange: dealing and taking of shares.
        name: begins the names of the stages.
        listeners: members without shares that take part in proofs of the same name.
    """

    def __init__(self, exchange: ShareExchange, name: str, listeners: Collection[int] = ()) -> None:
        self._exchange = exchange
        self._provers = range(1, 2 * exchange.t + 2)
        self._coin = PublicCoin(exchange.session, exchange.n_parties, name, listeners)
        self.proofs = Proofs(exchange, self._coin, name)
        self._multiplied: list[tuple[Words, Words, Words]] = []
        self._dealt, self._collected = self._none_dealt(), self._none_dealt()
        self._sums: list[SummedProduct] = []
        self.n_pending = 0

    def _none_dealt(self) -> dict[int, list[Words]]:
        return {prover: [] for prover in self._provers}

    def _take_collected(self) -> dict[int, list[Words]]:
        taken, self._collected = self._collected, self._none_dealt()
        return taken

    def multiplied(self, left: Words, right: Words, product: Words) -> None:
        """Record my shares of what has been multiplied, shape (n_words, ...) each, in the reduction just done."""
        self._multiplied.append((left, right, product))
        for prover, parts in self._take_collected().items():
            self._dealt[prover] += parts
        self.n_pending += left[0].size

    def summed(self, kept: Kept, product: Words) -> None:
        """Record my shares of the factors of a sum, and of the sum, in the reduction just done."""
        found = SummedProduct(kept.factors, kept.shape, kept.is_triangle, self._take_collected(), product)
        self._sums.append(found)

    def n_coins(self, degree: int, n_elements: int) -> int:
        """Return 0: the coin of a proof is its own."""
        return 0

    def keep_coin(self, share: Words) -> None:
        """Do nothing."""

    async def reveal(self) -> None:
        """Do nothing."""

    def collect(self, degree: int, shares: Mapping[int, Words]) -> None:
        """Record what was dealt to me of the products of one segment."""
        for prover in self._provers:
            self._collected[prover].append(shares[prover])

    async def verify(self, name: str) -> tuple[int, ...]:
        """Prove and verify all that has been collected; see `Proofs.check`."""
        sums, self._sums = self._sums, []
        if not self.n_pending and not sums:
            return ()
        masks = await self.proofs.joint_masks(bool(self.n_pending) + N_VECTORS * len(sums))
        statements, totals = self._about_products(masks)
        coin, field = await self._coin.toss(), self._exchange.field
        for found in sums:
            claims = await self._exchange.session.compute(found.claims, field, coin)
            for number in range(N_VECTORS):
                pair = len(totals)
                about, total = self._about_sum(pair, found.schedule, claims, number, masks[pair][:, :, :1])
                statements += about
                totals[pair] = total
        await self.proofs.check(statements, totals, coin)
        return ()

    def _about_products(self, masks: Sequence[Words]) -> tuple[list[Statement], dict[int, Total]]:
        """Return the one statement of each prover about all products, and begin anew."""
        if not self.n_pending:
            return [], {}
        multiplied, dealt, schedule = self._multiplied, self._dealt, Schedule(self.n_pending)
        self._multiplied, self._dealt, self.n_pending = [], self._none_dealt(), 0
        left, right, products = zip(*multiplied, strict=True)
        statements, total = self._stated(0, schedule, Vectors(left, right, masks[0]), dealt, products)
        return statements, {0: total}

    def _about_sum(
        self, pair: int, schedule: Schedule, claims: Claims, number: int, masks: Words
    ) -> tuple[list[Statement], Total]:
        """Return the statement of each prover about one pair of random vectors."""
        left, right, place = claims.left[..., number], claims.right[..., number], slice(number, number + 1)
        dealt = {prover: [words[:, place]] for prover, words in claims.dealt.items()}
        vectors = Vectors([left], [right], masks)
        return self._stated(pair, schedule, vectors, dealt, [claims.product[:, place]], repetitions=1)

    def _stated(
        self,
        pair: int,
        schedule: Schedule,
        vectors: Vectors,
        dealt: Mapping[int, Sequence[Words]],
        products: Sequence[Words],
        repetitions: int | None = None,
    ) -> tuple[list[Statement], Total]:
        weights = dict(zip(self._provers, lagrange_weights(self._exchange.field, self._provers), strict=True))
        me = self._exchange.session.me
        statements = [
            Statement(
                prover,
                prover,
                schedule,
                vectors,
                dealt[prover],
                vectors if prover == me else None,
                pair,
                repetitions,
            )
            for prover in self._provers
        ]
        return statements, Total(products, weights)


class ProvenProducts(Computation):
    """A computation that proves its products; a part of a class that says more, or of `ProvenComputation`.

    Sums of products have degree t, and so has what is opened. All parties are needed to its end, however many there
    are.
    """

    _may_use_double_sharings = False

    def __init__(self, exchange: ShareExchange, name: str = "computation") -> None:
        super().__init__(exchange, name)
        self._agreement = DealerAgreement(exchange, name, needs_all=True)
        self._product_proofs = ProductProofs(exchange, name)
        self._check_of_products = self._product_proofs
        self._deviating = exchange.t
        self._is_recorded = False
        self._n_signs = 0
        self._prepared = [self.outline((0,), self.t, 1)]

    @property
    def product_degree(self) -> int:
        """Degree of sums of products: t, as they are reduced."""
        return self.t

    def beside(self, name: str) -> Computation:
        """Return another computation of the same members with the same keys, which proves its products as well."""
        return ProvenComputation(self._exchange, name)

    def product_sum(self, n_rows: int, n_columns: int) -> ProvenProductSum:
        """Return an empty sum of products of matrices, which is reduced and proven."""
        session, shape = self._exchange.session, (n_rows, n_columns)
        return ProvenProductSum(self, session, self.field, shape, holds_shares=self.holds_shares)

    def gram_sum(self, n_columns: int) -> ProvenGramSum:
        """Return an empty sum of x^T x, which is reduced and proven."""
        session = self._exchange.session
        return ProvenGramSum(self, session, self.field, n_columns, holds_shares=self.holds_shares)

    async def multiply(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the element-wise product, degree t, to be proven before the next opening.

        Raises:
            LocalFaultError: a factor has a degree above t: it has not been reduced.
            PeerError, InconsistentSharesError: see `Products.reduce_all`; and `Proofs.check`, where a proof is due.

        Cost: see `Products.multiply`, resharing only, and for the proof `Proofs.check`.
        """
        a, b = x.aligned(y)
        if max(a.degree, b.degree) > self.t:
            raise LocalFaultError("a product is proven of factors of degree t: reduce them first, by `multiply`")
        if a.degree + b.degree <= self.t:
            return await super().multiply(a, b)
        with self._recorded():
            product = await super().multiply(a, b)
        if a.share is not None and b.share is not None and a.size:
            assert product.share is not None
            self._product_proofs.multiplied(a.share, b.share, product.share)
            if self._product_proofs.n_pending > MOST_PENDING:
                await self.check_products()
        return product

    async def multiply_all(self, pairs: Sequence[tuple[SharedArray, SharedArray]]) -> list[SharedArray]:
        """Return the products of several pairs as one array's; see `multiply`."""
        aligned = [a.aligned(b) for a, b in pairs]
        left, right = (concatenate([pair[side].reshape(-1) for pair in aligned]) for side in (0, 1))
        product, start, found = await self.multiply(left, right), 0, []
        for a, b in aligned:
            outline = replace(a, share=None) * replace(b, share=None)
            part = product[start : start + a.size].reshape(*a.shape)
            found.append(replace(part, bound=outline.bound))
            start += a.size
        return found

    async def _to_be_cut(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the products with degree t: at an opening of degree 2t nobody tells a wrong share from a right one."""
        return await self.multiply(x, y)

    async def _matrix_to_be_cut(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the matrix product with degree t, each entry reduced once; see `_to_be_cut`."""
        left, right = (x if x.ndim == 2 else x[None]), (y if y.ndim == 2 else y[:, None])
        return (await self.matmul(left, right)).reshape(*x.shape[:-1], *y.shape[1:])

    async def sum_of_products(self, pairs: Sequence[tuple[SharedArray, SharedArray]]) -> SharedArray:
        """Return the sum of the products of several pairs, each of which is reduced by itself; see `multiply`."""
        first, *others = await self.multiply_all(pairs)
        return sum(others, start=first)

    async def _opened_words(self, x: SharedArray, receivers: Sequence[int], *, is_fresh: bool = False) -> Words | None:
        """See `Openings._opened_words`; what is opened has degree t.

        Raises:
            LocalFaultError: the array has a higher degree: it holds products that were not reduced, so not proven.
        """
        if x.degree > self.t:
            raise LocalFaultError(
                "products are opened once they are proven: make them by `multiply`, `dot` or `matmul`"
            )
        return await super()._opened_words(x, receivers, is_fresh=is_fresh)

    async def shuffle(self, x: SharedArray) -> SharedArray:
        """Refuse.

        Raises:
            LocalFaultError: always: nobody proves that what a committee deals is what it held.
        """
        raise LocalFaultError("a shuffle is not proven, so a computation that proves its products has none")

    async def prepare_bits(self, n_bits: int) -> None:
        """See `Bits.prepare_bits`."""
        number, self._n_signs = self._n_signs, self._n_signs + 1
        with self._step():
            self._prepared = await proven_signs(self._exchange, self._stage(f"bits {number}"), n_bits)

    async def _signs(self, n_signs: int) -> list[SharedArray]:
        """Return so many signs of each dealer, of those that are prepared if they suffice; none is used twice."""
        if self._prepared[0].size < n_signs:
            await self.prepare_bits(n_signs)
        taken, self._prepared = (
            [signs[part] for signs in self._prepared] for part in (slice(n_signs), slice(n_signs, None))
        )
        return taken

    async def _random_parts(
        self, n_bits: int, n_values: int, sizes: Sequence[int]
    ) -> tuple[SharedArray, list[SharedArray]]:
        """See `Bits._random_parts`; what each party draws is made of bits, of which each is proven to be one."""
        dealt = await self._signs(n_bits + n_values * sum(sizes))
        start, sums = n_bits, []
        for size in sizes:
            part = slice(start, start := start + n_values * size)
            drawn = [self.from_bits(self._bits_of(signs[part]).reshape(size, n_values)) for signs in dealt]
            sums.append(sum(drawn[1:], start=drawn[0]))
        sign = await self.prod(stack([signs[:n_bits] for signs in dealt])) if n_bits else dealt[0][:0]
        return self._bits_of(sign), sums

    def _bits_of(self, signs: SharedArray) -> SharedArray:
        return self._exact_quotient(1 - signs, 2, 1)

    async def reduce_sum(self, total: SharedArray, kept: Kept) -> SharedArray:
        """Return a sum of products with degree t, to be proven before the next opening; see `ProvenProductSum`."""
        with self._recorded():
            (product,) = await self._reduced([replace(total, degree=2 * self.t)], total.reshape(-1).__getitem__)
        if product.share is not None:
            self._product_proofs.summed(kept, product.share.reshape(self.field.n_words, -1))
        return product

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        self._is_recorded = True
        try:
            yield
        finally:
            self._is_recorded = False

    async def _reduced(
        self, arrays: Sequence[SharedArray], segment_of: Callable[[slice], SharedArray]
    ) -> list[SharedArray]:
        if not self._is_recorded:
            raise LocalFaultError(
                "this computation proves its products, so it reduces only those of arrays whose shares it knows: use "
                "`multiply`, `dot`, `matmul` or `gram`"
            )
        return await super()._reduced(arrays, segment_of)


class ProvenComputation(ProvenProducts):
    """A `Computation` all of whose products are proven: what a circuit is run by where members may deviate."""
