"""What all participants of a pattern count agree on: its parameters, its noise or its reports, and what they cost."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import ceil, log, prod
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from analyses.job.declared_rows import JointRowsParams, parameters_of
from analyses.job.job import Finite, Job, JobError
from analyses.job.norm_bounds import Bounds, by_owner, fitted, with_proofs
from analyses.job.plan import Plan, check_roster, check_schemas, protected_of
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.pattern_count.products import walk_through_patterns
from analyses.pattern_count.reports import PatternReports
from analyses.rows.integer_column import IntegerColumn, JoinedColumns, joined_columns
from analyses.rows.slots import MAX_SLOTS
from analyses.rows.traffic import JointTraffic
from dp.cost.accounting import CalibrationError
from dp.cost.composition import composed_epsilon
from dp.cost.report import privacy_report
from dp.cost.views import PERSON, VIEWS, Protected, View
from dp.mechanism.bits import BIAS_UNIT, RandomizedBits
from dp.mechanism.shared_laplace import SharedLaplace, least_variance_noise, noise_fields, shared_noise
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from mpc.errors import FieldTooSmallError
from mpc.proofs.norm_bound import NormBound
from mpc.traffic.walk import Traffic

CROSS_TABLE = "cross-table"
"""Name of the same count, with totals: its result is a table."""

MAX_CELLS = 1 << 15
"""Largest number of patterns of one job: those of 15 columns of yes or no, whoever has them. Each is a count with its
error in the result, of some 2 MB then; and a row is shared as a word for each combination of its owner's values."""

MAX_PARTIES = 6
"""Largest number of parties that report. Randomized response carries no information about patterns of more parties."""

CELL_SENSITIVITY: Mapping[View, VectorSensitivity] = {
    "coordinator": VectorSensitivity(1, 1),
    "coalition": VectorSensitivity(2, 2),
}
"""A record sits in one cell: present or absent it moves one count by 1, replaced two. k rows of a person may all sit in
one cell, and move it by k, replaced two of them by k: what `dp.cost.group` says is attained.

Whatever tables hold, each row is in one cell exactly, by itself (`analyses.rows.integer_column`): a value outside of
the categories is taken for the nearest one; of a category that was encoded as columns the first of the largest counts,
of a gap too; several columns of an owner are one category, of which a row has one value, their combination or their
sum; equal rows are rows; at most one indicator of a row and column is 1, and all others are 0. A row that does not
count, as its person has more, or a slot without a match, has no indicator; what has none is counted in the last cell,
and as many are subtracted there, so it moves nothing. A row that loses or finds its match moves one count.

The counts of sums add up the cells of each sum before noise is added: a row is in one of them likewise, and the last
cell is all that the largest sum has."""

MAX_REPORTED_BITS = 20_000
"""Largest number of bits that may be reported about all rows of one person; the cost of each of them is composed."""


class PatternCountParams(JointRowsParams):
    """Parameters of the analysis.

    Attributes:
        method: see the module.
        max_rows: see `JointRowsParams`. `mpc`: sizes the field, nothing else. Otherwise so many
            slots are reported on, and the error grows with its root.
        share: share of the slots that are reported, with `subsampled` only.
        counted: `patterns`, or `sums`, with `mpc` only: how many rows have each sum of the owners' numbers. The JSON of
            other jobs does not show the field.
    """

    method: Literal["mpc", "randomized-response", "subsampled"] = "mpc"
    max_rows: Annotated[int, Field(ge=2, le=1 << 100)]
    share: Annotated[Finite, Field(gt=0, lt=1)] | None = None
    counted: Annotated[Literal["patterns", "sums"], Field(exclude_if=lambda counted: counted == "patterns")] = (
        "patterns"
    )

    @model_validator(mode="after")
    def _a_share_belongs_to_a_sample(self) -> Self:
        if (self.share is None) != (self.method != "subsampled"):
            raise ValueError("share: must be given with method 'subsampled' and with no other method")
        if self.counted == "sums" and self.method != "mpc":
            raise ValueError("counted: sums are counted by method 'mpc'")
        if self.unit == "person" and self.method == "subsampled":
            raise ValueError(
                "unit: the privacy cost of a sample of slots for a person with several rows is not known; use method "
                "'mpc' or 'randomized-response'"
            )
        return self


