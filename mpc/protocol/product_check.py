"""A check of the shares that went into a degree reduction, by means of surplus dealers.

In a reduction of degree d every dealer's value is a point of one polynomial of degree d per element. With more than
d + 1 dealers the further points are determined by the first ones, so their differences are shared zeros. Random linear
combinations of these over all elements are opened among the parties before anything else is: if any of them is not
zero, some dealer multiplied corrupted shares. Differences are the syndrome of a Reed-Solomon word, so the wrong dealer
is named where the surplus allows.

This finds faults: a corrupted share, a party with stale data. The coefficients are public beforehand, so it is no
protection against a party that chooses its errors to fit them; the adversary of these protocols is semi-honest.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from entropy import KeyStream
from mpc.arithmetic.matmul import matrix_product
from mpc.arithmetic.opening import open_shares
from mpc.arithmetic.shamir import lagrange_weights
from mpc.errors import PeerViolationError
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.exchange import ShareExchange, Words

N_COMBINATIONS = 2
"""Combinations per segment: an error modulo one 21-bit prime is missed with probability below 2^-41."""


@dataclass(frozen=True)
class _Syndrome:
    """My share of the differences of one segment, shape (n_words, surplus dealers, N_COMBINATIONS)."""

    dealers: tuple[int, ...]
    degree: int
    share: Words


class ProductCheck:
    """Collects differences of reductions until they are verified.

    Args:
        exchange: of the job.
        agreement: of the same computation.
    """

    def __init__(self, exchange: ShareExchange, agreement: DealerAgreement) -> None:
        self._exchange = exchange
        self._agreement = agreement
        self._collected: list[_Syndrome] = []
        self._n_checks = 0

    def collect(self, stage: str, block: int, degree: int, shares: Mapping[int, Words]) -> None:
        """Record what the agreed dealers of one segment dealt to me; do nothing if there is no surplus.

        Args:
            stage: of the segment.
            block: of the segment; both fix the public coefficients.
            degree: of the dealers' values.
            shares: agreed dealer to what it dealt, shape (n_words, m), in ascending order of dealers.
        """
        dealers = tuple(shares)
        basis, surplus = dealers[: degree + 1], dealers[degree + 1 :]
        if not surplus:
            return
        field = self._exchange.field
        seed = hashlib.sha256(f"{self._exchange.session.job_id}\0{stage}\0{block}".encode()).digest()
        m = shares[dealers[0]].shape[1]
        coefficients = field.random(KeyStream(seed), (N_COMBINATIONS, m))
        dealt = np.stack(list(shares.values()), axis=1)
        sums = matrix_product(field, dealt, coefficients.transpose(0, 2, 1))
        combined = {dealer: sums[:, row] for row, dealer in enumerate(dealers)}
        parts = [combined[d] for d in basis]
        expected = (field.combine(parts, lagrange_weights(field, basis, at=extra)) for extra in surplus)
        differences = [field.subtract(combined[d], e) for d, e in zip(surplus, expected, strict=True)]
        self._collected.append(_Syndrome(dealers, degree, np.stack(differences, axis=1)))

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

        Privacy: all opened values are zero unless a party is at fault. Cost: 2 small messages per pair, at once.
        """
        if not self._collected:
            return ()
        exchange, field, me = self._exchange, self._exchange.field, self._exchange.session.me
        number = self._n_checks
        self._n_checks += 1
        collected, self._collected = self._collected, []
        share = np.concatenate([s.share.reshape(field.n_words, -1) for s in collected], axis=1)
        parties = sorted([me, *self._agreement.present()])
        senders = await self._agreement.senders_with_one_view(f"{name}/check view {number}", parties, exchange.t + 1)
        opening = await exchange.open(f"{name}/check {number}", share, share.shape[1:], exchange.t, parties, senders)
        assert opening is not None, "every party receives"
        start = 0
        for syndrome in collected:
            size = syndrome.share[0].size
            self._judge(syndrome, opening.words[:, start : start + size].reshape(syndrome.share.shape), name)
            start += size
        return opening.wrong

    def _judge(self, syndrome: _Syndrome, differences: Words, name: str) -> None:
        """Decode one opened syndrome: the word that is zero at the basis has the same errors as the dealers' values."""
        if not differences.any():
            return
        n_basis = syndrome.degree + 1
        zero = np.zeros_like(differences[:, 0])
        word = dict.fromkeys(syndrome.dealers[:n_basis], zero)
        word |= {d: differences[:, i] for i, d in enumerate(syndrome.dealers[n_basis:])}
        wrong = open_shares(word, syndrome.degree, self._exchange.field).wrong
        culprit = wrong[0]
        what = f"{self._exchange.session.names[culprit]} multiplied corrupted shares"
        raise PeerViolationError(culprit, f"{name}/check", what)
