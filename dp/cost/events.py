"""Privacy events other than `dp.cost.accounting.SkellamDpEvent`.

An event holds everything that its cost depends on, exactly, and its neighbouring relation. Its Renyi curve is in
`dp.cost.curves`, its loss distribution, where one is known, in `dp.cost.losses.of_events`.
"""

from fractions import Fraction

import attr

from dp.cost.accounting import (
    Adjacency,
    AdjacencyError,
    CalibrationError,
    DpEvent,
    SkellamDpEvent,
)
from dp.cost.losses.laplace_share import scale_of


@attr.frozen
class SkellamVectorDpEvent(SkellamDpEvent):
    """A `SkellamDpEvent` of which it is known how many numbers neighbours move: `dp.cost.losses.rounded_gaussian`.

    Attributes:
        n_moved: bound of how many numbers differ, over all releases, at least 1.
        least_mu: of the noise on any number that may differ; positive.
    """

    n_moved: int
    least_mu: Fraction

    def __attrs_post_init__(self) -> None:
        if self.n_moved < 1 or self.least_mu <= 0:
            raise ValueError(f"invalid event: {self.n_moved} numbers move, with noise of parameter {self.least_mu}")

    @classmethod
    def knowing(cls, sums: SkellamDpEvent, n_moved: int, least_mu: Fraction) -> "SkellamVectorDpEvent":
        """Return the event of a release of which the sums are known, and what the attributes say besides."""
        s = sums
        return cls(s.squares, s.squares_second, s.sizes, s.sizes_second, s.adjacency, n_moved, least_mu)

    def times(self, n_times: int) -> "SkellamVectorDpEvent":
        """Return what `n_times` such releases cost together, each with fresh noise."""
        return self.knowing(super().times(n_times), n_times * self.n_moved, self.least_mu)


@attr.frozen
class DiscreteGaussianDpEvent(DpEvent):
    """The release of an integer vector plus independent discrete Gaussian noise of variance s_i on coordinate i.

    Attributes:
        squares: bound of sum d_i^2 / s_i, d the difference of neighbours.
        adjacency: the neighbouring relation.
    """

    squares: Fraction
    adjacency: Adjacency


@attr.frozen
class DiscreteLaplaceDpEvent(DpEvent):
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
class RandomizedResponseDpEvent(DpEvent):
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
class SkellamShiftsDpEvent(DpEvent):
    """The release of integers plus independent Skellam noise, of which a neighbour moves few, each by little.

    Says more than `SkellamDpEvent`: the worst neighbours are known, so its cost is exact (`dp.cost.losses.additive`).

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
class DiscreteGaussianShiftsDpEvent(DpEvent):
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


@attr.frozen
class LaplaceSharesDpEvent(DpEvent):
    """The release of integers plus a sum of shares of discrete Laplace noise, of which a neighbour moves few numbers.

    Such sums: `dp.draw.laplace_share`. What they cost: `dp.cost.losses.laplace_share`. The product of the losses of
    each number covers the release of all.

    Attributes:
        shift: bound of how far one number moves, at least 1.
        n_shifts: bound of how many move, over all releases, at least 1.
        shape: of all shares that are unknown together, at least 1: a whole discrete Laplace variable, or more.
        mean: of a geometric variable of the shares' ratio; positive.
        adjacency: the neighbouring relation.
    """

    shift: int
    n_shifts: int
    shape: Fraction
    mean: Fraction
    adjacency: Adjacency

    def __attrs_post_init__(self) -> None:
        _check_shifts(self.shift, self.n_shifts, self.mean)
        if self.shape < 1:
            raise ValueError(f"what shares of a total shape of {self.shape} cost is not known: it must be at least 1")

    def times(self, n_times: int) -> "LaplaceSharesDpEvent":
        """Return what `n_times` such releases cost together, each with fresh noise."""
        return attr.evolve(self, n_shifts=n_times * self.n_shifts)

    @property
    def whole(self) -> DiscreteLaplaceDpEvent:
        """A release of the same 1-norm with discrete Laplace noise, which costs no less: see `scale_of`."""
        return DiscreteLaplaceDpEvent(self.shift * self.n_shifts, scale_of(self.mean), self.adjacency)


def _check_shifts(shift: int, n_shifts: int, parameter: Fraction) -> None:
    if shift < 1 or n_shifts < 1 or parameter <= 0:
        raise ValueError(f"invalid event: {n_shifts} numbers that move by {shift}, with noise of parameter {parameter}")


AdditiveDpEvent = (
    SkellamDpEvent
    | SkellamShiftsDpEvent
    | DiscreteGaussianDpEvent
    | DiscreteGaussianShiftsDpEvent
    | DiscreteLaplaceDpEvent
)
"""Releases with additive independent symmetric noise, which may be computed on a sample."""


@attr.frozen
class PoissonSampledDpEvent(DpEvent):
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
class BoundedSampledDpEvent(DpEvent):
    """Releases about successive samples, where no unit is in more than a public number of samples.

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
            raise ValueError(f"most_participations must lie in 1..{self.n_steps}, not at {self.most_participations}")

    @property
    def adjacency(self) -> Adjacency:
        """That of the release."""
        return self.step.adjacency


@attr.frozen
class CardinalitySketchDpEvent(DpEvent):
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
            raise CalibrationError(
                "a sketch needs a floor of at least 1 and at least one phantom that all its parties share"
            )


@attr.frozen
class SampledBitsDpEvent(DpEvent):
    """Reports of randomized bits about a secret sample of slots of public size: see `dp.cost.losses.sampled_bits`.

    Attributes:
        truthful: probability that a bit is reported as it is, 1/2 .. 1, both excluded.
        n_bits: bits of a slot that a unit in it sets, 1 .. `dp.cost.losses.sampled_bits.MAX_BITS`.
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
    | SkellamVectorDpEvent
    | DiscreteGaussianDpEvent
    | DiscreteLaplaceDpEvent
    | RandomizedResponseDpEvent
    | PoissonSampledDpEvent
    | SampledBitsDpEvent
    | CardinalitySketchDpEvent
    | SkellamShiftsDpEvent
    | DiscreteGaussianShiftsDpEvent
    | BoundedSampledDpEvent
    | LaplaceSharesDpEvent
)
"""All events that can be composed."""
