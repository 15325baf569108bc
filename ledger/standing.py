"""The state of a budget as text for its owner: from the JSON of `ledger.books.Balance`, safely rounded."""

import math
from collections.abc import Mapping
from typing import Any

from dp.cost.more_jobs import room_in_words


def against_whom(standing: Mapping[str, Any], members: str = "parties") -> str:
    """Return, in words, the adversary of a budget: the coordinator and as many others as every job withstands.

    Args:
        standing: how the budget stands.
        members: what those are called who may collude.
    """
    least = standing["least_colluding"]
    if "coalition" not in standing["adjacency"] or least == 0:
        return "against the coordinator alone; one colluding party undoes it"
    if least is None:
        return f"against the coordinator and as many colluding {members} as each job withstands"
    return f"against the coordinator and at most {least} colluding {members} (t of the job that withstands fewest)"


def lines_of(standing: Mapping[str, Any], *, jobs: str = "jobs", members: str = "parties") -> list[str]:
    """Return the lines of one budget, without its heading.

    Args:
        standing: how the budget stands.
        jobs: what is charged to it, in the plural.
        members: see `against_whom`.
    """
    n_earlier, n_exact = standing["earlier_jobs"], standing["exact_results"]
    lines = [
        f"  budget     epsilon {standing['epsilon']:g} at delta {standing['delta']:g}",
        f"  holds      {against_whom(standing, members)}",
        f"  spent      {_spent(standing, 'spent', 'by ' + _counted(standing['committed_jobs'], jobs))}",
    ]
    if standing["reserved_jobs"]:
        by = f"{_counted(standing['reserved_jobs'], jobs)} not yet opened"
        lines.append(f"  with held  {_spent(standing, 'held', by)}")
    part = math.floor(1e4 * standing["remaining_part"]) / 1e2
    remaining = math.floor(standing["remaining_epsilon"] * 1e4) / 1e4
    lines.append(f"  remaining  {part:g} % of the budget, about epsilon {remaining:g}")
    if jobs == "jobs" and (room := room_in_words(standing["epsilon"], standing["delta"], standing["remaining_part"])):
        lines.append(f"  room for   about {room}: costs of several jobs add up to less than their epsilons")
    if standing["committed_jobs"] and standing["odometer_epsilon"] is not None:
        ever = math.ceil(standing["odometer_epsilon"] * 1e4) / 1e4
        lines.append(
            f"  bound      epsilon {ever:g} at delta {standing['delta']:g} so far, also where later jobs were chosen "
            "by earlier results"
        )
    if standing["periods"] > 1:
        ever = standing["all_periods_epsilon"]
        shown = "unknown" if ever is None else f"{math.ceil(ever * 1e4) / 1e4:g}"
        lines.append(f"  ever       epsilon {shown} over all {standing['periods']} periods together, at the same delta")
    if n_earlier:
        lines.append(
            f"  earlier    {n_earlier} {jobs} were admitted by the rule of version 1 of the ledger: the budget does "
            "not bound them together where one was chosen by the results of others, and t was not kept"
        )
    if n_exact:
        lines.append(f"  exact      {n_exact} results were opened without noise; no epsilon counts them")
    return lines


def standing_of(standing: Mapping[str, Any], members: str = "parties") -> str:
    """Return the same in half a sentence; arguments as of `against_whom`. Reports of earlier versions have less."""
    if "remaining_part" not in standing:
        return f"of which {standing['spent_epsilon']:.4g} is spent"
    remaining = math.floor(1e4 * standing["remaining_part"]) / 1e2
    epsilon = standing["spent_epsilon"]
    spent = "an unknown epsilon" if epsilon is None else f"{math.ceil(epsilon * 1e4) / 1e4:g}"
    return f"of which {spent} is spent and {remaining:g} % remains, {against_whom(standing, members)}"


def _counted(n: int, what: str) -> str:
    return f"{n} {what.removesuffix('s') if n == 1 else what}"


def _spent(standing: Mapping[str, Any], which: str, by: str) -> str:
    """Return which part of the budget is used, by what, and the epsilon of that: parts add up, epsilons do not."""
    epsilon, part = standing[f"{which}_epsilon"], standing[f"{which}_part"]
    if epsilon is None:
        return f"an epsilon that is not known, {by}, so no more is admitted in this period"
    used = "more than all" if part is None else f"{math.ceil(1e4 * part) / 1e2:g} %"
    return (
        f"{used} of the budget, {by}: epsilon {math.ceil(epsilon * 1e4) / 1e4:g} at delta {standing['delta']:g} "
        "(parts of what the budget admits add up, epsilons do not)"
    )
