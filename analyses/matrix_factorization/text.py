"""A matrix factorization as text for people."""

from typing import Any

from dp.cost.report import describe


def lines(result: dict[str, Any]) -> list[str]:
    """Return the text of a result: how large the model is, who was in each round, what it costs."""
    offsets, units, rounds = result["offsets"], result["units"], result["rounds"]
    found = [
        f"matrix factorization, {result['setting']}: {len(offsets)} {result['of']}, rank {result['rank']}",
        f"rounds opened: {len(rounds)} of {result['rounds_planned']}",
    ]
    for number, one in enumerate(rounds):
        lost = ", ".join(f"{name} (from {stage} on)" for name, stage in one["vanished"].items())
        found.append(f"  round {number}: {', '.join(one['survivors'])}" + (f"; not {lost}" if lost else ""))
    found.append(
        f"offsets about {result['centre']:g}: from {min(offsets) / units:+.3f} to {max(offsets) / units:+.3f} "
        "(vectors and all values: --format json)"
    )
    return [*found, *describe(result["privacy"])]
