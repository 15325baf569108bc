"""What a job's roster survives: how many parties may vanish and how many may lie, known before anything runs."""

from dataclasses import dataclass

from algorithms import table_sum
from algorithms.job import Job
from algorithms.plan import check_roster, why_all_are_needed
from mpc.opening import survivable
from mpc.secagg.config import Topology


@dataclass(frozen=True)
class OpeningSurvival:
    """One kind of opening.

    Attributes:
        what: is opened.
        n_required: shares that suffice.
        may_vanish: parties that may be missing, or
        may_lie: parties whose shares may be wrong instead: corrected, and named in the result. What a party adds to
            a masked sum is its own word.
    """

    what: str
    n_required: int
    may_vanish: int
    may_lie: int


@dataclass(frozen=True)
class Survival:
    """The table for one job.

    Attributes:
        n_parties: N, compute parties.
        colluding: t, parties that may pool what they see.
        input_only: members that bring columns and hold no shares.
        is_masked_sum: whether parties add masked vectors over the coordinator, and hold no shares of data.
        openings: what may happen to each kind of opening.
        why_all: why no party may vanish, in words; empty where some may.
    """

    n_parties: int
    colluding: int
    input_only: int
    openings: tuple[OpeningSurvival, ...]
    is_masked_sum: bool = False
    why_all: str = ""

    @property
    def counted_from(self) -> str:
        """From when on parties may vanish, in words."""
        return "once every party has committed the cost" if self.is_masked_sum else "after every member's input"

    def as_text(self) -> str:
        """Return the table for people."""
        owners = f" and {self.input_only} that only bring columns" if self.input_only else ""
        lines = [
            f"{self.n_parties} compute parties{owners}; {self.colluding} may collude",
            "",
            f"{'opened':28}{'needs':>7}{'may vanish':>12}{'or may lie':>12}",
        ]
        lines += [f"{o.what:28}{o.n_required:7}{o.may_vanish:12}{o.may_lie:12}" for o in self.openings]
        lines += [
            "",
            self.why_all.capitalize() + "."
            if self.why_all
            else f"Counted {self.counted_from}: until then all must stay.",
            "Who lies is named in the result."
            if any(o.may_lie for o in self.openings)
            else "What a party adds is its own word."
            if self.is_masked_sum
            else "Nobody would notice a wrong share: more compute parties for the same number of colluding ones would.",
        ]
        return "\n".join(lines)


def survival_of(job: Job) -> Survival:
    """Return the table of a job.

    Raises:
        JobError: the roster cannot compute a product in secret.
    """
    check_roster(job)
    n, t = len(job.compute_parties), job.t
    if job.analysis in table_sum.ANALYSES:
        needed = Topology.complete(n, t).fewest_survivors
        return Survival(n, t, len(job.members) - n, (OpeningSurvival("a masked sum", needed, n - needed, 0),), True)
    may_vanish, may_lie = survivable(n, 2 * t)
    opened = OpeningSurvival("a noisy product (degree 2t)", 2 * t + 1, may_vanish, may_lie)
    why_all = why_all_are_needed(job)
    if why_all:
        shares_products = job.analysis == "logistic-regression"
        opened = OpeningSurvival("the answer", len(job.members), 0, may_lie if shares_products else 0)
    return Survival(n, t, len(job.members) - n, (opened,), why_all=why_all)
