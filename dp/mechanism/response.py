"""Randomized response among k options, drawn exactly, with its cost."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, CalibrationError, check_delta, check_epsilon, log_ratio
from dp.cost.calibrate import last_enough
from dp.cost.composition import composed_epsilon
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.views import ADJACENCY, View
from dp.draw.noise import sample_bernoulli, sample_categorical
from entropy import Entropy

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_STEPS = 1 << 20
"""Probabilities are multiples of 2^-20, so that planning is quick and two machines hardly ever plan differently."""


@dataclass(frozen=True)
class RandomizedResponse:
    """Reports a choice 0 .. k - 1: the truth with probability `truthful`, else any other, all alike [Warner65].

    Attributes:
        n_options: k, at least 2.
        truthful: at least 1 / k, below 1.

    Raises:
        CalibrationError: there is no such response.
    """

    n_options: int
    truthful: Fraction

    def __post_init__(self) -> None:
        if self.n_options < 2 or not Fraction(1, self.n_options) <= self.truthful < 1:
            raise CalibrationError(
                f"randomized response among {self.n_options} options cannot be truthful with probability "
                f"{float(self.truthful):g}"
            )

    @staticmethod
    def calibrate(n_options: int, *, n_reports: int, epsilon: float, delta: float) -> "RandomizedResponse":
        """Return the most truthful response of which `n_reports` by one record cost at most `epsilon` at `delta`.

        Raises:
            CalibrationError: epsilon or delta is out of range, or leaves nothing of the truth.
        """
        check_epsilon(epsilon)
        check_delta(delta)

        def response(step: int) -> RandomizedResponse:
            return RandomizedResponse(n_options, Fraction(step, _STEPS))

        def is_private(step: int) -> bool:
            return composed_epsilon((response(step).event(),) * n_reports, delta, near=epsilon).epsilon <= epsilon

        enough = last_enough(is_private, lacking=_STEPS, enough=_STEPS // n_options)
        if enough == _STEPS // n_options:
            raise CalibrationError(
                f"epsilon {epsilon:g} is so small that the reports would carry no information; use a larger epsilon"
            )
        return response(enough)

    @staticmethod
    def of_odds(n_options: int, favoured: int, other: int) -> "RandomizedResponse":
        """Return the response that tells the truth with weight A of A + (k - 1) B, and each lie with weight B.

        Args:
            n_options: k.
            favoured: A.
            other: B; the epsilon of one report is ln(A / B).
        """
        return RandomizedResponse(n_options, Fraction(favoured, favoured + (n_options - 1) * other))

    @property
    def other(self) -> Fraction:
        """Probability of each option that is not the truth."""
        return (1 - self.truthful) / (self.n_options - 1)

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of one report at delta 0."""
        return log_ratio(self.truthful, self.other)

    def event(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> RandomizedResponseDpEvent:
        """Return what one report costs.

        Args:
            adjacency: add_or_remove_one only where a slot without a unit answers too, as if its choice were some option
                that does not depend on the data.
        """
        return RandomizedResponseDpEvent(self.n_options, self.truthful, adjacency)

    def events(self, view: View) -> tuple[RandomizedResponseDpEvent]:
        """Return what the one report about a unit costs, where slots without a unit answer too."""
        return (self.event(ADJACENCY[view]),)

    def draw(self, entropy: Entropy, n_reports: int) -> Integers:
        """Draw what is added to choices, modulo k: 0 with probability `truthful`, else any of 1 .. k - 1, all alike.

        Args:
            entropy: gives the keys of the streams.
            n_reports: how many.
        """
        lies = ~sample_bernoulli(entropy, self.truthful, n_reports)
        steps = 1 + sample_categorical(entropy, [1] * (self.n_options - 1), n_reports)
        return np.where(lies, steps, 0)

    def reports(self, choices: Integers, noise: Integers) -> Integers:
        """Return one report per slot.

        Args:
            choices: shape (n,), 0 .. k - 1.
            noise: shape (n,), of `draw`.

        Raises:
            ValueError: a choice that is no option.
        """
        if choices.size and not 0 <= choices.min() <= choices.max() < self.n_options:
            raise ValueError(f"a choice is outside 0..{self.n_options - 1}")
        return np.asarray((choices + noise) % self.n_options, dtype=np.int64)

    def unbiased_indicators(self, reports: Integers) -> Floats:
        """Return (1[report = a] - q) / (p - q) for every option a, q the probability of each lie: unbiased.

        Args:
            reports: shape (n,).

        Returns:
            shape (n, k).

        Raises:
            CalibrationError: p = q: reports say nothing.
        """
        p, q = float(self.truthful), float(self.other)
        if self.truthful == self.other:
            raise CalibrationError("no unbiased estimate exists, because the reports do not depend on the truth")
        found: Floats = ((reports[:, None] == np.arange(self.n_options)) - q) / (p - q)
        return found
