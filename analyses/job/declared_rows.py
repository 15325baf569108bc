"""The number of rows that a job must support: it follows from the owners' public declarations, never from their tables.

If a job were refused because a table has too many rows, an analyst could find out the number of rows by bisection. So
an owner declares the smallest and the largest number of rows that a table may have, like the bounds of its columns, and
a table outside this range serves no job at all (docs/decisions/009-declared-rows.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from analyses.job.job import Job, JobError, JobInput, PublicModel, parameters_error
from analyses.job.schema import BlockSchema

MAX_ROWS = 1 << 100
"""Largest value of `max_rows`; larger than any table."""


class JointRowsParams(PublicModel):
    """What the parameters of all analyses of a joint table have in common.

    Attributes:
        max_rows: public upper bound of the number of rows, no lower than the most rows that some owner declares. That
            is the default.
        unit: what is protected: a `record` of the joint table, or a `person`, of whose rows a public number counts at
            most (`analyses.rows.surplus`).
    """

    max_rows: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    unit: Literal["record", "person"] = "record"


ParamsT = TypeVar("ParamsT", bound=JointRowsParams)


@dataclass(frozen=True)
class DeclaredRows:
    """The range of the number of rows of the joint table, from all owners' declarations. Public.

    Attributes:
        least, most: the smallest and the largest possible number of rows. Where rows are matched, none need match.
        least_of, most_of: the table whose declaration gives this number, in words.
    """

    least: int
    least_of: str
    most: int
    most_of: str


def declared_rows(job: Job, schemas: Sequence[BlockSchema]) -> DeclaredRows:
    """Return the tightest of what the owners declare.

    Args:
        job: what is asked for.
        schemas: schemas of all members, `analyses.job.plan.check_schemas` has passed.

    Raises:
        JobError: a table declares no number of rows, or two tables cannot have the same number; names them.
    """
    declared: list[tuple[JobInput, int, int]] = []
    for brought in job.inputs:
        rows = schemas[job.members.index(brought.party)].rows
        if rows is None:
            raise JobError(
                f"inputs: {_called(brought)} does not declare its smallest and largest number of rows (`rows`), which "
                f"{job.analysis} needs"
            )
        declared.append((brought, *rows))
    at_least, least, _ = max(declared, key=lambda one: one[1])
    at_most, _, most = min(declared, key=lambda one: one[2])
    if job.matching is not None:  # filters are only there, too
        return DeclaredRows(0, "the matching of rows", most, _called(at_most))
    if least > most:
        raise JobError(
            f"inputs: {_called(at_least)} declares at least {least} rows and {_called(at_most)} declares at most "
            f"{most}, so they cannot hold the same rows"
        )
    return DeclaredRows(least, _called(at_least), most, _called(at_most))


def largest_declared(schemas: Sequence[BlockSchema]) -> dict[str, int]:
    """Return the default `max_rows` of each party's own rows: the most that one declares. None where one says nothing.

    Args:
        schemas: schemas of all parties, which bring a table each.
    """
    declared = [schema.rows[1] for schema in schemas if schema.rows is not None]
    return {"max_rows": max(declared)} if declared and len(declared) == len(schemas) else {}


def parameters_of(job: Job, schemas: Sequence[BlockSchema], model: type[ParamsT]) -> ParamsT:
    """Return the parameters of a job, validated, `max_rows` filled in.

    Raises:
        JobError: names each field that is missing, unknown or out of range; as `declared_rows`.
    """
    rows = declared_rows(job, schemas)
    try:
        params = model.model_validate({"max_rows": rows.most, **job.parameters})
    except ValidationError as error:
        raise parameters_error(error, model) from None
    if params.max_rows < rows.most:
        raise JobError(
            f"parameters.max_rows: {params.max_rows} is smaller than {rows.most}, the largest number of rows that "
            f"{rows.most_of} declares"
        )
    return params


def _called(brought: JobInput) -> str:
    return f"table {brought.table!r} of party {brought.party!r}"
