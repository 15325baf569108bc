"""Vectors with discrete Laplace noise of which each party draws a share, and the choice of the least noise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, CalibrationError, check_delta, check_epsilon
from dp.cost.calibrate import Ladder
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent, LaplaceSharesDpEvent
from dp.cost.group import for_rows
from dp.cost.losses.laplace_share import scale_of
from dp.cost.views import ADJACENCY, RECORD, Protected, View
from dp.draw.laplace_share import MAX_MEAN, MAX_SHAPE, sample_laplace_share
from dp.mechanism.vector import SharedNoise, SharedSkellam, VectorSensitivity, shifts_of
from entropy import Entropy

MEAN_UNIT = Fraction(1, 1 << 64)
"""Means of the geometric variables of shares are multiples of it: with epsilon 16 they are near 2^-23."""

MAX_MEAN_UNITS = int(MAX_MEAN / MEAN_UNIT)

_RUNG_BITS = 12


def mean_rung(index: int) -> int:
    """Return mean number `index`, in `MEAN_UNIT`, strictly ascending from 1: all integers below 2^13, then 13 bits."""
    if index < 1 << _RUNG_BITS:
        return index
    octave, step = divmod(index, 1 << _RUNG_BITS)
    return ((1 << _RUNG_BITS) + step) << (octave - 1)


LAPLACE_LADDER = Ladder((MAX_MEAN_UNITS.bit_length() - 1 - _RUNG_BITS + 1) << _RUNG_BITS, mean_rung, " (scale 2^50)")
"""At most 2^-12 more than necessary is chosen, so the variance is at most 2^-11 more."""


def laplace_event(
    squared_l2: int, l1: int, length: int, shape: Fraction, mean: Fraction, adjacency: Adjacency
) -> LaplaceSharesDpEvent | DiscreteLaplaceDpEvent:
    """Return what an integer vector plus shares of total shape at least 1 costs, with what is known of its neighbours.

    Where it is not known how far single numbers move, the 1-norm alone bounds the cost, as it does for discrete Laplace
    noise (`dp.cost.losses.laplace_share`).

    Args:
        squared_l2: bound of the squared Euclidean distance of neighbours' vectors.
        l1: bound of the sum of the absolute differences.
        length: numbers in the vector.
        shape: total shape parameter of all unknown shares, at least 1.
        mean: mean of a geometric variable of their ratio.
        adjacency: the neighbouring relation.
    """
    moved = shifts_of(squared_l2, l1, length) if squared_l2 and l1 else None
    if moved is not None:
        return LaplaceSharesDpEvent(*moved, shape, mean, adjacency)
    return DiscreteLaplaceDpEvent(min(l1, squared_l2), scale_of(mean), adjacency)


def laplace_tail_bound(shape: Fraction, mean: Fraction, n_entries: int, log2_probability: float) -> int:
    """Return an integer that no sum of shares exceeds in magnitude, but with a stated probability.

    Such a sum is the difference of two Polya variables of that shape, so P(|X| >= x) <= 2 P(Polya >= x)
    <= 2 q^-x E q^Polya. With q = 1 + 3 / (4 mean) that is 2 4^shape q^-x.

    Args:
        shape: total shape parameter of all shares.
        mean: mean of a geometric variable of their ratio.
        n_entries: how many entries, over all releases.
        log2_probability: negative; of all entries together.
    """
    if not (math.isfinite(log2_probability) and log2_probability < 0):
        raise ValueError(f"the logarithm of a probability must be negative, not {log2_probability}")
    bits = 2 * float(shape) + 1 + math.log2(n_entries) - log2_probability
    return math.ceil(bits * math.log(2) / math.log1p(0.75 / float(mean)) * (1 + 2.0**-40)) + 1


@dataclass(frozen=True)
class SharedLaplace(SharedNoise):
    """Releases integer vectors plus shares of discrete Laplace noise, each time with fresh noise.

    Each of N parties adds a share of shape 1 / (N - t) (`dp.draw.laplace_share`), so that those of N - t parties add up
    to discrete Laplace noise: t parties that subtract their own face a whole such variable. Whoever knows no part of
    the noise, the coordinator, faces a sum of shape N / (N - t), whose cost is computed as such
    (`dp.cost.losses.laplace_share`). Its standard deviation is sqrt(N / (N - t)) times that of discrete Laplace noise
    of the same ratio, but for one epsilon the ratio is smaller.

    Attributes:
        mean_units: mean of a geometric variable of the shares' ratio, in `MEAN_UNIT`.
    """

    length: int
    sensitivities: Mapping[View, VectorSensitivity]
    n_parties: int
    colluding: int
    mean_units: int
    n_releases: int = 1
    protected: Protected = RECORD
    noise_name = "shares of discrete Laplace noise"
    ladder = LAPLACE_LADDER

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.mean_units <= MAX_MEAN_UNITS:
            raise ValueError(f"mean_units must be in 1..2^114, not {self.mean_units}")

    @property
    def mean(self) -> Fraction:
        """Return the mean of a geometric variable of the shares' ratio."""
        return self.mean_units * MEAN_UNIT

    def unknown_shape(self, view: View) -> Fraction:
        """Return the total shape of the shares that are unknown in a view."""
        return Fraction(self.n_unknown(view), self.n_parties - self.colluding)

    def events(self, view: View) -> tuple[LaplaceSharesDpEvent | DiscreteLaplaceDpEvent]:
        """Return what all releases together cost in a view: one event, provided that all parties add their part.

        Where only the 1-norm of a vector is known, that of all vectors one after the other is n_releases times it.
        """
        of, shape = self.sensitivities[view], self.unknown_shape(view)
        once = laplace_event(of.squared_l2, of.least_l1, self.length, shape, self.mean, ADJACENCY[view])
        all_: LaplaceSharesDpEvent | DiscreteLaplaceDpEvent
        if isinstance(once, LaplaceSharesDpEvent):
            all_ = once.times(self.n_releases)
        else:
            all_ = DiscreteLaplaceDpEvent(self.n_releases * once.l1_sensitivity, once.scale, once.adjacency)
        return (for_rows(all_, self.protected.most_rows),)

    def draw(self, entropy: Entropy) -> NDArray[np.int64]:
        """Draw one party's share for one release, in each entry of shape 1 / (N - t), independent.

        Returns:
            shape (length,). Secret: it never leaves the party but as shares.
        """
        return sample_laplace_share(entropy, Fraction(1, self.n_parties - self.colluding), self.mean, self.length)

    def noise_tail_bound(self, log2_probability: float) -> int:
        """Return an integer that no entry of the opened noise exceeds, but with a stated probability."""
        shape, n_entries = self.unknown_shape("coordinator"), self.length * self.n_releases
        return laplace_tail_bound(shape, self.mean, n_entries, log2_probability)

    def standard_deviation(self, view: View) -> float:
        """Return that of the noise unknown in a view, in every entry."""
        return math.sqrt(2 * self.unknown_shape(view) * self.mean * (1 + self.mean))

    def parameters(self) -> dict[str, int | str]:
        """Return the mean of a geometric variable, in 2^-64."""
        return {"mean_units": self.mean_units}


