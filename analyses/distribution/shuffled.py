"""The third view of a job of square waves: what its responses cost whom who sees only how often each output came up."""

from functools import lru_cache
from typing import Any

from analyses.distribution.plan import DistributionPlan
from dp.cost.accounting import CalibrationError
from dp.cost.shuffle import farthest_rows, shuffled_epsilon
from dp.local_mechanism.wave import Wave

MAX_RESPONSES = 1 << 16
"""The view is stated for at most so many responses: more of them only hide more, and the bound takes longer."""

WHOM = "somebody who sees how often each output came up and nothing else, where the coordinator is honest"
NEVER = "never against the coordinator or anybody who sees names with responses"


def analyst_view(plan: DistributionPlan) -> dict[str, Any] | None:
    """Return the view, JSON-able; None where no bound is proven: for other methods than the square wave.

    A slot that holds nobody answers too, and its window overlaps no other: its row and that of any input are farther
    apart than those of two inputs. So the bound is that of two windows without a common output, for whichever of a
    table's rows is replaced, there or not there. It counts the responses of all slots but those of the `colluding`
    parties with the most of them, who may tell the onlooker theirs, and but the one that it is about.
    """
    mechanism = plan.mechanism
    if not isinstance(mechanism, Wave) or not mechanism.is_square:
        return None
    slots = sorted(plan.n_slots(member) for member in plan.owners)
    n = min(MAX_RESPONSES, sum(slots[: len(slots) - plan.job.t]) - 1)
    delta = plan.job.privacy.delta
    try:
        epsilon = _epsilon(mechanism, max(1, n), delta)
    except CalibrationError:
        return None
    return {"whom": WHOM, "never": NEVER, "epsilon": epsilon, "delta": delta, "responses": n}


@lru_cache(maxsize=8)
def _epsilon(wave: Wave, n: int, delta: float) -> float:
    # Two windows at the ends of so many outputs do not meet: the law of each output is as for an input and for `empty`.
    rows = farthest_rows(wave.window, wave.other, wave.n_outputs - len(wave.window) + 1)
    return shuffled_epsilon(rows, wave.other, n, delta)
