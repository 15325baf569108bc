"""Noise of a masked sum that keeps exactly the intended variance when members drop out, and its privacy cost.

Each member adds noise before the number of survivors is known. Noise that is sized for all members is too small when
some drop out; noise that is sized for the fewest survivors allowed is too large when all survive. So each member adds a
*base*, its part if all survive, and *removable components*, one for each step down to the fewest. Once the set of
survivors is agreed upon, the members open the seeds of the components in excess, and only of those. They are
independent of what stays, so whoever sees sum and seeds sees one release with the intended noise.

The seeds are those of `mpc.secagg.secret.surplus`: shared among the holders before the vectors are sent, so a loss
during the removal does not matter. What the sampler returns depends on nothing but its arguments and the bytes that it
reads, so the coordinator can draw the excess again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, EpsilonBound
from dp.cost.calibrate import Ladder, least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent, LaplaceSharesDpEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent
from dp.cost.report import privacy_report
from dp.cost.views import ADJACENCY, VIEWS, View
from dp.draw.laplace_share import sample_laplace_share
from dp.draw.skellam import MAX_MU, sample_skellam
from dp.mechanism.shared_laplace import (
    MEAN_UNIT,
    laplace_event,
    laplace_tail_bound,
)
from dp.mechanism.skellam_parameters import tail_bound
from dp.mechanism.vector import skellam_event
from entropy import Entropy, KeyStream, derive_key
from mpc.errors import LocalFaultError
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.secret.surplus import n_opened_by

Integers = NDArray[np.int64]

AdditiveEvent = SkellamDpEvent | SkellamShiftsDpEvent | LaplaceSharesDpEvent | DiscreteLaplaceDpEvent


def survivor_levels(fewest: int, n_members: int, largest_excess: Fraction = Fraction(0)) -> tuple[int, ...]:
    """Return the fewest levels with which no number of survivors leaves more than (1 + largest_excess) times mu.

    With an excess of 0 every number is a level and the noise is exact; a large roster saves shares by allowing some.

    Args:
        fewest: survivors allowed.
        n_members: members of the roster.
        largest_excess: at least 0.
    """
    levels = [fewest]
    while levels[-1] < n_members:
        levels.append(min(n_members, math.floor(levels[-1] * (1 + largest_excess)) + 1))
    return tuple(levels)


@dataclass(frozen=True)
class SumSensitivity:
    """The sensitivity of the integer sum to one protected unit, in the norms that the cost depends on.

    Attributes:
        squared_l2: bound of the squared Euclidean norm of the difference.
        l1: bound of the sum of its sizes.
        adjacency: neighbouring relation of the data.
        unit: what is protected, in words.
    """

    squared_l2: int
    l1: int
    adjacency: Adjacency
    unit: str

    @classmethod
    def of_member(cls, squared_norm_bound: int, length: int, adjacency: Adjacency, unit: str) -> "SumSensitivity":
        """Return the sensitivity to one member's whole vector of integers.

        Adding or removing it moves the sum by the vector x, |x|^2 <= B, |x|_1 <= min(sqrt(length B), B): an integer is
        at most its square. Replacing it by another moves the sum by at most twice as much.

        Args:
            squared_norm_bound: B, as `VectorEncoding.squared_norm_bound`.
            length: entries.
            adjacency: add_or_remove_one or replace_one.
            unit: what a member's vector is about.
        """
        factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
        l1 = min(math.isqrt(length * squared_norm_bound), squared_norm_bound)
        return cls(factor**2 * squared_norm_bound, factor * l1, adjacency, unit)


@dataclass(frozen=True)
class SumNoise:
    """Skellam noise Sk(mu), or shares of discrete Laplace noise, on each coordinate of a masked sum.

    With levels m = L_0 < L_1 < ... < L_r, a member's noise is the part 1 / L_0 of the intended noise in all: a base of
    1 / L_r, and components i = 0 .. r - 1 of 1 / L_i - 1 / L_(i + 1). With s survivors, L_i the largest level <= s,
    components 0 .. i - 1 are opened and taken away, and each survivor's 1 / L_i stays: s / L_i in the sum. That is
    exactly the intended noise where s is a level, and never less.

    Both kinds of noise are divisible into independent parts that add up. The part a of Sk(mu) is Sk(a mu). That of
    shares of total shape k is a share of shape a k (`dp.draw.laplace_share`). Here k = m / (m - c), c the corrupt
    members: with s survivors, those that are not corrupt hold shares of a total shape of k (s - c) / L_i >= 1, as
    s >= L_i >= m, so in either view there is at least a whole discrete Laplace variable.

    Attributes:
        mu: the intended Skellam parameter, variance 2 mu; 0 where the noise is of the other kind.
        length: coordinates.
        levels: ascending numbers of survivors, from the fewest allowed to all; as `RoundConfig.surplus_levels`.
        n_corrupt: members that may tell the coordinator their own noise.
        sensitivities: per view, of the sum, for the neighbours of `dp.cost.views.ADJACENCY`. Both are about one unit.
        mean_units: mean of a geometric variable of the ratio of the shares, in `dp.mechanism.shared_laplace`'s unit; 0
            for Skellam noise.
        openings: how often the corrupt members can have one vector opened, each time with fresh noise of the others.

    Raises:
        LocalFaultError: the numbers do not fit each other.
    """

    mu: int
    length: int
    levels: tuple[int, ...]
    n_corrupt: int
    sensitivities: Mapping[View, SumSensitivity]
    mean_units: int = 0
    openings: int = 1

    def __post_init__(self) -> None:
        ascending = all(low < high for low, high in pairwise(self.levels))
        if (
            min(self.mu, self.mean_units) != 0
            or max(self.mu, self.mean_units) < 1
            or self.length < 1
            or not self.levels
            or not ascending
        ):
            raise LocalFaultError(
                "the parameter and the length of the noise must be positive, and the levels of survivors must ascend"
            )
        if not 0 <= self.n_corrupt < self.levels[0]:
            raise LocalFaultError(f"{self.n_corrupt} corrupt members must be fewer than the {self.levels[0]} survivors")
        if {view: moved.adjacency for view, moved in self.sensitivities.items()} != dict(ADJACENCY):
            raise LocalFaultError("each view needs a sensitivity for its neighbouring relation")
        if len({moved.unit for moved in self.sensitivities.values()}) != 1:
            raise LocalFaultError("the sensitivities of both views must be for the same protected unit")

    @property
    def base_part(self) -> Fraction:
        """The part of the intended noise that a member adds and that is never taken away."""
        return Fraction(1, self.levels[-1])

    @property
    def component_parts(self) -> tuple[Fraction, ...]:
        """The parts of it that the removable components are, the first to be opened first."""
        return tuple(Fraction(1, low) - Fraction(1, high) for low, high in pairwise(self.levels))

    @property
    def shape(self) -> Fraction:
        """The total shape of the shares of the intended noise, where it is no Skellam noise."""
        return Fraction(self.levels[0], self.levels[0] - self.n_corrupt)

    @property
    def mean(self) -> Fraction:
        """The mean of a geometric variable of their ratio."""
        return self.mean_units * MEAN_UNIT

    def sample_part(self, entropy: Entropy, part: Fraction) -> Integers:
        """Draw a part of the intended noise, independent on each coordinate."""
        if self.mean_units:
            return sample_laplace_share(entropy, part * self.shape, self.mean, self.length)
        return sample_skellam(entropy, part * self.mu, self.length)

    def draw(self, entropy: Entropy, seeds: Sequence[bytes], n_survivors: int | None = None) -> Integers:
        """Return what one member adds to its vector.

        Args:
            entropy: for the base, which nobody else can ever draw.
            seeds: the member's surplus seeds, one per component.
            n_survivors: one of the levels, where it is known: then the part stays that would, and there are no seeds.
        """
        if n_survivors is not None and n_survivors in self.levels:
            return self.sample_part(entropy, Fraction(1, n_survivors))
        if len(seeds) != len(self.component_parts):
            raise LocalFaultError(
                f"there must be one seed for each of the {len(self.component_parts)} removable components, not "
                f"{len(seeds)}"
            )
        return self.sample_part(entropy, self.base_part) + self._components(seeds)

    def remove_surplus(self, opened: OpenedSum) -> OpenedSum:
        """Return the sum without the excess components; the coordinator calls it at the end of a round.

        Raises:
            LocalFaultError: the opened seeds are not those that the number of survivors asks for.
        """
        n_opened = n_opened_by(self.levels, len(opened.survivors))
        seeds = opened.surplus_seeds
        if n_opened == 0:
            return opened
        if set(seeds) != set(opened.survivors) or any(len(chain) != n_opened for chain in seeds.values()):
            raise LocalFaultError(
                f"exactly {n_opened} seeds of each of the {len(opened.survivors)} survivors must be opened"
            )
        surplus = np.zeros(self.length, dtype=np.int64)
        for chain in seeds.values():
            surplus += self._components(chain)
        return opened.less(surplus)

    def _components(self, seeds: Sequence[bytes]) -> Integers:
        total = np.zeros(self.length, dtype=np.int64)
        for seed, part in zip(seeds, self.component_parts, strict=False):
            total += self.sample_part(_SeededEntropy(seed), part)
        return total

    @classmethod
    def calibrate(
        cls,
        sensitivities: Mapping[View, SumSensitivity],
        view: View,
        *,
        epsilon: float,
        delta: float,
        length: int,
        levels: tuple[int, ...],
        n_corrupt: int,
        openings: int = 1,
    ) -> Self:
        """Return the Skellam noise whose epsilon at `delta` in `view` is at most `epsilon`, however many survive.

        The least there is, or at most 2^-20 more.

        Raises:
            CalibrationError: the target is no privacy bound, or needs noise beyond the sampler's range.
        """

        def spends(mu: int) -> float:
            made = cls(mu, length, levels, n_corrupt, sensitivities, openings=openings)
            return made.epsilon(view, delta, near=epsilon).epsilon

        ladder = Ladder(MAX_MU, excess_bits=20)
        mu = least_noise(spends, ladder, epsilon=epsilon, delta=delta)
        return cls(mu, length, levels, n_corrupt, sensitivities, openings=openings)

    # -- what is left, and what it costs ---------------------------------------------------------------------------

    def kept_part(self, n_survivors: int) -> Fraction:
        """Return how much of the intended noise is in the sum of so many survivors: 1 at a level, else more."""
        level = max(level for level in self.levels if level <= n_survivors)
        return Fraction(n_survivors, level)

    def unknown_part(self, n_survivors: int, view: View) -> Fraction:
        """Return how much of it is unknown in a view: the corrupt survivors know their own."""
        n_unknown = n_survivors - (self.n_corrupt if view == "coalition" else 0)
        return self.kept_part(n_survivors) * n_unknown / n_survivors

    def least_unknown_part(self, view: View) -> Fraction:
        """Return the least part that is unknown in a view, over all allowed numbers of survivors."""
        return min(self.unknown_part(level, view) for level in self.levels)

    def kept_mu(self, n_survivors: int) -> Fraction:
        """Return the Skellam parameter of the noise in the sum of so many survivors."""
        return self.mu * self.kept_part(n_survivors)

    def unknown_mu(self, n_survivors: int, view: View) -> Fraction:
        """Return the Skellam parameter of what is unknown of it in a view."""
        return self.mu * self.unknown_part(n_survivors, view)

    def least_unknown_mu(self, view: View) -> Fraction:
        """Return the smallest one, over all allowed numbers of survivors."""
        return self.mu * self.least_unknown_part(view)

    def variance(self, n_survivors: int) -> Fraction:
        """Return that of the noise on each coordinate of the sum of so many survivors."""
        return self._variance_of(self.kept_part(n_survivors))

    def _variance_of(self, part: Fraction) -> Fraction:
        return 2 * part * (self.shape * self.mean * (1 + self.mean) if self.mean_units else self.mu)

    def events(self, view: View, n_survivors: int | None = None) -> tuple[AdditiveEvent, ...]:
        """Return what the release costs in a view: with so many survivors, or, before the round, at most.

        A coalition that has a vector opened several times may choose each time among what others contribute, after it
        has seen what was opened before: releases that are composed, each of the same noise.
        """
        part = self.least_unknown_part(view) if n_survivors is None else self.unknown_part(n_survivors, view)
        of = self.sensitivities[view]
        event: AdditiveEvent
        if self.mean_units:
            event = laplace_event(of.squared_l2, of.l1, self.length, part * self.shape, self.mean, of.adjacency)
        else:
            event = skellam_event(of.squared_l2, of.l1, self.length, part * self.mu, of.adjacency)
        return (event,) * (self.openings if view == "coalition" else 1)

    def epsilon(
        self, view: View, delta: float, n_survivors: int | None = None, *, near: float | None = None
    ) -> EpsilonBound:
        """Return the epsilon of the release at `delta`; arguments as `events`, `near` as `composed_epsilon`."""
        return composed_epsilon(self.events(view, n_survivors), delta, near=near)

    def report(self, what: str, delta: float, n_survivors: int | None = None) -> dict[str, Any]:
        """Return the privacy report of the release, as plain JSON data. Public.

        Args:
            what: is added up, in words.
            delta: for which the epsilons are stated.
            n_survivors: number of survivors; None before the round: with as few as are allowed.

        Raises:
            CalibrationError: delta is out of range.
        """
        least = {
            view: self.least_unknown_part(view) if n_survivors is None else self.unknown_part(n_survivors, view)
            for view in VIEWS
        }
        parameters: dict[str, Any] = {"mean_units": self.mean_units} if self.mean_units else {"mu": self.mu}
        parameters |= {"fewest_survivors": self.levels[0], "entries": self.length}
        if n_survivors is not None:
            kept = float(self.kept_part(n_survivors))
            parameters |= {"survivors": n_survivors}
            parameters |= {"kept_part": kept} if self.mean_units else {"kept_mu": float(self.kept_mu(n_survivors))}
        kept_by = self.levels[0] if n_survivors is None else n_survivors
        parameters |= {"standard_deviation": math.sqrt(self.variance(kept_by))}
        name = "shares of discrete Laplace noise" if self.mean_units else "Skellam noise"
        moved = [self.sensitivities[view] for view in VIEWS]
        return privacy_report(
            mechanism=f"{what}: a masked sum plus {name}, components in excess removed",
            sensitivity="in integer units, "
            + "; ".join(f"{m.adjacency.value}: L2 {math.sqrt(m.squared_l2):.6g}, L1 {m.l1}" for m in moved),
            n_parties=self.levels[-1],
            colluding=self.n_corrupt,
            delta=delta,
            events={view: self.events(view, n_survivors) for view in VIEWS},
            noise={
                view: f"unknown noise of standard deviation at least {math.sqrt(self._variance_of(part)):.4g} units on "
                "each number"
                for view, part in least.items()
            },
            parameters=parameters,
            unit=moved[0].unit,
        )

    def tail_bound(self, log2_probability: float) -> int:
        """Return an integer that no coordinate of the noise in the sum exceeds, but with a stated probability.

        Args:
            log2_probability: negative; -40 for a probability of at most 2^-40 over all coordinates together.
        """
        most = max(self.kept_part(n) for n in (self.levels[0], *(level - 1 for level in self.levels[1:])))
        if self.mean_units:
            return laplace_tail_bound(most * self.shape, self.mean, self.length, log2_probability)
        return tail_bound(most * self.mu, self.length, log2_probability)


class _SeededEntropy:
    """The stream of one opened or removable component: whoever has its seed draws the same noise."""

    is_secure = True

    def __init__(self, seed: bytes) -> None:
        self._stream = KeyStream(derive_key(seed, salt=b"", info=b"moiety removable noise"))

    def read(self, n_bytes: int) -> bytes:
        """Return the next bytes."""
        return self._stream.read(n_bytes)
