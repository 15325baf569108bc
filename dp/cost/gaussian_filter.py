"""A privacy filter for jobs with nearly Gaussian noise, which stands beside the Renyi orders of a period.

Skellam noise of large variance is taken for rounded Gaussian noise, with a slack (`dp.cost.losses.rounded_gaussian`). A
job that has no other noise is charged three numbers: D^2, the square of its distance, and h_P and h_Q, the logarithms
of the ratios between both kinds of noise, each of which is exceeded with probability `_UNLIKELY` at most. All three add
up.

CLAIM. Let jobs be created one after the other as in `dp.cost.renyi_filter.RenyiFilter`: which job is created, and what
is asked of it, may depend in any way on all that was seen so far. If over all jobs created, whatever happened,

    sum D_j^2 <= D^2,    sum h_P,j <= h,    sum h_Q,j <= h,    n t <= T_0    (t = `_UNLIKELY`, n the number of jobs)
    with    e^h delta_G(epsilon - 2 h, D) + T + e^epsilon T_0  <=  delta,    T_0 = T e^-epsilon,

everything together is (epsilon, delta)-private for the neighbours that the costs are about. delta_G is that of one
Gaussian at distance D. The left side of each condition is public and never falls, so this is a filter.

PROOF. Q_1 and Q_0 are the distributions of all that is seen on two neighbouring tables if the noise is rounded
Gaussian, P_1 and P_0 those with the Skellam noise that is drawn.

*Gaussian noise.* What differs between neighbours is a sequence of integers x_i + round(N_i), in the order in which they
leave, over all jobs and also where jobs run at the same time: x_i is fixed by the table and by what was seen before,
and N_i, of variance s_i, is drawn for this number alone. Show x_i + N_i instead, which says more. Between two
neighbours x_i differs by d_i, which together with s_i is fixed by what was seen before. When nothing is asked any more,
add one last number of variance 1 with d^2 = D^2 - sum d_i^2 / s_i >= 0, which again says more. Under Q_1 the logarithm
of Q_1 / Q_0 is sum (d_i / s_i) N_i + (d_i^2 / s_i) / 2. With v_i = d_i^2 / s_i, the product of exp(i u (d_i / s_i) N_i
+ u^2 v_i / 2) is a bounded martingale for each real u, since N_i is independent of the past on which v_i depends. As
the v_i add up to D^2 on every course of events, it ends as exp(i u sum (d_i / s_i) N_i + u^2 D^2 / 2), whose mean is 1.
So the sum is normal with variance D^2, and the logarithm has the law that it has for one Gaussian at distance D. Hence
so has every hockey-stick divergence: the fully adaptive filter of [SmithThakurta22] and [KoskelaTH23], for any order of
questions.

*The exchange.* On either table, P and Q differ in the noise of those numbers that neighbours move; which these are is
fixed by what was seen before. Other numbers keep their noise and show nothing, as they have the same law on both
tables. Given the past at its creation, the numbers of job j have a log-ratio ln(P / Q) of more than h_P,j with
probability t at most under P, whatever is asked in between: the bound of `rounded_gaussian` holds for each factor given
the past. So with probability 1 - n t at least the log-ratio of all together is at most h, and P(S) <= e^h Q(S) + n t
for every event S; and likewise Q(S) <= e^h P(S) + n t. On the two tables, in the one order or the other,

    P_1(S) <= e^h Q_1(S) + T,    Q_1(S) <= e^(epsilon - 2 h) Q_0(S) + delta_G,    Q_0(S) <= e^h P_0(S) + T_0,

which come to P_1(S) <= e^epsilon P_0(S) + e^h delta_G + T + e^(epsilon - h) T_0. QED

*Beside Renyi orders.* The proof of several orders in `RenyiFilter` asks of each order k only that the process which
stops before it would leave the bound of k is (epsilon, delta_k)-private, and that bounds which were left stay so. This
filter with its own part of delta is one more such k. A job without a cost here leaves its bound.

Which parts of delta belong to whom is fixed before anything is seen. The public cost of the first job of a period may
decide between two divisions, each of which adds up to delta (`division_of`): it was chosen with the same probability
for both neighbours, both cases are (epsilon, delta)-private, and so is their mixture.

Samples are left out. What they cost is less by their Renyi curve, and their coins are remembered between the steps.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dp.cost.accounting import check_delta, check_epsilon
from dp.cost.losses.rounded_gaussian import RoundedGaussian, gaussian_delta
from dp.cost.renyi_filter import FilterOrder

GAUSSIAN_PART = Fraction(117, 128)
"""Part of delta of the Gaussian filter where it is used, taken from the first Renyi order, which keeps 4 / 128."""

_LOG_UNLIKELY = 100 * math.log(2)
_UNLIKELY = 2.0**-100
"""With this probability at most the noise of one job is further from rounded Gaussian noise than is charged."""

_FRACTION = 2.0**-12
"""T as a part of delta."""

_SLACK_PART = 2.0**-11
"""h as a part of epsilon."""

_MOST_SLACK = 2.0**-9
"""Largest h_P and h_Q as parts of D^2: a job on a coarser lattice is charged by its Renyi curve alone."""

_MANY_JOBS = 1 << 10
"""Number of jobs that a Gaussian filter must be able to admit."""

_ERROR = 2.0**-36
"""Relative error allowed for what is computed here from `gaussian_delta`, which is rounded up itself."""

_MOST_EPSILON = 100.0


@dataclass(frozen=True)
class GaussianCost:
    """What jobs cost as rounded Gaussian noise: upper bounds that add up.

    Attributes:
        squares: D^2; inf where a job has other noise.
        above: h_P.
        below: h_Q.
    """

    squares: float = 0.0
    above: float = 0.0
    below: float = 0.0

    def __add__(self, other: "GaussianCost") -> "GaussianCost":
        return GaussianCost(self.squares + other.squares, self.above + other.above, self.below + other.below)

    def __or__(self, other: "GaussianCost") -> "GaussianCost":
        """Return a cost that dominates both: that of the worse view."""
        pairs = zip((self.squares, self.above, self.below), (other.squares, other.above, other.below), strict=True)
        return GaussianCost(*map(max, pairs))

    @property
    def is_known(self) -> bool:
        """Whether the jobs have nearly Gaussian noise and no other."""
        return self.squares < math.inf


UNKNOWN = GaussianCost(math.inf, math.inf, math.inf)


def gaussian_cost(releases: RoundedGaussian | None) -> GaussianCost:
    """Return what one job's releases cost; `UNKNOWN` where they have other noise, or noise of too small a variance."""
    slack = None if releases is None else releases.exchanged.slack(_LOG_UNLIKELY, _LOG_UNLIKELY)
    if releases is None or slack is None:
        return UNKNOWN
    squares = releases.distance**2 * (1 + 2.0**-50)
    return GaussianCost(squares, *slack) if max(slack) <= _MOST_SLACK * squares else UNKNOWN


