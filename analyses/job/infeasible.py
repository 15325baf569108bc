"""The refusal of jobs whose answer could not be seen in the noise, before they cost anything."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from analyses.job.forecast import Signal, least_enough
from analyses.job.job import Job, JobError
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema

MakePlan = Callable[[Job, Sequence[BlockSchema]], Plan]
SignalOf = Callable[[Any], Signal | None]


def why_infeasible(make: MakePlan, signal_of: SignalOf, job: Job, schemas: Sequence[BlockSchema], made: Plan) -> str:
    """Return why the answer of a plan could not be seen, and what would help; empty where it may be.

    Args:
        make: makes a plan.
        signal_of: signal of a plan; None where the analysis cannot tell or adds no noise.
        job: what is asked for.
        schemas: schemas of all members.
        made: the plan of them.
    """
    signal = signal_of(made)
    if signal is None or not signal.is_infeasible or job.target is None:
        return ""
    helping = [] if (epsilon := _enough(make, signal_of, job, schemas, signal)) is None else [_of_epsilon(epsilon)]
    if signal.largest > 0 and signal.noise < math.inf:
        helping.append(
            f"about {_rounded_up((signal.noise / signal.largest) ** (1 / signal.rows_power)):g} times the rows"
        )
    if signal.instead:
        helping.append(signal.instead)
    what_helps = f"; {' or '.join(helping)} would leave something to see" if helping else ""
    return f"{signal.in_words}{what_helps}"


def check_hope(make: MakePlan, signal_of: SignalOf, job: Job, schemas: Sequence[BlockSchema], made: Plan) -> None:
    """Refuse an infeasible job, unless it says `anyway`. Public facts decide, so a refusal tells nothing about tables.

    Raises:
        JobError: says why, and what would help.
    """
    if not job.anyway and (why := why_infeasible(make, signal_of, job, schemas, made)):
        raise JobError(
            f"privacy.epsilon: with {job.privacy.epsilon:g} this job is infeasible: {why}. To run it all the same, "
            "submit it with --anyway (in the job: anyway = true; in Python: client.run(question, anyway=True))"
        )


def _enough(
    make: MakePlan, signal_of: SignalOf, job: Job, schemas: Sequence[BlockSchema], signal: Signal
) -> float | None:
    """Return an epsilon with which the job is no longer infeasible, of two digits; None where none is found."""
    if not 0 < signal.largest < math.inf or not signal.noise < math.inf:
        return None

    def is_feasible(epsilon: float) -> bool | None:
        tried = job.model_copy(update={"target": job.privacy.model_copy(update={"epsilon": epsilon})})
        try:
            found = signal_of(make(tried, schemas))
        except JobError:
            return None
        return found is None or not found.is_infeasible

    return least_enough(job.privacy.epsilon, is_feasible)


def _of_epsilon(epsilon: float) -> str:
    return f"an epsilon of at least about {epsilon:g}"


def _rounded_up(x: float) -> float:
    """Return a number of two digits that is no smaller than a positive one."""
    if not 0 < x < math.inf:
        return x
    unit = 10.0 ** (math.floor(math.log10(x)) - 1)
    return float(f"{math.ceil(x / unit * (1 - 1e-9)) * unit:.2g}")
