"""A table of ratings: what its owner declares of it, and its rows as an analysis gets them.

Such a table has no columns that a job could ask for one by one. What is public are the declarations: the list of items,
how many users there may be, how many ratings a user may be expected to have, and the bounds of a rating. None of them
is counted in the data.

Items may have public features, such as genres: a job or a question states them, and each table or device declares the
same ones. They are facts that everybody knows, like the list of items itself: none is computed from a rating, so no
neighbour of a table has others, what is made of noisy sums with them is post-processing, and nothing is charged.
Whoever makes up features from ratings publishes the ratings; that they are none of that kind is each owner's word when
it declares them. All participants use the same numbers: a job's stand in its plan, and each declaration is compared
with them by its digest.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from analyses.job.job import Finite, JobError, PublicModel
from mpc.transcript import encode_fields

Integers = NDArray[np.int64]

MAX_ITEMS = 1 << 24
MAX_USERS = 1 << 32
MAX_RATINGS_PER_USER = 1 << 24

MAX_FEATURES = 64
"""Largest number of features of an item."""

MAX_FEATURE = 100.0
"""Largest absolute value of a feature. Ridges are made for features about as large as 1."""

MAX_FEATURE_VALUES = 1 << 18
"""Largest number of values of all items: they travel in the job's text."""

UNKNOWN = -1
"""Place of an item that the public list does not hold."""


def _of_one_width(rows: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
    width = len(rows[0])
    for place, row in enumerate(rows):
        if len(row) != width:
            raise ValueError(f"item {place} has {len(row)} features, and item 0 has {width}; all must have as many")
    if len(rows) * width > MAX_FEATURE_VALUES:
        raise ValueError(f"{len(rows)} items of {width} features each; at most {MAX_FEATURE_VALUES} values in all")
    return rows


Feature = Annotated[float, Field(ge=-MAX_FEATURE, le=MAX_FEATURE)]
FeaturesOfItem = Annotated[tuple[Feature, ...], Field(min_length=1, max_length=MAX_FEATURES)]
Features = Annotated[tuple[FeaturesOfItem, ...], Field(min_length=1), AfterValidator(_of_one_width)]
"""A row of each item, in the order of the public list; finite numbers, as many of each item."""


def _of_lines(given: object) -> object:
    if isinstance(given, list | tuple) and all(isinstance(row, str) for row in given):
        return [numbers_of(str(line), place) for place, line in enumerate(given, start=1)]
    return given


def numbers_of(line: str, number: int) -> list[float]:
    """Return the numbers on a line of a file, between which there are commas.

    Raises:
        ValueError: one of them is no number; names the line.
    """
    try:
        return [float(text) for text in line.split(",")]
    except ValueError:
        raise ValueError(f"line {number} is not made of numbers and commas") from None


FEATURES_OF_LINES = BeforeValidator(_of_lines)
"""Lets `Features` be lines of a file, an item on each, its features separated by commas."""


def digest_of_features(features: Sequence[Sequence[float]] | None) -> str | None:
    """Return the SHA-256 of a row of features of each item, in hexadecimal digits; None for none."""
    if features is None:
        return None
    values = np.array(features, dtype="<f8") + 0.0  # -0 is 0
    return hashlib.sha256(encode_fields("features of items", *values.shape, values.tobytes())).hexdigest()


def check_features(features: Sequence[Sequence[float]] | None, n_items: int, what: str) -> None:
    """Refuse features that are not of each item.

    Raises:
        JobError: names the field.
    """
    if features is not None and len(features) != n_items:
        raise JobError(f"{what}: {len(features)} rows of features for {n_items} items; each item has one")


class RatingsSchema(PublicModel):
    """What the owner of a table of ratings declares.

    Attributes:
        items: how many items the public list holds.
        items_digest: `digest_of_items` of it, in hexadecimal digits: parties compare it instead of the names.
        users: how many users the table may hold.
        ratings_per_user: k, about as many as a user has; only estimates depend on it, and no bound.
        lower: bound of a rating.
        upper: bound of a rating.
        features_digest: `digest_of_features` of the public features of its items; None where it declares none, and its
            JSON does not show the field.
    """

    items: Annotated[int, Field(ge=1, le=MAX_ITEMS)]
    items_digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    users: Annotated[int, Field(ge=1, le=MAX_USERS)]
    ratings_per_user: Annotated[int, Field(ge=1, le=MAX_RATINGS_PER_USER)]
    lower: Finite
    upper: Finite
    features_digest: Annotated[
        Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None, Field(exclude_if=lambda digest: digest is None)
    ] = None

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
