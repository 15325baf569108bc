"""What Skellam noise costs: Renyi differential privacy of integer vectors whose coordinates have noise of their own.

Every step is rounded against us: costs are exact fractions, their conversion to floating point and all that follows is
rounded up, so a stated epsilon is never below the true value of the bound.
"""

import math
from enum import Enum
from fractions import Fraction

import attr
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class CalibrationError(ValueError):
    """No noise parameter meets the privacy target, or the target is not a valid privacy bound."""


class AdjacencyError(ValueError):
    """Costs under different neighbouring relations were composed."""


class Adjacency(Enum):
    """The neighbouring relation of tables. A cost is stated for one relation and never combined with another's."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"


class DpEvent:
    """What a release does to privacy: the base of the events whose cost is known. They are immutable and hashable.

    Not the class of this name of `dp_accounting`, whose accountants know none of ours, and which takes longer to import
    than all else that a service imports.
    """

    __slots__ = ()


@attr.frozen
class SkellamDpEvent(DpEvent):
    """The release of an integer vector F plus independent noise Sk(mu_i) on coordinate i.

    Sk(mu) is the difference of two Poisson(mu) variables: variance 2 mu. With d the difference of F on two neighbouring
    tables, the attributes bound sums over the coordinates, each over all pairs of neighbours. They are all that the
    cost depends on.

    Attributes:
        squares: bound of sum d_i^2 / mu_i.
        squares_second: bound of sum d_i^2 / mu_i^2.
        sizes: bound of sum |d_i| / mu_i.
        sizes_second: bound of sum |d_i| / mu_i^2.
        adjacency: the neighbouring relation.
    """

    squares: Fraction
    squares_second: Fraction
    sizes: Fraction
    sizes_second: Fraction
    adjacency: Adjacency

    @classmethod
    def of_vector(cls, squared_l2: int, l1: int, mu: Fraction, adjacency: Adjacency) -> "SkellamDpEvent":
        """Return the event of one parameter on all coordinates.

        Args:
            squared_l2: bound of sum d_i^2.
            l1: bound of sum |d_i|.
            mu: of the noise on each coordinate, positive.
            adjacency: the neighbouring relation.
        """
        return cls(squared_l2 / mu, squared_l2 / mu**2, l1 / mu, l1 / mu**2, adjacency)

    def times(self, n_times: int) -> "SkellamDpEvent":
        """Return what `n_times` such releases cost together, each with fresh noise.

        One event for all: each branch of `skellam_rdp` is linear in the sums.
        """
        n = n_times
        sums = (n * self.squares, n * self.squares_second, n * self.sizes, n * self.sizes_second)
        return SkellamDpEvent(*sums, self.adjacency)


@attr.frozen
class EpsilonBound:
    """An (epsilon, delta) guarantee and the Renyi order that gave it.

    Attributes:
        epsilon: rounded up.
        delta: as asked for.
        order: the Renyi order that gave epsilon; None where a privacy loss distribution gave it.
        order_at_edge: whether the order is the smallest (2, usual for large epsilon) or the largest one at which the
            divergence is known, so that another order might give a smaller epsilon. The guarantee holds in any case.
    """

    epsilon: float
    delta: float
    order: int | None
    order_at_edge: bool


def _orders() -> NDArray[np.int64]:
    dense = np.arange(2, 513)
    sparse = np.rint(np.geomspace(512, 2**24, 600)).astype(np.int64)
    return np.union1d(dense, sparse)


ORDERS = _orders()
"""Renyi orders at which costs are compared: all of 2..512, then every 1.7 % up to 2^24 (small epsilon needs large
orders).

Integers only: the bound for Skellam noise is proven for no others.
"""
ORDERS.setflags(write=False)

_FLOAT_ORDERS = ORDERS.astype(np.float64)
_LOG_ORDERS = np.log(_FLOAT_ORDERS)
_LOG1P_ORDERS = np.log1p(-1 / _FLOAT_ORDERS)


def float_orders(orders: NDArray[np.int64]) -> Floats:
    """Return orders as floats, to be read only; `ORDERS` are converted once."""
    return _FLOAT_ORDERS if orders is ORDERS else orders.astype(np.float64)


def skellam_rdp(event: SkellamDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the Renyi divergence bound of a release at each order.

    [Agarwal21], restated as lemma 1 of [SPCA24], bounds it for one coordinate and integer order a > 1 by

        a d^2 / (4 mu) + min( ((2a - 1) d^2 + 6 |d|) / (16 mu^2),  3 |d| / (4 mu) ).

    The noise of the coordinates is independent, so divergences add; the sum of the minima is at most the minimum of the
    sums, which needs only the four sums that the event states.

    Args:
        event: the release.
        orders: integers, at least 2.

    Returns:
        same shape as `orders`, rounded up.
    """
    if orders is not ORDERS and (np.any(orders < 2) or not np.issubdtype(orders.dtype, np.integer)):
        raise ValueError("the bound for Skellam noise holds for integer orders from 2 on")
    order = float_orders(orders)
    squares, squares_second = round_up(event.squares), round_up(event.squares_second)
    sizes, sizes_second = round_up(event.sizes), round_up(event.sizes_second)
    with np.errstate(over="ignore"):  # to inf, an upper bound too
        first = order * squares / 4
        second = np.minimum(((2 * order - 1) * squares_second + 6 * sizes_second) / 16, 3 * sizes / 4)
        # Six roundings of non-negative terms, each of relative error at most 2^-53.
        found: Floats = (first + second) * (1 + 2.0**-49)
    return found


