"""How many parties of a job may drop out or send corrupted shares without stopping it; known before anything runs.

Each analysis names one of these functions, or one of its own, as its `survival`. All read the job alone, before any
party has shown a column.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from analyses.job.job import Job
from mpc.arithmetic.surplus import survivable


@dataclass(frozen=True)
class OpeningSurvival:
    """One kind of opening.

    Attributes:
        what: is opened.
        n_required: shares that suffice.
        may_drop_out: number of parties that may drop out, or
        may_lie: number of parties whose shares may be corrupted instead; they are corrected, and the parties are named
            in the result. The input of a party to a masked sum cannot be checked.
    """

    what: str
    n_required: int
    may_drop_out: int
    may_lie: int


@dataclass(frozen=True)
class Survival:
    """The table for one job.

    Attributes:
        n_parties: N, compute parties.
        colluding: t, parties that may pool what they see.
        input_only: members that bring columns and hold no shares.
        openings: what may happen to each kind of opening.
        is_masked_sum: whether parties add masked vectors over the coordinator, and hold no shares of data.
        why_all: why no party may drop out, in words; empty if some may.
        finds_lies: whether a corrupted share ends the job where it is not corrected.
    """

    n_parties: int
    colluding: int
    input_only: int
    openings: tuple[OpeningSurvival, ...]
    is_masked_sum: bool = False
    why_all: str = ""
    finds_lies: bool = False

    @property
    def counted_from(self) -> str:
        """The moment from which on parties may drop out, in words."""
        return "once every party has committed the cost" if self.is_masked_sum else "after every member's input"

    @property
    def in_words(self) -> str:
        """The number of parties that may drop out, in one clause."""
        if self.why_all:
            return self.why_all
        needed, may_drop_out = self.openings[0].n_required, self.openings[0].may_drop_out
        if self.is_masked_sum:
            return f"a sum of {needed} can be opened, so {may_drop_out} may drop out once all have committed the cost"
        if may_drop_out == 0:
            return f"opening a product needs {needed}, so all must stay to the end"
        return f"opening a product needs {needed}, so {may_drop_out} may drop out after input"

    def as_text(self) -> str:
        """Return the table for people."""
        owners = f" and {self.input_only} that only bring columns" if self.input_only else ""
        lines = [
            f"{self.n_parties} compute parties{owners}; {self.colluding} may collude",
            "",
            f"{'opened':28}{'needs':>7}{'may drop out':>13}{'or may lie':>12}",
        ]
        lines += [f"{o.what:28}{o.n_required:7}{o.may_drop_out:13}{o.may_lie:12}" for o in self.openings]
        lines += [
            "",
            self.why_all.capitalize() + "."
            if self.why_all
            else f"Counted {self.counted_from}: until then all must stay.",
            "Parties that lie are named in the result."
            if any(o.may_lie for o in self.openings)
            else "The input of a party cannot be checked."
            if self.is_masked_sum
            else "A corrupted share would end the job."
            if self.finds_lies
            else "A corrupted share would not be detected; with more compute parties and the same number of colluding "
            "ones it would be.",
        ]
        return "\n".join(lines)


def products_opened_once(job: Job) -> Survival:
    """Return the survival of an analysis whose noisy products are opened in one go: 2t + 1 shares suffice.

    Where owners prove their rows, all are needed: shares that contradict each other, or are missing, end the job.
    """
    n, t = len(job.compute_parties), job.t
    if job.is_malicious:
        surplus, may_lie = survivable(n, t)
        why = "every party verifies every proof, so none may drop out"
        return replace(every_party_needed(job, why, may_lie=min(may_lie, surplus - t)), finds_lies=True)
    may_drop_out, may_lie = survivable(n, 2 * t)
    return _survival(job, OpeningSurvival("a noisy product (degree 2t)", 2 * t + 1, may_drop_out, may_lie))


def every_party_needed(job: Job, why: str, *, may_lie: int = 0) -> Survival:
    """Return the survival of a job of which no party may drop out.

    Args:
        job: what is asked for.
        why: why no party may drop out, in words.
        may_lie: number of corrupted shares that are corrected nevertheless.
    """
    return _survival(job, OpeningSurvival("the answer", len(job.members), 0, may_lie), why)


def by_parameter(name: str) -> Callable[[Job], Survival]:
    """Return the survival of an analysis with several methods; all methods except `mpc` need every party.

    Args:
        name: the parameter that says which method; `mpc` where a job leaves it out.
    """

    def survival(job: Job) -> Survival:
        if job.parameters.get(name, "mpc") == "mpc":
            return products_opened_once(job)
        return every_party_needed(job, "each party sends a part of its own, so none may drop out")

    return survival


def _survival(job: Job, opened: OpeningSurvival, why_all: str = "") -> Survival:
    n = len(job.compute_parties)
    return Survival(n, job.t, len(job.members) - n, (opened,), why_all=why_all)
