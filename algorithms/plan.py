"""What every analysis fixes publicly before it runs. All participants compute the same plan from the same job."""

import hashlib
from typing import Any

from dp_accounting import DpEvent

from algorithms.job import Job, JobError, PublicModel
from algorithms.schema import BlockSchema
from dp.views import View
from mpc.session import COORDINATOR

OPENING_STAGE = "opening"
"""The stage of every analysis in which shares of the noisy result leave the parties.

They let nothing pass in it, nor to the coordinator in any other, before they have committed what `privacy_events` says.
"""


class Plan(PublicModel):
    """The common part of a plan.

    Attributes:
        job: what was asked for.
        schemas: the public columns of every member, in the order of `job.members`.
        n_primes: size of the residue field that holds every opened value without wrapping.
    """

    job: Job
    schemas: tuple[BlockSchema, ...]
    n_primes: int

    @property
    def n_parties(self) -> int:
        """N, the number of compute parties."""
        return len(self.job.compute_parties)

    @property
    def owners(self) -> tuple[int, ...]:
        """Member numbers of those that bring columns, in the order of the joint table."""
        members = self.job.members
        return tuple(members.index(i.party) + 1 for i in self.job.inputs)

    def schema_of(self, member: int) -> BlockSchema:
        """Return the public columns of a member number."""
        return self.schemas[member - 1]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the joint table's columns, `party.column`, in its order."""
        return tuple(f"{s.party}.{c.name}" for s in map(self.schema_of, self.owners) for c in s.columns)

    def privacy_report(self) -> dict[str, Any]:
        """Return what the job costs, JSON-able; every analysis says it before anything runs."""
        raise NotImplementedError

    def privacy_events(self, view: View) -> tuple[DpEvent, ...]:
        """Return every release of the job as an event of the accountant, for the neighbours of a view.

        What a party charges to its ledger. An owner of data refuses to run a plan without any.
        """
        raise NotImplementedError

    @property
    def privacy_unit(self) -> str:
        """What one record is that the events protect; budgets are kept per unit."""
        raise NotImplementedError

    @property
    def is_exact(self) -> bool:
        """Whether what is opened has no noise, so that no event can state its cost. Owners must allow it by name."""
        return False

    @property
    def withstands(self) -> int:
        """Of how many colluding parties data are hidden; 0 where one alone undoes what the plan promises."""
        return self.job.t

    @property
    def survival(self) -> str:
        """How many parties may vanish, in words."""
        if reason := why_all_are_needed(self.job):
            return reason
        n, needed = self.n_parties, 2 * self.job.t + 1
        return f"opening a product needs {needed}, so {n - needed} may vanish after input"

    @property
    def receivers(self) -> tuple[int, ...]:
        """Member numbers that get the result; who submitted the job has it from the coordinator."""
        return (COORDINATOR,)

    def digest(self) -> bytes:
        """Return the SHA-256 of the canonical JSON: participants compare it before they run."""
        return hashlib.sha256(self.canonical_json().encode()).digest()


def why_all_are_needed(job: Job) -> str:
    """Return why none of the parties of a job may vanish, in words; empty where its products are opened in one go.

    Told from the job alone, before anybody has shown a schema: the plan and `moiety job plan` say the same.
    """
    if job.analysis == "logistic-regression":
        return f"every step needs the noise of all {len(job.compute_parties)}, so none may vanish"
    way = job.parameters.get("counting" if job.analysis == "clustering" else "method", "mpc")
    return "" if way == "mpc" else "each party sends a part of its own, so none may vanish"


def check_roster(job: Job) -> None:
    """Refuse a roster that cannot compute a product in secret.

    Raises:
        JobError: fewer than three compute parties, or fewer than 2t + 1.
    """
    n, t = len(job.compute_parties), job.t
    if n < 3:
        raise JobError(
            f"compute: {n} compute parties cannot keep a product secret from each other; at least 3 are needed"
        )
    if t < 1:
        raise JobError("colluding: 0 would let every party read every share; the least is 1")
    if 2 * t + 1 > n:
        raise JobError(
            f"colluding: tolerating {t} colluding parties needs {2 * t + 1} compute parties, the job has {n}"
        )


def check_schemas(job: Job, schemas: tuple[BlockSchema, ...]) -> None:
    """Refuse schemas that do not belong to the members of the job, or an owner without columns.

    Raises:
        JobError: names the member.
    """
    if tuple(s.party for s in schemas) != job.members:
        raise JobError(f"schemas of {[s.party for s in schemas]} do not belong to the members {list(job.members)}")
    for brought in job.inputs:
        if not schemas[job.members.index(brought.party)].columns:
            raise JobError(f"inputs: {brought.party} brings no columns")
    owners = [schemas[job.members.index(brought.party)] for brought in job.inputs]
    with_ids, without_ids = [s.party for s in owners if s.has_ids], [s.party for s in owners if not s.has_ids]
    if with_ids and without_ids:
        raise JobError(
            f"inputs: the table of {with_ids[0]} has an id column and the table of {without_ids[0]} has none"
        )
