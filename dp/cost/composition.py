"""The joint cost of the releases of one job: the smallest one of several valid bounds.

Renyi curves add up and are converted once; all events have one. Privacy loss distributions are composed, where they
are known (`PrivacyEvent.losses`), and give less, as nothing is lost in a conversion. Vectors with much Skellam or
discrete Gaussian noise are charged as Gaussian releases with a slack (`dp.cost.losses.rounded_gaussian`). All are upper
bounds of the same delta for a job whose plan is fixed before it starts, so the smallest one holds.

A job with releases of both kinds: those that have no more than a Renyi curve R are covered by the distribution of which
that curve's own bound is the hockey-stick divergence. At each epsilon >= 0

    delta_R(epsilon)  =  min over a of  exp((a - 1) (R(a) - epsilon)) (1 - 1/a)^(a - 1) / a          [CKS20, prop. 12]
    delta_R(-epsilon) =  1 - e^-epsilon + e^-epsilon delta_R(epsilon),

the second as H(P, Q) at e^-epsilon is 1 - e^-epsilon + e^-epsilon times H(Q, P) at e^epsilon and R bounds both
directions. Hockey-stick divergences are convex in e^epsilon: the true one lies below the lower convex hull of these
bounds on a grid, and the hull is the divergence of the pair of distributions with the loss of each grid point and the
mass that the change of its slope says [DoroshenkoGKKM22]. That the masses as computed have at least those divergences
at each point of the grid is checked afterwards, so no rounding matters.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product

import numpy as np

from dp.cost.accounting import (
    ORDERS,
    AdjacencyError,
    EpsilonBound,
    Floats,
    check_delta,
    epsilon_of_rdp,
)
from dp.cost.events.event import PrivacyEvent, renyi_curve
from dp.cost.events.sampling import BoundedSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent
from dp.cost.losses.distribution import LossDistribution, Losses
from dp.cost.losses.pairs import PairLosses
from dp.cost.losses.rounded_gaussian import RoundedGaussian

Events = frozenset[tuple[PrivacyEvent, int]]
"""Different events, each with its number of repetitions."""

Composed = PrivacyEvent | Iterable[PrivacyEvent] | Mapping[PrivacyEvent, int]
"""One release, several, or how often each is made."""

MAX_DIFFERENT_EVENTS = 16
"""Largest number of different releases whose loss distributions are composed; more are composed by Renyi curves
alone."""

_MAX_EPSILON = 100.0
"""Largest epsilon for which loss distributions are composed; the Renyi bound is good enough beyond."""

_CELLS_PER_DEVIATION = 256
"""Grid cells per standard deviation of the composed loss. A grid of width h adds less than h^2 / 4 to the variance of
each loss. A single loss gets at least 16 cells per standard deviation."""

_CELLS_OF_REACH = 2048
"""Smallest number of grid cells between the smallest and the largest relevant loss of any release."""

_CUT = 2.0**-20
"""Fraction of the requested delta that may be cut off the distributions in total; it is added to the result."""


def composed_epsilon(events: Composed, delta: float, *, near: float | None = None) -> EpsilonBound:
    """Return what releases about the same table cost together, for a plan that was fixed before the first.

    Args:
        events: all that the plan releases.
        delta: strictly between 0 and 1.
        near: the target epsilon of a search for a noise parameter. If the releases are found to cost at most this, it
            may be what is returned. If the epsilon by Renyi curves is at most this, or more than twice as large, no
            loss distributions are composed.

    Raises:
        AdjacencyError: the events are for different neighbouring relations, or there is none.
        CalibrationError: delta is out of range.
        TypeError: the cost of an event is unknown.
    """
    check_delta(delta)
    kept = _counted(events)
    rounded = _rounded(kept)
    if near is not None and rounded is not None and rounded.covers(near, delta):
        return EpsilonBound(near, delta, None, False)
    bound = _renyi_epsilon(kept, delta)
    if near is not None:
        return _by_losses(kept, bound) if near < bound.epsilon <= 2 * near else bound
    return _tighter(kept, bound)


def _counted(events: Composed) -> Events:
    counted = Counter([events]) if isinstance(events, PrivacyEvent) else Counter(events)
    adjacencies = {event.adjacency for event in counted}
    if len(adjacencies) != 1:
        names = " and ".join(sorted(one.value for one in adjacencies)) or "none"
        raise AdjacencyError(
            f"all events of a composition must have the same neighbouring relation; these have {names}"
        )
    return frozenset(counted.items())


@lru_cache(maxsize=512)
def _renyi_epsilon(events: Events, delta: float) -> EpsilonBound:
    return epsilon_of_rdp(_curve_of(events), _n_events(events), delta)


def _n_events(events: Events) -> int:
    return sum(n for _, n in events)


@lru_cache(maxsize=512)
def _tighter(events: Events, bound: EpsilonBound) -> EpsilonBound:
    """Return the bound at the same delta that is not by Renyi curves, if it is smaller."""
    if 0 < bound.epsilon < math.inf and (rounded := _rounded(events)) is not None:
        epsilon = rounded.epsilon(bound.delta, bound.epsilon)
        if epsilon < bound.epsilon:
            bound = EpsilonBound(epsilon, bound.delta, None, False)
    return _by_losses(events, bound)


@lru_cache(maxsize=512)
def _by_losses(events: Events, bound: EpsilonBound) -> EpsilonBound:
    """Return the bound that distributions give at the same delta, if it is smaller."""
    if not 0 < bound.epsilon <= _MAX_EPSILON or all(isinstance(event, SkellamDpEvent) for event, _ in events):
        return bound
    for way in _ways(events, bound.delta):
        epsilon = max(d.epsilon(bound.delta) for d in way)
        if epsilon < bound.epsilon:
            bound = EpsilonBound(epsilon, bound.delta, None, False)
    return bound


def rounded_gaussian_of(events: Composed) -> RoundedGaussian | None:
    """Return releases as rounded Gaussian ones; None where nothing is known of one as such, or it is about a sample.

    Raises:
        AdjacencyError: see `composed_epsilon`.
    """
    kept = _counted(events)
    are_known = all(event.gaussian_terms is not None for event, _ in kept)
    return _rounded(kept) if are_known else None


@lru_cache(maxsize=512)
def _rounded(events: Events) -> RoundedGaussian | None:
    """Return the releases as rounded Gaussian ones, if all have noise that is known to be nearly such.

    Those about samples are taken for the same about everybody: hockey-stick divergences are jointly convex.
    """
    releases = []
    for event, n in _unsampled(events):
        if event.gaussian_terms is None:
            return None
        squares, least_mu, n_moved = event.gaussian_terms
        releases.append((n * squares, least_mu, n * n_moved))
    return RoundedGaussian.of(releases)


def _unsampled(events: Events) -> Events:
    """Return what the releases are without sampling: of steps of which a unit is in K at most, K releases."""
    found: Counter[PrivacyEvent] = Counter()
    for event, n in events:
        release, n_releases = event.unsampled
        found[release] += n * n_releases
    return frozenset(found.items())


def _curve_of(events: Events) -> Floats:
    curves = [renyi_curve(event) if n_alike == 1 else n_alike * renyi_curve(event) for event, n_alike in events]
    if len(curves) == 1:
        return curves[0]
    # A set has another order in each process. Sorted terms add up to the same bits in all of them: plans must agree.
    return np.asarray(np.sort(np.stack(curves), axis=0).sum(axis=0), dtype=np.float64)


def _ways(events: Events, delta: float) -> Iterator[list[LossDistribution]]:
    """Yield sets of distributions; the largest divergence of each set bounds that of the composition.

    One set, or two where there are bounded samples: all steps, or K releases without sampling.
    """
    if len(events) > MAX_DIFFERENT_EVENTS:
        return
    yield from _composed(events, delta)
    if any(isinstance(event, BoundedSampledDpEvent) for event, _ in events):
        yield from _composed(_unsampled(events), delta)


def _composed(events: Events, delta: float) -> Iterator[list[LossDistribution]]:
    """Yield the composed distributions, one for each direction and each choice of pairs; nothing if none is known."""
    known: list[tuple[tuple[PairLosses, ...], int]] = []
    curve, n_curves = np.zeros(len(ORDERS)), 0
    for event, n in sorted(events, key=repr):
        pairs = event.losses()
        # Of several copies of an event with several pairs each may have another one as its worst.
        if pairs is None or (n > 1 and len(pairs) > 1):
            curve, n_curves = curve + n * renyi_curve(event), n_curves + n
        else:
            known.append((pairs, n))
    if not known:
        return
    tail = delta * _CUT / (64 * len(events))
    step = _step(known, curve, tail)
    if step is None:
        return
    rest = None
    if n_curves:
        rest = covering(curve, n_curves, step, tail)
        if rest is None:
            return
    grids: dict[tuple[int, int], LossDistribution] = {}

    def powers(losses: Losses, times: int) -> LossDistribution:
        key = id(losses), times
        if key not in grids:
            grids[key] = LossDistribution.of(losses, step, tail / times).times(times, tail)
        return grids[key]

    found = []
    for chosen in product(*(pairs for pairs, _ in known)):
        counts = [n * pair.n_times for pair, (_, n) in zip(chosen, known, strict=True)]
        alike = all(pair.enters is pair.leaves for pair in chosen)
        for side in ("enters",) if alike else ("enters", "leaves"):
            total = rest
            for pair, count in zip(chosen, counts, strict=True):
                more = powers(getattr(pair, side), count)
                total = more if total is None else total.compose(more, tail)
            assert total is not None, "something is known"
            found.append(total)
    yield found


def _step(known: list[tuple[tuple[PairLosses, ...], int]], curve: Floats, tail: float) -> float | None:
    """Return the grid's step, a power of two; None where nothing is lost."""
    variance, least, widest = float(2 * curve[0]) if curve.any() else 0.0, math.inf, 0.0
    for pairs, n in known:
        sides = [*(pair.enters for pair in pairs), *(pair.leaves for pair in pairs if pair.leaves is not pair.enters)]
        widest = max(widest, *(side.reach(tail) for side in sides))
        each = max(side.variance for side in sides)
        variance += n * pairs[0].n_times * each
        least = min(least, each) if each > 0 else least
    if not 0 < variance < 1e6:
        return None
    fine = min(math.sqrt(least) / 16, math.sqrt(variance) / 64) if least < math.inf else math.sqrt(variance) / 64
    coarse = max(math.sqrt(variance) / _CELLS_PER_DEVIATION, widest / _CELLS_OF_REACH)
    return float(2.0 ** math.floor(math.log2(max(fine, coarse))))


