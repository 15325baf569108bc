"""Parameters of counts, sums and means of what several owners hold about the same people."""

from typing import Annotated, Literal

from pydantic import Field

from analyses.job.declared_rows import JointRowsParams


class JointSumParams(JointRowsParams):
    """Parameters of the analyses: those of all that are about a joint table, and of a count of people by bins.

    Attributes:
        bins: number of bins into which `joint-count` hashes ids, a power of two, or `auto`: then people are counted who
            are in some table, in several, in all, and no rows match. The JSON of other jobs does not show the field.
    """

    bins: Annotated[int | Literal["auto"] | None, Field(exclude_if=lambda bins: bins is None)] = None
