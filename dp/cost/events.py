"""Privacy events other than `dp.cost.accounting.SkellamDpEvent`, and the Renyi curve of each.

An event holds everything that its cost depends on, exactly, and its neighbouring relation. Curves are rounded up.
"""

import math
from fractions import Fraction
from functools import lru_cache

import attr
import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from dp.cost.accounting import (
    ORDERS,
    Adjacency,
    AdjacencyError,
    CalibrationError,
    Floats,
    SkellamDpEvent,
    log_ratio,
    round_up,
    skellam_rdp,
)
from dp.cost.sampled_bits import sampled_bits_rdp
from dp.cost.sampling import LARGEST_ORDER, poisson_sampled_rdp
from dp.cost.skellam_mass import shift_divergence
from dp.cost.sketch_loss import SketchCell


@attr.frozen
class DiscreteGaussianDpEvent(DpEvent):  # type: ignore[misc]  # the base class comes without types
    """The release of an integer vector plus independent discrete Gaussian noise of variance s_i on coordinate i.

    Attributes:
        squares: bound of sum d_i^2 / s_i, d the difference of neighbours.
        adjacency: the neighbouring relation.
    """

    squares: Fraction
    adjacency: Adjacency


@attr.frozen
class DiscreteLaplaceDpEvent(DpEvent):  # type: ignore[misc]
    """The release of an integer vector plus independent discrete Laplace noise of one scale on each coordinate.

    Attributes:
        l1_sensitivity: bound of sum |d_i|, d the difference of neighbours.
        scale: of the noise, positive.
        adjacency: the neighbouring relation.
    """

    l1_sensitivity: int
    scale: Fraction
    adjacency: Adjacency


@attr.frozen
class RandomizedResponseDpEvent(DpEvent):  # type: ignore[misc]
    """One report of a choice among `n_options`: the truth with probability `truthful`, else any other, all alike.

    The unit answers in any case, so neighbours differ in the choice.

    Attributes:
        n_options: at least 2.
        truthful: at least 1 / n_options, below 1.
        adjacency: replace_one; add_or_remove_one only where absent units answer too (`dp.mechanism.response`).
    """

    n_options: int
    truthful: Fraction
    adjacency: Adjacency = Adjacency.REPLACE_ONE


@attr.frozen
class SkellamShiftsDpEvent(DpEvent):  # type: ignore[misc]
    """The release of integers plus independent Skellam noise, of which a neighbour moves few, each by little.

    Says more than `SkellamDpEvent`: the worst neighbours are known, so its cost is exact (`dp.cost.additive_losses`).

    Attributes:
        shift: bound of how far one number moves, at least 1.
        n_shifts: bound of how many move, over all releases, at least 1.
        mu: of the noise Sk(mu) of each number, positive.
        adjacency: the neighbouring relation.
    """

    shift: int
    n_shifts: int
    mu: Fraction
    adjacency: Adjacency

    def __attrs_post_init__(self) -> None:
        _check_shifts(self.shift, self.n_shifts, self.mu)

    def times(self, n_times: int) -> "SkellamShiftsDpEvent":
        """Return what `n_times` such releases cost together, each with fresh noise."""
        return attr.evolve(self, n_shifts=n_times * self.n_shifts)

    @property
    def sums(self) -> SkellamDpEvent:
        """The same release, described by the sums that a bound for vectors needs: less is known of it."""
        n, d, mu = self.n_shifts, self.shift, self.mu
        return SkellamDpEvent(n * d**2 / mu, n * d**2 / mu**2, n * d / mu, n * d / mu**2, self.adjacency)


@attr.frozen
class DiscreteGaussianShiftsDpEvent(DpEvent):  # type: ignore[misc]
    """As `SkellamShiftsDpEvent`, with discrete Gaussian noise.

    Attributes:
        shift: bound of how far one number moves, at least 1.
        n_shifts: bound of how many move, over all releases, at least 1.
        variance: parameter of the noise of each number, positive.
        adjacency: the neighbouring relation.
    """

    shift: int
    n_shifts: int
    variance: Fraction
    adjacency: Adjacency

    def __attrs_post_init__(self) -> None:
        _check_shifts(self.shift, self.n_shifts, self.variance)

    @property
    def sums(self) -> DiscreteGaussianDpEvent:
        """The same release, described by the sum that a bound for vectors needs."""
        return DiscreteGaussianDpEvent(self.n_shifts * self.shift**2 / self.variance, self.adjacency)


