"""The Renyi curve of every privacy event: at each order, a bound of the divergence that it costs, rounded up."""

import math
from functools import lru_cache
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import (
    ORDERS,
    Adjacency,
    DpEvent,
    Floats,
    SkellamDpEvent,
    float_orders,
    log_ratio,
    round_up,
    skellam_rdp,
)
from dp.cost.events import (
    BoundedSampledDpEvent,
    CardinalitySketchDpEvent,
    DiscreteGaussianDpEvent,
    DiscreteGaussianShiftsDpEvent,
    DiscreteLaplaceDpEvent,
    LaplaceSharesDpEvent,
    PoissonSampledDpEvent,
    PrivacyEvent,
    RandomizedResponseDpEvent,
    SampledBitsDpEvent,
    SkellamShiftsDpEvent,
    SkellamVectorDpEvent,
)
from dp.cost.losses import laplace_share
from dp.cost.losses.sampled_bits import sampled_bits_rdp
from dp.cost.losses.skellam import shift_divergence
from dp.cost.losses.sketch import SketchCell
from dp.cost.sampling import MAX_ORDER, poisson_sampled_rdp


def renyi_curve(event: PrivacyEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the Renyi divergence bound of an event at each order.

    A plan, its report and a ledger ask for the curve of one event many times: those at `ORDERS` are kept.

    Args:
        event: of a known class.
        orders: integers, at least 2.

    Returns:
        same shape as `orders`, rounded up; not to be written to.

    Raises:
        TypeError: an event of another class: its cost is unknown.
    """
    return _curve_at_orders(event) if orders is ORDERS else _curve(event, orders)


@lru_cache(maxsize=512)
def _curve_at_orders(event: PrivacyEvent) -> Floats:
    curve = _curve(event, ORDERS)
    curve.setflags(write=False)
    return curve


def _curve(event: PrivacyEvent, orders: NDArray[np.int64]) -> Floats:
    match event:
        case SkellamDpEvent():
            return skellam_rdp(event, orders)
        case DiscreteGaussianDpEvent():
            return discrete_gaussian_rdp(event, orders)
        case DiscreteLaplaceDpEvent():
            return discrete_laplace_rdp(event, orders)
        case RandomizedResponseDpEvent():
            return randomized_response_rdp(event, orders)
        case PoissonSampledDpEvent():
            return sampled_rdp(event, orders)
        case SampledBitsDpEvent():
            return sampled_bits_rdp(event.truthful, event.n_bits, event.share, orders)
        case CardinalitySketchDpEvent():
            return cardinality_sketch_rdp(event, orders)
        case SkellamShiftsDpEvent():
            return skellam_shifts_rdp(event, orders)
        case DiscreteGaussianShiftsDpEvent():
            return discrete_gaussian_rdp(event.sums, orders)
        case LaplaceSharesDpEvent():
            return laplace_shares_rdp(event, orders)
        case BoundedSampledDpEvent():
            return bounded_sampled_rdp(event, orders)
    raise TypeError(f"the cost of an event of class {type(event).__name__} is unknown")


_OF_DIFFERENCES = {
    SkellamDpEvent: attrgetter("squares", "squares_second", "sizes", "sizes_second"),
    SkellamVectorDpEvent: attrgetter("squares", "squares_second", "sizes", "sizes_second"),
    DiscreteGaussianDpEvent: attrgetter("squares"),
    DiscreteLaplaceDpEvent: attrgetter("l1_sensitivity", "scale"),
    RandomizedResponseDpEvent: attrgetter("n_options", "truthful"),
}
"""Frequent events whose curve depends on nothing but these attributes: they bound the differences of all neighbours."""


def differs_in_neighbours_only(one: DpEvent, other: DpEvent) -> bool:
    """Whether two events have the same curve because they differ in their neighbouring relation at most.

    False where that is not known: the curve of a sketch, for instance, depends on the relation.
    """
    of = _OF_DIFFERENCES.get(type(one))
    return of is not None and type(one) is type(other) and bool(of(one) == of(other))


def discrete_gaussian_rdp(event: DiscreteGaussianDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return a / 2 * sum d_i^2 / s_i: the discrete Gaussian costs what the continuous one does [CKS20, theorem 14].

    Holds for integer differences and every order. At integer orders it is the divergence itself: the sum over x of
    exp(-(a (x - d)^2 - (a - 1) x^2) / (2 s)) is that of exp(-(x - a d)^2 / (2 s)), with a d an integer, times
    exp(a (a - 1) d^2 / (2 s)).
    """
    return float_orders(orders) / 2 * round_up(event.squares) * (1 + 2.0**-51)


def discrete_laplace_rdp(event: DiscreteLaplaceDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the exact divergence of discrete Laplace noise for the worst split of the sensitivity.

    One coordinate, shifted by the integer d > 0, scale b, r = exp(-1/b), s = r^(2a - 1). Summing the geometric series
    left of both centres, between them and right of them,

        E_P[(P / Q)^(a - 1)]  =  (1 - B) e^((a - 1) d / b) + B e^(-a d / b),     B = (r - s) / ((1 + r) (1 - s)).

    The logarithm of such a sum is convex in d and 0 at d = 0, hence superadditive: a given L1 norm costs most when it
    lies in one coordinate. So the bound is this expression at d = `l1_sensitivity`; below the pure epsilon d / b.
    For large b it becomes that of the continuous Laplace distribution [Mironov17, table 2].
    """
    order = float_orders(orders)
    inverse = min(float(1 / event.scale), 700.0)  # exp(700) is finite; `less` is 0 to within 1e-304 from there on
    shift = round_up(event.l1_sensitivity / event.scale)
    if shift == 0:
        return np.zeros(len(order))
    less = np.expm1(-(2 * order - 2) * inverse) / np.expm1(-(2 * order - 1) * inverse) / (1 + math.exp(inverse))
    found = shift + np.log1p(less * np.expm1(-(2 * order - 1) * shift)) / (order - 1)
    # Both terms are at most `shift` in size and their relative errors below 2^-46: `less` is below 1/2, which keeps the
    # argument of log1p away from -1.
    bounded: Floats = np.minimum(np.maximum(found, 0.0) + shift * 2.0**-44, shift)
    return bounded


def randomized_response_rdp(event: RandomizedResponseDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the exact divergence between the reports of two choices.

    With p = truthful, q = (1 - p) / (k - 1): ln(p^a q^(1-a) + q^a p^(1-a) + (k - 2) q) / (a - 1) [Mironov17, table 2].
    """
    if event.n_options < 2 or not event.truthful.denominator <= event.n_options * event.truthful.numerator < (
        event.n_options * event.truthful.denominator
    ):
        raise ValueError(
            "randomized response needs at least two options, and the truth must be at least as likely as any other "
            "option"
        )
    p, other = event.truthful, (1 - event.truthful) / (event.n_options - 1)
    order = float_orders(orders)
    epsilon = log_ratio(p, other) * (1 + 2.0**-50)
    log_p, log_q = math.log(p), math.log(other)
    exponents = (order - 1) * epsilon
    found = np.logaddexp(log_p + exponents, log_q - exponents)
    if event.n_options > 2:
        found = np.logaddexp(found, math.log((event.n_options - 2) * other))
    slack = (2 + abs(log_p) + abs(log_q) + order * epsilon) * 2.0**-46
    bounded: Floats = np.minimum((np.maximum(found, 0.0) + slack) / (order - 1), math.nextafter(epsilon, math.inf))
    return bounded


def cardinality_sketch_rdp(event: CardinalitySketchDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the divergence of all sketches for the worst neighbours: see `dp.cost.losses.sketch`.

    A user who is added or removed: the larger of the two directions. A user who moves from cell A to cell B: the target
    is in one or the other. If the cells have no party's cluster in common, what is published about them is independent,
    so the divergence is that of a target that leaves A plus that of one that enters B. If party l has one cluster
    in both, it publishes the maximum over both: give half of its own phantoms to each cell, and what it publishes
    follows from the two halves. So the sum of both directions, with half of the own phantoms, bounds all cases: more
    phantoms are post-processing.
    """
    own = event.own_phantoms // (2 if event.adjacency is Adjacency.REPLACE_ONE else 1)
    cell = SketchCell(1.0, event.n_sketches, event.n_parties, own, event.shared_phantoms, event.floor)
    enters, leaves = cell.renyi(orders)
    if event.adjacency is Adjacency.REPLACE_ONE:
        return np.asarray((enters + leaves) * (1 + 2.0**-50), dtype=np.float64)
    return np.asarray(np.maximum(enters, leaves), dtype=np.float64)


def skellam_shifts_rdp(event: SkellamShiftsDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the divergence itself where it is computed (`dp.cost.losses.skellam`), elsewhere the bound for vectors."""
    bound = skellam_rdp(event.sums, orders)
    exact = event.n_shifts * shift_divergence(event.shift, event.mu, orders) * (1 + 2.0**-52)
    return np.asarray(np.minimum(bound, exact), dtype=np.float64)


def laplace_shares_rdp(event: LaplaceSharesDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the divergence itself where it is computed, elsewhere that of discrete Laplace noise of the same ratio."""
    one = DiscreteLaplaceDpEvent(event.shift, laplace_share.scale_of(event.mean), event.adjacency)
    bound = event.n_shifts * discrete_laplace_rdp(one, orders) * (1 + 2.0**-52)
    exact = event.n_shifts * laplace_share.shift_divergence(event.shape, event.mean, event.shift, orders)
    return np.asarray(np.minimum(bound, exact * (1 + 2.0**-52)), dtype=np.float64)


def bounded_sampled_rdp(event: BoundedSampledDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return at each order the smaller of two bounds: of all steps about samples, and of K releases about everybody."""
    sampled = event.n_steps * renyi_curve(event.step, orders)
    unsampled = event.most_participations * renyi_curve(event.step.release, orders)
    return np.asarray(np.minimum(sampled, unsampled) * (1 + 2.0**-52), dtype=np.float64)


def sampled_rdp(event: PoissonSampledDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the divergence of a sampled release: `dp.cost.sampling.poisson_sampled_rdp`, without the factor 3.

    All noise that a sampled event may have is symmetric about 0 and added to the query. Beyond the highest order of
    that bound the release costs what it does without sampling, by quasi-convexity.
    """
    at = _sampled_at_small_orders(event)
    small = orders <= MAX_ORDER
    out = np.zeros(len(orders)) if event.rate == 0 else renyi_curve(event.release, orders).copy()
    out[small] = at[orders[small] - 2]
    return out


@lru_cache(maxsize=256)
def _sampled_at_small_orders(event: PoissonSampledDpEvent) -> Floats:
    unsampled = np.concatenate([[0.0, 0.0], renyi_curve(event.release, np.arange(2, MAX_ORDER + 1))])
    found = poisson_sampled_rdp(unsampled, round_up(event.rate), is_reflected=True)
    # Never worse than without sampling, by quasi-convexity.
    found = np.asarray(np.minimum(found, unsampled[2:]), dtype=np.float64)
    found.setflags(write=False)
    return found