def epsilon_of_rdp(rdp: Floats, n_terms: int, delta: float) -> EpsilonBound:
    """Convert a sum of Renyi divergences once, by proposition 12 of [CKS20] (lemma 9 of [SPCA24]).

    epsilon = min over a of rdp(a) + ln(1 - 1/a) - (ln delta + ln a) / (a - 1).
    Where delta^2 exceeds 1 - exp(-rdp) at some order, epsilon is 0: delta is at least the total variation distance.

    Args:
        rdp: at each of `ORDERS`; the floating-point sum, in any order, of `n_terms` divergences. inf where none is
            known or it is beyond floating point; where that is so at all orders, epsilon is inf.
        n_terms: how many were added.
        delta: strictly between 0 and 1.

    Raises:
        CalibrationError: delta is out of range.
    """
    check_delta(delta)
    if not np.isfinite(rdp).any():
        return EpsilonBound(math.inf, delta, int(ORDERS[0]), True)
    # Covers the rounding of the sum, and of the comparison with delta^2 below.
    rdp = rdp * (1 + 2.0**-40 + n_terms * 2.0**-52)
    order = _FLOAT_ORDERS
    found = rdp + _LOG1P_ORDERS - (math.log(delta) + _LOG_ORDERS) / (order - 1)
    found[delta**2 + np.expm1(-rdp) > 0] = 0.0
    at = int(np.argmin(found))
    if rdp[at] == 0:
        return EpsilonBound(0.0, delta, int(ORDERS[at]), False)
    # The other terms of the conversion, as large as they can be before they cancel; their relative error is below
    # 2^-49.
    terms = float(rdp[at]) + (abs(math.log(delta)) + math.log(order[at]) + 2) / (order[at] - 1)
    stated = max(0.0, float(found[at])) + terms * 2.0**-49
    at_edge = at in (0, np.flatnonzero(np.isfinite(rdp))[-1])
    return EpsilonBound(float(np.nextafter(stated, math.inf)), delta, int(ORDERS[at]), bool(at_edge))


def delta_of_rdp(rdp: Floats, n_terms: int, epsilon: float) -> float:
    """Return the delta at `epsilon` of a sum of Renyi divergences: `epsilon_of_rdp` solved for delta, rounded up.

    delta = min over a of exp((a - 1) (rdp(a) - epsilon)) (1 - 1/a)^(a - 1) / a, and at most 1.

    Args:
        rdp: as in `epsilon_of_rdp`.
        n_terms: as there.
        epsilon: positive.

    Raises:
        CalibrationError: epsilon is out of range.
    """
    check_epsilon(epsilon)
    rdp = rdp * (1 + 2.0**-40 + n_terms * 2.0**-52)
    order = ORDERS.astype(np.float64)
    exponent = (order - 1) * (rdp - epsilon + np.log1p(-1 / order)) - np.log(order)
    slack = ((order - 1) * (rdp + epsilon + 1 / order) + np.log(order)) * 2.0**-48
    return float(min(1.0, np.exp(np.min(exponent + slack)) * (1 + 2.0**-50)))


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is no budget.

    Raises:
        CalibrationError: not a positive, finite, normal floating-point number.
    """
    if not _is_normal(epsilon):
        raise CalibrationError(f"epsilon must be a positive finite number, not {epsilon!r}")


def check_delta(delta: float) -> None:
    """Refuse a delta that is no probability of failure.

    That it must lie below 1 / rows, each party checks against its own table (`party.admission`): the number is private.

    Raises:
        CalibrationError: not strictly between 0 and 1.
    """
    if not (_is_normal(delta) and delta < 1):
        raise CalibrationError(f"delta must lie strictly between 0 and 1, not {delta!r}")


def _is_normal(value: float) -> bool:
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 2.0**-1022


def log_ratio(p: Fraction, q: Fraction) -> float:
    """Return ln(p / q) for p >= q > 0 with a small relative error, also where p is near q.

    The logarithm of the quotient as a float would not do: a quotient near 1 keeps few digits of its distance from 1.
    """
    return math.log1p(float((p - q) / q))


def round_up(x: Fraction) -> float:
    """Return the least float that is not below x >= 0; inf above the largest, as a cost beyond all bounds is."""
    try:
        nearest = x.numerator / x.denominator  # the nearest float, also of integers that no float holds
    except OverflowError:
        return math.inf
    numerator, denominator = nearest.as_integer_ratio()  # compared as integers: a third of what fractions take
    return nearest if numerator * x.denominator >= x.numerator * denominator else math.nextafter(nearest, math.inf)
