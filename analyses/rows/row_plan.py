"""The rows of analyses that are about X^T X: how each party turns its block of a row into integers of bounded norm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from analyses.job.declared_rows import JointRowsParams
from analyses.job.job import Finite, Job, JobError
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema, Table
from analyses.rows.reach import FURTHEST, Origin, squared_reach, zeros_of

if TYPE_CHECKING:  # with kernels: whoever asks a release again reads its plan, and computes nothing under shares
    from analyses.rows.own_rows import OwnRows, RowSource
    from analyses.rows.quantise import BlockQuantiser

MAX_GAMMA = 1 << 30


class RowParams(JointRowsParams):
    """Parameters of the quantised rows.

    Attributes:
        gamma: integer units per 1 in the quantised table, 2 .. 2^30. Default: so many that rounding hides in the noise
            (`analyses.second_moments.rounding`), 4096 for a sketch.
        max_rows: see `JointRowsParams`; it sizes the field or the sketch, nothing else.
        origin: which value of a column becomes 0: `lower`, its lower bound, or `middle` between its bounds; of k > 2
            columns that were encoded from one, `middle` is a k-th of the way (`analyses.rows.reach`).
        row_norm: public bound of the Euclidean norm of a row of the joint table after scaling each column to a range of
            length 1; longer blocks are clipped. Default: the norm of a row furthest from the origin, which clips
            nothing: sqrt(number of columns) with origin `lower` and half of it with `middle`. All columns that were
            encoded from one count as one with `lower`, and k >= 2 of them as 4 - 4/k with `middle`.
        norm_bounds: party to its share of `row_norm`, same unit; their squares may sum up to at most row_norm^2.
            Default for all parties: in proportion to the squared norm of their furthest block.
    """

    gamma: Annotated[int, Field(ge=2, le=MAX_GAMMA)] | None = None
    origin: Origin = "lower"
    row_norm: Annotated[Finite, Field(gt=0)] | None = None
    norm_bounds: dict[str, Annotated[Finite, Field(gt=0)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _norm_bounds_belong_to_a_row_norm(self) -> Self:
        if self.norm_bounds and self.row_norm is None:
            raise ValueError("norm_bounds: they can only be given together with row_norm")
        return self


@dataclass(frozen=True)
class RowBounds:
    """What `plan_rows` fixes.

    Attributes:
        n_columns: columns of an integer row, the constant column included.
        row_norm: norm in the parameters, default filled in.
        squared_norm_bounds: B_q per owner, in the order of the inputs.
        constant: value of the constant column, in integer units; 0 where there is none.
    """

    n_columns: int
    row_norm: float
    squared_norm_bounds: tuple[int, ...]
    constant: int

    @property
    def total(self) -> int:
        """The largest squared norm of an integer row of the joint table."""
        return sum(self.squared_norm_bounds) + self.constant**2

    @property
    def squared_norms(self) -> tuple[int, ...]:
        """Per owner the largest squared norm of all that it brings: the last one brings the constant column."""
        *first, last = self.squared_norm_bounds
        return (*first, last + self.constant**2)

    @property
    def largest(self) -> int:
        """The largest squared norm of a party's block, or of the constant."""
        return max(*self.squared_norm_bounds, self.constant**2)


