"""What is public about matching rows by what identifies them: a job's wish, and an owner's declaration.

An id is one field or several, such as name and date of birth, each normalised by a public recipe. Owners whose recipes
are the same make the same digest of the same id, whatever their columns are called (`analyses.job.row_ids`).
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from analyses.job.job import PublicModel

MAX_MATCHED_ROWS = 1 << 24
"""Most rows that an owner may declare where rows are matched: a match takes memory for as many as are declared."""

MAX_ID_FIELDS = 8
"""Most fields of one id."""

Step = Literal["trim", "nfkc", "lower", "digits", "letters", "integer", "date"]
"""One step of a recipe (`party.tables.normalise` says what each does)."""

Recipe = tuple[Step, ...]
"""What is done to one field of an id, in this order."""

DuplicateRule = Literal["refuse", "first", "last", "mean", "sum", "max", "min"]
"""What becomes of several rows of one id."""


class MatchingSchema(PublicModel):
    """How an owner identifies its rows. Public; names of columns are no part of it, and the rows are not asked.

    Attributes:
        recipe: rule of each field of an id, in the order of the fields.
        duplicates: what becomes of rows with the same id: such a table serves no job, one of them stands for all, or
            they become one row; `by column`: that depends on the column.
        missing: what becomes of a row whose id lacks a field: such a table serves no job, or the row is left out.
        reveal: whether owners may learn which of their own rows all owners have (`Matching.kind` "revealed").
    """

    recipe: Annotated[tuple[Recipe, ...], Field(min_length=1, max_length=MAX_ID_FIELDS)]
    duplicates: DuplicateRule | Literal["by column"] = "refuse"
    missing: Literal["refuse", "leave out"] = "refuse"
    reveal: bool = False


def recipe_in_words(recipe: Sequence[Recipe]) -> str:
    """Return the steps of all fields of an id as text for people."""
    n_fields = f"{len(recipe)} field{'s' if len(recipe) > 1 else ''}"
    return f"{n_fields} ({'; '.join(', '.join(steps) or 'as it is' for steps in recipe)})"
