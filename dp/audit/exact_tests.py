"""The two tests of an exact audit: which event at which epsilon, how many hits are an alarm, and with which power.

`dp.audit.exact_audit` says what is tested. Here are the choices, made from exact laws before anything is drawn, and
their
powers: probabilities of binomial counts.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

from dp.audit.exact_law import SLACK, Floats, Integers, Law, hockey_stick
from dp.cost.binomial import largest_probability

_EPSILONS = tuple(np.arange(0, 4.01, 0.1).tolist())


@dataclass(frozen=True)
class Event:
    """A set of values of a statistic; values beyond either end count as the one at the end.

    Attributes:
        start: the smallest value.
        members: shape (values,), which of start, start + 1, ... belong to the set.
    """

    start: int
    members: NDArray[np.bool_]

    def probability(self, law: Law) -> float:
        """Return that of a law."""
        return float(law.within(self.start, self.start + len(self.members))[self.members].sum())

    def hits(self, values: Integers) -> int:
        """Return how many values belong to the set."""
        at = np.clip(values - self.start, 0, len(self.members) - 1)
        return int(self.members[at].sum())


@dataclass(frozen=True)
class PrivacyTest:
    """That P(event | likelier input) - e^epsilon P(event | other input) is at most delta.

    Attributes:
        epsilon, delta: the claim: delta is the exact hockey-stick divergence of the loss at epsilon.
        likelier_world: input 0 or 1.
        event: event of the loss, chosen so that it shows too little noise.
        power: probability of an alarm with `LESS` of the noise.
    """

    epsilon: float
    delta: float
    likelier_world: int
    event: Event
    power: float


@dataclass(frozen=True)
class NoiseTest:
    """That an event of the concentration has its claimed probability under input 0, or less.

    Attributes:
        event: event of the concentration.
        probability: claimed.
        least_hits: least number of hits that raises an alarm.
        power: probability of an alarm with `LESS` of the noise.
    """

    event: Event
    probability: float
    least_hits: int
    power: float


@dataclass(frozen=True)
class PrivacyTests:
    """Privacy tests to choose from: events that attain the divergence of the claimed laws, or of those of less noise.

    Attributes:
        start: first value of all laws.
        events: shape (candidates, values).
        epsilons: shape (candidates,).
        likelier: shape (candidates,); the likelier input, 0 or 1.
        deltas: the claims.
        chances: shape (4, candidates): of each event, under its likelier input and the other, as claimed and with less
            noise.
    """

    start: int
    events: NDArray[np.bool_]
    epsilons: Floats
    likelier: Integers
    deltas: Floats
    chances: Floats

    @classmethod
    def of(cls, claimed: Sequence[Law], less: Sequence[Law]) -> Self:
        """Return all candidates.

        Args:
            claimed: laws of the loss under input 0 and input 1, over the same values as `less`.
            less: laws of the loss under input 0 and input 1 with less noise.
        """
        events, chosen, deltas, chances = [], [], [], []
        for likelier, laws, epsilon in itertools.product((0, 1), (claimed, less), _EPSILONS):
            members = laws[likelier].masses > math.exp(epsilon) * laws[1 - likelier].masses
            events.append(members)
            chosen.append((epsilon, likelier))
            deltas.append(hockey_stick(claimed[likelier].masses, claimed[1 - likelier].masses, epsilon))
            pairs = itertools.product((claimed, less), (likelier, 1 - likelier))
            chances.append([float(of[world].masses[members].sum()) for of, world in pairs])
        epsilons, worlds = zip(*chosen, strict=True)
        return cls(
            claimed[0].start,
            np.array(events),
            np.array(epsilons),
            np.array(worlds),
            np.array(deltas),
            np.minimum(np.array(chances).T, 1.0),
        )

    def best(self, n: int, false_alarm: float) -> PrivacyTest:
        """Return the test in which less noise shows best.

        They are ranked by how far less noise takes the excess over delta, by the same in widths of the intervals, and
        by how far it clears the alarm, roughly. The power of the first of each ranking is computed exactly; where all
        are as good, the excess decides.
        """
        p, q, p_less, q_less = self.chances
        factor = np.exp(self.epsilons)
        excess = (p_less - factor * q_less) - (p - factor * q)
        wide, narrow = (
            (
                np.sqrt(np.maximum(p_less * (1 - p_less), least)),
                factor * np.sqrt(np.maximum(q_less * (1 - q_less), least)),
            )
            for least in (50 / n, 1 / n)
        )
        clears = (excess * math.sqrt(n) - norm.isf(false_alarm / 2) * sum(narrow)) / np.hypot(*narrow)
        tests = []
        for ranking in (excess, excess / sum(wide), clears):
            at = int(np.argmax(ranking))
            epsilon, delta = float(self.epsilons[at]), float(self.deltas[at])
            power = _privacy_power(float(p_less[at]), float(q_less[at]), epsilon, delta, n, false_alarm)
            tests.append(PrivacyTest(epsilon, delta, int(self.likelier[at]), Event(self.start, self.events[at]), power))
        return max(tests, key=lambda test: round(test.power, 2))


def _privacy_power(p: float, q: float, epsilon: float, delta: float, n: int, false_alarm: float) -> float:
    """Return the probability of an alarm of two binomial counts, rounded down by 1e-9 at most per count left out."""
    rare = np.arange(binom.ppf(1e-9, n, q), binom.isf(1e-9, n, q) + 1)
    needed = delta + slack(epsilon) + math.exp(epsilon) * largest_probability(rare, n, false_alarm / 2)
    possible = needed < 1
    # The lower bound of k hits exceeds x exactly if k or more hits have a probability below the level at x.
    least = binom.isf(false_alarm / 2, n, np.where(possible, needed, 0.5)) + 1
    alarm = np.where(possible, binom.sf(least - 1, n, p), 0.0)
    return float(min(1.0, (binom.pmf(rare, n, q) * alarm).sum()))


def best_noise_test(claimed: Law, less: Law, n: int, false_alarm: float) -> NoiseTest:
    """Return the threshold of the concentration at which less noise shows best."""
    # probabilities of "at least this value"
    p, p_less = (np.cumsum(law.masses[::-1])[::-1] for law in (claimed, less))
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = norm.isf(false_alarm) * np.sqrt(np.clip(p * (1 - p), 1 / n, None) / n)
        score = (p_less - p - margin) / np.sqrt(np.clip(p_less * (1 - p_less), 1 / n, None) / n)
    at = int(np.argmax(score))
    event = Event(claimed.start, np.arange(len(p)) >= at)
    probability = event.probability(claimed)
    least_hits = int(binom.isf(false_alarm, n, min(1.0, probability + SLACK))) + 1
    return NoiseTest(event, probability, least_hits, float(binom.sf(least_hits - 1, n, event.probability(less))))


def slack(epsilon: float) -> float:
    """Return what the delta at an epsilon may be off by, as the probabilities in it are."""
    return SLACK * (1 + math.exp(epsilon))
