"""How large the integer vector is that one protected unit contributes, and how far it moves a sum then."""

import math
from dataclasses import dataclass
from typing import Self

from analyses.sums.noise import SumSensitivity
from dp.cost.accounting import Adjacency
from dp.cost.views import ADJACENCY, View


@dataclass(frozen=True)
class VectorBound:
    """Bounds on the integer vector that one protected unit contributes to a sum.

    Attributes:
        spans: per entry, its largest value minus its least; 0 lies between the two.
        squared_norm: B, of the sum of squares.
        is_non_negative: whether no entry is ever below zero.
        sizes: largest sum of the entries' sizes; None where only what follows from the others is known.
    """

    spans: tuple[int, ...]
    squared_norm: int
    is_non_negative: bool
    sizes: int | None = None

    @classmethod
    def of_counts(cls, n_bins: int, most_in_bin: int, most_in_all: int) -> Self:
        """Return the bound of counts: whole numbers 0 .. L in each of n bins, K in all, L <= K.

        Let K = q L + r with 0 <= r < L. The sum of squares is convex, so over all real vectors with 0 <= h_i <= L and
        sum h_i <= K it is largest at a corner, and a corner has at most one entry that is neither 0 nor L: so
        |h|^2 <= q L^2 + r^2, which is at most L K and at most K^2. It is also at most n L^2. |h|_1 <= min(K, n L).

        Args:
            n_bins: n.
            most_in_bin: L.
            most_in_all: K.
        """
        full, rest = divmod(most_in_all, most_in_bin)
        squared = min(full * most_in_bin**2 + rest**2, n_bins * most_in_bin**2)
        return cls((most_in_bin,) * n_bins, squared, is_non_negative=True, sizes=min(most_in_all, n_bins * most_in_bin))

    def sensitivity(self, view: View, unit: str) -> SumSensitivity:
        """Return the sensitivity of the sum to one unit.

        With x and y vectors within the bound, n their length:

        * Adding or removing x moves the sum by x: |x|^2 <= B, |x|_1 <= sqrt(n B), and |x|_1 <= B, since an integer is
          at most its square; and |x|_1 is at most `sizes`.
        * Replacing x by y moves it by x - y. |x - y|^2 <= (|x| + |y|)^2 <= 4 B; if no entry is negative,
          |x - y|^2 = |x|^2 + |y|^2 - 2 <x, y> <= 2 B; and no entry moves by more than its span. Likewise |x - y|_1 is
          at most twice the bound of |x|_1, the sum of the spans, and what follows from |x - y|^2.

        The bound for replacing is never below the one for adding, as 0 lies within every span. So the coalition, which
        here does not know how many rows another party has, can tell an added row no better than a replaced one.

        Args:
            view: decides about the neighbours, see `dp.cost.views.ADJACENCY`.
            unit: what is protected, in words.
        """
        n, norm = len(self.spans), self.squared_norm
        l1 = min(math.isqrt(n * norm), norm)
        if self.sizes is not None:
            l1 = min(l1, self.sizes)
        if ADJACENCY[view] is Adjacency.ADD_OR_REMOVE_ONE:
            return SumSensitivity(norm, l1, ADJACENCY[view], unit)
        squared = min((2 if self.is_non_negative else 4) * norm, sum(span**2 for span in self.spans))
        return SumSensitivity(
            squared, min(2 * l1, sum(self.spans), math.isqrt(n * squared), squared), ADJACENCY[view], unit
        )
