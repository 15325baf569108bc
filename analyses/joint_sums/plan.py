"""What all participants of a count, sums or means over matched rows agree on."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.declared_rows import declared_rows, parameters_of
from analyses.job.job import Job, JobError
from analyses.job.plan import Plan, check_roster, check_schemas, protected_of
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.joint_sums.bin_plan import BinPlan, plan_bins
from analyses.joint_sums.parameters import JointSumParams
from analyses.rows.own_rows import OwnRows
from analyses.rows.quantise import MAX_SQUARED_NORM, BlockQuantiser, check_units
from analyses.rows.reach import squared_reach, zeros_of
from analyses.rows.traffic import JointTraffic
from dp.cost.accounting import CalibrationError
from dp.cost.views import View
from dp.mechanism.shared_laplace import SharedLaplace, least_variance_noise, noise_fields, shared_noise
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldTooSmallError, TooFewPartiesError
from mpc.traffic.walk import Traffic

COUNT, SUM, MEAN = "joint-count", "joint-sum", "joint-mean"

UNITS_PER_ROW = 4
"""Integer units per width of a column's bounds, for each row that there may be: rounding moves no sum by more than a
quarter of that width, and as a rule by much less."""

LEAST_UNITS, MOST_UNITS = 1 << 10, 1 << 30

MAX_TOTAL = 1 << 62
"""Largest sum over one owner's rows: it is an int64."""


