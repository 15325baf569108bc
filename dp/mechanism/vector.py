"""The release of an integer vector with distributed noise, of which each party knows only its own part."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, EpsilonBound
from dp.cost.calibrate import Ladder, remembered
from dp.cost.composition import composed_epsilon
from dp.cost.events.event import PrivacyEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent, SkellamVectorDpEvent
from dp.cost.group import for_rows
from dp.cost.report import privacy_report
from dp.cost.views import ADJACENCY, RECORD, VIEWS, Protected, View
from dp.draw.skellam import MAX_MU, sample_skellam
from dp.mechanism.skellam_parameters import SKELLAM_LADDER, least_noisy, tail_bound
from entropy import Entropy


@dataclass(frozen=True)
class VectorSensitivity:
    """The sensitivity of an integer vector to one row: bounds over all pairs of neighbours.

    Attributes:
        squared_l2: bound of the sum of the squared differences.
        l1: bound of the sum of the absolute differences. Where it is above `squared_l2`, that holds too: |d| <= d^2.
    """

    squared_l2: int
    l1: int

    def __post_init__(self) -> None:
        if self.squared_l2 < 1 or self.l1 < 1:
            raise ValueError(f"sensitivities must be positive, not {self.squared_l2} and {self.l1}")

    @property
    def least_l1(self) -> int:
        """The smaller bound of the sum of the absolute differences."""
        return min(self.l1, self.squared_l2)


def shifts_of(squared_l2: int, l1: int, length: int) -> tuple[int, int] | None:
    """Return how far a number of an integer vector moves at most, and how many do; None where norms do not tell.

    One number moves by the smaller norm. Of several, if the sum of squares is at most 3, none moves by more than 1, as
    2^2 is 4, and at most as many as either norm says.

    Args:
        squared_l2: bound of the sum of the squared differences of neighbours.
        l1: bound of the sum of the absolute differences.
        length: numbers in the vector.
    """
    if length == 1:
        return min(l1, math.isqrt(squared_l2)), 1
    return (1, min(squared_l2, l1, length)) if squared_l2 <= 3 else None


def skellam_event(
    squared_l2: int, l1: int, length: int, mu: Fraction, adjacency: Adjacency
) -> SkellamDpEvent | SkellamShiftsDpEvent:
    """Return what an integer vector plus Sk(mu) on each coordinate costs: exactly where it is known how numbers move.

    A number that moves adds at least 1 to either norm, so no more of them move than the norms say.

    Args:
        squared_l2: bound of the squared Euclidean distance of neighbours' vectors.
        l1: bound of the sum of the absolute differences.
        length: numbers in the vector.
        mu: parameter of the unknown noise Sk(mu).
        adjacency: the neighbouring relation.
    """
    if squared_l2 and l1 and (moved := shifts_of(squared_l2, l1, length)) is not None:
        return SkellamShiftsDpEvent(*moved, mu, adjacency)
    sums = SkellamDpEvent.of_vector(squared_l2, l1, mu, adjacency)
    if (n_moved := min(squared_l2, l1, length)) == 0:
        return sums
    return SkellamVectorDpEvent.knowing(sums, n_moved, mu)


class SharedNoise(ABC):
    """What mechanisms have in common that release integer vectors with noise of which each party draws a share.

    Every party must add its part; if one is missing, nothing may be opened. The vectors of several releases may depend
    on what was opened before. Subclasses are dataclasses with these attributes and, before the number of releases, a
    noise parameter.

    Attributes:
        length: entries of one vector.
        sensitivities: per view, of one vector to one row, for the neighbours of `dp.cost.views.ADJACENCY`.
        n_parties: N, parties that add noise.
        colluding: t: parties that may collude with the coordinator.
        n_releases: how many vectors.
        protected: whose contribution neighbouring tables differ in: of several rows, `dp.cost.group` tells the cost.
    """

    length: int
    sensitivities: Mapping[View, VectorSensitivity]
    n_parties: int
    colluding: int
    n_releases: int
    protected: Protected

    noise_name: str
    """What the noise is, for reports."""

    ladder: Ladder
    """Noise parameters to choose from."""

    def __post_init__(self) -> None:
        if self.length < 1 or self.n_releases < 1:
            raise ValueError("there must be at least one release, and a release needs at least one entry")
        if set(self.sensitivities) != set(VIEWS):
            raise ValueError("a sensitivity is needed for each view")
        if not 0 <= self.colluding < self.n_parties:
            raise ValueError(
                f"{self.colluding} of {self.n_parties} parties must not collude: they would know all of the noise"
            )

    @classmethod
    @remembered
    def calibrate(
        cls,
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
    ) -> Self:
        """Return the mechanism with the least noise of which all releases together cost at most `epsilon` in `view`.

        Raises:
            CalibrationError: epsilon or delta is out of range, or the noise would exceed the sampler's range.
        """
        make: Callable[..., Self] = cls
        return least_noisy(
            lambda parameter: make(length, sensitivities, n_parties, colluding, parameter, n_releases, protected),
            (view,),
            epsilon=epsilon,
            delta=delta,
            ladder=cls.ladder,
        )

    def n_unknown(self, view: View) -> int:
        """Return the number of parties whose noise is unknown in a view."""
        return self.n_parties - (self.colluding if view == "coalition" else 0)

    @abstractmethod
    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what all releases together cost in a view, provided that all parties add their part."""

    @abstractmethod
    def draw(self, entropy: Entropy) -> NDArray[np.int64]:
        """Draw one party's noise for one release, independent in each entry.

        Returns:
            shape (length,). Secret: it never leaves the party but as shares.
        """

    @abstractmethod
    def noise_tail_bound(self, log2_probability: float) -> int:
        """Return an integer that no entry of the opened noise exceeds, but with a stated probability."""

    @abstractmethod
    def standard_deviation(self, view: View) -> float:
        """Return that of the noise unknown in a view, in every entry."""

    @abstractmethod
    def parameters(self) -> dict[str, int | str]:
        """Return the noise parameter, for reports."""

    def epsilon(self, view: View, delta: float, *, near: float | None = None) -> EpsilonBound:
        """Return the epsilon of all releases together in a view.

        Args:
            view: view to account for.
            delta: strictly between 0 and 1.
            near: see `dp.cost.composition.composed_epsilon`.

        Raises:
            CalibrationError: delta is out of range.
        """
        return composed_epsilon(self.events(view), delta, near=near)

    def report(self, what: str, delta: float) -> dict[str, Any]:
        """Return the privacy cost of the releases in each view, as plain JSON data. Public.

        Args:
            what: is released, in words.
            delta: delta for which the epsilons are stated.

        Raises:
            CalibrationError: delta is out of range.
        """
        k = self.protected.most_rows
        bounds = {
            view: {"squared_l2": k**2 * of.squared_l2, "l1": k * of.l1} for view, of in self.sensitivities.items()
        }
        return privacy_report(
            mechanism=f"{what} plus {self.noise_name}",
            sensitivity=" and ".join(
                f"squared 2-norm {of['squared_l2']}, 1-norm {of['l1']} ({ADJACENCY[view].value})"
                for view, of in bounds.items()
            )
            + self.protected.times,
            n_parties=self.n_parties,
            colluding=self.colluding,
            delta=delta,
            events={view: self.events(view) for view in VIEWS},
            noise={
                view: f"unknown noise of standard deviation {self.standard_deviation(view):.4g} per entry"
                for view in VIEWS
            },
            parameters=self.parameters()
            | {
                "length": self.length,
                "n_releases": self.n_releases,
                "bounds": bounds,
            },
            unit=self.protected.name,
        )