class RowPlan(Plan):
    """The part of a plan that defines how rows are scaled and quantised.

    Attributes:
        params: validated parameters, gamma filled in.
        row_norm: norm in the parameters, default filled in.
        squared_norm_bounds: B_q per owner, in the order of `owners`; integers, their sum is at most gamma^2.
        constant: the value of a further, constant column that the last owner appends to its block, in integer units; 0
            where there is none.
    """

    params: RowParams
    row_norm: float
    squared_norm_bounds: tuple[int, ...]
    constant: int = 0

    @property
    def n_row_columns(self) -> int:
        """Columns of an integer row, the constant one included."""
        return len(self.column_names) + (self.constant > 0)

    @property
    def total_squared_norm(self) -> int:
        """The largest squared norm of an integer row of the joint table."""
        return sum(self.squared_norm_bounds) + self.constant**2

    @property
    def squared_norms(self) -> tuple[int, ...]:
        """Per owner the largest squared norm of all that it brings, in the order of `owners`; see `RowBounds`."""
        *first, last = self.squared_norm_bounds
        return (*first, last + self.constant**2)

    @property
    def unit(self) -> float:
        """The size of one integer unit in units of scaled rows."""
        return self.row_norm / self.gamma

    @property
    def zeros(self) -> NDArray[np.float64]:
        """The values that are mapped to 0, in the columns' own units; shape (columns,)."""
        return np.concatenate([zeros_of(self.schema_of(owner).columns, self.params.origin) for owner in self.owners])

    @property
    def gamma(self) -> int:
        """Integer units per 1."""
        return units_of(self.params)

    def width_of(self, member: int) -> int:
        """Return how many integers an owner brings per row."""
        return len(self.schema_of(member).columns) + (self.constant > 0 and member == self.owners[-1])

    @property
    def widths(self) -> dict[int, int]:
        """Owner to the number of integers that it brings per row, in the order of the joint table."""
        return {owner: self.width_of(owner) for owner in self.owners}

    def quantiser_of(self, member: int) -> "BlockQuantiser":
        """Return what an owner does to its columns."""
        from analyses.rows.quantise import BlockQuantiser

        bound = self.squared_norm_bounds[self.owners.index(member)]
        return BlockQuantiser(self.schema_of(member), self.gamma, self.row_norm, bound, self.params.origin)

    def quantise(self, member: int, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Turn some of an owner's rows into integers, the constant appended where it is the owner's.

        Args:
            member: the owner.
            values: shape (rows, its columns).

        Returns:
            shape (rows, width_of(member)), squared norms at most the owner's of `squared_norm_bounds`, and the
            constant's; the private counts of `BlockQuantiser.scale_and_clip`.
        """
        integers, outside, clipped = self.quantiser_of(member).quantise(values)
        if self.width_of(member) > integers.shape[1]:
            integers = np.hstack([integers, np.full((len(integers), 1), self.constant)])
        return integers, outside, clipped

    def own_rows(self, member: int, table: "RowSource", counting: NDArray[np.bool_] | None) -> "OwnRows":
        """Return an owner's rows as the integers that it brings.

        Args:
            member: the owner.
            table: its rows.
            counting: which of them count, shape (rows,); None where all do.
        """
        from analyses.rows.own_rows import QuantisedRows

        return QuantisedRows(self, member, table, counting)


def units_of(params: RowParams) -> int:
    """Return gamma, which a plan has filled in."""
    assert params.gamma is not None, "a plan fills in gamma before it plans rows"
    return params.gamma


def plan_rows(job: Job, schemas: Sequence[BlockSchema], params: RowParams, *, with_constant: bool = False) -> RowBounds:
    """Divide the norm of a row among the owners.

    A constant column is as far from 0 as any value can be: 1 with origin `lower`, 1/2 with `middle`.

    Raises:
        JobError: the norms do not fit, or round every value of a party to zero.
    """
    from analyses.rows.quantise import check_scale, squared_norm_bound

    by_party = {s.party: s.columns for s in schemas}
    reaches = {i.party: squared_reach(by_party[i.party], params.origin) for i in job.inputs}
    n_columns = sum(len(by_party[p]) for p in reaches)
    furthest = FURTHEST[params.origin]
    row_norm = params.row_norm or sqrt(sum(reaches.values()) + Fraction(furthest) ** 2 * with_constant)
    gamma = units_of(params)
    check_scale(gamma, row_norm)
    constant = isqrt(squared_norm_bound(gamma, furthest, row_norm)) if with_constant else 0
    available = gamma**2 - constant**2
    if with_constant and not 0 < constant < gamma:
        raise JobError(
            f"parameters.row_norm: {row_norm:g} leaves no room for other columns beside the constant column, which is "
            f"{furthest:g}; or gamma is so small that the constant would be rounded to zero"
        )
    bounds = _squared_norm_bounds(params, row_norm, available, reaches)
    return RowBounds(n_columns + with_constant, row_norm, bounds, constant)


def _squared_norm_bounds(
    params: RowParams, row_norm: float, available: int, reaches: Mapping[str, Fraction]
) -> tuple[int, ...]:
    from analyses.rows.quantise import squared_norm_bound

    parties, gamma = list(reaches), units_of(params)
    if params.norm_bounds:
        if set(params.norm_bounds) != set(parties):
            raise JobError(
                f"parameters.norm_bounds: must have one entry for each of the parties {', '.join(parties)} and no other"
            )
        bounds = [squared_norm_bound(gamma, params.norm_bounds[p], row_norm) for p in parties]
    else:
        in_all = sum(reaches.values())
        bounds = [available * reaches[p] // in_all for p in parties]
    if sum(bounds) > available:
        constant = " less the constant column" if available < gamma**2 else ""
        raise JobError(
            f"parameters.norm_bounds: the sum of their squares is larger than the square of row_norm{constant}"
        )
    for party, bound in zip(parties, bounds, strict=True):
        if bound < 1:
            raise JobError(
                f"parameters.gamma: with {gamma} every value of {party} would be rounded to zero; choose a larger gamma"
            )
    return tuple(bounds)


def clipped_rows(tables: Sequence[Table], plan: RowPlan) -> NDArray[np.float64]:
    """Return the joint table after scaling by public bounds and clipping, before rounding: what the analysis is about.

    Needs all tables in one place. Shape (rows, columns), in units of scaled rows, without the constant column.
    """
    blocks = []
    for owner, table in zip(plan.owners, tables, strict=True):
        scaled, _, _ = plan.quantiser_of(owner).scale_and_clip(table.values)
        blocks.append(scaled * plan.unit)
    return np.hstack(blocks)
