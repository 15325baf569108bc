"""A table of ratings: what its owner declares of it, and its rows as an analysis gets them.

Such a table has no columns that a job could ask for one by one. What is public are the declarations: the list of items,
how many users there may be, how many ratings a user may be expected to have, and the bounds of a rating. None of them
is counted in the data.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from analyses.job.job import Finite, PublicModel
from mpc.transcript import encode_fields

Integers = NDArray[np.int64]

MAX_ITEMS = 1 << 24
MAX_USERS = 1 << 32
MAX_RATINGS_PER_USER = 1 << 24

UNKNOWN = -1
"""Place of an item that the public list does not hold."""


class RatingsSchema(PublicModel):
    """What the owner of a table of ratings declares.

    Attributes:
        items: how many items the public list holds.
        items_digest: `digest_of_items` of it, in hexadecimal digits: parties compare it instead of the names.
        users: how many users the table may hold.
        ratings_per_user: k, about as many as a user has; only estimates depend on it, and no bound.
        lower: bound of a rating.
        upper: bound of a rating.
    """

    items: Annotated[int, Field(ge=1, le=MAX_ITEMS)]
    items_digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    users: Annotated[int, Field(ge=1, le=MAX_USERS)]
    ratings_per_user: Annotated[int, Field(ge=1, le=MAX_RATINGS_PER_USER)]
    lower: Finite
    upper: Finite

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"the lower bound of a rating, {self.lower}, is not below its upper bound, {self.upper}")
        if not math.isfinite(self.upper - self.lower):
            raise ValueError(f"the range of a rating, from {self.lower} to {self.upper}, is too wide")
        return self

    @property
    def middle(self) -> float:
        """The middle of the bounds."""
        return self.lower + (self.upper - self.lower) / 2


def digest_of_items(items: int | Sequence[str]) -> str:
    """Return the SHA-256 of a public list of items, in hexadecimal digits.

    Args:
        items: their names in order, or how many there are if they are called 0, 1, 2, ...
    """
    fields = ("numbered items", items) if isinstance(items, int) else ("named items", *items)
    return hashlib.sha256(encode_fields(*fields)).hexdigest()


@dataclass(frozen=True)
class RatingRows:
    """The rows of a table of ratings, in its order. Private; never shown by repr.

    Attributes:
        users: shape (rows,), the place in `user_names` of whose rating it is.
        items: shape (rows,), the place in the public list of what is rated; `UNKNOWN` if it is not in it.
        values: shape (rows,), finite numbers, which may lie outside the bounds.
        user_names: ascending, each once.
    """

    users: Integers = field(repr=False)
    items: Integers = field(repr=False)
    values: NDArray[np.float64] = field(repr=False)
    user_names: tuple[str, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if not self.users.shape == self.items.shape == self.values.shape or self.values.ndim != 1:
            raise ValueError("ratings have one user, one item and one value each")
