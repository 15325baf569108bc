"""Sums over successive samples of a table, with Skellam noise of which each party adds a part."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import EpsilonBound
from dp.cost.calibrate import remembered
from dp.cost.composition import composed_epsilon
from dp.cost.events.event import PrivacyEvent
from dp.cost.report import privacy_report
from dp.cost.views import RECORD, VIEWS, Protected, View
from dp.mechanism.bounded_sampling import BoundedPoisson
from dp.mechanism.skellam_parameters import least_noisy
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from entropy import Entropy


@dataclass(frozen=True)
class SampledSkellam:
    """Releases one vector per step, a sum over the step's sample plus fresh noise of all parties.

    The coordinator does not know the samples: its view is amplified by them (adjacency add_or_remove_one), and costs no
    more than if it knew them. The parties
    draw the samples themselves: a coalition's view is not, but no record takes part in more than a public number of
    steps (replace_one). Proof of both: `dp.mechanism.bounded_sampling.BoundedPoisson`. What is released in a step may
    depend on everything opened before, as long as the sensitivities hold whatever was opened.

    Attributes:
        step: the release of one step about its whole sample: length, sensitivities, noise.
        sampling: which rows take part when.
        protected: unit in whose contribution neighbouring tables differ. The step is about one row.
    """

    step: SharedSkellam
    sampling: BoundedPoisson
    protected: Protected = RECORD

    def __post_init__(self) -> None:
        if self.step.protected != RECORD:
            raise ValueError(
                "the sensitivity of a step must be for one row; the sampling decides how many rows of a person are in "
                "a step"
            )

    @classmethod
    @remembered
    def calibrate(
        cls,
        *,
        length: int,
        sensitivities: Mapping[View, VectorSensitivity],
        sampling: BoundedPoisson,
        n_parties: int,
        colluding: int,
        epsilon: float,
        delta: float,
        view: View,
        protected: Protected = RECORD,
    ) -> Self:
        """Return the mechanism with the least noise of which all steps together cost at most `epsilon` in `view`.

        Raises:
            CalibrationError: epsilon or delta is out of range, or the noise would exceed the sampler's range.
        """
        return least_noisy(
            lambda party_mu: cls(
                SharedSkellam(length, sensitivities, n_parties, colluding, party_mu), sampling, protected
            ),
            (view,),
            epsilon=epsilon,
            delta=delta,
        )

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what all steps together cost in a view."""
        (step,) = self.step.events(view)
        if view == "coordinator":
            return (self.sampling.sampled_event(step, self.protected.most_rows),)
        return (self.sampling.participation_event(step, self.protected.most_rows),)

    def epsilon(self, view: View, delta: float, *, near: float | None = None) -> EpsilonBound:
        """Return the epsilon of all steps together in a view.

        Args:
            view: view to account for.
            delta: strictly between 0 and 1.
            near: see `dp.cost.composition.composed_epsilon`.

        Raises:
            CalibrationError: delta is out of range.
        """
        return composed_epsilon(self.events(view), delta, near=near)

    def draw(self, entropy: Entropy) -> NDArray[np.int64]:
        """Draw one party's noise for one step, shape (length,)."""
        return self.step.draw(entropy)

    def noise_tail_bound(self, log2_probability: float) -> int:
        """Return an integer that no entry of the opened noise of any step exceeds, but with a stated probability."""
        return self.step.noise_tail_bound(log2_probability - float(np.log2(self.sampling.n_steps)))

    def report(self, what: str, delta: float) -> dict[str, Any]:
        """Return the privacy cost of the steps in each view, as plain JSON data. Public.

        Args:
            what: is released in a step, in words.
            delta: delta for which the epsilons are stated.

        Raises:
            CalibrationError: delta is out of range.
        """
        sampling, step = self.sampling, self.step
        report = step.report(what, delta)
        return privacy_report(
            mechanism=f"{report['mechanism']}, in each of {sampling.n_steps} steps about a Poisson sample of rate "
            f"{float(sampling.rate):.4g}",
            sensitivity=f"in one step, {report['sensitivity']}; a record takes part in at most "
            f"{sampling.most_participations} steps{self.protected.times}",
            n_parties=step.n_parties,
            colluding=step.colluding,
            delta=delta,
            events={view: self.events(view) for view in VIEWS},
            noise={view: f"{report['views'][view]['noise']} and step" for view in VIEWS},
            parameters=report["parameters"]
            | {
                "n_releases": sampling.n_steps,
                "sampling_rate": float(sampling.rate),
                "most_participations": sampling.most_participations,
            },
            unit=self.protected.name,
        )
