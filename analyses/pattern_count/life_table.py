"""Survival from noisy counts: Kaplan-Meier by group, restricted means, and the log-rank test, which knows the noise.

One column holds how long a row was observed and how that ended, as an integer: 2 i where the observation ended in
interval i = 0, 1, ... without the event, 2 i + 1 where the event came in it. Events of an interval come before rows
that leave in it. Another column, of any owner, may hold groups. What follows is computed from counts that are public.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.kept_moments.answer import SEEN, Answer, AnswerError, intervals, numbers
from analyses.pattern_count.reports import LEAST_BY_CHANCE
from analyses.second_moments.spectrum import SimulatedNoise

Floats = NDArray[np.float64]

N_DRAWS = 400
N_NULL = 2_000
"""Draws of counts without a difference between groups, which the log-rank statistic is compared with."""


@dataclass(frozen=True)
class Courses:
    """Noisy counts of rows by group, interval and end. The noises of all counts are independent.

    Attributes:
        groups: names of the groups.
        events, left: rows with the event, and those observed no longer, shape (groups, intervals).
        variance: variance of the noise of each of them.
    """

    groups: tuple[str, ...]
    events: Floats = field(repr=False)
    left: Floats = field(repr=False)
    variance: float

    @classmethod
    def of(cls, fields: Mapping[str, Any], time: str, by: str | None) -> "Courses":
        """Return the counts of a released table, added up over all other columns.

        Args:
            fields: result of a cross-table or of pattern counts by method `mpc`.
            time: column of the courses.
            by: column of the groups; None for one group of all.

        Raises:
            AnswerError: a column is not in the table, the courses are not integers from 0 to an odd number, or noises
                are not independent.
        """
        columns = list(fields["columns"])
        for name in filter(None, (time, by)):
            if name not in columns:
                raise AnswerError(f"the table has no column {name!r}; it has {', '.join(columns)}")
        if time == by:
            raise AnswerError(f"the groups must be those of another column than {time!r}")
        if fields["method"] != "mpc":
            raise AnswerError(f"counts by method {fields['method']} have errors that depend on each other: ask by mpc")
        lowest, highest = fields["categories"][time]
        if time in fields["labels"] or lowest or not highest % 2:
            raise AnswerError(f"column {time!r} must hold 2 * interval + event, from 0 to an odd number")
        counts, errors = (np.array(fields[name], dtype=np.float64) for name in ("counts", "standard_errors"))
        kept = [columns.index(name) for name in (by, time) if name is not None]
        others = tuple(axis for axis in range(counts.ndim) if axis not in kept)
        table, variance = counts.sum(others), (errors**2).sum(others)
        if by is None:
            return cls(("all",), table[None, 1::2], table[None, ::2], float(variance.max()))
        table = table if kept[0] < kept[1] else table.T
        first = fields["categories"][by][0]
        groups = fields["labels"].get(by) or [str(first + at) for at in range(len(table))]
        return cls(tuple(groups), table[:, 1::2], table[:, ::2], float(variance.max()))


def survival(courses: Courses, *, width: float = 1.0) -> Answer:
    """Return the life table of each group: rows at risk, events, and the share without the event after each interval.

    Errors by noise are of draws of the noise; by chance those of Greenwood, or of `LEAST_BY_CHANCE` events among the
    rows at risk where that is more: his are 0 where there was no event yet. Intervals end where the rows at risk of a
    group are not distinguishable from noise. The restricted mean is the area under the curve up to the last interval
    that all groups have. `p_value` is the share of tables without a difference between groups whose log-rank statistic
    is larger: the release's noise is in them, so noise is not taken for a difference.

    Args:
        courses: noisy counts.
        width: length of an interval, in the unit that the restricted mean shall have.

    Raises:
        AnswerError: the rows at risk of some group are not distinguishable from noise, or the width is not positive.
    """
    if not (width > 0 and np.isfinite(width)):
        raise AnswerError(f"the width of an interval must be above 0, got {width:g}")
    known = seen_intervals(courses)
    for group, seen in zip(courses.groups, known, strict=True):
        if not seen:
            text = f"rows of group {group} are not distinguishable from noise"
            raise AnswerError(f"{text}: ask for a larger epsilon, or for fewer groups")
    shortest = int(known.min())
    at_risk, share, hazard_variance = _curves(courses.events, courses.left)
    drawn = drawn_courses(courses, SimulatedNoise(), N_DRAWS)
    shares = np.array([_curves(*one)[1] for one in drawn])
    before = np.maximum(np.hstack([np.ones((len(share), 1)), share[:, :-1]]), 0.0)
    of_few = np.sqrt(LEAST_BY_CHANCE) / np.maximum(at_risk, 1.0)
    noise = shares.std(axis=0, ddof=1)
    chance = np.maximum(np.maximum(share, 0.0) * np.sqrt(np.cumsum(hazard_variance, axis=1)), before * of_few)
    means = _restricted(shares, shortest)
    area = np.cumsum(share[:, : shortest - 1][:, ::-1], axis=1)[:, ::-1]
    by_chance = np.sqrt((area**2 * hazard_variance[:, : shortest - 1]).sum(axis=1))
    by_chance = np.maximum(by_chance, (area * of_few[:, : shortest - 1]).max(axis=1, initial=0.0))
    mean, by_noise = np.minimum(_restricted(share, shortest), shortest) * width, means.std(axis=0, ddof=1) * width
    rows = [(at, one) for at, last in enumerate(known) for one in range(last)]
    places = tuple(np.array(rows).T)
    errors = np.hypot(noise, chance)[places]
    chi_squared, p_value = _log_rank(courses, shortest)
    return Answer(
        "survival",
        {
            "group": [courses.groups[at] for at, _ in rows],
            "until": [(one + 1) * width for _, one in rows],
            "at_risk": numbers(at_risk[places]),
            "events": numbers(courses.events[places]),
            "survival": numbers(np.minimum(share[places], 1.0)),
            "noise_error": numbers(noise[places]),
            "chance_error": numbers(chance[places]),
            "interval": intervals(share[places], errors, 0.0, 1.0),
        },
        {
            "groups": list(courses.groups),
            "restricted_to": shortest * width,
            "restricted_mean": numbers(mean),
            "restricted_mean_noise_error": numbers(by_noise),
            "restricted_mean_chance_error": numbers(by_chance * width),
            "restricted_mean_interval": intervals(
                mean, np.hypot(by_noise, by_chance * width), float(width), float(shortest * width)
            ),
            "log_rank": chi_squared,
            "p_value": p_value,
        },
        ("events of an interval come before those who leave in it; noise may make a share larger than that before it",),
    )


def seen_intervals(courses: Courses) -> NDArray[np.int64]:
    """Return how many intervals of each group, from the first one on, have rows at risk that are seen in the noise."""
    at_risk, n = at_risk_of(courses.events + courses.left), courses.events.shape[1]
    deviation = np.sqrt(2 * courses.variance * np.arange(n, 0, -1))
    seen = at_risk > np.maximum(SEEN * deviation, 1.0)
    return np.asarray(np.where(seen.all(axis=1), n, np.argmin(seen, axis=1)), dtype=np.int64)


def at_risk_of(ended: Floats) -> Floats:
    """Return the rows at risk in each interval, by those whose observation ended in it, on the last axis."""
    return np.asarray(np.cumsum(ended[..., ::-1], axis=-1)[..., ::-1], dtype=np.float64)


def _curves(events: Floats, left: Floats) -> tuple[Floats, Floats, Floats]:
    """Return rows at risk, Kaplan-Meier's shares, and the terms of Greenwood's sum.

    Noise may make events negative. In the product they stay so: raised to 0, they would lower the shares after them,
    and the more so the more intervals hardly any event is in.
    """
    at_risk = at_risk_of(events + left)
    hazard = _hazard(events, at_risk)
    terms = hazard / (np.maximum(at_risk, 1.0) * np.maximum(1 - hazard, 1e-12))
    share = np.cumprod(1 - np.minimum(events / np.maximum(at_risk, 1.0), 1.0), axis=-1)
    return at_risk, np.asarray(share, dtype=np.float64), np.asarray(np.where(hazard < 1, terms, 0.0), dtype=np.float64)


def _hazard(events: Floats, at_risk: Floats) -> Floats:
    return np.asarray(np.clip(events / np.maximum(at_risk, 1.0), 0.0, 1.0), dtype=np.float64)


def _restricted(share: Floats, n: int) -> Floats:
    """Return the area under curves that begin at 1, over n intervals of the last axis."""
    return np.asarray(1 + share[..., : n - 1].sum(axis=-1), dtype=np.float64)


def drawn_courses(courses: Courses, simulated: SimulatedNoise, n_draws: int) -> Sequence[tuple[Floats, Floats]]:
    """Return events and rows that left of other releases, with draws of the noise."""
    deviation, shape = np.sqrt(courses.variance), courses.events.shape
    draws = deviation * simulated.normal(n_draws, 2, *shape)
    return [(courses.events + one, courses.left + other) for one, other in draws]


def _log_rank(courses: Courses, n: int) -> tuple[float | None, float | None]:
    """Return the statistic over n intervals and its p-value; None for one group, or where no event is seen."""
    if len(courses.groups) < 2:
        return None, None
    difference, covariance = _differences(courses.events, courses.left, n)
    observed = _squared(difference, covariance)
    if observed is None:
        return None, None
    at_risk = at_risk_of(courses.events + courses.left)
    hazard = _hazard(courses.events.sum(axis=0), at_risk.sum(axis=0))
    expected = at_risk * hazard
    gone = -np.diff(at_risk, axis=1, append=0.0)
    null = Courses(courses.groups, expected, gone - expected, courses.variance)
    simulated, larger = SimulatedNoise(), 0
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    chance = simulated.normal(N_NULL, len(root)) @ root.T
    for one, other in zip(drawn_courses(null, simulated, N_NULL), chance, strict=True):
        moved, again = _differences(*one, n)
        found = _squared(moved + other, again)
        larger += found is None or found >= observed
    return observed, (1 + larger) / (1 + N_NULL)


def _differences(events: Floats, left: Floats, n: int) -> tuple[Floats, Floats]:
    """Return events less expected ones of all groups but the last, and their hypergeometric covariance."""
    at_risk = np.maximum(at_risk_of(events + left)[:, :n], 0.0)
    whole, of_all = np.maximum(at_risk.sum(axis=0), 1.0), np.maximum(events[:, :n].sum(axis=0), 0.0)
    part = at_risk / whole
    spread = of_all * np.maximum(whole - of_all, 0.0) / np.maximum(whole - 1, 1.0)
    covariance = np.diag((part * spread).sum(axis=1)) - (part * spread) @ part.T
    difference = (events[:, :n] - part * events[:, :n].sum(axis=0)).sum(axis=1)
    return difference[:-1], covariance[:-1, :-1]


def _squared(difference: Floats, covariance: Floats) -> float | None:
    if np.linalg.eigvalsh(covariance)[0] <= 1e-9:
        return None
    return float(difference @ np.linalg.solve(covariance, difference))
