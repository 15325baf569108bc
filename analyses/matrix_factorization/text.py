"""A matrix factorization as text for people."""

import math
from typing import Any

from analyses.job.text import privacy_lines


def lines(result: dict[str, Any]) -> list[str]:
    """Return the text of a result: how large the model is, who was in each round, what it costs."""
    offsets, units, rounds = result["offsets"], result["units"], result["rounds"]
    is_descent = result["form"] == "sgd"
    how = ", form sgd" if is_descent else ""
    found = [
        f"matrix factorization, {result['setting']}{how}: {len(offsets)} {result['of']}, rank {result['rank']}",
        f"rounds paid: {_numbers(result['rounds_paid'])}; opened: {_numbers(result['rounds_opened'])}",
    ]
    for number, one in enumerate(rounds):
        lost = ", ".join(f"{name} (from {stage} on)" for name, stage in one["vanished"].items())
        found.append(f"  round {number}: {', '.join(one['survivors'])}" + (f"; not {lost}" if lost else ""))
    if is_descent:
        largest = max(math.sqrt(sum(value**2 for value in vector)) for vector in result["vectors"]) / units
        found.append(f"vectors of a length of {largest:.3f} at most (all values: --format json)")
    else:
        found.append(
            f"offsets about {result['centre']:g}: from {min(offsets) / units:+.3f} to {max(offsets) / units:+.3f} "
            "(vectors and all values: --format json)"
        )
    return [*found, "", *privacy_lines(result)]


def _numbers(rounds: list[int]) -> str:
    """Return the numbers of consecutive rounds, which begin with 0."""
    return "0" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
