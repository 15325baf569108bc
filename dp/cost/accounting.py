"""Costs: Renyi orders, neighbouring relations, and the conversion of Renyi curves to epsilon and delta.

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


@attr.frozen
class EpsilonBound:
    """An (epsilon, delta) guarantee and the Renyi order that gave it.

    Attributes:
        epsilon: rounded up.
        delta: requested delta.
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
        rdp: see `epsilon_of_rdp`.
        n_terms: see `epsilon_of_rdp`.
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
        raise CalibrationError(f"delta must be strictly between 0 and 1, not {delta!r}")


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