def _check_shifts(shift: int, n_shifts: int, parameter: Fraction) -> None:
    if shift < 1 or n_shifts < 1 or parameter <= 0:
        raise ValueError(f"{n_shifts} numbers moved by {shift} under noise of parameter {parameter}: no event")


AdditiveDpEvent = (
    SkellamDpEvent
    | SkellamShiftsDpEvent
    | DiscreteGaussianDpEvent
    | DiscreteGaussianShiftsDpEvent
    | DiscreteLaplaceDpEvent
)
"""Releases with independent symmetric noise added: what may be about a sample."""


@attr.frozen
class PoissonSampledDpEvent(DpEvent):  # type: ignore[misc]
    """A release with additive symmetric noise about a sample that each unit enters independently.

    Attributes:
        release: what it costs without sampling; its adjacency must be add_or_remove_one.
        rate: probability of each unit to enter.
    """

    release: AdditiveDpEvent
    rate: Fraction

    def __attrs_post_init__(self) -> None:
        if self.release.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            raise AdjacencyError("amplification by Poisson sampling is proven for add_or_remove_one only")
        if not 0 <= self.rate <= 1:
            raise ValueError(f"a sampling rate must lie in 0..1, not {self.rate}")

    @property
    def adjacency(self) -> Adjacency:
        """That of the release."""
        return self.release.adjacency


@attr.frozen
class BoundedSampledDpEvent(DpEvent):  # type: ignore[misc]
    """Releases about one sample after the other, of which no unit is in more than a public number.

    Proof of both of its bounds: `dp.mechanism.bounded_sampling.BoundedPoisson`.

    Attributes:
        step: one release.
        n_steps: how many.
        most_participations: K, 1 .. n_steps.
    """

    step: PoissonSampledDpEvent
    n_steps: int
    most_participations: int

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.most_participations <= self.n_steps:
            raise ValueError(f"a unit takes part 1 to {self.n_steps} times, not {self.most_participations}")

    @property
    def adjacency(self) -> Adjacency:
        """That of the release."""
        return self.step.adjacency


@attr.frozen
class CardinalitySketchDpEvent(DpEvent):  # type: ignore[misc]
    """What all parties publish together in sketches of `dp.mechanism.cardinality`, for who does not know the hash keys.

    Attributes:
        n_sketches: M, with independent keys.
        n_parties: S, which hash with the same key.
        own_phantoms: of each party in each of its clusters.
        shared_phantoms: that all parties hash alike in each joint cell; at least 1.
        floor: smallest value published, at least 1.
        adjacency: the neighbouring relation.
    """

    n_sketches: int
    n_parties: int
    own_phantoms: int
    shared_phantoms: int
    floor: int
    adjacency: Adjacency

    def __attrs_post_init__(self) -> None:
        if min(self.n_sketches, self.n_parties, self.shared_phantoms, self.floor) < 1 or self.own_phantoms < 0:
            raise CalibrationError("a sketch has a floor of at least 1 and a phantom that all its parties share")


@attr.frozen
class SampledBitsDpEvent(DpEvent):  # type: ignore[misc]
    """Reports of randomized bits about a secret sample of slots of public size: see `dp.cost.sampled_bits`.

    Attributes:
        truthful: probability that a bit is reported as it is, 1/2 .. 1, both excluded.
        n_bits: bits of a slot that a unit in it sets, 1 .. `dp.cost.sampled_bits.MOST_BITS`.
        share: of the slots that are in the sample, 0 < share <= 1.
        adjacency: add_or_remove_one.
    """

    truthful: Fraction
    n_bits: int
    share: Fraction
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE

    def __attrs_post_init__(self) -> None:
        if self.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            raise AdjacencyError("amplification by a secret sample of slots is proven for add_or_remove_one only")


PrivacyEvent = (
    SkellamDpEvent
    | DiscreteGaussianDpEvent
    | DiscreteLaplaceDpEvent
    | RandomizedResponseDpEvent
    | PoissonSampledDpEvent
    | SampledBitsDpEvent
    | CardinalitySketchDpEvent
    | SkellamShiftsDpEvent
    | DiscreteGaussianShiftsDpEvent
    | BoundedSampledDpEvent
)
"""All events that can be composed."""