def covering(curve: Floats, n_terms: int, step: float, tail: float) -> LossDistribution | None:
    """Return a distribution whose delta is at least what a Renyi curve bounds it by, at every epsilon.

    Args:
        curve: at `ORDERS`, the sum of `n_terms` divergences that hold in both directions.
        n_terms: see `dp.cost.accounting.epsilon_of_rdp`.
        step: width of a step of the grid.
        tail: the delta at the highest loss on it.

    Returns:
        None where the curve bounds nothing, or the grid would be too long.
    """
    highest = epsilon_of_rdp(curve, n_terms, max(tail, 1e-300)).epsilon
    n = math.ceil(highest / step) + 1 if math.isfinite(highest) else 1 << 20
    if n >= 1 << 15:
        return None
    epsilons: Floats = np.arange(-n, n + 1, dtype=np.float64) * step
    # At 0 the total variation distance, which is at most sqrt(1 - e^-R) [CKS20].
    at_zero = min(1.0, math.sqrt(-math.expm1(-float(curve[0]) * (1 + 2.0**-40 + n_terms * 2.0**-52))) * (1 + 2.0**-40))
    positive = np.concatenate([[at_zero], _deltas(curve, n_terms, epsilons[n + 1 :])])
    positive = np.minimum.accumulate(positive)
    e = epsilons[n + 1 :]
    negative = np.minimum(1.0, (-np.expm1(-e) + np.exp(-e) * positive[1:]) * (1 + 2.0**-40))
    deltas = np.concatenate([negative[::-1], positive])
    # e^epsilon, and 0 in front, where the divergence is 1.
    x = np.concatenate([[0.0], np.exp(epsilons)])
    bound = np.concatenate([[1.0], deltas])
    corners = _lower_hull(x, bound)
    slopes = np.append(np.diff(bound[corners]) / np.diff(x[corners]), 0.0)
    jumps = np.maximum(np.diff(slopes), 0.0)
    masses = np.zeros(2 * n + 1)
    masses[corners[1:] - 1] = x[corners[1:]] * jumps
    lost = float(bound[-1])
    # What the masses show at each point: the sum, from the top, of differences of e^epsilon times Q's mass above.
    above = np.cumsum((masses / x[1:])[::-1])[::-1]
    gaps = x[1:-1] * math.expm1(step)
    shown = lost + np.concatenate([np.cumsum((gaps * above[1:])[::-1])[::-1], [0.0]])
    shown *= 1 - len(x) * 2.0**-50
    at = corners[1:] - 1
    ratios = np.divide(bound[1:][at], shown[at], out=np.ones(len(at)), where=bound[1:][at] > 0)  # 0 is shown anyway
    short = max(1.0, float(np.max(ratios)), 1 / (float(masses.sum()) + lost))
    if not short < 1.01:
        return None
    more = short * (1 + 2.0**-40)
    return LossDistribution(step, -n, masses * more, lost * more)


