"""A party's public description of its columns, and the table that it gives to an analysis."""

import hashlib
import math
import mmap
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from analyses.job.column_names import factors_in, name_of_product
from analyses.job.job import Finite, Job, JobError, Name, PublicModel
from analyses.job.matching import MAX_MATCHED_ROWS, MatchingSchema, recipe_in_words
from analyses.job.ratings import RatingRows, RatingsSchema
from analyses.job.row_ids import ID_BYTES, Persons, RowIds
from analyses.job.row_ids import digest_of_ids as digest_of_ids

MAX_NAME = 200
"""Most characters of a column's name."""


class ColumnSchema(PublicModel):
    """One numeric column and its public bounds, fixed by the owner without looking at the data.

    Attributes:
        name: name of the column that analyses see.
        lower, upper: values outside of them are clipped.
        group: the column of the owner's table from which this one and others were encoded, such as the indicators of
            one category. In each row, clipped to the bounds, at most one column of a group is away from its lower
            bound: the owner's encoder sees to that, whatever the data. None where a column stands for itself; its JSON
            then does not show the field.
        factors: the columns of the same table that it is the product of, each within its bounds, one name for each
            time that it counts; empty for all others, whose JSON does not show the field.
    """

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    lower: Finite
    upper: Finite
    group: Annotated[
        Annotated[str, Field(min_length=1, max_length=MAX_NAME)] | None, Field(exclude_if=lambda group: group is None)
    ] = None
    factors: Annotated[tuple[str, ...], Field(exclude_if=lambda factors: not factors)] = ()

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"column {self.name!r}: lower bound {self.lower} is not below upper bound {self.upper}")
        if not math.isfinite(self.upper - self.lower):
            raise ValueError(f"column {self.name!r}: the range from {self.lower} to {self.upper} is too wide")
        return self

    @property
    def source(self) -> str:
        """The column of the owner's table that it comes from."""
        return self.name if self.group is None else self.group

    @property
    def is_value(self) -> bool:
        """Whether it is 1 where a column of the owner's table has some value, else 0."""
        return self.group is not None and self.name.startswith(f"{self.group}=")


def columns_called(columns: Sequence[ColumnSchema], names: Sequence[str]) -> tuple[ColumnSchema, ...]:
    """Return the columns that a job means by some names, in their order, each once.

    A name is that of a column of the owner's table, which stands for all that it is encoded as, or of one of these, or
    of a product of such columns, `age^2` or `age*income`: with a category that of each of its values.

    Raises:
        KeyError: there is no such column; its argument is the name.
    """
    of_source, of_name = defaultdict[str, list[ColumnSchema]](list), defaultdict[str, list[ColumnSchema]](list)
    found: dict[str, ColumnSchema] = {}
    for column in columns:
        of_source[column.source].append(column)
        of_name[column.name].append(column)
    for name in names:
        called = of_source.get(name) or of_name.get(name)
        if not called and (factors := factors_in(name, of_source.keys() | of_name.keys())):
            called = _products([of_name.get(one) or of_source[one] for one in factors])
        if not called:
            raise KeyError(name)
        for column in called:
            found[column.name] = column
    return tuple(found.values())


def _products(factors: Sequence[Sequence[ColumnSchema]]) -> list[ColumnSchema]:
    """Return the products of columns, one of each factor.

    A value of a category times itself is itself, and its product with another value, 0 in all rows, is left out. The
    products of all values are a group, as the category is, where no number among the factors may be negative: in a row,
    all but one are 0, and that is their lower bound. A product has the range that its factors give it; where float64
    does not hold that, or its name is too long, there is none.
    """
    group = name_of_product([(one[0].source if len(one) > 1 else one[0].name) for one in factors])
    found: dict[str, ColumnSchema] = {}
    for chosen in product(*factors):
        values = {one.name: one.group for one in chosen if one.is_value}
        if len(set(values.values())) < len(values):
            continue
        names = [one.name for one in chosen if not one.is_value] + list(values)
        if len(names) == 1:
            found[names[0]] = chosen[0]
            continue
        lower, upper = _range({one.name: (one, names.count(one.name)) for one in chosen}.values())
        name, is_finite = name_of_product(names), math.isfinite(lower) and math.isfinite(upper - lower)
        if is_finite and max(len(name), len(group)) <= MAX_NAME:
            of = group if lower == 0 and any(len(one) > 1 for one in factors) else None
            found[name] = ColumnSchema(name=name, lower=lower, upper=upper, group=of, factors=tuple(names))
    return list(found.values())


