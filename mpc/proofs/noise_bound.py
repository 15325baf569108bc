"""The public numbers of a proof that a party's noise is not larger than noise can be.

A party deals its noise e, d integers, as one row [e | S] that six squares complete to the squared norm B^2 exactly,
with degree t, in a wide field: its first primes are those of the computation, and shares modulo these are what counts.
That the row has the squared norm B^2 as integers is proven as for any row (`mpc.proofs.norm_bound`).

**What the projections tell is nothing**, within 2^-41 for each party: noise is no data, and nobody pays for what is
told of it, so masks are uniform in [-R, R) instead of small. For given coefficients V_k = s_k + Z_k with
sum_k |s_k| <= sqrt(K) |s| <= sqrt(K L) B, L the bound of the squared norm of the coefficients. A uniform mask that
moves by s_k changes in total variation distance by |s_k| / (2 R), so V by sqrt(K L) B / (2 R) <= 5 * 2^-44 in all, for
R >= 2^44 sqrt(L) B and K = 100. V and the answer have the law of the answer and an independent V, but for that. So V of
any two noises with norm B is within 2^-40, and so much of delta is taken for each (`dp.mechanism.norm_proof`).

**An honest party passes** where its noise has the norm B at most: B^2 = d b^2, with b what no entry of the opened
noise, of all parties together, exceeds but with 2^-40. That of one party exceeds it with 2^-39 at most: where it does,
the sum with the others' noise, which is symmetric, does so at least half as often. Projections stay below
M = R + sqrt(w) B, always.

What is proven bounds the answer, not privacy: noise of a party that deviates is counted by no view.
"""

import math
from dataclasses import dataclass
from functools import cache

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.moduli import PRIMES, WIDE_PRIMES
from mpc.proofs.norm_bound import NormBound
from mpc.proofs.squares.four_squares import N_SQUARES

N_ROOTS = 2
"""Squares besides the four: each is the largest that fits, and leaves the square root of what was missing."""

_LOG2_MASK = 44


@dataclass(frozen=True)
class NoiseBound(NormBound):
    """What is proven of a party's noise: one row, `width` entries; see `NormBound`."""

    @classmethod
    def of_entries(cls, n_entries: int, largest: int) -> "NoiseBound":
        """Return the bound of noise of which no entry is larger than `largest`, at least 1."""
        return cls(n_entries, n_entries * largest**2, 1)

    @property
    def dealt_width(self) -> int:
        """See `NormBound`."""
        return self.width + N_SQUARES + N_ROOTS

    @property
    def whole_width(self) -> int:
        """See `NormBound`."""
        return self.dealt_width

    @property
    def log2_mask(self) -> int:
        """Binary logarithm of R."""
        norms = (math.isqrt(self.squared_operator_bound), math.isqrt(self.squared_norm))
        return _LOG2_MASK + sum(norm.bit_length() for norm in norms)

    @property
    def largest_projection(self) -> int:
        """See `NormBound`."""
        return (1 << self.log2_mask) + math.isqrt(self.whole_width * self.squared_norm) + 1

    @property
    def field(self) -> ResidueField:
        """The field in which this is proven: one is large enough for 2^20 entries of 64 bits."""
        numbers = range(len(PRIMES), len(WIDE_PRIMES) + 1)
        n_primes = next(n for n in numbers if math.prod(WIDE_PRIMES[:n]) > self.order_needed)
        return _wide_field(n_primes)


@cache
def _wide_field(n_primes: int) -> ResidueField:
    return ResidueField.over(WIDE_PRIMES[:n_primes])
