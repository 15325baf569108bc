"""The answer of a matrix factorization over devices as text for people."""

import math
from typing import Any

from dp.cost.report import describe


def lines(answer: dict[str, Any]) -> list[str]:
    """Return the text of an answer: how large the model is, who was in each round, what it costs."""
    offsets, units, rounds, planned = answer["offsets"], answer["units"], answer["rounds"], answer["rounds_planned"]
    form = ", form sgd" if answer["form"] == "sgd" else ""
    found = [
        f"matrix factorization of {answer['record']} over devices{form}: {len(offsets)} items, rank {answer['rank']}",
        f"rounds opened: {len(rounds)} of {planned}",
    ]
    for number, one in enumerate(rounds):
        lost = ", ".join(f"{name} ({stage})" for name, stage in one["vanished"].items())
        found.append(f"  round {number}: {len(one['survivors'])} devices" + (f"; not in it: {lost}" if lost else ""))
    if answer["ended_early_because"] is not None:
        found.append(
            f"round {len(rounds)} was not opened: {answer['ended_early_because']}. Devices whose vectors had left have "
            "paid for it all the same; the model is that of the rounds before"
        )
    if form:
        lengths = [math.hypot(*vector) / units for vector in answer["vectors"]]
        found.append(
            f"lengths of items' vectors, at most {math.sqrt(answer['largest']):.3f}: from {min(lengths):.3f} to "
            f"{max(lengths):.3f} (all values: --format json)"
        )
    else:
        found.append(
            f"offsets about {answer['centre']:g}: from {min(offsets) / units:+.3f} to {max(offsets) / units:+.3f} "
            "(vectors and all values: --format json)"
        )
    return [*found, *describe(answer["privacy"], "members")]