class JointSumPlan(Plan):
    """What all participants agree on before counts and sums are released.

    A row becomes (c, x): c is constant, so its sum tells the number of rows, and x are the columns in integer units,
    0 in the middle of their bounds. Their sums are released, once, with noise. `joint-count` has no x, and c = 1.

    Attributes:
        params: validated parameters.
        units: integers per width of a column's bounds.
        squared_norm_bounds: B_q per owner, in the order of `owners`: no block of a row has a larger squared norm.
        constant: c.
        party_mu, mean_units: the noise parameter: one of both is 0 (`dp.mechanism.shared_laplace.shared_noise`).
    """

    params: JointSumParams
    units: int
    squared_norm_bounds: tuple[int, ...]
    constant: int
    party_mu: int = 0
    mean_units: int = 0

    @property
    def widths(self) -> dict[int, int]:
        """Owner to the number of columns that are added up, in the order of the joint table; empty for a count."""
        return {owner: len(self.schema_of(owner).columns) for owner in self.owners} if self.squared_norm_bounds else {}

    @property
    def summed(self) -> tuple[ColumnSchema, ...]:
        """The columns that are added up."""
        return tuple(column for owner in self.widths for column in self.schema_of(owner).columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, `party.column`."""
        return self.column_names if self.widths else ()

    @property
    def zeros(self) -> NDArray[np.float64]:
        """The values that become 0, in the columns' own units, shape (columns,)."""
        blocks = [zeros_of(self.schema_of(owner).columns, "middle") for owner in self.widths]
        return np.concatenate(blocks) if blocks else np.zeros(0)

    @property
    def n_released(self) -> int:
        """Entries of what is released: the count, then the sums."""
        return 1 + sum(self.widths.values())

    @cached_property
    def noise(self) -> SharedSkellam | SharedLaplace:
        """The mechanism."""
        return shared_noise(
            self.n_released,
            sensitivities(self.constant, self.squared_norm_bounds, tuple(self.widths.values())),
            self.n_parties,
            self.job.t,
            party_mu=self.party_mu,
            mean_units=self.mean_units,
            protected=self.protected,
        )

    @property
    def count_error(self) -> float:
        """Standard error of the number of rows."""
        return self.noise.standard_deviation("coordinator") / self.constant

    @property
    def scaled_error(self) -> float:
        """Standard error of a column's sum, in widths of its bounds, about the middle of its bounds."""
        return self.noise.standard_deviation("coordinator") / self.units

    @property
    def total_bound(self) -> int:
        """Bound on the absolute value of every sum."""
        return self.params.max_rows * largest_entry(self.constant, self.squared_norm_bounds)

    def own_rows(self, member: int, table: Table, counting: NDArray[np.bool_] | None) -> "UnitRows":
        """Return an owner's rows in integer units; arguments as of `OwnRows`."""
        return UnitRows(self, member, table, counting)

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan`, and `analyses.joint_sums.protocol.party`."""
        joint = JointTraffic(self, n_rows)
        joint.join()
        joint.noise(self.n_released)
        joint.row_sums(self.widths)
        joint.open_noisy(self.n_released)
        return joint.ended()

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one release; every compute party adds its noise."""
        return (PlannedRelease(self.noise, self.compute_members),)

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost in both views."""
        what = "the number of rows and the sums of their columns" if self.widths else "the number of rows"
        return self.noise.report(what, self.job.privacy.delta)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects."""
        return self.protected.name


class UnitRows(OwnRows):
    """An owner's rows in integer units, one number per column: scaled by public bounds, 0 in their middle, rounded.

    Args:
        plan: plan of the job.
        member: the owner.
        table: its rows.
        counting: which of them count, shape (rows,); None where all do.
    """

    def __init__(self, plan: JointSumPlan, member: int, table: Table, counting: NDArray[np.bool_] | None) -> None:
        super().__init__(table, counting, [column.name for column in table.schema.columns])
        bound = plan.squared_norm_bounds[plan.owners.index(member)]
        self._quantiser = BlockQuantiser(plan.schema_of(member), plan.units, 1.0, bound, "middle")

    @property
    def row_shape(self) -> tuple[int, ...]:
        """See `OwnRows`."""
        return (len(self._quantiser.schema.columns),)

    def quantise(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """See `BlockQuantiser.quantise`."""
        return self._quantiser.quantise(values)


def sensitivities(
    constant: int, squared_norm_bounds: Sequence[int], widths: Sequence[int]
) -> Mapping[View, VectorSensitivity]:
    """Return how far one record moves the sums of (c, x), as integers.

    An owner's block of x has n_q integers and, whatever its table holds, a squared norm of at most B_q
    (`BlockQuantiser`), so its 1-norm is at most sqrt(n_q B_q). With B and S the sums of both bounds over the owners,

        a record more or less     moves the sums by (c, x):            squared norm c^2 + B,   1-norm c + S;
        a record replaced         by (0, x - x'), where both count:    squared norm 4 B,       1-norm 2 S.

    Values outside of their bounds are clipped, gaps are filled by a public rule, both row by row, and equal rows are
    rows. Where rows are matched a record replaced at one owner may lose its match, or find one: then it moves the sums
    by (c, x), so the larger of both counts for the coalition. A row that does not count brings neither c nor x. k rows
    of a person are k records, each of which is replaced, lost or found (`dp.cost.group`).

    c^2 = 3 B is as large as it can be without making anything dearer for the coalition: with it both views cost alike.
    """
    squares = sum(squared_norm_bounds)
    sizes = sum(isqrt(n * bound) for n, bound in zip(widths, squared_norm_bounds, strict=True))
    more = VectorSensitivity(constant**2 + squares, constant + sizes)
    replaced = VectorSensitivity(max(more.squared_l2, 4 * squares), max(more.l1, 2 * sizes))
    return {"coordinator": more, "coalition": replaced}


def largest_entry(constant: int, squared_norm_bounds: Sequence[int]) -> int:
    """Return a bound on the size of the entries of (c, x)."""
    return max(constant, *map(isqrt, squared_norm_bounds)) if squared_norm_bounds else constant


def plan(job: Job, schemas: Sequence[BlockSchema]) -> JointSumPlan | BinPlan:
    """Fix everything public: units, noise, field; or bins, where people are counted by them.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    if job.parameters.get("bins") is not None:
        if job.analysis != COUNT:
            raise JobError(f"parameters.bins: {job.analysis} has none; {COUNT} counts people by bins")
        return plan_bins(job, schemas)
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, JointSumParams)
    blocks = [] if job.analysis == COUNT else [schemas[job.members.index(i.party)] for i in job.inputs]
    columns = ((f"{block.party}.{column.name}", column) for block in blocks for column in block.columns)
    check_units(columns, most_rows=params.max_rows)
    units, bounds, constant = _units_of(blocks, declared_rows(job, schemas).most)
    widths = tuple(len(block.columns) for block in blocks)
    target = job.privacy
    try:
        noise = least_variance_noise(
            length=1 + sum(widths),
            sensitivities=sensitivities(constant, bounds, widths),
            n_parties=len(job.compute_parties),
            colluding=job.t,
            view=target.view,
            epsilon=target.epsilon,
            delta=target.delta,
            protected=protected_of(job, tuple(schemas)),
        )
        total = params.max_rows * largest_entry(constant, bounds)
        n_primes = len(ResidueField.for_bound(total + noise.noise_tail_bound(LOG2_WRAP_PROBABILITY)).primes)
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except (FieldTooSmallError, TooFewPartiesError) as error:
        raise JobError(f"parameters.max_rows: {error}") from error
    return JointSumPlan(
        job=job,
        schemas=tuple(schemas),
        n_primes=n_primes,
        params=params,
        units=units,
        squared_norm_bounds=bounds,
        constant=constant,
        **noise_fields(noise),
    )


def _units_of(blocks: Sequence[BlockSchema], most_rows: int) -> tuple[int, tuple[int, ...], int]:
    """Return the units, B_q of each owner, and c, for columns of owners and so many rows; without columns all are 1.

    Raises:
        JobError: rounding could move a sum by more than a quarter of its column's width.
    """
    if not blocks:
        return 1, (), 1
    reaches = [squared_reach(block.columns, "middle") for block in blocks]

    def bounds_of(units: int) -> tuple[int, ...]:
        return tuple(int(units**2 * reach) for reach in reaches)

    def fits(units: int) -> bool:
        bounds = bounds_of(units)
        return max(bounds) <= MAX_SQUARED_NORM and most_rows * isqrt(3 * sum(bounds)) <= MAX_TOTAL

    units = min(max(LEAST_UNITS, 1 << (UNITS_PER_ROW * most_rows - 1).bit_length()), MOST_UNITS)
    while units > LEAST_UNITS and not fits(units):
        units //= 2
    if units < UNITS_PER_ROW * most_rows:
        raise JobError(
            f"inputs: the tables declare up to {most_rows} rows, too many to add up this many columns of them"
        )
    bounds = bounds_of(units)
    return units, bounds, isqrt(3 * sum(bounds))
