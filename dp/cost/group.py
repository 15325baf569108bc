"""Group privacy: the cost of a release for a person with up to k rows.

Write F for what is released but for its noise, and T_0, T_1, ..., T_k for tables of which each differs from the next in
one row: added, removed or replaced, always the same of these. Then F(T_0) - F(T_k) = d_1 + ... + d_k, each d_i a
difference that one row can make. What an event states of one row bounds, for all of these differences, quantities of
two kinds:

* the square of a weighted Euclidean norm: `squares` = sum d_j^2 / mu_j, `squares_second` = sum d_j^2 / mu_j^2 of
  Skellam noise, the ratio sum d_j^2 / variance_j of discrete Gaussian noise. Norms obey the triangle inequality, so the
  norm of the sum is at most k times the largest, and its square k^2 times;
* a weighted 1-norm: `sizes`, `sizes_second`, the sensitivity of discrete Laplace noise. By the same inequality, k
  times;
* how many numbers differ: a sum of k differences is not zero at most where one of them is not. At most k times.

So the cost of k rows is that of an event with k^2 and k times these bounds. It is exact wherever F is a sum over rows
and the bounds are attained: k equal rows make k equal differences. It is less than what holds for every mechanism: k
times epsilon at a delta that grows with e^(k epsilon); or 3^(log2 k) times the Renyi divergence of one row at an order
k times as high [Mironov17, proposition 2], which for a divergence that is linear in its order grows with k^2.58.

Replacing the contents of a person's rows is k replacements, adding or removing the person k additions or removals; a
person with fewer rows makes fewer differences, which are bounded too.
"""

from typing import overload

from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent, DiscreteGaussianShiftsDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent, LaplaceSharesDpEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent

SkellamEvent = SkellamDpEvent | SkellamShiftsDpEvent
LaplaceEvent = DiscreteLaplaceDpEvent | LaplaceSharesDpEvent
GaussianEvent = DiscreteGaussianDpEvent | DiscreteGaussianShiftsDpEvent


@overload
def for_rows(event: SkellamEvent, most_rows: int) -> SkellamEvent: ...
@overload
def for_rows(event: GaussianEvent, most_rows: int) -> GaussianEvent: ...
@overload
def for_rows(event: DiscreteLaplaceDpEvent, most_rows: int) -> DiscreteLaplaceDpEvent: ...
@overload
def for_rows(event: LaplaceEvent, most_rows: int) -> LaplaceEvent: ...


def for_rows(
    event: SkellamEvent | GaussianEvent | LaplaceEvent, most_rows: int
) -> SkellamEvent | GaussianEvent | LaplaceEvent:
    """Return what a release with additive noise costs a unit of which at most so many rows count.

    Args:
        event: what it costs a single row.
        most_rows: k, at least 1.

    Raises:
        TypeError: the noise of the event is of a kind for which this is not proven.
    """
    if most_rows < 1:
        raise ValueError("a protected unit must have at least one row that counts")
    if most_rows == 1 and isinstance(event, SkellamEvent | GaussianEvent | LaplaceEvent):
        return event
    return event.of_rows(most_rows)
