"""The third view of square waves: what responses cost whom who sees only how often each output came up."""

from functools import lru_cache
from typing import Any

from analyses.distribution.methods import Mechanism
from dp.cost.accounting import CalibrationError
from dp.cost.shuffle import farthest_rows, shuffled_epsilon
from dp.local_mechanism.wave import Wave

MAX_RESPONSES = 1 << 16
"""The view is stated for at most so many responses: more of them only hide more, and the bound takes longer."""

WHOM = "somebody who sees how often each output came up and nothing else, where the coordinator is honest"
NEVER = "never against the coordinator or anybody who sees names with responses"


def analyst_view(mechanism: Mechanism | None, n_others: int, delta: float) -> dict[str, Any] | None:
    """Return the view, JSON-able; None where no bound is proven: for other methods than the square wave.

    A slot that holds nobody answers too, and its window overlaps no other: its row and that of any input are farther
    apart than those of two inputs. So the bound is that of two windows without a common output, for whichever row or
    record is replaced, there or not there.

    Args:
        mechanism: mechanism by which each respondent answers.
        n_others: responses beside the one that the view is about, without those of respondents who may tell the
            onlooker theirs.
        delta: at which the view is stated.
    """
    if not isinstance(mechanism, Wave) or not mechanism.is_square:
        return None
    n = max(1, min(MAX_RESPONSES, n_others))
    try:
        epsilon = _epsilon(mechanism, n, delta)
    except CalibrationError:
        return None
    return {"whom": WHOM, "never": NEVER, "epsilon": epsilon, "delta": delta, "responses": n}


@lru_cache(maxsize=8)
def _epsilon(wave: Wave, n: int, delta: float) -> float:
    # Two windows at the ends of so many outputs do not meet: the law of each output is as for an input and for `empty`.
    rows = farthest_rows(wave.window, wave.other, wave.n_outputs - len(wave.window) + 1)
    return shuffled_epsilon(rows, wave.other, n, delta)
