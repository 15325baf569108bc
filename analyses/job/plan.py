"""What every analysis fixes publicly before it runs. All participants compute the same plan from the same job."""

import hashlib
import json
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from analyses.job.job import Job, JobError, PublicModel
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema, check_matching
from dp.cost.composition import composed_epsilon
from dp.cost.events.event import PrivacyEvent
from dp.cost.job_cost import JobCost
from dp.cost.views import PERSON, RECORD, VIEWS, Protected, View
from dp.mechanism.norm_proof import MaskedProjections, noise_delta
from mpc.protocol.session import COORDINATOR
from mpc.transcript import encode_fields

if TYPE_CHECKING:
    from analyses.job.norm_bounds import Bounds  # with kernels, which nobody loads who only asks
    from mpc.traffic.walk import Traffic

OPENING_STAGE = "opening"
"""The stage of every analysis in which shares of the noisy result leave the parties.

Parties send nothing in this stage, and nothing to the coordinator in any stage, before they have committed the cost
that `privacy_events` states.
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
        return tuple(self.job.members.index(i.party) + 1 for i in self.job.inputs)

    def schema_of(self, member: int) -> BlockSchema:
        """Return the public columns of a member number."""
        return self.schemas[member - 1]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the joint table's columns, `party.column`, in its order."""
        return tuple(f"{s.party}.{c.name}" for s in map(self.schema_of, self.owners) for c in s.columns)

    @property
    def n_lanes(self) -> int:
        """How many parts of the joint table workers of all parties work on at once; 0 where the parties do it alone.

        Every party must have workers, as each of a party's talks to one of every other party. Rows that are matched lie
        in an order that only the party itself knows, which no source has. Workers prove nothing of rows.
        """
        workers = [schema.workers or 0 for schema in self.schemas]
        alone = self.job.matching is not None or self.job.is_malicious
        return 0 if alone else min(workers, default=0)

    @property
    def protected(self) -> Protected:
        """What one unit is, for an analysis of the joint table: a row of it, or the rows of a person."""
        return protected_of(self.job, self.schemas)

    def privacy_report(self) -> dict[str, Any]:
        """Return what the job costs, and what else it reveals, as JSON data; it is known before anything runs."""
        report, matching = self.report_of_releases(), self.job.matching
        if self.norm_bounds:
            report |= self._with_proofs(report)
        return (
            report if matching is None else report | {"matching": {"kind": matching.kind, "reveals": matching.reveals}}
        )

    def _with_proofs(self, report: dict[str, Any]) -> dict[str, Any]:
        """Return what changes in a report as proofs of rows are released besides."""
        views = {}
        for view in VIEWS:
            bound = composed_epsilon(self.privacy_events(view), self.delta_of_releases)
            views[view] = report["views"][view] | {
                "epsilon": bound.epsilon,
                "accounting": "privacy loss distribution" if bound.order is None else "renyi",
                "order": bound.order,
                "order_at_edge": bound.order_at_edge,
            }
        return {"security": self.job.security, "delta_of_noise_proofs": self.delta_of_noise_proofs, "views": views}

    def report_of_releases(self) -> dict[str, Any]:
        """Return the privacy cost of all that the job releases, as JSON data (`dp.cost.report`)."""
        raise NotImplementedError

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """Everything that the job releases: what is charged, and the only noise that a party's gate lets it draw.

        Made once for a plan, and no part of its JSON or digest: it follows from the fields. Empty where `is_exact`.
        """
        raise NotImplementedError

    @property
    def delta_of_releases(self) -> float:
        """The delta of all releases together: what proofs of noise leave of the job's."""
        return self.job.privacy.delta - self.delta_of_noise_proofs

    @property
    def delta_of_noise_proofs(self) -> float:
        """Part of delta that the proofs of noise take; 0 where nothing is proven."""
        drawn = (len(one.members) * one.times for one in self.releases if one.members == self.compute_members)
        return noise_delta(sum(drawn)) if self.norm_bounds else 0.0

    @property
    def norm_bounds(self) -> "Bounds":
        """Owner to what it proves of each row that it deals, in the order of `owners`; empty where nothing is proven.

        A job with `security = "malicious"` is planned only where all owners prove their rows.
        """
        return {}

    @property
    def proves_products(self) -> bool:
        """Whether a job with `security = "malicious"` multiplies by `mpc.proofs.products.ProvenProducts` alone."""
        return False

    def masks_of(self, owner: int) -> MaskedProjections:
        """Return the release of the projections by which an owner proves its rows; the owner draws their masks."""
        from analyses.job.norm_bounds import projections_of

        return projections_of(self.norm_bounds[owner], self.protected)

    @property
    def proof_releases(self) -> tuple[PlannedRelease, ...]:
        """What the proofs of rows release: a part of `releases`."""
        return tuple(PlannedRelease(self.masks_of(owner), (owner,)) for owner in self.norm_bounds)

    def privacy_events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return the events of all releases, for the neighbours of a view.

        `cost` follows from these events. An owner of data refuses to run a plan without events.
        """
        return tuple(chain.from_iterable(planned.release.events(view) for planned in self.releases))

    def cost(self) -> JobCost:
        """Return what the job is charged, everywhere: in quotes, admission, reservations. It dominates every view.

        Raises:
            CostError: the plan states no release, or one for other neighbours than the view's.
        """
        return JobCost.of(self.privacy_events, self.privacy_unit, self.withstands)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the events protect; budgets are kept per unit."""
        raise NotImplementedError

    @property
    def is_exact(self) -> bool:
        """Whether the answer is opened without noise and has no finite cost. Owners must allow it explicitly."""
        return False

    def traffic(self, n_rows: int) -> "Traffic | None":
        """Return what the members send, walked through without running it; None where an analysis does not say.

        Args:
            n_rows: rows of the joint table, at least 1; what else the data decide is at its largest.
        """
        return None

    @property
    def has_intermediate_products(self) -> bool:
        """Whether products under shares are computed with further before anything is opened.

        A compute party that deviates can read others' rows through one (docs/threat-model.md). It follows from what the
        members send; an analysis that does not say what it sends counts as one with such products.
        """
        walked = self.traffic(1)
        return walked is None or walked.has_intermediate_products

    @property
    def withstands(self) -> int:
        """The number of colluding parties that the plan protects data from; 0 if a single one can undo its promise."""
        return self.job.t

    @property
    def receivers(self) -> tuple[int, ...]:
        """Member numbers that receive the result; the analyst receives it from the coordinator."""
        return (COORDINATOR,)

    @property
    def compute_members(self) -> tuple[int, ...]:
        """Member numbers of the compute parties."""
        return tuple(range(1, self.n_parties + 1))

    def digest(self) -> bytes:
        """Return the SHA-256 of the canonical JSON: it covers the job, all members' schemas and all that follows."""
        return hashlib.sha256(self.canonical_json().encode()).digest()

    def terms(self, analyst: str) -> bytes:
        """Return a 32-byte digest that all participants must agree on before any data are sent.

        The session binds it into every key, together with the protocol's version, the job's id and the names of all
        members and of the coordinator (`mpc.protocol.greeting.binding_of`). Whoever asked is part of it: owners admit
        a job and charge it by the analyst's name, so all of them must have been told the same one.

        Args:
            analyst: who submitted the job, as the coordinator says.
        """
        return hashlib.sha256(encode_fields("moiety terms", self.digest(), analyst)).digest()

    def peers_of(self, me: int) -> tuple[int, ...]:
        """Return the members whose plan a member compares with its own itself: those that it shares secrets with.

        Of two members of whom neither computes, each has the other's plan compared by every compute party
        (`mpc.protocol.exchange.confirm_pairwise_secrets`).
        """
        members = range(1, len(self.job.members) + 1)
        return tuple(m for m in members if m != me and (m <= self.n_parties or me <= self.n_parties))