def _range(factors: Iterable[tuple[ColumnSchema, int]]) -> tuple[float, float]:
    """Return the least and the largest product of columns, each of which counts some times."""
    lower, upper = 1.0, 1.0
    for one, times in factors:
        ends = [math.prod([end] * times) for end in (one.lower, one.upper)]
        if times % 2 == 0 and one.lower < 0 < one.upper:
            ends.append(0.0)
        corners = [end * other for end in (min(ends), max(ends)) for other in (lower, upper)]
        lower, upper = min(corners), max(corners)
    return lower, upper


MAX_ROWS = 1 << 40

RowRange = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(le=MAX_ROWS)]]
"""The smallest and the largest number of rows that a table may have. Public; the owner fixes it without counting
rows."""

MAX_ROWS_PER_PERSON = 1 << 16

MAX_WORKERS = 256
"""Largest number of workers of one party in one job."""

RowsPerPerson = Annotated[int, Field(ge=1, le=MAX_ROWS_PER_PERSON)]
"""The largest number of rows per person that count in a job that protects persons. Fixed without counting rows."""


class BlockSchema(PublicModel):
    """The columns that one party brings to a job. An empty block belongs to a compute party without data.

    Attributes:
        party: whose.
        columns: in the order of the job.
        has_ids: whether the table names its rows, so that parties can check that their rows match.
        rows: how many the table may have; None where its owner does not say.
        most_rows_per_person: rows of one person that count where a job protects persons; None where the table does
            not say whose its rows are.
        ratings: schema of a table of ratings, which has no columns: analyses of columns refuse it. None for any other
            table, whose JSON does not show the field.
        matching: how the table identifies its rows, for jobs that match them; None where its owner does not say, whose
            JSON does not show the field.
        where: the filter that rows pass, in words; None where all rows take part, and the JSON does not show the field.
        workers: how many processes of the party can work on parts of its rows at once (`mpc.protocol.shards`); None
            where there are none, or none that could read this table, and the JSON does not show the field.
    """

    party: Name
    columns: tuple[ColumnSchema, ...] = ()
    has_ids: bool = False
    rows: RowRange | None = None
    most_rows_per_person: RowsPerPerson | None = None
    ratings: Annotated[RatingsSchema | None, Field(exclude_if=lambda ratings: ratings is None)] = None
    matching: Annotated[MatchingSchema | None, Field(exclude_if=lambda matching: matching is None)] = None
    where: Annotated[Annotated[str, Field(min_length=1)] | None, Field(exclude_if=lambda where: where is None)] = None
    workers: Annotated[
        Annotated[int, Field(ge=1, le=MAX_WORKERS)] | None, Field(exclude_if=lambda workers: workers is None)
    ] = None

    @model_validator(mode="after")
    def _ratings_have_no_columns(self) -> Self:
        others = self.columns or self.has_ids or self.most_rows_per_person is not None or self.matching is not None
        if self.ratings is not None and others:
            raise ValueError("ratings: a table of ratings has no columns, no ids and no persons beside its users")
        return self

    @model_validator(mode="after")
    def _rows_are_ordered(self) -> Self:
        if self.rows is not None and self.rows[0] > self.rows[1]:
            raise ValueError(f"rows: the smallest number, {self.rows[0]}, is larger than the largest, {self.rows[1]}")
        return self

    def admits(self, n_rows: int) -> bool:
        """Return whether a table with this number of rows conforms to the declaration; a filter may leave none."""
        return self.rows is None or ((self.where is not None or self.rows[0] <= n_rows) and n_rows <= self.rows[1])


