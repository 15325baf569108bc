"""A question about a number to devices that dial out, answered by masked sums of cohorts of them: the same result.

The devices that are asked are divided into cohorts. Each cohort counts its numbers at every node of a tree over the
buckets, in one masked sum with noise of its own (`analyses.sums.tree_counts`), and the coordinator adds up what the
cohorts came to. A member is in one cohort, and a cohort's numbers depend on its members only; so what a member pays is
what the sum of its own cohort costs, and the report states the dearest. The noise grows with the number of cohorts:
larger ones err less, and take longer.

What a device adds is its own word: unlike a response, a lie can move the result without bound.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator

from analyses.distribution.estimates.estimate import counted
from analyses.distribution.inquiry import DistributionParams, Inquiry, Range
from analyses.job.job import Delta, Epsilon, Finite, JobError, Name, PrivacyTarget, explain
from analyses.sums.round import TREE
from analyses.sums.secure_sum import SumParams
from analyses.sums.tree_counts import TreeCounts
from questions.question import Question

MIN_COHORT = 3


class MaskedQuestion(DistributionParams, Question):
    """What an analyst asks of devices that take part in masked sums.

    Attributes:
        analysis: the name of the analysis.
        record: each device's `[[records]]` says where it keeps this.
        range, buckets, queries, quantiles: see `DistributionParams`.
        epsilon, delta, view: what the sum of a cohort may cost its members.
        cohort: largest number of members of one cohort.
        colluding, vanishing, members, stage_s, attempts: see `SumParams`; the first two are of each cohort.
    """

    kind = "sum"

    analysis: Literal["distribution"] = "distribution"
    record: Name
    range: Range
    method: Literal["masked"]
    epsilon: Epsilon
    delta: Delta = 1e-6
    view: Literal["coalition", "coordinator"] = "coalition"
    cohort: Annotated[int, Field(ge=MIN_COHORT, le=1 << 16)] = 1000
    colluding: Annotated[int, Field(ge=0)] = 0
    vanishing: Annotated[int, Field(ge=0)] = 0
    members: tuple[Name, ...] = ()
    stage_s: Annotated[Finite, Field(gt=0, le=3600)] = 30.0
    attempts: Annotated[int, Field(ge=1, le=8)] = 2

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        self.check_grid()
        return self

    def cohorts(self, known: Sequence[str]) -> list[tuple[str, ...]]:
        """Return who is asked, divided into as few cohorts as may be, whose sizes differ by one at most.

        Args:
            known: the members that the coordinator knows.

        Raises:
            JobError: a member is unknown or named twice, or a cohort would be too small.
        """
        names = self.members or tuple(known)
        if strangers := sorted(set(names) - set(known)):
            raise JobError(f"members: this coordinator does not know {strangers[0]!r}")
        if len(set(names)) != len(names):
            raise JobError("members: a name appears more than once")
        if self.delta * len(names) >= 1:
            raise JobError(f"delta: must be smaller than 1 / {len(names)}, because {len(names)} members are asked")
        n_cohorts = max(1, -(-len(names) // self.cohort))
        cuts = [len(names) * i // n_cohorts for i in range(n_cohorts + 1)]
        found = [tuple(names[start:end]) for start, end in pairwise(cuts)]
        if min(map(len, found)) < MIN_COHORT:
            raise JobError(f"members, cohort: a cohort has at least {MIN_COHORT} members")
        return found

    def sum_of(self, cohort: Sequence[str]) -> SumParams:
        """Return the question to the members of one cohort.

        Raises:
            JobError: there is no such sum.
        """
        try:
            return SumParams(
                analysis=TREE,
                record=self.record,
                largest=1.0,
                range=self.range,
                buckets=self.buckets,
                members=tuple(cohort),
                colluding=self.colluding,
                vanishing=self.vanishing,
                stage_s=self.stage_s,
                attempts=self.attempts,
                privacy=PrivacyTarget(epsilon=self.epsilon, delta=self.delta, view=self.view),
            )
        except ValidationError as error:
            raise JobError(explain(error)) from None


def combined(
    question: MaskedQuestion, answers: Sequence[Mapping[str, Any]], failed: Mapping[str, str]
) -> dict[str, Any]:
    """Return what all cohorts say, JSON-able: as `analyses.distribution.estimates.estimate.described`.

    Args:
        question: to all.
        answers: answers of the cohorts whose sum was opened, at least one; made by `analyses.sums.secure_sum.answer`.
        failed: member to why the sum of its cohort was not opened.

    Returns:
        With `record`, `responses`, how many members are in it, `survivors`, `vanished` with the stage at which each
        dropped out, or the reason why its cohort failed, and `cohorts`, the number of members of each that are in it.
    """
    counts = TreeCounts(question.buckets, 1)
    noisy = np.sum([np.array(answer["counts"], dtype=np.int64) for answer in answers], axis=0)
    variance = float(sum(answer["noise_variance"] for answer in answers))
    survivors = [name for answer in answers for name in answer["survivors"]]
    return {
        **counted(Inquiry(question), counts, noisy, variance),
        "record": question.record,
        "responses": len(survivors),
        "survivors": survivors,
        "vanished": {name: stage for answer in answers for name, stage in answer["vanished"].items()} | dict(failed),
        "cohorts": [len(answer["survivors"]) for answer in answers],
        "privacy": max((answer["privacy"] for answer in answers), key=_dearest),
    }


def _dearest(report: Mapping[str, Any]) -> float:
    return max(float(view["epsilon"]) for view in report["views"].values())
