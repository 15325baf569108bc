"""Computations of which every intermediate product is proven before anything that follows from it is opened.

In a reduction of degree 2t dealer j deals h_j = x_j y_j, the product of its own shares, with degree t
(`mpc.protocol.reduction`). A dealer that adds to h_j adds to the product, whatever the owners know of their rows. Here
each of the first 2t + 1 dealers proves that what it dealt is the product of its shares and lies on polynomials of
degree t (`mpc.proofs.inner_products`): one statement about all products since the last proof.

The coin of a proof is tossed after all resharings that it is about. It is due before each opening, and earlier where
more than `MOST_PENDING` products wait, which bounds the memory. Errors of a product that enters later ones before they
are proven are masked like all values, and end the job at the proof.

Double sharings are not used: the masked products that they open would have to be proven first, round by round.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mpc.arithmetic.shamir import lagrange_weights
from mpc.arithmetic.words import Words
from mpc.errors import LocalFaultError
from mpc.proofs.coin import PublicCoin
from mpc.proofs.folding import Schedule
from mpc.proofs.inner_products import Proofs, Statement, Total, Vectors
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.computation import Computation
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.shared import SharedArray

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
        self.proofs = Proofs(exchange, PublicCoin(exchange.session, exchange.n_parties, name, listeners), name)
        self._multiplied: list[tuple[Words, Words, Words]] = []
        self._dealt: dict[int, list[Words]] = {prover: [] for prover in self._provers}
        self.n_pending = 0

    def multiplied(self, left: Words, right: Words, product: Words) -> None:
        """Record my shares of what has been multiplied, shape (n_words, ...) each."""
        self._multiplied.append((left, right, product))
        self.n_pending += left[0].size

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
            self._dealt[prover].append(shares[prover])

    async def verify(self, name: str) -> tuple[int, ...]:
        """Prove and verify all that has been collected; see `Proofs.check`."""
        if not self.n_pending:
            return ()
        multiplied, dealt, schedule = self._multiplied, self._dealt, Schedule(self.n_pending)
        self._multiplied, self._dealt, self.n_pending = [], {prover: [] for prover in self._provers}, 0
        left, right, products = zip(*multiplied, strict=True)
        vectors = Vectors(left, right, await self.proofs.joint_masks())
        me, field = self._exchange.session.me, self._exchange.field
        weights = dict(zip(self._provers, lagrange_weights(field, self._provers), strict=True))
        statements = [
            Statement(prover, prover, schedule, vectors, dealt[prover], vectors if prover == me else None)
            for prover in self._provers
        ]
        await self.proofs.check(statements, {0: Total(products, weights)})
        return ()


class ProvenProducts(Computation):
    """A computation that proves its products; a part of a class that says more, or of `ProvenComputation`.

    All parties are needed to its end, however many there are.
    """

    _may_use_double_sharings = False

    def __init__(self, exchange: ShareExchange, name: str = "computation") -> None:
        super().__init__(exchange, name)
        self._agreement = DealerAgreement(exchange, name, needs_all=True)
        self._product_proofs = ProductProofs(exchange, name)
        self._check_of_products = self._product_proofs
        self._is_multiplying = False

    def beside(self, name: str) -> Computation:
        """Return another computation of the same members with the same keys, which proves its products as well."""
        return ProvenComputation(self._exchange, name)

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
        self._is_multiplying = True
        try:
            product = await super().multiply(a, b)
        finally:
            self._is_multiplying = False
        if a.share is not None and b.share is not None and a.size:
            assert product.share is not None
            self._product_proofs.multiplied(a.share, b.share, product.share)
            if self._product_proofs.n_pending > MOST_PENDING:
                await self.check_products()
        return product

    async def _reduced(self, arrays: Sequence[SharedArray], segment_of: Any) -> list[SharedArray]:
        if not self._is_multiplying:
            raise LocalFaultError(
                "this computation proves its products, so it reduces only those of two arrays whose shares it knows: "
                "use `multiply`"
            )
        return await super()._reduced(arrays, segment_of)


class ProvenComputation(ProvenProducts):
    """A `Computation` all of whose products are proven: what a circuit is run by where members may deviate."""
