"""What a party's owner allows of batches. The data are devices' own, so no ledger of a party is charged for them."""

import os
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from analyses.job.job import Finite
from analyses.open_until import MOST_OPEN_DAYS
from service.errors import NotAllowedError
from service.settings import Settings

if TYPE_CHECKING:  # whoever only reads a party's configuration needs no numerics
    from questions.shares import AskedBatch


class BatchRules(Settings):
    """Section `[batches]`: which batches this party takes part in; without it, none.

    Attributes:
        smallest_cohort: a batch that may be opened for fewer devices is refused.
        exact_sums: whether batches without noise are accepted.
        proofs: whether only batches are accepted whose devices prove that their vectors keep their bounds.
        may_miss: a batch that opens without more of its parties is refused: fewer that collude then read every vector.
        largest_elements: a batch of longer vectors is refused.
        most_open: maximum number of batches that are open here at a time.
        most_open_each: maximum number of open batches of one analyst, whose name the coordinator states.
        longest_days: a batch that would be open for more days is refused.
        threads: number of threads that check and open the answers of a batch; where absent, one for each processor
            that the process may use.
    """

    smallest_cohort: Annotated[int, Field(ge=2)] = 10
    exact_sums: bool = False
    proofs: bool = False
    may_miss: Annotated[int, Field(ge=0, le=1)] = 0
    largest_elements: Annotated[int, Field(ge=1)] = 1 << 24
    most_open: Annotated[int, Field(ge=1, le=4096)] = 64
    most_open_each: Annotated[int, Field(ge=1, le=4096)] = 16
    longest_days: Annotated[Finite, Field(gt=0, le=MOST_OPEN_DAYS)] = MOST_OPEN_DAYS
    threads: Annotated[int, Field(ge=1, le=256)] | None = None

    @property
    def n_threads(self) -> int:
        """How many threads check and open the answers of a batch."""
        if self.threads is not None:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def check(self, asked: "AskedBatch", me: str, peers: frozenset[str], coordinator: str) -> None:
        """Refuse a batch that the owner rules out.

        Args:
            asked: the question.
            me: name of this party.
            peers: names of the parties that it computes with.
            coordinator: identity of the one coordinator that it takes calls from.

        Raises:
            BatchRefusedError: says why.
        """
        question = asked.question
        if asked.asker != coordinator:
            raise BatchRefusedError(f"{me} takes part in batches of {coordinator} only, not of {asked.asker}")
        if me not in question.parties:
            raise BatchRefusedError(f"parties: {me} is not one of the parties of this batch")
        if strangers := sorted(set(question.parties) - peers - {me}):
            raise BatchRefusedError(f"parties: {me} does not compute with {', '.join(strangers)} (not among its peers)")
        if question.smallest_cohort < self.smallest_cohort:
            raise BatchRefusedError(
                f"smallest_cohort: {me} opens no sum of fewer than {self.smallest_cohort} devices (batches)"
            )
        if question.sum.privacy is None and not self.exact_sums:
            raise BatchRefusedError(f"privacy: {me} takes part in noisy sums only (batches.exact_sums)")
        if self.proofs and not question.proofs:
            raise BatchRefusedError(f"proofs: {me} adds up proven vectors only (batches.proofs)")
        if question.may_miss > self.may_miss:
            raise BatchRefusedError(
                f"may_miss: {me} opens batches with all of their parties only (set batches.may_miss = 1 for others)"
            )
        if question.n_elements > self.largest_elements:
            raise BatchRefusedError(
                f"length: {me} adds up vectors of at most {self.largest_elements} elements (batches)"
            )


class BatchRefusedError(NotAllowedError):
    """A party's owner rules a batch out."""

    code = "batch-refused"
