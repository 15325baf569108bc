"""A check of the shares that went into a degree reduction, by means of surplus dealers.

In a reduction of degree d every dealer's value is a point of one polynomial of degree d per element. With more than
d + 1 dealers the further points are determined by the first ones, so their differences are shared zeros. Random linear
combinations of these over all elements are opened among the parties before anything else is: if any of them is not
zero, some dealer multiplied corrupted shares. Differences are the syndrome of a Reed-Solomon word, so the wrong dealer
is named where the surplus allows.

The coefficients follow from a *coin*: random elements that all dealers deal behind their products, and that are opened
only when all parties have said from whom they received everything (`mpc.protocol.agreement`). Nobody knows them when it
deals, so no choice of errors fits them. With N >= 3t + 1 and products of degree 2t, at most t wrong dealers always
leave a syndrome that is not zero: every wrong product is found, whoever made it and why. With fewer parties this finds
faults of up to N - 2t - 1 dealers. N are here the dealers that count: a dropout takes one away, and so does a party
that says it received nothing from one. What it says nothing of are sub-shares that lie on no polynomial of degree t.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from entropy import KeyStream
from mpc.arithmetic.matmul import matrix_product
from mpc.arithmetic.opening import open_shares
from mpc.arithmetic.shamir import lagrange_weights
from mpc.errors import PeerViolationError
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import ShareExchange, Words

N_COMBINATIONS = 2
"""Combinations of all elements: an error modulo one 21-bit prime is missed with probability below 2^-41."""

N_COINS = 8
"""Elements of a coin: at least 8 * 20 bits that nobody can guess."""


def n_coins(n_parties: int, degree: int, n_elements: int) -> int:
    """Return how many elements of a coin follow so many products: none where no dealer is surplus, and behind none."""
    return N_COINS if n_elements and n_parties > degree + 1 else 0


class ReductionCheck(Protocol):
    """What looks at the dealers' values of reductions before a result of them is opened: `ProductCheck`, or proofs."""

    def n_coins(self, degree: int, n_elements: int) -> int:
        """Return how many elements of a coin each dealer deals behind so many products."""

    def collect(self, degree: int, shares: Mapping[int, Words]) -> None:
        """Record what the agreed dealers of one segment dealt to me."""

    def keep_coin(self, share: Words) -> None:
        """Keep my share, degree t, of the coin that was dealt behind the collected segments."""

    async def reveal(self) -> None:
        """Open the coin of what has been collected, if there is one."""

    async def verify(self, name: str) -> tuple[int, ...]:
        """Check what has been collected and forget it; return whose shares of the check were corrected."""


@dataclass(frozen=True)
class _Kind:
    """Reductions whose differences add up: the dealers that counted, ascending, and the degree of their values."""

    dealers: tuple[int, ...]
    degree: int


