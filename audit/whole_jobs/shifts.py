"""How far two runs on neighbouring tables move what enters each mechanism, and what an epsilon that shows.

The runs are those of `replay`: their noise is the same, and what was released before is frozen. So the difference of
what is opened is exactly the difference of what entered, for these two tables.

Two questions are asked of it. `attained`: which part of the sensitivity that the mechanism declares does it take up?
Above 1 the declaration is false. `delta_at`: with noise of the parameters that the plan *draws*, by its exact law, how
large is delta at an epsilon? Above the delta of a job at its epsilon, the job breaks its promise, whatever sensitivity
any code believes in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.signal import fftconvolve

from analyses.clustering.estimators.independent import NoisySizes
from analyses.matrix_factorization.descent.step_noise import OwnStepNoise, SumStepNoise
from analyses.matrix_factorization.round_noise import OwnItemsNoise, RoundNoise
from analyses.pattern_count.reports import PatternReports
from analyses.power_moments.column_sums import NoisyColumnSums
from analyses.power_moments.reports import MomentReports
from analyses.power_moments.sketch import MomentSketch
from analyses.sums.noise import SumNoise
from audit.additive import MaskedSumRelease, PartiesRelease
from audit.whole_jobs.replay import Run
from dp.audit.exact_audit import Part
from dp.audit.exact_law import Floats, Integers, Law, discrete_gaussian, discrete_laplace, hockey_stick
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.views import View
from dp.mechanism.bits import RandomizedBits
from dp.mechanism.gram import NoisyGram
from dp.mechanism.hashing import LocalHashing
from dp.mechanism.projection import NoisySketch
from dp.mechanism.release import StepwiseRelease
from dp.mechanism.response import RandomizedResponse
from dp.mechanism.sampled import SampledSkellam
from dp.mechanism.vector import SharedNoise

BY_PLACE = (
    NoisySketch,
    MomentSketch,
    MomentReports,
    PatternReports,
    SampledSkellam,
    RandomizedResponse,
    LocalHashing,
)
"""Releases in which a row's place among the others decides which random numbers it meets. Where a row more moves other
rows to other places, as in a match, runs with the same random numbers are no neighbours for them."""

LOSS_UNIT = 1 / 512
"""Grid width of privacy losses; they are rounded down, so that no delta is overstated."""

_MAX_LOSS = 64.0


@dataclass(frozen=True)
class Shift:
    """How far neighbours move what enters a mechanism, over all that it releases in a job.

    Attributes:
        release: the mechanism, as it stands in the plan.
        moved: differences of the integers that enter each release, in turn; for reports, how many of them differ.
        variances: variances of the noise on each integer, where an owner adds it step by step, or where it follows a
            matrix.
    """

    release: Any
    moved: tuple[tuple[int, ...], ...] = field(repr=False)
    variances: tuple[tuple[Fraction, ...], ...] = field(default=(), repr=False)

    def attained(self, view: View) -> float:
        """Return the largest part of a declared bound that is taken up, in any of its norms; above 1 it is false."""
        release, flat = self.release, [d for moved in self.moved for d in moved]
        match release:
            case NoisyGram():
                of, k, n = release.sensitivity(view), release.protected.most_rows, release.n_columns
                weights = [1 if i == j else 2 for i in range(n) for j in range(i, n)]
                squares, sizes = _norms(flat, weights)
                return max(float(squares / (k**2 * of.squares)), float(sizes / (k * of.sizes)))
            case SharedNoise():
                return _of_norms(flat, release.sensitivities[view], release.protected.most_rows)
            case SampledSkellam():
                k = release.protected.most_rows
                steps = [_of_norms(moved, release.step.sensitivities[view], k) for moved in self.moved]
                return max(max(steps), sum(map(bool, steps)) / (k * release.sampling.most_participations))
            case SumNoise() | RoundNoise() | OwnItemsNoise() | SumStepNoise() | OwnStepNoise():
                return max(_of_norms(moved, _sum_noise(release).sensitivities[view], 1) for moved in self.moved)
            case MomentReports():
                changed = _norms(flat, [1] * len(flat))[1]
                return float(Fraction(changed, 2 if view == "coordinator" else 4))
            case PatternReports():
                n_bits = len(release.n_categories) * (1 if view == "coordinator" else 2)
                return sum(flat) / (n_bits * release.protected.most_rows)
            case _ if isinstance(release, StepwiseRelease) or self.variances:
                taken = sum((Fraction(d * d) / v for d, v in self._with_variances()), Fraction(0))
                allowed = sum(event.squares for event in _events(release, view, DiscreteGaussianDpEvent))
                return float(taken / allowed)
            case _ if _events(release, view, DiscreteLaplaceDpEvent):
                allowed = sum(event.l1_sensitivity for event in _events(release, view, DiscreteLaplaceDpEvent))
                return float(Fraction(_norms(flat, [1] * len(flat))[1]) / allowed)
        return sum(flat) / len(_events(release, view, RandomizedResponseDpEvent))

    def parts(self, view: View) -> list[Part]:
        """Return what is released under both tables, as independent variables of exactly known laws.

        Raises:
            TypeError: no law is known of what such a mechanism releases.
        """
        return [
            Part(np.stack([law.masses, law.shifted(d).within(law.start, law.stop)])) for law, d in self.laws(view) if d
        ]

    def _with_variances(self) -> Iterable[tuple[int, Fraction]]:
        for moved, variances in zip(self.moved, self.variances, strict=True):
            yield from zip(moved, variances, strict=True)

    def laws(self, view: View) -> Iterable[tuple[Law, int]]:
        """Yield of each integer the law of the noise that the view does not know, and how far it moves.

        Raises:
            TypeError: no law is known of what such a mechanism releases.
        """
        release = self.release
        if self.variances:
            laws: dict[Fraction, Law] = {}
            for d, variance in self._with_variances():
                if variance not in laws:
                    laws[variance] = discrete_gaussian(variance)
                yield laws[variance], d
            return
        for moved in self.moved:
            match release:
                case NoisyGram() | SharedNoise():
                    of_entries: Sequence[Law] = PartiesRelease(release, view, moved).laws()
                case SampledSkellam():
                    of_entries = PartiesRelease(release.step, view, moved).laws()
                case SumNoise() | RoundNoise() | SumStepNoise():
                    noise = _sum_noise(release)
                    of_entries = MaskedSumRelease(noise, view, noise.levels[-1], moved).laws()
                case OwnItemsNoise():
                    of_entries = MaskedSumRelease(release.noise, "coordinator", 1, moved).laws()
                case NoisyColumnSums() | NoisySizes():
                    of_entries = [discrete_laplace(release.scale)] * len(moved)
                case _:
                    raise TypeError(f"the law of what a {type(release).__name__} releases is not known here")
            yield from zip(of_entries, moved, strict=True)


@dataclass(frozen=True)
class ChangedReports(Shift):
    """Reports of which some are about another choice than in the other run: `moved` says how many of each kind."""

    def parts(self, view: View) -> list[Part]:
        """See `Shift`. Each changed report is the choice of one of two inputs, told by randomized response."""
        release, n_changed = self.release, sum(d for moved in self.moved for d in moved)
        if isinstance(release, PatternReports):
            truthful, n_options = release.bits.truthful, 2
        elif isinstance(release, RandomizedBits):
            truthful, n_options = release.truthful, 2
        else:
            response = release.response if isinstance(release, LocalHashing) else release
            truthful, n_options = response.truthful, response.n_options
        masses = np.full((2, n_options), float((1 - truthful) / (n_options - 1)))
        masses[[0, 1], [0, 1]] = float(truthful)
        return [Part(masses, n_changed)] if n_changed else []


def shifts_between(first: Run, second: Run) -> list[Shift]:
    """Return how far each mechanism of a job is moved from a run to that on neighbouring tables."""
    plan, found, opened = first.plan, [], _differences(first.opened, second.opened)
    for planned in plan.releases:
        release, members = planned.release, planned.members
        match release:
            case NoisyGram() | SharedNoise():
                found.append(Shift(release, tuple(opened[:1])))
            case SampledSkellam():
                found.append(Shift(release, tuple(opened)))
            case SumNoise():
                found.append(Shift(release, tuple(opened)))
            case RoundNoise() | SumStepNoise() | OwnStepNoise(of="joint"):
                if isinstance(release, OwnStepNoise) and release.plan.params.local_steps != 1:
                    continue  # the second step of a round depends on what only its owner saw of the first
                found.append(Shift(release, (opened[release.number],)))
            case OwnItemsNoise():
                own = [
                    _differences(first.own[m][release.sweep :][:1], second.own[m][release.sweep :][:1]) for m in members
                ]
                found.append(Shift(release, (tuple(d for (moved,) in own for d in moved),)))
            case _ if isinstance(release, StepwiseRelease):
                found.append(_of_steps(release, first, second, members))
            case NoisySketch():
                found.append(_of_sketch(release, first, second, members))
            case MomentSketch():
                sent = _sent(first, second, members)
                spread = tuple((Fraction(v),) * len(m) for v, m in zip(release.variances, sent, strict=True))
                found.append(Shift(release, sent, spread))
            case NoisyColumnSums() | NoisySizes():
                found.append(Shift(release, _sent(first, second, members)))
            case MomentReports():
                found.append(Shift(release, ((_first_values(first, second, members),), ())))
            case PatternReports() | RandomizedResponse() | LocalHashing():
                found.append(ChangedReports(release, ((_changed(release, first, second, members),),)))
    return found


def released(run: Run) -> Integers:
    """Return the integers that a job with one additive release has released, in the order of `Shift.moved`."""
    if run.opened:
        return np.concatenate([one.reshape(-1) for one in run.opened])
    return np.concatenate([run.sent[member, "opening", 0].view(np.int64) for member in run.plan.releases[0].members])


def delta_at(shifts: Iterable[Shift], view: View, epsilon: float) -> float:
    """Return the delta that what was released has at an epsilon, for these two tables, by the exact laws of the noise.

    Losses are rounded down to `LOSS_UNIT`, so what is returned is at most the true delta, and 0.2 % of an epsilon of 1
    below it for each number that moves.

    Raises:
        TypeError: a law is not known.
    """
    parts = [part for shift in shifts for part in shift.parts(view)]
    return max(_delta_of(parts, epsilon, likelier) for likelier in (0, 1)) if parts else 0.0


def _delta_of(parts: Sequence[Part], epsilon: float, likelier: int) -> float:
    if len(parts) == 1 and parts[0].times == 1:
        return hockey_stick(parts[0].masses[likelier], parts[0].masses[1 - likelier], epsilon)
    n = round(_MAX_LOSS / LOSS_UNIT)
    total: Law | None = None
    for part in parts:
        p, q = part.masses[likelier], part.masses[1 - likelier]
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = np.where(p > 0, np.log(p) - np.log(q), 0.0)
        cells = np.floor(np.clip(losses, -_MAX_LOSS, _MAX_LOSS) / LOSS_UNIT).astype(np.int64)
        start, stop = int(cells.min()), int(cells.max()) + 1
        law = Law(start, np.bincount(cells - start, p, minlength=stop - start).astype(np.float64))
        for _ in range(part.times):
            total = law if total is None else _sum(total, law, n)
    assert total is not None
    losses = np.arange(total.start, total.stop) * LOSS_UNIT
    return float((total.masses * np.maximum(0.0, 1 - np.exp(epsilon - losses))).sum())


def _sum(one: Law, other: Law, most: int) -> Law:
    masses: Floats = np.maximum(fftconvolve(one.masses, other.masses), 0.0)
    found = Law(one.start + other.start, masses)
    start, stop = max(found.start, -most), min(found.stop, most)
    return Law(start, found.within(start, stop))


def _norms(moved: Sequence[int], weights: Sequence[int]) -> tuple[int, int]:
    pairs = list(zip(moved, weights, strict=True))
    return sum(w * d * d for d, w in pairs), sum(w * abs(d) for d, w in pairs)


def _of_norms(moved: Sequence[int], of: Any, k: int) -> float:
    squares, sizes = _norms(moved, [1] * len(moved))
    return float(max(squares / (k**2 * of.squared_l2), sizes / (k * of.l1)))


def _sum_noise(release: SumNoise | RoundNoise | OwnItemsNoise | SumStepNoise | OwnStepNoise) -> SumNoise:
    match release:
        case SumNoise():
            return release
        case SumStepNoise():
            return release.plan.sum_noise
        case OwnStepNoise():
            return release.plan.own_noise
    return release.noise


def _events(release: Any, view: View, kind: type) -> list[Any]:
    return [event for event in release.events(view) if isinstance(event, kind)]


def _differences(first: Sequence[Any], second: Sequence[Any]) -> list[tuple[int, ...]]:
    return [
        tuple(int(b) - int(a) for a, b in zip(one.reshape(-1), other.reshape(-1), strict=True))
        for one, other in zip(first, second, strict=True)
    ]


def _of_steps(release: Any, first: Run, second: Run, members: Sequence[int]) -> Shift:
    moved, variances = [], []
    for member in members:
        for one, other in zip(first.steps[member], second.steps[member], strict=True):
            moved.append(tuple(int(d) for d in (other.values - one.values).reshape(-1)))
            variances.append((Fraction(one.variance),) * one.values.size)
    return Shift(release, tuple(moved), tuple(variances))


def _of_sketch(release: NoisySketch, first: Run, second: Run, members: Sequence[int]) -> Shift:
    sent = _sent(first, second, members)
    longest = [int(first.sent[member, "opening", 0].view(np.int64)[0]) for member in members]
    moved = tuple(one[1:] for one in sent)
    spread = tuple((Fraction(release.variance(c)),) * len(m) for c, m in zip(longest, moved, strict=True))
    return Shift(release, moved, spread)


def _sent(first: Run, second: Run, members: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the difference of what each member sent to the opening, noise and all: the noise is the same."""
    arrays = [[run.sent[member, "opening", 0].view(np.int64) for member in members] for run in (first, second)]
    return tuple(_differences(*arrays))


def _first_values(first: Run, second: Run, members: Sequence[int]) -> int:
    return sum(abs(d) for moved in _sent(first, second, members) for d in moved)


def _changed(release: Any, first: Run, second: Run, members: Sequence[int]) -> int:
    """Return how many reports differ: bits of patterns, whole responses of anything else."""
    n_changed = 0
    for key, one in first.sent.items():
        if key[0] in members and "opening" in key[1]:
            other = second.sent[key]
            if isinstance(release, PatternReports):
                n_changed += int(np.unpackbits(np.bitwise_xor(one, other).astype(np.uint8)).sum())
            else:
                n_changed += int(np.count_nonzero(one != other))
    return n_changed