@dataclass(frozen=True)
class SharedSkellam(SharedNoise):
    """Releases integer vectors plus Skellam noise, one after the other, each with fresh noise.

    Each of N parties adds Sk(party_mu) to every entry. Skellam variables add up to a Skellam variable, so each release
    has mu = N party_mu for whoever knows no part of the noise, the coordinator, and mu = (N - t) party_mu for t parties
    that subtract their own. Every party must add its part; if one is missing, nothing may be opened.

    The vectors of several releases may depend on what was opened before: Renyi divergences of adaptive releases add up,
    and those of equal bounds are the divergence of the sums of their bounds, as each branch of `SkellamDpEvent.curve`
    is linear in them.

    Cost: `dp.cost.losses.rounded_gaussian`, and the Renyi bound of [Agarwal21], `SkellamDpEvent.curve`. Where
    a neighbour moves few numbers by little (`shifts_of`) the cost is exact.

    Attributes:
        length: entries of one vector.
        sensitivities: per view, of one vector to one row, for the neighbours of `dp.cost.views.ADJACENCY`.
        n_parties: N, parties that add noise.
        colluding: t: parties that may collude with the coordinator.
        party_mu: 1 .. MAX_MU.
        n_releases: how many vectors.
        protected: whose contribution neighbouring tables differ in: of several rows, `dp.cost.group` tells the cost.
    """

    length: int
    sensitivities: Mapping[View, VectorSensitivity]
    n_parties: int
    colluding: int
    party_mu: int
    n_releases: int = 1
    protected: Protected = RECORD
    noise_name = "Skellam noise"
    ladder = SKELLAM_LADDER

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.party_mu <= MAX_MU:
            raise ValueError(f"party_mu must be in 1..2^100, not {self.party_mu}")

    def unknown_mu(self, view: View) -> int:
        """Return the parameter of the noise that is unknown in a view."""
        return self.party_mu * self.n_unknown(view)

    def events(self, view: View) -> tuple[SkellamDpEvent | SkellamShiftsDpEvent]:
        """Return what all releases together cost in a view: one event, provided that all parties add their part."""
        return (self._event(view),)

    def _event(self, view: View) -> SkellamDpEvent | SkellamShiftsDpEvent:
        of, mu = self.sensitivities[view], Fraction(self.unknown_mu(view))
        once = skellam_event(of.squared_l2, of.least_l1, self.length, mu, ADJACENCY[view])
        return for_rows(once.times(self.n_releases), self.protected.most_rows)

    def draw(self, entropy: Entropy) -> NDArray[np.int64]:
        """Draw one party's noise for one release: exact Sk(party_mu) in each entry, independent.

        Returns:
            shape (length,). Secret: it never leaves the party but as shares.
        """
        return sample_skellam(entropy, self.party_mu, self.length)

    def noise_tail_bound(self, log2_probability: float) -> int:
        """Return an integer that no entry of the opened noise exceeds, but with a stated probability: `tail_bound`."""
        return tail_bound(self.n_parties * self.party_mu, self.length * self.n_releases, log2_probability)

    def standard_deviation(self, view: View) -> float:
        """Return that of the noise unknown in a view, in every entry."""
        return math.sqrt(2 * self.unknown_mu(view))

    def parameters(self) -> dict[str, int | str]:
        """Return the Skellam parameter of one party."""
        return {"party_mu": self.party_mu}