def check_roster(job: Job, fewest: int = 3) -> None:
    """Refuse a roster that cannot compute a product in secret, or, with `fewest` 2, cannot add under masks.

    Of two parties each is counted as colluding against the other: it knows all noise but the other's.

    Args:
        job: what is asked for.
        fewest: compute parties of the analysis: 3, or 2 where nothing is multiplied.

    Raises:
        JobError: fewer compute parties than that, or, of three and more, fewer than 2t + 1.
    """
    n, t = len(job.compute_parties), job.t
    if n == fewest == 2 and t == 1:
        return
    if n < fewest == 2:
        raise JobError("inputs: at least 2 parties must bring tables; one alone asks itself")
    if n < 3 and fewest == 3:
        raise JobError(
            f"compute: {n} compute parties cannot multiply secret values without revealing them; at least 3 are needed."
            " A party without a table may compute, too: name all, owners and helpers, in compute = "
            f"{json.dumps([*job.compute_parties, *(['HELPER'] * (3 - n))])}"
        )
    if t < 1:
        raise JobError("colluding: must be at least 1; with 0 a single party could read all shared data")
    if 2 * t + 1 > n:
        raise JobError(
            f"colluding: tolerating {t} colluding parties needs {2 * t + 1} compute parties, the job has {n}"
        )