def renyi_curve(event: PrivacyEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the Renyi divergence bound of an event at each order.

    Args:
        event: of a known class.
        orders: integers, at least 2.

    Returns:
        same shape as `orders`, rounded up.

    Raises:
        TypeError: an event of another class: its cost is unknown.
    """
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
        case BoundedSampledDpEvent():
            return bounded_sampled_rdp(event, orders)
    raise TypeError(f"the cost of an event of class {type(event).__name__} is unknown")


def discrete_gaussian_rdp(event: DiscreteGaussianDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return a / 2 * sum d_i^2 / s_i: the discrete Gaussian costs what the continuous one does [CKS20, theorem 14].

    Holds for integer differences and every order. At integer orders it is the divergence itself: the sum over x of
    exp(-(a (x - d)^2 - (a - 1) x^2) / (2 s)) is that of exp(-(x - a d)^2 / (2 s)), with a d an integer, times
    exp(a (a - 1) d^2 / (2 s)).
    """
    return orders.astype(np.float64) / 2 * round_up(event.squares) * (1 + 2.0**-51)


def discrete_laplace_rdp(event: DiscreteLaplaceDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the exact divergence of discrete Laplace noise for the worst split of the sensitivity.

    One coordinate, shifted by the integer d > 0, scale b, r = exp(-1/b), s = r^(2a - 1). Summing the geometric series
    left of both centres, between them and right of them,

        E_P[(P / Q)^(a - 1)]  =  (1 - B) e^((a - 1) d / b) + B e^(-a d / b),     B = (r - s) / ((1 + r) (1 - s)).

    The logarithm of such a sum is convex in d and 0 at d = 0, hence superadditive: a given L1 norm costs most when it
    lies in one coordinate. So the bound is this expression at d = `l1_sensitivity`; below the pure epsilon d / b.
    For large b it becomes that of the continuous Laplace distribution [Mironov17, table 2].
    """
    order = orders.astype(np.float64)
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
    if event.n_options < 2 or not Fraction(1, event.n_options) <= event.truthful < 1:
        raise ValueError("randomized response needs two options and tells the truth at least as often as any other one")
    p, other = event.truthful, (1 - event.truthful) / (event.n_options - 1)
    order = orders.astype(np.float64)
    epsilon = log_ratio(p, other) * (1 + 2.0**-50)
    log_p, log_q = math.log(p), math.log(other)
    terms = np.array([log_p + (order - 1) * epsilon, log_q - (order - 1) * epsilon])
    found = np.logaddexp(terms[0], terms[1])
    if event.n_options > 2:
        found = np.logaddexp(found, math.log((event.n_options - 2) * other))
    slack = (2 + abs(log_p) + abs(log_q) + order * epsilon) * 2.0**-46
    bounded: Floats = np.minimum((np.maximum(found, 0.0) + slack) / (order - 1), math.nextafter(epsilon, math.inf))
    return bounded


def cardinality_sketch_rdp(event: CardinalitySketchDpEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the divergence of all sketches for the worst neighbours: see `dp.cost.sketch_loss`.

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
    """Return the divergence itself where it is computed (`dp.cost.skellam_mass`), elsewhere the bound for vectors."""
    bound = skellam_rdp(event.sums, orders)
    exact = event.n_shifts * shift_divergence(event.shift, event.mu, orders) * (1 + 2.0**-52)
    return np.asarray(np.minimum(bound, exact), dtype=np.float64)


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
    small = orders <= LARGEST_ORDER
    out = np.zeros(len(orders)) if event.rate == 0 else renyi_curve(event.release, orders).copy()
    out[small] = at[orders[small] - 2]
    return out


@lru_cache(maxsize=256)
def _sampled_at_small_orders(event: PoissonSampledDpEvent) -> Floats:
    unsampled = np.concatenate([[0.0, 0.0], renyi_curve(event.release, np.arange(2, LARGEST_ORDER + 1))])
    found = poisson_sampled_rdp(unsampled, round_up(event.rate), is_reflected=True)
    # Never worse than without sampling, by quasi-convexity.
    found = np.asarray(np.minimum(found, unsampled[2:]), dtype=np.float64)
    found.setflags(write=False)
    return found
