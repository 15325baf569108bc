"""Releases about samples: of one Poisson sample, or of several with a bound of how many a unit is in."""

import math
from fractions import Fraction
from functools import lru_cache

import attr
import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, AdjacencyError, Floats, round_up
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent, DiscreteGaussianShiftsDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import PrivacyEvent, renyi_curve
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent
from dp.cost.losses.distribution import Losses
from dp.cost.losses.pairs import SLACK, PairLosses
from dp.cost.sampling import MAX_ORDER, poisson_sampled_rdp

AdditiveDpEvent = (
    SkellamDpEvent
    | SkellamShiftsDpEvent
    | DiscreteGaussianDpEvent
    | DiscreteGaussianShiftsDpEvent
    | DiscreteLaplaceDpEvent
)
"""Releases with additive independent symmetric noise, which may be computed on a sample."""


@attr.frozen
class PoissonSampledDpEvent(PrivacyEvent):
    """A release with additive symmetric noise about a sample that each unit enters independently.

    Attributes:
        release: what it costs without sampling; its adjacency must be add_or_remove_one.
        rate: probability of each unit to enter.
    """

    word = "poisson sampled"

    release: AdditiveDpEvent
    rate: Fraction

    def __attrs_post_init__(self) -> None:
        if self.release.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            raise AdjacencyError("amplification by Poisson sampling is proven for add_or_remove_one only")
        if not 0 <= self.rate <= 1:
            raise ValueError(f"a sampling rate must be in 0..1, not {self.rate}")

    @property
    def adjacency(self) -> Adjacency:
        """Adjacency of the release."""
        return self.release.adjacency

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return the divergence of a sampled release: `dp.cost.sampling.poisson_sampled_rdp`, without the factor 3.

        All noise that a sampled event may have is symmetric about 0 and added to the query. Beyond the highest order of
        that bound the release costs what it does without sampling, by quasi-convexity.
        """
        at = _sampled_at_small_orders(self)
        small = orders <= MAX_ORDER
        out = np.zeros(len(orders)) if self.rate == 0 else renyi_curve(self.release, orders).copy()
        out[small] = at[orders[small] - 2]
        return out

    def losses(self) -> tuple[PairLosses, ...] | None:
        """Return the losses of one such release; see `sampled_losses`."""
        return sampled_losses(self, 1)

    @property
    def unsampled(self) -> tuple[PrivacyEvent, int]:
        """The release, once: see `PrivacyEvent`."""
        return self.release, 1


@attr.frozen
class BoundedSampledDpEvent(PrivacyEvent):
    """Releases about successive samples, where no unit is in more than a public number of samples.

    Proof of both of its bounds: `dp.mechanism.bounded_sampling.BoundedPoisson`.

    Attributes:
        step: one release.
        n_steps: how many.
        most_participations: K, 1 .. n_steps.
    """

    word = "bounded sampled"

    step: PoissonSampledDpEvent
    n_steps: int
    most_participations: int

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.most_participations <= self.n_steps:
            raise ValueError(f"most_participations must be in 1..{self.n_steps}, not {self.most_participations}")

    @property
    def adjacency(self) -> Adjacency:
        """Adjacency of the release."""
        return self.step.adjacency

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return at each order the smaller bound: of all steps about samples, or of K releases about everybody."""
        sampled = self.n_steps * renyi_curve(self.step, orders)
        unsampled = self.most_participations * renyi_curve(self.step.release, orders)
        return np.asarray(np.minimum(sampled, unsampled) * (1 + 2.0**-52), dtype=np.float64)

    def losses(self) -> tuple[PairLosses, ...] | None:
        """Return the losses of all steps about samples; see `sampled_losses`."""
        return sampled_losses(self.step, self.n_steps)

    @property
    def unsampled(self) -> tuple[PrivacyEvent, int]:
        """The release, as often as one unit takes part at most: see `PrivacyEvent`."""
        return self.step.release, self.most_participations


@lru_cache(maxsize=256)
def _sampled_at_small_orders(event: PoissonSampledDpEvent) -> Floats:
    unsampled = np.concatenate([[0.0, 0.0], renyi_curve(event.release, np.arange(2, MAX_ORDER + 1))])
    found = poisson_sampled_rdp(unsampled, round_up(event.rate), is_reflected=True)
    # Never worse than without sampling, by quasi-convexity.
    found = np.asarray(np.minimum(found, unsampled[2:]), dtype=np.float64)
    found.setflags(write=False)
    return found


def sampled_losses(event: PoissonSampledDpEvent, n_times: int) -> tuple[PairLosses, ...] | None:
    """Return the losses of a sampled release, of P and Q the release about a sample with the unit and without it.

    With r the rate the unit's presence is M = (1 - r) Q + r P, its absence Q [ZhuDongWang22, theorem 11]. With
    l = ln(P / Q), which may be larger than it is, as M against Q then only shows more:

        M against Q:  mass (1 - r) Q + r P,  loss  ln(1 - r + r e^l)
        Q against M:  by symmetry that of P against (1 - r) P + r Q:  mass P,  loss  -ln(1 - r + r e^-l).

    Q here is P e^-l, and what that lacks to 1 has no mass under P: loss ln(1 - r).
    """
    if event.rate == 0:
        return None
    found = event.release.losses()
    if found is None or len(found) != 1 or found[0].n_times != 1 or found[0].enters is not found[0].leaves:
        return None
    of, rate = found[0].enters, float(event.rate) * (1 + 2.0**-50)
    if rate >= 1:
        return found if n_times == 1 else (PairLosses(of, of, n_times),)
    less = math.log1p(-rate)
    without = of.masses * np.exp(-of.losses)
    rest = max(0.0, 1 - float(without.sum())) + SLACK
    enters = Losses(
        np.append((1 - rate) * without + rate * of.masses, (1 - rate) * rest) * (1 + SLACK),
        np.append(np.logaddexp(less, math.log(rate) + of.losses), less) + _error(of.losses, rate),
        rate * of.lost * (1 + SLACK),
    )
    leaves = Losses(of.masses, -np.logaddexp(less, math.log(rate) - of.losses) + _error(of.losses, rate), of.lost)
    return (PairLosses(enters, leaves, n_times),)


def _error(losses: Floats, rate: float) -> float:
    """Return the error allowed for a loss of a sampled release: relative to the logarithms in it, but no smaller.

    ln(1 - r + r e^l) is near r (e^l - 1) for a small loss: it is wrong by 2^-50 of 1, and by little of itself.
    """
    return (1 + float(np.abs(losses).max()) - math.log(rate)) * 2.0**-46
