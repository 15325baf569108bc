"""How many more jobs of one cost a budget would admit, by the filters that decide on them."""

import math

from dp.cost.gaussian_filter import GaussianCost, GaussianFilter, division_of, largest_distance, part_of_budget
from dp.cost.job_cost import JobCost
from dp.cost.renyi_filter import RenyiFilter, orders_of_budget

MOST = 1_000_000
"""Jobs beyond which nobody counts."""

USUAL_EPSILONS = (0.1, 0.5, 1.0)
"""Epsilons of jobs of which is said how many more there may be."""


def part_alone(cost: JobCost, epsilon: float, delta: float) -> float:
    """Return which part of a whole budget one job uses, in a period whose first job is like it; inf if more than all.

    Args:
        cost: cost of the job.
        epsilon: epsilon of the budget.
        delta: delta of the budget.
    """
    orders, of_gaussian = division_of(
        delta,
        orders_of_budget(epsilon, delta),
        part_of_budget(epsilon, delta),
        is_gaussian_first=cost.gaussian.is_known,
    )
    part = RenyiFilter(epsilon, delta, orders).used(cost.curve, cost.n_events)
    if of_gaussian is None:
        return part
    return min(part, GaussianFilter(epsilon, of_gaussian).used(cost.gaussian, 1))


def more_jobs(cost: JobCost, epsilon: float, delta: float, remaining_part: float) -> int:
    """Return about how many more jobs of this cost a budget admits, one after the other.

    Exact where the filter that decides now decides on all of them; parts add up there. A period with jobs of another
    kind of noise may admit fewer.

    Args:
        cost: cost of one job.
        epsilon: epsilon of the budget.
        delta: delta of the budget.
        remaining_part: part of it that remains, from 0 to 1.
    """
    part = part_alone(cost, epsilon, delta)
    found = min(MOST, math.floor(remaining_part / part * (1 + 2.0**-30))) if part > 0 else MOST
    is_first = remaining_part >= 1 and cost.epsilon(delta).epsilon <= epsilon  # which need not be covered by a filter
    return max(found, int(is_first))


def more_gaussian_jobs(each: float, epsilon: float, delta: float, remaining_part: float) -> int | None:
    """Return about how many more jobs whose noise is added once a budget admits; None where no filter says.

    Args:
        each: epsilon of each job, at the budget's delta.
        epsilon: epsilon of the budget.
        delta: delta of the budget.
        remaining_part: part of it that remains.
    """
    part = part_of_budget(epsilon, delta)
    if part is None:
        return None
    cost = GaussianCost(largest_distance(each, delta) ** 2)
    used = GaussianFilter(epsilon, delta * float(part)).used(cost, 1)
    return min(MOST, math.floor(remaining_part / used)) if used > 0 else None


def room_in_words(epsilon: float, delta: float, remaining_part: float) -> str:
    """Return how many more jobs of usual epsilons a budget admits; empty where no filter says, or all are too large."""
    found = more_usual_jobs(epsilon, delta, remaining_part)
    return ", or ".join(f"{n} of epsilon {each}" for each, n in found.items())


def more_usual_jobs(epsilon: float, delta: float, remaining_part: float) -> dict[str, int]:
    """Return epsilons, as text, to how many more such jobs there may be; see `more_gaussian_jobs`."""
    found = {
        f"{each:g}": more_gaussian_jobs(each, epsilon, delta, remaining_part)
        for each in USUAL_EPSILONS
        if each <= epsilon
    }
    return {each: n for each, n in found.items() if n is not None}
