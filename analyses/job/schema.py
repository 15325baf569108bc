"""A party's public description of its columns, and the table that it gives to an analysis."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from analyses.job.job import Finite, Name, PublicModel
from analyses.job.ratings import RatingRows, RatingsSchema
from analyses.job.row_ids import Persons
from analyses.job.row_ids import digest_of_ids as digest_of_ids


class ColumnSchema(PublicModel):
    """One numeric column and its public bounds, fixed by the owner without looking at the data."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    lower: Finite
    upper: Finite

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"column {self.name!r}: lower bound {self.lower} is not below upper bound {self.upper}")
        if not math.isfinite(self.upper - self.lower):
            raise ValueError(f"column {self.name!r}: the range from {self.lower} to {self.upper} is too wide")
        return self


MAX_ROWS = 1 << 40

RowRange = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(le=MAX_ROWS)]]
"""The smallest and the largest number of rows that a table may have. Public; the owner fixes it without counting
rows."""

MAX_ROWS_PER_PERSON = 1 << 16

RowsPerPerson = Annotated[int, Field(ge=1, le=MAX_ROWS_PER_PERSON)]
"""The largest number of rows per person that count in a job that protects persons. Fixed without counting rows."""


class BlockSchema(PublicModel):
    """The columns that one party brings to a job. An empty block belongs to a compute party without data.

    Attributes:
        party: whose.
        columns: in the order of the job.
        has_ids: whether the table names its rows, so that parties can check that their rows match.
        rows: how many the table may have; None where its owner does not say.
        most_rows_per_person: of one person's rows so many count where a job protects persons; None where the table does
            not say whose its rows are.
        ratings: of a table of ratings, which has no columns: analyses of columns refuse it for that. None for any other
            table, whose JSON does not show the field.
    """

    party: Name
    columns: tuple[ColumnSchema, ...] = ()
    has_ids: bool = False
    rows: RowRange | None = None
    most_rows_per_person: RowsPerPerson | None = None
    ratings: Annotated[RatingsSchema | None, Field(exclude_if=lambda ratings: ratings is None)] = None

    @model_validator(mode="after")
    def _ratings_have_no_columns(self) -> Self:
        if self.ratings is not None and (self.columns or self.has_ids or self.most_rows_per_person is not None):
            raise ValueError("ratings: a table of ratings has no columns, no ids and no persons beside its users")
        return self

    @model_validator(mode="after")
    def _rows_are_ordered(self) -> Self:
        if self.rows is not None and self.rows[0] > self.rows[1]:
            raise ValueError(f"rows: the smallest number, {self.rows[0]}, is larger than the largest, {self.rows[1]}")
        return self

    def admits(self, n_rows: int) -> bool:
        """Return whether a table with this number of rows conforms to the declaration."""
        return self.rows is None or self.rows[0] <= n_rows <= self.rows[1]


@dataclass(frozen=True)
class Table:
    """One party's rows, as an analysis gets them. Never shown by repr.

    Attributes:
        schema: the public part.
        values: shape (rows, columns), float64, finite; columns in the order of the schema. May lie outside the bounds:
            analyses clip and count.
        ids_digest: `digest_of_ids` of the id column; empty where the table has none.
        persons: whose its rows are; None where the table does not say.
        ratings: the rows of a table of ratings, whose `values` have no columns; None for any other table.

    Raises:
        ValueError: there are fewer or more rows than the schema declares, or not of each row its person, or no ratings,
            although the schema says so.
    """

    schema: BlockSchema
    values: NDArray[np.float64] = field(repr=False)
    ids_digest: bytes = field(default=b"", repr=False)
    persons: Persons | None = field(default=None, repr=False)
    ratings: RatingRows | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.ratings is None) != (self.schema.ratings is None):
            raise ValueError(f"the table of {self.schema.party} must hold ratings if and only if its schema says so")
        if self.ratings is not None and len(self.ratings.values) != self.n_rows:
            raise ValueError(f"the table of {self.schema.party} does not hold one rating in each row")
        if not self.schema.admits(self.n_rows):
            raise ValueError(
                f"the number of rows in the table of {self.schema.party} is outside the range that it declares"
            )
        if (self.persons is None) != (self.schema.most_rows_per_person is None):
            raise ValueError(
                f"the table of {self.schema.party} must name the persons of its rows if and only if its schema says so"
            )
        if self.persons is not None and len(self.persons.of_rows) != self.n_rows:
            raise ValueError(f"the table of {self.schema.party} does not name a person for each row")

    @property
    def n_rows(self) -> int:
        """Number of rows. It is known to the parties only."""
        return int(self.values.shape[0])


@dataclass(frozen=True)
class LocalReport:
    """What a party learns about its own data during a job. Private: it stays beside the party's table.

    Attributes:
        n_rows: rows of the table.
        clipped_values: per column, how many values lay outside the public bounds.
        clipped_rows: how many rows of this party's block exceeded the norm bound.
        mapped_values: per column, how many values the analysis could not take as they stood, and mapped by its public
            rule: no category, no label, no whole number, in no bin. Columns without such a rule are left out.
        surplus_rows: how many rows did not count because their persons had more than count.
        kept: what the analysis leaves at the party for later commands, as JSON data; it may depend on the party's own
            rows without noise.
    """

    n_rows: int
    clipped_values: dict[str, int]
    clipped_rows: int
    mapped_values: dict[str, int] = field(default_factory=dict)
    surplus_rows: int = 0
    kept: dict[str, Any] = field(default_factory=dict, repr=False)