@dataclass
class OwnMatch:
    """Which rows of an owner's table all owners have: found in a job that keeps it, or kept by an earlier one.

    As private as the rows; never shown by repr.

    Attributes:
        rows: shape (matched rows,), their numbers in the owner's table, in an order common to all owners; None until a
            job that keeps them has found them and all owners have agreed that they are of the same ids.
        origin: 32 bytes that belong to the job that found them, the same at all of its members and at no other job
            (`Session.binding`); empty likewise. Owners compare it with the ids, so parts of two matches do not fit
            together, also where they are of the same rows.
    """

    rows: NDArray[np.int64] | None = field(default=None, repr=False)
    origin: bytes = field(default=b"", repr=False)


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
        ids: what identifies each row, shape (rows, 32), `digests_of_ids` of the normalised fields, no two rows alike;
            None where the schema does not say how.
        is_matched: whether these are the rows of an owner's table that all owners have, in an order common to them all:
            of those there may be fewer than the schema declares.
        gaps, others, filtered, left_out, merged: what has been counted while it was read, for the owner's report; see
            `LocalReport`.
        match: where a job keeps which of its rows match, or goes by what an earlier job has kept; None in any other
            job.

    Raises:
        ValueError: there are fewer or more rows than the schema declares, or not of each row its person or its id, or
            no ratings, although the schema says so.
    """

    schema: BlockSchema
    values: NDArray[np.float64] = field(repr=False)
    ids_digest: bytes = field(default=b"", repr=False)
    persons: Persons | None = field(default=None, repr=False)
    ratings: RatingRows | None = field(default=None, repr=False)
    ids: RowIds | None = field(default=None, repr=False)
    is_matched: bool = False
    gaps: dict[str, int] = field(default_factory=dict, repr=False)
    others: dict[str, int] = field(default_factory=dict, repr=False)
    filtered: int = field(default=0, repr=False)
    left_out: int = field(default=0, repr=False)
    merged: int = field(default=0, repr=False)
    match: OwnMatch | None = field(default=None, repr=False)
    failures: Counter[str] = field(default_factory=Counter, repr=False)

    def __post_init__(self) -> None:
        if (self.ratings is None) != (self.schema.ratings is None):
            raise ValueError(f"the table of {self.schema.party} must hold ratings if and only if its schema says so")
        if self.ratings is not None and len(self.ratings.values) != self.n_rows:
            raise ValueError(f"the table of {self.schema.party} does not hold one rating in each row")
        if not self.is_matched and not self.schema.admits(self.n_rows):
            raise ValueError(
                f"the number of rows in the table of {self.schema.party} is outside the range that it declares"
            )
        if (self.persons is None) != (self.schema.most_rows_per_person is None):
            raise ValueError(
                f"the table of {self.schema.party} must name the persons of its rows if and only if its schema says so"
            )
        if self.persons is not None and len(self.persons.of_rows) != self.n_rows:
            raise ValueError(f"the table of {self.schema.party} does not name a person for each row")
        if (self.ids is None) != (self.schema.matching is None):
            raise ValueError(f"the table of {self.schema.party} must have ids if and only if its schema says so")
        if self.ids is not None and self.ids.shape != (self.n_rows, ID_BYTES):
            raise ValueError(f"the table of {self.schema.party} does not have an id of {ID_BYTES} bytes for each row")

    def block(self, rows: slice) -> NDArray[np.float64]:
        """Return some rows, read-only or a copy.

        Of values that lie in a mapped file only these are brought to memory, and not kept there.
        """
        block = self.values[rows]
        if not isinstance(self.values.base, mmap.mmap):
            return block
        block = block.copy()
        self.values.base.madvise(mmap.MADV_DONTNEED)
        return block

    @property
    def n_rows(self) -> int:
        """Number of rows. It is known to the parties only."""
        return int(self.values.shape[0])

    def matched(self, rows: NDArray[np.int64], origin: bytes = b"") -> "Table":
        """Return the rows that all owners have, in this order; what is compared afterwards are their ids.

        Args:
            rows: numbers of some of its rows, each once. The table must have ids.
            origin: origin of the kept match that they are from, compared too; empty where they were matched now.
        """
        assert self.ids is not None, "a table without ids serves no job that matches rows"
        values, ids = self.values[rows], self.ids[rows]
        values.setflags(write=False)
        return replace(
            self,
            values=values,
            ids=ids,
            ids_digest=hashlib.sha256(origin + ids.tobytes()).digest(),
            persons=None if self.persons is None else self.persons.of_some(rows),
            is_matched=True,
        )


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
        gaps: per column of the owner's table, how many values were missing, and became what its owner declares.
        others: per column of the owner's table, how many values were not of the column's kind.
        filtered: how many rows of the owner's table did not pass the job's filter.
        left_out: how many rows of the owner's table have no id, and were left out.
        merged: how many rows went into an earlier one of the same id.
        n_matched: how many rows of the table all owners have, where rows were matched and each owner learns its own;
            None in any other job.
        failures: class of error to how often computing own values raised one that nobody foresaw. Zeros stood for
            the values there, and everybody else went on (`analyses.rows.own_values`).
        kept: what the analysis leaves at the party for later commands, as JSON data; it may depend on the party's own
            rows without noise.
    """

    n_rows: int
    clipped_values: dict[str, int]
    clipped_rows: int
    mapped_values: dict[str, int] = field(default_factory=dict)
    surplus_rows: int = 0
    gaps: dict[str, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    filtered: int = 0
    left_out: int = 0
    merged: int = 0
    n_matched: int | None = None
    failures: dict[str, int] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict, repr=False)