def _deltas(curve: Floats, n_terms: int, epsilons: Floats) -> Floats:
    """Return `dp.cost.accounting.delta_of_rdp` at many epsilons, each at the best of many orders."""
    orders = ORDERS.astype(np.float64)
    best = np.zeros(len(epsilons), dtype=np.int64)
    exponents = np.full(len(epsilons), np.inf)
    for at in (*range(64), *range(64, len(orders), 4)):
        order = orders[at]
        found = (order - 1) * (curve[at] - epsilons + math.log1p(-1 / order)) - math.log(order)
        better = found < exponents
        best[better], exponents[better] = at, found[better]
    order = orders[best]
    rdp = curve[best] * (1 + 2.0**-40 + n_terms * 2.0**-52)
    exponents = (order - 1) * (rdp - epsilons + np.log1p(-1 / order)) - np.log(order)
    slack = ((order - 1) * (rdp + epsilons + 1 / order) + np.log(order)) * 2.0**-48
    return np.minimum(1.0, np.exp(exponents + slack) * (1 + 2.0**-50))


def _lower_hull(x: Floats, y: Floats) -> np.ndarray:
    """Return the numbers of the corners of the lower convex hull of points, x ascending."""
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) >= (y[i] - y[a]) * (x[b] - x[a]):
                hull.pop()
            else:
                break
        hull.append(i)
    return np.array(hull)