def shared_noise(
    length: int,
    sensitivities: Mapping[View, VectorSensitivity],
    n_parties: int,
    colluding: int,
    *,
    party_mu: int,
    mean_units: int,
    protected: Protected = RECORD,
) -> SharedSkellam | SharedLaplace:
    """Return the mechanism with what a plan holds: one of both parameters is 0."""
    if mean_units:
        return SharedLaplace(length, sensitivities, n_parties, colluding, mean_units, protected=protected)
    return SharedSkellam(length, sensitivities, n_parties, colluding, party_mu, protected=protected)


def noise_fields(mechanism: SharedSkellam | SharedLaplace) -> dict[str, int]:
    """Return both parameters as a plan holds them, for `shared_noise`."""
    if isinstance(mechanism, SharedLaplace):
        return {"party_mu": 0, "mean_units": mechanism.mean_units}
    return {"party_mu": mechanism.party_mu, "mean_units": 0}


def least_variance_noise(
    *,
    length: int,
    sensitivities: Mapping[View, VectorSensitivity],
    n_parties: int,
    colluding: int,
    epsilon: float,
    delta: float,
    view: View,
    n_releases: int = 1,
    protected: Protected = RECORD,
) -> SharedSkellam | SharedLaplace:
    """Return the mechanism with the smallest variance of what is opened, of those that cost at most `epsilon`.

    Raises:
        CalibrationError: epsilon or delta is out of range, or both kinds of noise would exceed their samplers' range.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    found: list[SharedSkellam | SharedLaplace] = []
    kinds: tuple[type[SharedSkellam | SharedLaplace], ...] = (SharedSkellam, SharedLaplace)
    of, shape = sensitivities[view], Fraction(n_parties, n_parties - colluding)
    if not may_be_quieter(of.squared_l2, of.least_l1, shape, epsilon=epsilon, delta=delta):
        kinds = (SharedSkellam,)
    refused = None
    for kind in kinds:
        try:
            made = kind.calibrate(
                length=length,
                sensitivities=sensitivities,
                n_parties=n_parties,
                colluding=colluding,
                epsilon=epsilon,
                delta=delta,
                view=view,
                n_releases=n_releases,
                protected=protected,
            )
            found.append(made)
        except CalibrationError as error:
            refused = error
    if refused is not None and not found:
        raise refused
    return min(found, key=lambda made: made.standard_deviation("coordinator"))


def may_be_quieter(squared_l2: int, l1: int, shape: Fraction, *, epsilon: float, delta: float) -> bool:
    """Return whether shares of discrete Laplace noise could have a smaller variance than Skellam noise of one epsilon.

    Where this says no they are not calibrated, which saves time. Skellam noise needs a variance of about
    2 ln(1 / delta) squared_l2 / epsilon^2, shares, where their scale is above 1, about 2 shape l1^2 / epsilon^2.

    Args:
        squared_l2: squared Euclidean sensitivity.
        l1: sensitivity in the 1-norm.
        shape: total shape parameter of all shares.
        epsilon: epsilon of the target.
        delta: delta of the target.
    """
    if shape > MAX_SHAPE:
        return False
    return l1 <= 2 * epsilon or shape * l1**2 <= 4 * squared_l2 * Fraction(8 - math.log(delta))