def check_matching(job: Job, kind: str, owners: Sequence[BlockSchema]) -> None:
    """Refuse to match tables that do not identify their rows, or not alike, or not in this way.

    Args:
        job: that asks for it.
        kind: kind of its matching.
        owners: the schemas of the inputs, in their order.

    Raises:
        JobError: there is one table only; a table does not say how it identifies its rows, or says it otherwise than
            the first one; it declares no number of rows, or too large a one; or rows are to be revealed and its owner
            does not allow it.
            Names the tables.
    """
    called = [f"table {brought.table!r} of party {brought.party!r}" for brought in job.inputs]
    if len(owners) < 2:
        raise JobError(f"matching: {called[0]} is the only one, so there is nothing to match its rows with")
    recipes = []
    for name, owner in zip(called, owners, strict=True):
        if owner.matching is None:
            raise JobError(f"matching: {name} does not say what identifies its rows ([tables.matching])")
        if owner.rows is None:
            raise JobError(f"matching: {name} does not declare its smallest and largest number of rows (`rows`)")
        if owner.rows[1] > MAX_MATCHED_ROWS:
            raise JobError(
                f"matching: {name} declares up to {owner.rows[1]} rows, and at most {MAX_MATCHED_ROWS} can be matched, "
                "as work and memory follow what is declared"
            )
        if kind == "revealed" and not owner.matching.reveal:
            raise JobError(
                f"matching.kind: the owner of {name} does not allow that owners learn which of their rows matched "
                "(`reveal` of [tables.matching])"
            )
        recipes.append(owner.matching.recipe)
        if recipes[-1] != recipes[0]:
            raise JobError(
                f"matching: {called[0]} and {name} identify rows differently: {recipe_in_words(recipes[0])}, and "
                f"{recipe_in_words(recipes[-1])}; [tables.matching] must name fields in the same order and normalise "
                "them alike"
            )