@dataclass(frozen=True)
class GaussianFilter:
    """Admits jobs with nearly Gaussian noise; the claim and its proof stand at the head of the module.

    Attributes:
        epsilon: epsilon of the budget.
        delta: the filter's own part of the budget's.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    def used(self, cost: GaussianCost, n_jobs: int) -> float:
        """Return which part of the filter's bounds a sum of costs uses, rounded up. At most 1: covered.

        Args:
            cost: the floating-point sum of the costs of `n_jobs` jobs.
            n_jobs: how many.
        """
        slack, unlikely = _SLACK_PART * self.epsilon, _FRACTION * self.delta * math.exp(-min(self.epsilon, 700.0))
        bounds = (largest_distance(self.epsilon, self.delta) ** 2, slack, slack, unlikely / _UNLIKELY)
        spent = (cost.squares, cost.above, cost.below, float(n_jobs))
        grown = (1 + 2.0**-40 + n_jobs * 2.0**-52) / (1 - 2.0**-48)
        return max(
            0.0 if part == 0 else part * grown / bound if bound > 0 else math.inf
            for part, bound in zip(spent, bounds, strict=True)
        )


@lru_cache(maxsize=256)
def largest_distance(epsilon: float, delta: float) -> float:
    """Return D of a budget, rounded down, within 2^-40 of itself; 0 where nothing is covered."""
    slack = _SLACK_PART * epsilon

    def is_covered(distance: float) -> bool:
        found = math.exp(min(slack, 700.0)) * gaussian_delta((epsilon - 2 * slack) * (1 - 2.0**-50), distance)
        return (found + 2 * _FRACTION * delta) * (1 + _ERROR) <= delta

    low = high = 2.0**-60
    if not is_covered(low):
        return 0.0
    while high < 2.0**60 and is_covered(high):
        low, high = high, 2 * high
    while high - low > high * 2.0**-40:
        middle = (low + high) / 2
        low, high = (middle, high) if is_covered(middle) else (low, middle)
    return low


def part_of_budget(epsilon: float, delta: float) -> Fraction | None:
    """Return the part of delta that a Gaussian filter may take of a budget; None where it would cover next to nothing.

    Where epsilon is above 40 or so, e^epsilon times what is unlikely is not small beside delta.
    """
    part = delta * float(GAUSSIAN_PART)
    is_budget = part >= 2.0**-1000
    return GAUSSIAN_PART if is_budget and GaussianFilter(epsilon, part).used(GaussianCost(), _MANY_JOBS) <= 1 else None


@lru_cache(maxsize=512)
def gaussian_epsilon(cost: GaussianCost, n_jobs: int, delta: float) -> float:
    """Return the joint epsilon of jobs that were all fixed beforehand, rounded up; inf where none is known."""
    if not cost.is_known or cost.squares == 0:
        return math.inf if not cost.is_known else 0.0
    grown = 1 + 2.0**-40 + n_jobs * 2.0**-52
    distance, above, below = math.sqrt(cost.squares * grown), cost.above * grown, cost.below * grown

    def is_enough(epsilon: float) -> bool:
        rest = (epsilon - above - below) * (1 - 2.0**-50)
        if rest <= 0:
            return False
        found = math.exp(above) * gaussian_delta(rest, distance) + n_jobs * _UNLIKELY * (1 + math.exp(epsilon))
        return found * (1 + _ERROR) <= delta

    # Beyond, e^epsilon times what is unlikely would not be small beside delta.
    too_small, enough = 0.0, min(_MOST_EPSILON, math.log(_FRACTION * delta / n_jobs) + _LOG_UNLIKELY)
    if enough <= 0 or not is_enough(enough):
        return math.inf
    while enough - too_small > enough * 2.0**-40:
        middle = (too_small + enough) / 2
        too_small, enough = (too_small, middle) if is_enough(middle) else (middle, enough)
    return enough


def division_of(
    delta: float, orders: tuple[FilterOrder, ...], part: Fraction | None, *, is_gaussian_first: bool
) -> tuple[tuple[FilterOrder, ...], float | None]:
    """Return the Renyi orders of a period, and the part of delta of its Gaussian filter; None where it has none.

    Args:
        delta: delta of the budget.
        orders: with parts that add up to at most 1, the main one first.
        part: which part of delta the Gaussian filter takes from the main order; None in periods that began without it.
        is_gaussian_first: whether the period's first job has nearly Gaussian noise and no other.
    """
    main, *others = orders
    if part is None or not is_gaussian_first or main.share <= part:
        return orders, None
    return (FilterOrder(main.order, main.share - part), *others), delta * float(part) * (1 - 2.0**-50)