class PatternCountPlan(Plan):
    """What all participants agree on before the count.

    Attributes:
        params: validated parameters.
        party_mu, mean_units: noise parameter of `mpc`: one of both is 0 (`dp.mechanism.shared_laplace.shared_noise`).
        bias_units: bias of randomized response, in `dp.mechanism.bits.BIAS_UNIT`; 0 for `mpc`.
    """

    params: PatternCountParams
    party_mu: int = 0
    mean_units: int = 0
    bias_units: int = 0

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan`, `analyses.pattern_count.protocol.count_under_shares` and `report`."""
        joint, n_cells = JointTraffic(self, n_rows), prod(self.counted_shape)
        joint.join()
        if self.params.method == "mpc":
            joint.shared_noise_of(n_cells, self.noise.noise_tail_bound(LOG2_WRAP_PROBABILITY))
            if self.protected.name == PERSON:
                joint.inputs({self.owners[0]: 1})
            walk_through_patterns(joint, self.owners, self.shape)
            joint.open(n_cells, joint.product_degree)
            return joint.ended()
        joint.owners_key()
        blocks = list(self.reports.blocks())
        joint.to_coordinator(
            {o: sum(self.reports.message_bytes(j, block) for block in blocks) for j, o in enumerate(self.owners)}
        )
        return joint.ended()

    @property
    def brought(self) -> tuple[JoinedColumns, ...]:
        """The columns of each owner as one, in the order of the job's inputs."""
        return joined_columns(self.job, self.schemas, adds=self.params.counted == "sums")

    @property
    def columns(self) -> tuple[IntegerColumn, ...]:
        """The owners' columns one by one."""
        return tuple(part for column in self.brought for part in column.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of categories of each owner: of combinations or sums, where it brings several columns."""
        return tuple(column.n_values for column in self.brought)

    @property
    def counted_shape(self) -> tuple[int, ...]:
        """Shape of the counts that are opened: numbers of values of each column, or how many sums there are."""
        if self.params.counted == "sums":
            return _counted_shape(self.params, self.shape)
        return tuple(column.n_values for column in self.columns)

    @cached_property
    def noise(self) -> SharedSkellam | SharedLaplace:
        """The mechanism of method `mpc`."""
        return shared_noise(
            prod(self.counted_shape),
            CELL_SENSITIVITY,
            self.n_parties,
            self.job.t,
            party_mu=self.party_mu,
            mean_units=self.mean_units,
            protected=self.protected,
        )

    @cached_property
    def reports(self) -> PatternReports:
        """The reports of the methods other than `mpc`."""
        return _reports(self.params, self.shape, RandomizedBits(self.bias_units * BIAS_UNIT), self.protected)

    @property
    def opened_bound(self) -> int:
        """Bound on the absolute value of what method `mpc` opens."""
        return self.params.max_rows + self.noise.noise_tail_bound(LOG2_WRAP_PROBABILITY)

    @property
    def proves_products(self) -> bool:
        """See `Plan`."""
        return self.params.method == "mpc"

    @cached_property
    def norm_bounds(self) -> Bounds:
        """See `Plan`: the indicators of a row, that of the last category included, are one 1 and otherwise zeros."""
        if self.params.method != "mpc":
            return {}
        return fitted(_proven_bounds(self.job, self.shape, self.params.max_rows), self.n_primes)

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one release of `mpc` and what proofs show; or the reports of all owners, who draw flips by block."""
        if self.params.method == "mpc":
            return (PlannedRelease(self.noise, self.compute_members), *self.proof_releases)
        return (PlannedRelease(self.reports, self.owners, times=self.reports.n_blocks),)

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost in both views."""
        delta = self.job.privacy.delta
        if self.params.method == "mpc":
            return self.noise.report(f"counts of all {self.params.counted}", delta)
        reports = self.reports
        odds = reports.bits.truthful / (1 - reports.bits.truthful)
        known = "which rows are reported is known" if self.params.method == "subsampled" else "as for the coordinator"
        return privacy_report(
            mechanism=f"indicators of each party's categories in {reports.n_reported} of {reports.n_slots} slots, "
            f"each bit true with probability {float(reports.bits.truthful):.6g}",
            sensitivity="a record sets one bit per party (add_or_remove_one), or moves it (replace_one)"
            + self.protected.times,
            n_parties=self.n_parties,
            colluding=self.job.t,
            delta=delta,
            events={view: reports.events(view) for view in VIEWS},
            noise={"coordinator": "all flips of bits and the rows' places are unknown", "coalition": known},
            parameters={
                "method": self.params.method,
                "bias": float(reports.bits.bias),
                "slots": reports.n_slots,
                "reported": reports.n_reported,
                "epsilon_of_one_party_alone": 2 * log(odds) * self.protected.most_rows * (1 + 2.0**-50),
            },
            unit=self.protected.name,
        )

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects."""
        return self.protected.name


def _counted_shape(params: PatternCountParams, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape) if params.counted == "patterns" else (sum(shape) - len(shape) + 1,)


def _proven_bounds(job: Job, shape: Sequence[int], max_rows: int) -> Bounds:
    """Return what owners prove of their indicators, with the smallest masks; nothing where the job wants no proofs."""
    return by_owner(job, (NormBound(n_values - 1, 1, max_rows, is_one_hot=True) for n_values in shape))


def _reports(
    params: PatternCountParams, shape: tuple[int, ...], bits: RandomizedBits, protected: Protected
) -> PatternReports:
    n_slots = params.max_rows
    n_reported = n_slots if params.share is None else max(2, ceil(Fraction(params.share) * n_slots))
    return PatternReports(shape, n_slots, n_reported, bits, protected)


def plan(job: Job, schemas: Sequence[BlockSchema]) -> PatternCountPlan:
    """Fix everything public: categories, noise, field.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, PatternCountParams)
    if job.analysis == CROSS_TABLE and params.method != "mpc":
        raise JobError(f"parameters.method: a {CROSS_TABLE} is counted by 'mpc'; pattern-count has {params.method!r}")
    if job.analysis == CROSS_TABLE and params.counted != "patterns":
        raise JobError(f"parameters.counted: a {CROSS_TABLE} counts patterns; pattern-count counts sums too")
    brought = joined_columns(job, schemas, adds=params.counted == "sums")
    for part in [one for column in brought if column.adds for one in column.parts]:
        if part.labels:
            raise JobError(f"parameters.counted: the values of column {part.name!r} are names, which have no sum")
    shape = tuple(column.n_values for column in brought)
    if len(shape) > MAX_PARTIES and params.method != "mpc":
        raise JobError(
            f"inputs: {len(shape)} parties bring columns; method {params.method!r} counts patterns of at most "
            f"{MAX_PARTIES}; use method 'mpc'"
        )
    n_cells = prod(shape)
    if n_cells > MAX_CELLS:
        shown = n_cells if n_cells < 1 << 60 else f"some 2^{n_cells.bit_length() - 1}"
        raise JobError(
            f"inputs: the columns have {shown} patterns; at most {MAX_CELLS} can be counted. Use coarser categories, "
            "or name fewer columns"
        )
    try:
        return _calibrated(job, tuple(schemas), params, shape)
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except FieldTooSmallError as error:
        raise JobError(f"parameters.max_rows: {error}") from error


def _calibrated(
    job: Job, schemas: tuple[BlockSchema, ...], params: PatternCountParams, shape: tuple[int, ...]
) -> PatternCountPlan:
    target, protected = job.privacy, protected_of(job, schemas)
    if params.method == "mpc":
        n_parties = len(job.compute_parties)

        def calibrated(epsilon: float) -> SharedSkellam | SharedLaplace:
            return least_variance_noise(
                length=prod(_counted_shape(params, shape)),
                sensitivities=CELL_SENSITIVITY,
                n_parties=n_parties,
                colluding=job.t,
                view=target.view,
                epsilon=epsilon,
                delta=target.delta,
                protected=protected,
            )

        def bound_of(noise: SharedSkellam | SharedLaplace) -> int:
            return params.max_rows + noise.noise_tail_bound(LOG2_WRAP_PROBABILITY)

        proven = _proven_bounds(job, shape, params.max_rows)
        n_noises = len(job.compute_parties)
        noise, n_primes = with_proofs(calibrated, bound_of, proven, job.privacy, protected, n_noises)
        return PatternCountPlan(job=job, schemas=schemas, n_primes=n_primes, params=params, **noise_fields(noise))
    if params.max_rows > MAX_SLOTS:
        raise JobError(f"parameters.max_rows: method {params.method!r} supports at most {MAX_SLOTS} rows")
    if 2 * len(shape) * protected.most_rows > MAX_REPORTED_BITS:
        raise JobError(
            f"parameters.method: {params.method!r} would report more than {MAX_REPORTED_BITS} bits about a person "
            f"with {protected.most_rows} rows; use method 'mpc'"
        )

    def epsilon_of(bits: RandomizedBits) -> float:
        events = _reports(params, shape, bits, protected).events(target.view)
        return composed_epsilon(events, target.delta, near=target.epsilon).epsilon

    bits = RandomizedBits.largest_bias(epsilon_of, epsilon=target.epsilon, delta=target.delta)
    units = int(bits.bias / BIAS_UNIT)
    return PatternCountPlan(job=job, schemas=schemas, n_primes=3, params=params, bias_units=units)
