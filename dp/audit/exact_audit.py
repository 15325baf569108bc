"""A test of a mechanism against its exact claim: whether outputs are distributed as said, and as private as said.

A target runs a mechanism on one of two neighbouring inputs, "input 0" and "input 1", through the functions that jobs
call. Its output is turned into a row of independent parts with finitely many values (`Part`), whose probabilities under
both inputs follow from the claimed noise *exactly*. Two statistics of an output are looked at. Both are sums over the
parts of integers, so that their laws are exact convolutions:

* the *loss*, ln P1 / P0 of each part, rounded to multiples of `UNIT`: by Neyman and Pearson what tells the two inputs
  apart best;
* the *concentration*, ln P0' / P0 of each part, P0' what input 0 would give with less noise (`LESS`): what tells too
  little noise from the claimed noise best.

Two statements are tested.

* Privacy. At one epsilon, the claimed delta is the hockey-stick divergence sum (P1 - e^epsilon P0)+ of the law of the
  loss, or that with the inputs exchanged. For every event E of the loss, P1(E) - e^epsilon P0(E) <= delta. The test
  takes for E an event that attains the divergence, or would with less noise, bounds both probabilities by
  Clopper-Pearson intervals, and calls the claim false if the lower bound of one less e^epsilon times the upper bound of
  the other exceeds delta. It does not alarm, but for the stated probability, for any mechanism that is as private as
  claimed, whatever its noise is.
* Noise. Under input 0 the concentration lies in a set E that small noise makes likelier, with an exactly known
  probability p. The test calls the claim false if E comes up so often that a binomial variable with p would do so with
  at most the probability allowed. Noise of the claimed law alarms no more often, and more noise more rarely.

Epsilon, sets and the number of runs are chosen from the exact laws before anything is drawn, so nothing has to be
corrected for a choice, and the power is a number that is known beforehand: the probability that noise of `LESS` of the
claimed size is called false.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, Self

import numpy as np

from dp.audit.exact_law import Floats, Integers, Law, pushed, total
from dp.audit.exact_tests import NoiseTest, PrivacyTest, PrivacyTests, best_noise_test, slack
from dp.cost.binomial import largest_probability, least_probability
from entropy import Entropy

FALSE_ALARM = 1e-5
"""Probability that a true claim is called false, half for each of the two tests: all targets stay below 1e-3."""

LESS = Fraction(4, 5)
"""The fraction of the claimed noise that an audit must detect: sample sizes are chosen so that such a mechanism is
caught."""

POWER = 0.9999
"""Probability, at least, with which it is."""

MIN_POWER = 0.5
"""Probability with which the weaker of the two tests catches it too, where that does not take too many runs."""

UNIT = 0.01
"""Grid width of loss and concentration."""

_MAX_RATIO = 15.0  # logarithms of ratios are cut off here; such values are far less likely than 1e-6
_MAX_RUNS = 1 << 18
_ENOUGH_RUNS = 1 << 12  # beyond, the power of one of the tests is enough


@dataclass(frozen=True)
class Part:
    """One part of an output, or several alike: a variable with finitely many values.

    Attributes:
        masses: shape (2, values), the probabilities under input 0 and input 1.
        times: how many independent parts of this law the output has, one after the other.
    """

    masses: Floats
    times: int = 1


class ExactTarget(Protocol):
    """A mechanism, two neighbouring inputs, and the exact law of what it puts out."""

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """Return the parts of an output and their laws if the mechanism had `noise` times the claimed noise."""

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """Run the mechanism on input 0 or 1; return the values of the parts, shape (n_runs, number of parts)."""

    def with_noise(self, noise: Fraction) -> Self:
        """Return the same target, the same claim, but drawn with `noise` times the claimed noise."""


@dataclass(frozen=True)
class Statistic:
    """A sum over the parts of an output.

    Attributes:
        tables: for each entry of `ExactTarget.parts`, what each value adds.
        times: number of columns of each part.
    """

    tables: tuple[Integers, ...]
    times: tuple[int, ...]

    def of(self, outputs: Integers) -> Integers:
        """Return the statistic of outputs, shape (n_runs,)."""
        found, column = np.zeros(len(outputs), dtype=np.int64), 0
        for table, times in zip(self.tables, self.times, strict=True):
            found += table[outputs[:, column : column + times]].sum(axis=1)
            column += times
        return found

    def law(self, parts: Sequence[Part], world: int) -> Law:
        """Return its exact law under an input."""
        return total(
            pushed(part.masses[world], table).times(part.times) for part, table in zip(parts, self.tables, strict=True)
        )


@dataclass(frozen=True)
class Design:
    """All that is fixed before anything is drawn.

    Attributes:
        n_runs: runs of each input.
        false_alarm: bound of the probability that a true claim is called false.
        loss, concentration: the two statistics.
        privacy, noise: the two tests.
    """

    n_runs: int
    false_alarm: float
    loss: Statistic
    concentration: Statistic
    privacy: PrivacyTest
    noise: NoiseTest

    @property
    def power(self) -> float:
        """Probability, at least, that a mechanism with `LESS` of the noise is called false."""
        return max(self.privacy.power, self.noise.power)


@dataclass(frozen=True)
class ExactFinding:
    """What the runs showed.

    Attributes:
        design: design of the audit.
        privacy_hits: how often the event of the privacy test came up: under its likelier input, under the other.
        delta_at_least: bound of the true delta at the claim's epsilon, with an error of half of `false_alarm`; may be
            negative.
        noise_hits: how often the event of the noise test came up.
    """

    design: Design
    privacy_hits: tuple[int, int]
    delta_at_least: float
    noise_hits: int

    @property
    def breaks_privacy(self) -> bool:
        """Whether outputs tell the inputs apart better than claimed."""
        privacy = self.design.privacy
        return self.delta_at_least > privacy.delta + slack(privacy.epsilon)

    @property
    def lacks_noise(self) -> bool:
        """Whether outputs are more concentrated than claimed."""
        return self.noise_hits >= self.design.noise.least_hits

    @property
    def is_beaten(self) -> bool:
        """Whether the claim is shown to be false."""
        return self.breaks_privacy or self.lacks_noise


def design_audit(
    target: ExactTarget,
    *,
    n_runs: int | None = None,
    false_alarm: float = FALSE_ALARM,
    power: float = POWER,
    least_power: float = MIN_POWER,
) -> Design:
    """Choose statistics, tests and the number of runs from exact laws.

    Args:
        target: mechanism, inputs, laws.
        n_runs: runs of each input; by default the least number, in steps of a quarter, with which one of the two tests
            catches a mechanism with `LESS` of the noise with probability `power`, and the other one with `least_power`
            where some 2^12 runs do that.
        false_alarm: bound of the probability of calling a true claim false.
        power: see `n_runs`.
        least_power: see `n_runs`.

    Raises:
        ValueError: no number of runs up to 2^18 is enough, or a number is out of range.
    """
    if not 0 < false_alarm < 1 or not 0 < power < 1 or (n_runs is not None and n_runs < 1):
        raise ValueError("an audit has at least one run, and probabilities of errors between 0 and 1")
    claimed, less = target.parts(Fraction(1)), target.parts(LESS)
    times = tuple(part.times for part in claimed)
    loss = Statistic(tuple(_log_ratio(part.masses[1], part.masses[0]) for part in claimed), times)
    tighter = tuple(_log_ratio(few.masses[0], part.masses[0]) for part, few in zip(claimed, less, strict=True))
    concentration = Statistic(tighter, times)
    losses = _aligned([loss.law(parts, world) for parts in (claimed, less) for world in (0, 1)])
    candidates = PrivacyTests.of(losses[:2], losses[2:])
    spread, tight = _aligned([concentration.law(parts, 0) for parts in (claimed, less)])
    n = 64 if n_runs is None else n_runs
    while True:
        privacy = candidates.best(n, false_alarm / 2)
        noise = best_noise_test(spread, tight, n, false_alarm / 2)
        found = Design(n, false_alarm, loss, concentration, privacy, noise)
        if n_runs is not None:
            return found
        if found.power >= power and (min(privacy.power, noise.power) >= least_power or n >= _ENOUGH_RUNS):
            return found
        if n >= _MAX_RUNS:
            raise ValueError(
                f"even {n} runs could not detect that a fraction {float(LESS):g} of the noise is too little"
            )
        n += n // 4


def audit_exactly(target: ExactTarget, design: Design, entropy: Entropy) -> ExactFinding:
    """Draw the runs and test both statements.

    Args:
        target: the one that the design is for, or the same `with_noise`.
        design: result of `design_audit`.
        entropy: random source of the mechanism.
    """
    n, privacy = design.n_runs, design.privacy
    outputs = [target.draw(world, n, entropy) for world in (0, 1)]
    losses = [design.loss.of(of_world) for of_world in outputs]
    hits = privacy.event.hits(losses[privacy.likelier_world]), privacy.event.hits(losses[1 - privacy.likelier_world])
    alarm = design.false_alarm / 4
    likely, rare = float(least_probability(hits[0], n, alarm)), float(largest_probability(hits[1], n, alarm))
    shown = likely - math.exp(privacy.epsilon) * rare
    return ExactFinding(design, hits, shown, design.noise.event.hits(design.concentration.of(outputs[0])))


def _log_ratio(numerator: Floats, denominator: Floats) -> Integers:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(numerator) - np.log(denominator)
    ratio = np.nan_to_num(ratio, nan=0.0, posinf=_MAX_RATIO, neginf=-_MAX_RATIO)
    found: Integers = np.rint(np.clip(ratio, -_MAX_RATIO, _MAX_RATIO) / UNIT).astype(np.int64)
    return found


def _aligned(laws: Sequence[Law]) -> list[Law]:
    start, stop = min(law.start for law in laws), max(law.stop for law in laws)
    return [Law(start, law.within(start, stop)) for law in laws]
