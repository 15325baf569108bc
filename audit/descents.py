"""Audit targets of the form `sgd` of matrix factorization: one step on a sample, about one unit, as a job has it.

Gradients and coins are those of the members (`HorizontalMember`, `VerticalMember`), noise is drawn by the `SumNoise` of
the plan, of every survivor, excess removed, and by `OwnStepNoise`. What is broadcast is fixed: the corner of the set at
which the unit moves most. Units do not see each other: many runs are one step about as many users, each with an item of
its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Literal

import numpy as np

from analyses.matrix_factorization.descent.descent_plan import DescentParams, DescentPlan, plan_descent
from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember
from analyses.matrix_factorization.descent.step_noise import OwnStepNoise, SumStepNoise
from analyses.matrix_factorization.descent.vertical_descent import VerticalMember
from analyses.matrix_factorization.plan import Members
from analyses.matrix_factorization.ratings import Ratings
from audit.additive import MaskedSumRelease
from audit.less_noise import NoisyTarget, with_noise
from dp.audit.exact_audit import Part
from dp.audit.exact_law import Floats, Integers, Law, skellam
from dp.cost.views import View
from dp.mechanism.bounded_sampling import RATE_UNITS
from entropy import Entropy

_MEMBERS = Members(n_members=4, n_corrupt=1, fewest=3)
_LARGEST, _LATTICE = 4, 1 << 10
_CORNER = 2 * _LATTICE
"""The longest embedding of rank 1."""


@dataclass(frozen=True)
class StepTarget(NoisyTarget):
    """One step about one user or one rating, which is absent or there; for a coalition, one of two values.

    A coalition knows the coins, so for it every unit is sampled: the other case shows nothing.

    Attributes:
        plan: plan of one step, rank 1.
        view: whose.
        of: joint: a step of a round. final: one at the end, of an owner's items alone.
    """

    plan: DescentPlan
    view: View
    of: Literal["joint", "final"] = "joint"

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`: all numbers that a unit moves are one part, as they move by one coin."""
        laws, moved = self._laws(noise), [self._gradients(world, 1)[:, 0] for world in (0, 1)]
        rate = float(self.plan.sampling.rate) if self.view == "coordinator" else 1.0
        away = [self._masses(laws, [0] * len(laws))] * 2
        there = [self._masses(laws, one.tolist()) for one in moved]
        masses = [(1 - rate) * a + rate * t for a, t in zip(away, there, strict=True)]
        return [Part(np.stack([one.ravel() for one in masses]))]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`."""
        target = self._with_less()
        seen = target._gradients(world, n_runs, entropy) + target._noise(n_runs, entropy)
        starts, stops = self._window()
        clipped = np.clip(seen, starts[:, None], stops[:, None] - 1) - starts[:, None]
        found: Integers = np.ravel_multi_index(tuple(clipped), tuple(stops - starts))[:, None]
        return found

    def _with_less(self) -> "StepTarget":
        return replace(self, plan=with_noise(SumStepNoise(self.plan, 0), self.noise).plan)

    @property
    def _has_own(self) -> bool:
        return self.plan.is_noised_alone

    @property
    def _has_sum(self) -> bool:
        return self.plan.params.noise == "once"

    def _laws(self, noise: Fraction) -> list[Law]:
        """Return the law of the unknown noise of each number: of items, in the vertical setting of users too."""
        plan = with_noise(SumStepNoise(self.plan, 0), noise).plan
        if self.of == "final":
            return [skellam(Fraction(plan.final_noise.mu))]
        own = skellam(Fraction(plan.own_noise.mu))
        summed = skellam(plan.sum_noise.unknown_mu(_MEMBERS.fewest, self.view))
        if not plan.params.both:
            return [summed if self._has_sum else own]
        return [own, summed if self._has_sum else own]

    def _gradients(self, world: int, n_runs: int, entropy: Entropy | None = None) -> Integers:
        """Return what the unit adds to each number, shape (numbers, runs); all are sampled without entropy."""
        params = replace(self.plan.params, n_users=n_runs, n_items=n_runs)
        plan = replace(self.plan, params=params)
        if entropy is None or self.view == "coalition":
            everybody = replace(plan.sampling, rate_units=RATE_UNITS)
            plan = replace(plan, sampling=everybody, final_sampling=everybody)
        source = entropy or _ZEROS
        ratings = _one_each(n_runs, self._rated(world))
        corner = np.full((n_runs, 1), _CORNER)
        if self.of == "final":
            return next(VerticalMember(plan, ratings, corner, source).final_gradients(corner)).T
        if plan.params.both:
            of_users, of_items = VerticalMember(plan, ratings, corner, source).gradients(corner)
            return np.stack([of_items[:, 0], of_users[:, 0]])
        # Fitted to the corner, a user that has rated R has the longest embedding; then 0 is broadcast.
        return HorizontalMember(plan, ratings, corner, source).gradient(0 * corner).T

    def _rated(self, world: int) -> float | None:
        """Return what the unit's value is: the one that moves most is R in the horizontal setting, else 0."""
        most, least = (0.0, float(_LARGEST)) if self.plan.params.both else (float(_LARGEST), 0.0)
        if world == 1:
            return most
        return None if self.view == "coordinator" else least

    def _noise(self, n_runs: int, entropy: Entropy) -> Integers:
        """Return what a view does not know of the noise of a step, shape (numbers, runs)."""
        plan, drawn = self.plan, []
        if self.of == "final":
            return OwnStepNoise(plan, 0, "final").draw(entropy, n_runs)[None]
        if self._has_own:
            n_numbers = 1 + (plan.params.both and not self._has_sum)
            own = OwnStepNoise(plan, 0).draw(entropy, n_numbers * n_runs)
            drawn += list(own.reshape(n_numbers, n_runs))
        if self._has_sum:
            noise = replace(plan.sum_noise, length=n_runs)
            released = MaskedSumRelease(noise, self.view, _MEMBERS.fewest, (0,) * n_runs)
            drawn.append(released.output(0, entropy))
        return np.stack(drawn)

    def _masses(self, laws: Sequence[Law], moved: Sequence[int]) -> Floats:
        """Return the probabilities of all numbers together."""
        windows = zip(*self._window(), strict=True)
        entries = [
            law.shifted(int(d)).within(int(start), int(stop))
            for law, d, (start, stop) in zip(laws, moved, windows, strict=True)
        ]
        found: Floats = reduce(np.multiply.outer, entries)
        return found

    def _window(self) -> tuple[Integers, Integers]:
        laws = self._laws(Fraction(1))
        moved = np.stack([self._gradients(world, 1)[:, 0] for world in (0, 1)])
        starts = np.array([law.start for law in laws]) + np.minimum(moved.min(axis=0), 0)
        stops = np.array([law.stop for law in laws]) + np.maximum(moved.max(axis=0), 0)
        return starts, stops


class _NoEntropy:
    """Stands for coins where they do not matter, as everybody is sampled."""

    is_secure = False

    def read(self, n_bytes: int) -> bytes:
        return bytes(n_bytes)


_ZEROS = _NoEntropy()


def _one_each(n: int, value: float | None) -> Ratings:
    """Return n users of whom each has rated an item of its own; none without a value."""
    pairs = np.arange(n if value is not None else 0)
    return Ratings.of(pairs, pairs, np.full(len(pairs), value or 0.0), n, n)


def step_of(
    setting: Literal["horizontal", "vertical"],
    noise: Literal["once", "party"],
    view: View,
    of: Literal["joint", "final"] = "joint",
) -> StepTarget:
    """Return the target of one step."""
    params = DescentParams(
        setting,
        1,
        1,
        "rating" if setting == "vertical" else "user",
        rank=1,
        largest=_LARGEST,
        theta=1,
        steps=1,
        final_steps=int(of == "final"),
        sampling_rate=0.5,
        most_participations=1,
        noise=noise,
        units=1,
        factor_units=_LATTICE,
    )
    return StepTarget(plan_descent(params, _MEMBERS, epsilon=4.0, delta=1e-3, view=view), view, of)