class ProductCheck:
    """Collects differences of reductions until they are verified.

    Memory: one element per product of the last reduction and surplus dealer; of earlier ones, some elements.

    Args:
        exchange: exchange of the job.
        agreement: agreement of the same computation.
    """

    def __init__(self, exchange: ShareExchange, agreement: DealerAgreement) -> None:
        self._exchange = exchange
        self._agreement = agreement
        self._differences: list[tuple[_Kind, Words]] = []
        self._coin: Words | None = None
        self._combined: dict[_Kind, Words] = {}
        self._wrong: set[int] = set()
        self._n_tossed = 0
        self._n_checks = 0

    def n_coins(self, degree: int, n_elements: int) -> int:
        """Return the module's `n_coins` for this exchange."""
        return n_coins(self._exchange.n_parties, degree, n_elements)

    def collect(self, degree: int, shares: Mapping[int, Words]) -> None:
        """Record what the agreed dealers of one segment dealt to me; do nothing if there is no surplus.

        Args:
            degree: degree of the dealers' values.
            shares: agreed dealer to what it dealt, shape (n_words, m), in ascending order of dealers.
        """
        kind = _Kind(tuple(shares), degree)
        basis, surplus = kind.dealers[: degree + 1], kind.dealers[degree + 1 :]
        field = self._exchange.field
        if not surplus:
            return
        one = (1,) * len(field.primes)
        parts = [shares[dealer] for dealer in basis]
        differences = np.empty((field.n_words, len(surplus), parts[0].shape[1]), dtype=np.uint64)
        for row, dealer in enumerate(surplus):
            weights = lagrange_weights(field, basis, at=dealer)
            minus = [tuple(p - w for p, w in zip(field.primes, weight, strict=True)) for weight in weights]
            field.combine([shares[dealer], *parts], [one, *minus], differences[:, row])
        self._differences.append((kind, differences))

    def keep_coin(self, share: Words) -> None:
        """Keep my share, degree t, of the coin that the agreed dealers of the collected segments dealt behind them."""
        self._coin = share

    async def reveal(self) -> None:
        """Open the coin of what has been collected, and combine that; do nothing if nothing has been.

        Call it when all that was collected has been agreed on: whoever has not dealt by then does not count.

        Raises:
            InconsistentSharesError: shares of the coin contradict each other.
            PeerError: too few parties answered.

        Privacy: the coin tells nothing of any product. Cost: 1 round, N_COINS elements per pair, beside whatever else
        is sent.
        """
        differences, self._differences = self._differences, []
        if not differences:
            return
        exchange, share = self._exchange, self._coin
        assert share is not None, "a reduction with surplus dealers has a coin"
        self._coin = None
        stage = self._agreement.stage(f"coin {self._n_tossed}")
        self._n_tossed += 1
        everybody = range(1, exchange.n_parties + 1)  # whom I do not hear may still hear me, and continue
        present = self._agreement.present()
        opening = await exchange.open(stage, share, share.shape[1:], exchange.t, everybody, present)
        assert opening is not None, "every party receives"
        self._wrong.update(opening.wrong)
        n_words = sum(words.size for _, words in differences)
        await exchange.compute(n_words, self._combine, differences, opening.words)

    async def verify(self, name: str) -> tuple[int, ...]:
        """Open what has been collected among the parties, and forget it.

        Args:
            name: begins the names of the stages.

        Returns:
            The parties whose corrupted shares of the check itself were corrected.

        Raises:
            PeerViolationError: names a party that multiplied corrupted shares.
            InconsistentSharesError: some party did, and the surplus is too small to tell which.
            PeerError: too few parties answered.

        Privacy: all opened values are zero unless a party is at fault. Cost: 2 rounds, 3 small messages per pair.
        """
        if not self._differences and not self._combined:
            return ()
        exchange, field, me = self._exchange, self._exchange.field, self._exchange.session.me
        number = self._n_checks
        self._n_checks += 1
        parties = sorted([me, *self._agreement.present()])
        _, senders = await run_together(
            self.reveal(),
            self._agreement.senders_with_one_view(f"{name}/check view {number}", parties, exchange.t + 1),
        )
        combined, self._combined = self._combined, {}
        share = np.concatenate([words.reshape(field.n_words, -1) for words in combined.values()], axis=1)
        opening = await exchange.open(f"{name}/check {number}", share, share.shape[1:], exchange.t, parties, senders)
        assert opening is not None, "every party receives"
        start = 0
        for kind, words in combined.items():
            size = words[0].size
            self._judge(kind, opening.words[:, start : start + size].reshape(words.shape), name)
            start += size
        wrong, self._wrong = self._wrong, set()
        return tuple(sorted(wrong.union(opening.wrong)))

    def _combine(self, differences: list[tuple[_Kind, Words]], coin: Words) -> None:
        """Add random combinations to those of the same kind, shape (n_words, surplus dealers, N_COMBINATIONS)."""
        field = self._exchange.field
        stream = KeyStream(hashlib.sha256(b"moiety check of products" + coin.tobytes()).digest())
        for kind, words in differences:
            coefficients = field.random(stream, (N_COMBINATIONS, words.shape[2]))
            sums = matrix_product(field, words, coefficients.transpose(0, 2, 1))
            earlier = self._combined.get(kind)
            self._combined[kind] = sums if earlier is None else field.add(sums, earlier)

    def _judge(self, kind: _Kind, differences: Words, name: str) -> None:
        """Decode one opened syndrome: the word that is zero at the basis has the same errors as the dealers' values."""
        if not differences.any():
            return
        n_basis = kind.degree + 1
        zero = np.zeros_like(differences[:, 0])
        word = dict.fromkeys(kind.dealers[:n_basis], zero)
        word |= {d: differences[:, i] for i, d in enumerate(kind.dealers[n_basis:])}
        wrong = open_shares(word, kind.degree, self._exchange.field).wrong
        culprit = wrong[0]
        what = f"{self._exchange.session.names[culprit]} multiplied corrupted shares"
        raise PeerViolationError(culprit, f"{name}/check", what)
