"""The parameters of sums, means and histograms over tables, and whether the columns that owners bring fit them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from analyses.job.job import Finite, Job, JobError
from analyses.job.schema import BlockSchema
from analyses.rows.quantise import MAX_ANSWER_PER_UNIT
from analyses.sums.round import HISTOGRAM, MEAN, SumFields
from analyses.sums.row_vectors import scales_of
from mpc.secagg.config import MAX_COMPLETE_GRAPH_MEMBERS

MAX_UNITS = 1 << 24

MOST_NAMED = 6
"""Columns of a party that an error names."""


class TableSumParams(SumFields):
    """Parameters of the three analyses.

    Attributes:
        max_rows: public bound of each party's rows, by default the most that one declares, where all do. It sizes the
            ring; a party with more clips its totals to what so many rows can come to, and its own report says so.
        units: integer units per 1 of a scaled value, for sums and means: values are divided by the largest size that
            the public bounds of their column allow, and rounded to whole units. Where there is a privacy
            target, the default makes rounding err little beside the noise (`planned_units`).
        row_norm: for sums and means, public bound of the Euclidean norm of a scaled row; longer rows are shortened.
            Default: none is.
        weight: for means, index (from 0) of the column of each row's weight, a whole number; absent: each row weighs 1.
        edges: edges of the bins of a histogram, ascending; each bin includes its lower edge, the last both edges.
            Values below the first and above the last edge are counted as such where the bounds of a column allow them.
        names: what is added up in each place, in words; needed where the parties' columns in a place have other names
            or other bounds, as a sum of unlike columns means nothing.
        unit: what is protected; see `UNITS`.
        party_norm: with `unit` party: Euclidean norm to which a party's contribution is shortened, in scaled rows.
        attempts: number of rounds, each with fresh keys, that are tried if too few parties answer.
    """

    max_rows: Annotated[int, Field(ge=1, le=1 << 40)]
    units: Annotated[int, Field(ge=1, le=MAX_UNITS)] | None = None
    row_norm: Annotated[Finite, Field(gt=0)] | None = None
    weight: Annotated[int, Field(ge=0)] | None = None
    edges: Annotated[tuple[Finite, ...], Field(max_length=1 << 16)] = ()
    names: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(max_length=1 << 12)] = ()
    unit: Literal["record", "row", "party", "person", "person-at-party"] = "record"
    party_norm: Annotated[Finite, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _fields_belong_together(self) -> Self:
        if (self.unit == "party") != (self.party_norm is not None):
            raise ValueError("party_norm: must be given with unit 'party' and with no other unit")
        if self.edges:
            self.check_edges()
        return self


def check_schemas(job: Job, schemas: tuple[BlockSchema, ...]) -> None:
    """Refuse members that bring no table, too many of them, or tables with different numbers of columns.

    Raises:
        JobError: names the member.
    """
    parties = tuple(brought.party for brought in job.inputs)
    if set(job.compute_parties) != set(parties):
        raise JobError("compute: exactly the parties that bring tables must be the members of a sum")
    if len(parties) > MAX_COMPLETE_GRAPH_MEMBERS:
        raise JobError(
            f"inputs: at most {MAX_COMPLETE_GRAPH_MEMBERS} parties are supported; use `moiety sum` for more members"
        )
    if tuple(schema.party for schema in schemas) != job.members:
        raise JobError("the schemas are not those of the members of the job")
    for schema in schemas:
        if len(schema.columns) != len(schemas[0].columns) or not schema.columns:
            raise JobError(
                f"inputs: {schema.party} brings {_counted(schema)} and {schemas[0].party} brings "
                f"{_counted(schemas[0])}; all parties must bring the same number, because columns are added by position"
            )


def _counted(schema: BlockSchema) -> str:
    """Return how many columns a party brings and which, so that nobody wonders that a category is several."""
    names = [column.name for column in schema.columns]
    return f"{len(names)} columns ({', '.join(names[:MOST_NAMED])}{', ...' if len(names) > MOST_NAMED else ''})"


def _check_names(params: TableSumParams, schemas: Sequence[BlockSchema]) -> None:
    """Refuse to add up columns of other names or bounds, unless the job says what each place is."""
    first, n_columns = schemas[0], len(schemas[0].columns)
    if params.names:
        if len(params.names) != n_columns:
            raise JobError(f"parameters.names: {len(params.names)} names for {n_columns} columns of each party")
        return
    for schema in schemas[1:]:
        for mine, theirs in zip(first.columns, schema.columns, strict=True):
            if (mine.name, mine.lower, mine.upper) != (theirs.name, theirs.lower, theirs.upper):
                raise JobError(
                    f"inputs: columns are added up by their place, and {first.party}.{mine.name} ({mine.lower:g} to "
                    f"{mine.upper:g}) is another column than {schema.party}.{theirs.name} ({theirs.lower:g} to "
                    f"{theirs.upper:g}); name the same columns in the same order, or say what each place is: "
                    'parameters.names = ["..."]'
                )


def _check_bins(edges: Sequence[float], schemas: Sequence[BlockSchema]) -> None:
    """Refuse bins that hold no value within the bounds of any party: their counts would be noise that is paid for."""
    columns = [schema.columns[0] for schema in schemas]
    for lower, upper in pairwise(edges):
        if not any(column.lower <= upper and column.upper >= lower for column in columns):
            raise JobError(f"parameters.edges: no bounds allow a value from {lower:g} to {upper:g}; leave this bin out")


def check_params(analysis: str, params: TableSumParams, schemas: Sequence[BlockSchema], *, is_noisy: bool) -> None:
    """Refuse parameters that the analysis does not take, and columns that they do not fit.

    Raises:
        JobError: names the parameter or the column.
    """
    n_columns = len(schemas[0].columns)
    _check_names(params, schemas)
    if (analysis == HISTOGRAM) != bool(params.edges):
        raise JobError("parameters.edges: must be given for a histogram and for no other analysis")
    if analysis == HISTOGRAM:
        if n_columns != 1:
            raise JobError("inputs: a histogram needs exactly one column of each party")
        if params.units is not None or params.row_norm is not None:
            raise JobError(
                "parameters.units, parameters.row_norm: must not be given for a histogram, which counts rows"
            )
        _check_bins(params.edges, schemas)
    elif params.units is None and not is_noisy:
        raise JobError("parameters.units: must be given for sums and means without a privacy target")
    if params.weight is not None:
        if analysis != MEAN:
            raise JobError("parameters.weight: must be given for a mean only")
        if params.weight >= n_columns or n_columns < 2:
            raise JobError(
                f"parameters.weight: there is no column number {params.weight}, or no other column to average"
            )
        for schema in schemas:
            column = schema.columns[params.weight]
            if column.lower < 0 or column.upper < 1:
                raise JobError(
                    f"parameters.weight: the lower bound of {schema.party}.{column.name} must be at least 0 and its "
                    "upper bound at least 1"
                )
    if analysis != HISTOGRAM and (largest := max(scales_of(schemas))) > MAX_ANSWER_PER_UNIT:
        raise JobError(
            f"inputs: with bounds up to {largest:g} the answer would leave the range of float64; use other units for "
            "the column"
        )
    if params.units is not None and n_columns * params.units**2 >= 1 << 62:
        raise JobError(
            "parameters.units: sums of rows with this many columns and units do not fit into 64-bit integers"
        )