def check_schemas(job: Job, schemas: tuple[BlockSchema, ...]) -> None:
    """Refuse schemas that do not belong to the members of the job, an owner without columns, or unmatched ids.

    Raises:
        JobError: names the member; as `check_matching`.
    """
    if tuple(s.party for s in schemas) != job.members:
        raise JobError(
            f"the schemas are from {[s.party for s in schemas]}, but the members of the job are {list(job.members)}"
        )
    for brought in job.inputs:
        if not schemas[job.members.index(brought.party)].columns:
            raise JobError(f"inputs: {brought.party} must bring at least one column")
    owners = [schemas[job.members.index(brought.party)] for brought in job.inputs]
    with_ids, without_ids = [s.party for s in owners if s.has_ids], [s.party for s in owners if not s.has_ids]
    if job.matching is not None:
        check_matching(job, job.matching.kind, owners)
        if matches_in_secret(job):
            check_secret_matching(job)
    elif with_ids and without_ids:
        raise JobError(
            f"inputs: the table of {with_ids[0]} has an id column and the table of {without_ids[0]} has none"
        )
    check_order(job, is_checked=job.matching is not None or len(owners) < 2 or not without_ids)
    protected_of(job, schemas)


def check_order(job: Job, *, is_checked: bool) -> None:
    """Refuse to join rows whose order nobody can check, unless the job says that it trusts the order.

    Args:
        job: what is asked for.
        is_checked: whether rows are matched, or their ids compared, or there is one table only.

    Raises:
        JobError: says what to do.
    """
    if is_checked and job.order is not None:
        raise JobError("order: the rows of this job are matched or compared by their ids; leave `order` away")
    if not is_checked and job.order is None:
        raise JobError(
            "inputs: no table has ids, so nobody can check that row i is the same person in each of them, and other "
            "orders would give a wrong answer; owners name an `id_column`, or the job matches rows ([matching]), or it "
            'trusts the order of all tables: order = "trusted" (in Python: row_order="trusted")'
        )


def check_secret_matching(job: Job) -> None:
    """Refuse to match rows under shares where not all owners compute, or where it would not be secret.

    Raises:
        JobError: an owner holds no shares; more than one party may collude; or persons are to be protected. Names the
            field of the job.
    """
    for brought in job.inputs:
        if brought.party not in job.compute_parties:
            raise JobError(
                f"compute: {brought.party} brings a table, so it must be one of the compute parties: rows are matched "
                "in secret among those who hold shares"
            )
    if job.t != 1:
        raise JobError(
            f"colluding: {job.t} colluding parties could find out which rows match, as one of them helps another with "
            "each table; rows are matched in secret against one (`colluding = 1`)"
        )
    if protects_persons(job):
        raise JobError(
            "parameters.unit: of rows that are matched in secret nobody knows which are of the same person, so no more "
            'than single rows can be protected (`unit = "record"`)'
        )


def matches_in_secret(job: Job) -> bool:
    """Return whether rows are matched under shares: then nobody knows which of them are rows of the joint table."""
    return job.matching is not None and job.matching.kind == "secret"


def protects_persons(job: Job) -> bool:
    """Return whether a job asks that persons are protected, and not single rows."""
    return job.parameters.get("unit") == PERSON


def check_unit(job: Job, plan: Plan) -> None:
    """Refuse a plan that protects something else than persons, although its job asks that persons are protected.

    Every plan that a party, a coordinator or a local run makes passes here (`analyses.job.analysis.Analysis`), so an
    analysis that overlooks the unit in its cost serves no such job.

    Raises:
        JobError: names the analysis and the unit that its plan protects.
    """
    if protects_persons(job) and plan.privacy_unit != PERSON:
        raise JobError(
            f"parameters.unit: {job.analysis} cannot protect persons; the privacy unit of its plan is "
            f"{plan.privacy_unit!r}"
        )


def protected_of(job: Job, schemas: tuple[BlockSchema, ...]) -> Protected:
    """Return what a job about the joint table protects.

    A row of it is a row at every owner, so all must drop the same surplus rows: they declare the same number.

    Raises:
        JobError: persons are to be protected, and a table does not say whose its rows are, or two tables let different
            numbers of rows of one person count; names the tables.
    """
    if not protects_persons(job):
        return RECORD
    declared = rows_per_person(job, schemas)
    first, most = next(iter(declared.items()))
    for party, other in declared.items():
        if other != most:
            raise JobError(
                f"parameters.unit: the table of {first} counts at most {most} rows of one person and the table of "
                f"{party} at most {other} (most_rows_per_person); all tables must drop the same rows, so these "
                "numbers must be equal"
            )
    return Protected(PERSON, most)


def rows_per_person(job: Job, schemas: tuple[BlockSchema, ...]) -> dict[str, int]:
    """Return how many rows of one person count in the table of each owner, by party.

    Raises:
        JobError: a table does not say whose its rows are; names it.
    """
    found = {}
    for brought in job.inputs:
        most = schemas[job.members.index(brought.party)].most_rows_per_person
        if most is None:
            raise JobError(
                f"parameters.unit: persons cannot be protected, because the table of {brought.party} has no "
                "person_column and no most_rows_per_person"
            )
        found[brought.party] = most
    return found
