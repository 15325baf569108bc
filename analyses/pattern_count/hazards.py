"""Cox's proportional hazards from noisy counts: ratios between groups, one hazard for each interval besides.

Hazards l(t) exp(b) in continuous time mean that in interval i of group g an event comes to those at risk with the
probability 1 - exp(-exp(a_i + b_g)), whatever l is: so exp(b_g) is the ratio of hazards of Cox's model, exactly, and
counts by (interval x event x group) hold all that its likelihood needs [PreGlo78].
"""

import numpy as np

from analyses.kept_moments.answer import Answer, AnswerError, Floats, numbers, p_values, ratios
from analyses.pattern_count.life_table import N_DRAWS, Courses, at_risk_of, drawn_courses, seen_intervals
from analyses.second_moments.spectrum import SimulatedNoise

SEEN_EVENTS = 2.0
"""Standard errors of their noise that the events of an interval must come to, for it to be used."""

_STEPS = 60
_MOST = 3.0
"""Largest intercept: a hazard of 1 but for 2 10^-9."""

_FURTHEST = 12.0
"""Log ratio at which hazards count as not comparable: one group has no events, as far as the noise lets see."""


def hazard_ratios(courses: Courses) -> Answer:
    """Return the ratio of each group's hazard to that of the first group.

    The score equations are linear in events and rows at risk, so noise of mean 0 does not move them where hazards are
    right; no count is cut off at 0. Errors by noise are of draws of the noise, fitted anew; by chance those of the
    information of the likelihood. Intervals whose events are not seen in the noise are left out for all groups.

    Args:
        courses: noisy counts of two groups or more.

    Raises:
        AnswerError: there is one group, rows or events of some group are not distinguishable from noise, or no
            interval has events that are.
    """
    if len(courses.groups) < 2:
        raise AnswerError("hazards are compared between groups: name their column with by")
    shortest = int(seen_intervals(courses).min())
    deviation = float(np.sqrt(courses.variance))
    totals = courses.events[:, :shortest].sum(axis=0)
    used = np.flatnonzero(totals > max(SEEN_EVENTS * deviation * np.sqrt(len(courses.groups)), 0.5))
    if not len(used):
        raise AnswerError("no interval has events beyond the noise: ask for a larger epsilon, or for longer intervals")
    of_groups = courses.events[:, used].sum(axis=1)
    hidden = of_groups <= max(SEEN_EVENTS * deviation * np.sqrt(len(used)), 0.5)
    if hidden.any():
        raise AnswerError(
            f"events of group {courses.groups[int(np.argmax(hidden))]} are not distinguishable from noise"
        )
    found = _fitted(courses.events, courses.left, used, None)
    if found is None:
        raise AnswerError(
            "hazards of these groups cannot be compared: the noise is too large, or a group has no events"
        )
    logs, intercepts, information = found
    draws = [
        _fitted(events, left, used, (logs, intercepts))
        for events, left in drawn_courses(courses, SimulatedNoise(), N_DRAWS)
    ]
    drawn = np.array([one[0] for one in draws if one is not None])
    noise = drawn.std(axis=0, ddof=1) if len(drawn) > 0.95 * N_DRAWS else np.full(len(logs), np.nan)
    chance = np.sqrt(np.diagonal(np.linalg.inv(information))[: len(logs)])
    whole = np.hypot(noise, chance)
    interval, ratio, of_ratio = ratios(logs, whole)
    n = courses.events.shape[1]
    left_out = f"{n - len(used)} of {n} intervals have events that the noise hides, and are left out"
    notes = ("hazards of the groups are supposed to be in proportion, over all intervals",)
    return Answer(
        "hazard-ratios",
        {
            "group": list(courses.groups[1:]),
            "log_hazard_ratio": numbers(logs),
            "noise_error": numbers(noise),
            "chance_error": numbers(chance),
            "interval": interval,
            "hazard_ratio": ratio,
            "hazard_ratio_interval": of_ratio,
            "p_value": p_values(logs, whole),
        },
        {"against": courses.groups[0], "events": float(of_groups.sum())},
        notes if len(used) == n else (*notes, left_out),
    )


def _fitted(
    events: Floats, left: Floats, used: np.ndarray, start: tuple[Floats, Floats] | None
) -> tuple[Floats, Floats, Floats] | None:
    """Return log ratios of all groups but the first, intercepts of the intervals, and the information of both.

    With r = exp(a_i + b_g) and h = 1 - exp(-r), the score of d events of n rows is (d - n h) r / h, and their
    information n r^2 (1 - h) / h. Where all rows that are left have the event, the intercept has no end but `_MOST`.
    """
    d, n = events[:, used], at_risk_of(events + left)[:, used]
    weight = np.maximum(n, 1.0)
    g, t = d.shape
    if start is None:
        share = np.clip(np.maximum(d.sum(axis=0), 0.5) / weight.sum(axis=0), 1e-6, 0.999)
        logs, intercepts = np.zeros(g - 1), np.log(-np.log1p(-share))
    else:
        logs, intercepts = (one.copy() for one in start)
    least = np.log(0.5 / weight.sum(axis=0))
    for _ in range(_STEPS):
        rate = np.exp(np.clip(np.append(0.0, logs)[:, None] + intercepts, -30.0, 4.0))
        hazard = -np.expm1(-rate)
        score = d * rate / hazard - n * rate
        curve = weight * rate**2 * np.exp(-rate) / hazard
        information = np.zeros((g - 1 + t, g - 1 + t))
        information[: g - 1, : g - 1] = np.diag(curve[1:].sum(axis=1))
        information[g - 1 :, g - 1 :] = np.diag(curve.sum(axis=0))
        information[: g - 1, g - 1 :] = curve[1:]
        information[g - 1 :, : g - 1] = curve[1:].T
        step = np.linalg.solve(information, np.append(score[1:].sum(axis=1), score.sum(axis=0)))
        step = np.clip(step, -1.0, 1.0)
        logs, before = logs + step[: g - 1], intercepts
        intercepts = np.clip(intercepts + step[g - 1 :], least, _MOST)
        if not np.abs(logs).max() < _FURTHEST:
            return None
        if max(np.abs(step[: g - 1]).max(), np.abs(intercepts - before).max()) < 1e-9:
            return logs, intercepts, information
    return None
