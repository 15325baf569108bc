"""An attempt to refute a claimed epsilon: a statistical test that can show a claim to be false, never that it is true.

A mechanism is run many times on each of two neighbouring inputs. Samples are split in half. On the first half the test
chooses an event E by its likelihood ratio: values of a statistic are put into cells, cells are sorted by how much more
often they come up for one input than for the other, and of all events "one of the first i cells" the one is kept that
would show the largest epsilon. On the second half, which had no part in the choice, the two probabilities of E are
bounded by Clopper-Pearson intervals. The claim (epsilon, delta) says P(E) <= e^epsilon Q(E) + delta; so

    epsilon  >=  ln((lower bound of P(E) - delta) / upper bound of Q(E))

but for an error of probability `false_alarm`: half of it for each interval. If that exceeds the claim, the claim is
beaten. Only one event is tested, so nothing has to be corrected for the number of statistics, cells or directions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp.cost.binomial import largest_probability, least_probability
from entropy import Entropy

Statistics = Mapping[str, NDArray[np.float64]]

FALSE_ALARM = 1e-6
"""Probability that the test refutes a true claim."""

_MAX_CELLS = 400


@dataclass(frozen=True)
class Claim:
    """The claimed guarantee of a mechanism for the two inputs of a target."""

    epsilon: float
    delta: float


class Target(Protocol):
    """A mechanism, two neighbouring inputs and what somebody who sees an output would compute from it."""

    @property
    def claim(self) -> Claim:
        """The guarantee under test."""

    def statistics(self, world: int, n_runs: int, entropy: Entropy) -> Statistics:
        """Run the mechanism `n_runs` times on input 0 or 1; return named statistics of the outputs.

        Any functions of an output are allowed; good ones grow with the likelihood ratio.

        Returns:
            name to array of shape (n_runs,); the same names for both inputs.
        """


@dataclass(frozen=True)
class Finding:
    """What the second half of the samples showed.

    Attributes:
        claim: under test.
        epsilon_bound: the true epsilon at the claim's delta is at least this, but for an error of probability
            `false_alarm`. -inf where the event shows nothing.
        statistic: the event is about it.
        likelier_world: input 0 or 1, under which the event is likelier.
        hits: how often the event came up, under the likelier input and under the other.
        n_runs: runs of each input in the second half.
        false_alarm: see above.
    """

    claim: Claim
    epsilon_bound: float
    statistic: str
    likelier_world: int
    hits: tuple[int, int]
    n_runs: int
    false_alarm: float

    @property
    def is_beaten(self) -> bool:
        """Whether the claim is shown to be false."""
        return self.epsilon_bound > self.claim.epsilon


@dataclass(frozen=True)
class _Event:
    """Outputs whose statistic lies in some of the cells between `edges`."""

    statistic: str
    likelier_world: int
    edges: NDArray[np.float64]
    members: NDArray[np.bool_]

    def count(self, statistics: Statistics) -> int:
        return int(self.members[_cells(statistics[self.statistic], self.edges)].sum())


def audit(target: Target, entropy: Entropy, *, n_runs: int, false_alarm: float = FALSE_ALARM) -> Finding:
    """Try to beat the claim of a target.

    Args:
        target: mechanism, inputs, claim.
        entropy: random source of the mechanism.
        n_runs: runs of each input; half of them choose the event.
        false_alarm: probability, over the mechanism's randomness, of calling a true claim beaten.

    Raises:
        ValueError: fewer than four runs, or a false_alarm that is no probability.
    """
    if n_runs < 4 or not 0 < false_alarm < 1:
        raise ValueError(
            "an audit needs at least four runs of each input, and a false-alarm probability between 0 and 1"
        )
    half = n_runs // 2
    first = [target.statistics(world, half, entropy) for world in (0, 1)]
    event = _choose_event(first, half, target.claim.delta, false_alarm)
    second = [target.statistics(world, half, entropy) for world in (0, 1)]
    hits = event.count(second[event.likelier_world]), event.count(second[1 - event.likelier_world])
    bound = float(epsilon_shown(np.array(hits[0]), np.array(hits[1]), half, target.claim.delta, false_alarm))
    return Finding(target.claim, bound, event.statistic, event.likelier_world, hits, half, false_alarm)


def epsilon_shown(
    likely_hits: NDArray[np.int64], rare_hits: NDArray[np.int64], n_runs: int, delta: float, false_alarm: float
) -> NDArray[np.float64]:
    """Return the epsilon that counts of an event prove, with error probability at most `false_alarm`.

    Args:
        likely_hits: runs that hit the event, of `n_runs`, under the input where it is likelier.
        rare_hits: where it is less likely.
        n_runs: runs of each input.
        delta: delta of the claim.
        false_alarm: half for the lower bound of one probability, half for the upper bound of the other.

    Returns:
        same shape as the counts; -inf where nothing is proven.
    """
    lower = least_probability(likely_hits, n_runs, false_alarm / 2)
    upper = largest_probability(rare_hits, n_runs, false_alarm / 2)
    gain = lower - delta
    return np.where(gain > 0, np.log(np.maximum(gain, 1e-300) / upper), -math.inf)


def _choose_event(first: list[Statistics], n_runs: int, delta: float, false_alarm: float) -> _Event:
    """Return the event that shows most on the first half.

    Cells are sorted by their counts among the even runs, or from one end to the other; how many of them make the event
    is decided by the odd runs. Judged by the same runs, cells that came out high by chance would seem the best.
    """
    n_judging = n_runs // 2
    best, shown = None, -math.inf
    for name in first[0]:
        edges = _edges(np.concatenate([statistics[name] for statistics in first]))
        learnt = [_counts(statistics[name][0::2], edges) for statistics in first]
        judged = [_counts(statistics[name][1::2], edges) for statistics in first]
        by_ratio = np.argsort(-np.log((learnt[1] + 0.5) / (learnt[0] + 0.5)), kind="stable")
        upwards = np.arange(len(edges) + 1)
        for world in (0, 1):
            for order in (by_ratio, by_ratio[::-1], upwards, upwards[::-1]):
                likely, rare = np.cumsum(judged[world][order]), np.cumsum(judged[1 - world][order])
                found = epsilon_shown(likely, rare, n_judging, delta, false_alarm)
                at = int(np.argmax(found))
                if best is None or found[at] > shown:
                    members = np.zeros(len(edges) + 1, dtype=np.bool_)
                    members[order[: at + 1]] = True
                    best, shown = _Event(name, world, edges, members), float(found[at])
    if best is None:
        raise ValueError("a target has at least one statistic")
    return best


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lower ends of all cells but the first: single values if there are few, else quantiles.

    Quantiles are dense in the tails, where likelihood ratios are large.
    """
    distinct = np.unique(values)
    if len(distinct) <= _MAX_CELLS:
        return distinct[1:]
    tail = np.geomspace(20 / len(values), 0.05, _MAX_CELLS // 4)
    levels = np.concatenate([tail, np.linspace(0.05, 0.95, _MAX_CELLS // 2), 1 - tail])
    return np.unique(np.quantile(values, levels))


def _counts(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.bincount(_cells(values, edges), minlength=len(edges) + 1)


def _cells(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.searchsorted(edges, values, side="right").astype(np.int64)
