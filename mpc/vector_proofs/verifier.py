"""The verifiers' side: each party makes a few elements of its shares at one point, and all of them together must agree.

The parties hold additive shares of both parts. At a point r that nobody knew when the shares were fixed they open, of
each vector, the value of every column's polynomial and, for each repetition,

    E = Z(r) H(r) + factor (r q(r) + sigma / m) + factors times the constants that must be 0,

all linear in the shares. The values give sum_k factor_k range_k(r) + factor sum_i x_i(r)^2, which must be E:
`mpc.vector_proofs.prover` says why.

Soundness, where all parties follow the protocol: let a digit be out of its range, or a norm or a sum be wrong. Then a
vector of constraints is not 0 at some root of unity, and its product with uniform factors is 0 with 1 / p, in each
repetition: 2^-128 together, for each challenge that a prover tries. If it is not 0, no H makes both sides the same
polynomial; they have degrees below (base + 1) m, so they agree at r with that over p - (base + 1) m at most
(`Table.log2_error`). Nobody can try that before the parties draw r.

Zero knowledge, against all parties but one and whatever they do: Z(r) is not 0, so the uniform masks of columns make
their values uniform, and E follows from these. The honest party's shares are uniform but for that. A party that adds
something to what it opens changes whether the sides agree by what it knows already; so a verdict tells nothing. This
holds for **one** r for each vector: a second one would tell of digits.
Source: fully linear proofs [BBC+19], section 4; [VDAF], with polynomials on roots of unity as in [BCR+19].
"""

import numpy as np

from entropy import KeyStream
from mpc.prime import kernels as prime_kernels
from mpc.prime.field import Words, element, elements, inverse, random, shifts, weights_at
from mpc.prime.kernels import PRIME
from mpc.vector_proofs.claim import REPETITIONS, Claim
from mpc.vector_proofs.prover import squares_of


class Verifier:
    """What one party does with its shares; the same for all vectors of a claim.

    Args:
        claim: what is proven.
        coin: from which the point is drawn; all parties have the same.
        is_first: whether this party adds what is public: exactly one does.
    """

    def __init__(self, claim: Claim, coin: KeyStream, *, is_first: bool) -> None:
        self.claim, self._is_first = claim, is_first
        table = claim.table
        m = table.rows
        coset_shifts = shifts(table.base)
        forbidden = {1, *(pow(shift, m, PRIME) for shift in coset_shifts)}
        point = 1
        while pow(point, m, PRIME) in forbidden:
            point = int(random(coin, 1)[0])
        vanishing = pow(point, m, PRIME) - 1
        self._of_rows = np.append(weights_at(point, m, [1])[0], element(vanishing))
        self._of_quotient = weights_at(point, m, coset_shifts)
        prime_kernels.scale_rows(self._of_quotient, elements([vanishing] * table.base))
        self._of_quotient = self._of_quotient.reshape(-1)
        self._tops = np.array(table.tops, dtype=np.uint64)
        self._constraints = [getattr(self, f"_of_{name}")(point) for name in table.constraints]

    def _of_norm(self, point: int) -> tuple[Words, int]:
        """Return the weights of all elements of the first part, and what is added: r q(r) + sigma / m."""
        claim, part = self.claim, inverse(self.claim.table.rows)
        weights = self._digits_of("norm", PRIME - part)
        weights[claim.table.masked :] = elements([pow(point, k, PRIME) for k in range(1, claim.table.rows)])
        return weights, (claim.squared_norm or 0) * part

    def _of_sum(self, point: int) -> tuple[Words, int]:
        claim, table = self.claim, self.claim.table
        weights = self._digits_of("sum", 1)
        held = weights[: table.rows * table.columns].reshape(table.rows, table.columns)
        held[:, : table.entry_columns] = np.tile(elements(list(claim.digits.weights)), table.entries_of_row)
        return weights, -(claim.largest_sum or 0)

    def _of_weight(self, point: int) -> tuple[Words, int]:
        weights = self._digits_of("weight", 1)
        prime_kernels.add_to(weights, self._digits_of("rest", 1))
        return weights, -(self.claim.weight or 0)

    def _digits_of(self, name: str, factor: int) -> Words:
        """Return weights that make a further number, times a factor, of the first part."""
        table = self.claim.table
        found = np.zeros(table.first_part, dtype=np.uint64)
        for digit, place in enumerate(table.places(name)):
            found[place] = element(table.base**digit * factor)
        return found

    def share_of(self, first: Words, second: Words, challenge: Words) -> Words:
        """Return my share of what is opened of a vector, shape (claim.table.opened,).

        Args:
            first: my share of the first part. Secret.
            second: my share of the second part. Secret.
            challenge: factors for this vector, as `mpc.vector_proofs.prover.challenge_of` returns it.
        """
        table = self.claim.table
        out = np.empty(table.opened, dtype=np.uint64)
        rows = first[: table.masked].reshape(table.rows + 1, table.columns)
        prime_kernels.combine_rows(out[: table.columns], rows, self._of_rows)
        constants = [
            int(prime_kernels.inner_product(first, weights)) + (added if self._is_first else 0)
            for weights, added in self._constraints
        ]
        quotients = second.reshape(REPETITIONS, -1)
        for repetition in range(REPETITIONS):
            total = int(prime_kernels.inner_product(quotients[repetition], self._of_quotient))
            for factor, constant in zip(challenge[repetition, table.columns :], constants, strict=True):
                total += int(factor) * constant
            out[table.columns + repetition] = element(total)
        return out

    def accepts(self, opened: Words, challenge: Words) -> bool:
        """Say whether a claim holds, of the sum of all parties' shares."""
        table = self.claim.table
        values = opened[None, : table.columns].copy()
        sums = np.empty((1, REPETITIONS), dtype=np.uint64)
        prime_kernels.range_sums(sums, values, self._tops, np.ascontiguousarray(challenge[:, : table.columns]))
        norm = int(squares_of(self.claim, values)[0]) if "norm" in table.constraints else 0
        return all(
            (int(sums[0, i]) + (int(challenge[i, table.columns]) * norm if norm else 0)) % PRIME
            == int(opened[table.columns + i])
            for i in range(REPETITIONS)
        )


def integers_of(claim: Claim, total: Words, n_vectors: int, *, is_first: bool) -> Words:
    """Return a party's share of a sum of vectors: of the integers, and of the weight behind them where there is one.

    Args:
        claim: what was proven of each.
        total: the sum of its shares of their first parts. Secret.
        n_vectors: how many they are.
        is_first: whether this party adds what is public.
    """
    table = claim.table
    held = total[: table.rows * table.columns].reshape(table.rows, table.columns)[:, : table.entry_columns]
    digits = np.ascontiguousarray(held.reshape(table.n_entries, -1)[: claim.length].T)
    found = np.empty(claim.length, dtype=np.uint64)
    prime_kernels.combine_rows(found, digits, elements(list(claim.digits.weights)))
    if is_first:
        prime_kernels.add_to(found, np.full(claim.length, element(n_vectors * claim.lowest)))
    if claim.weight is None:
        return found
    of_weight = [int(total[place]) * table.base**digit for digit, place in enumerate(table.places("weight"))]
    return np.append(found, element(sum(of_weight)))
