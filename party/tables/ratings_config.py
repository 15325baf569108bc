"""The configuration of a table of ratings: `[[tables]]` with `kind = "ratings"`."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, model_validator

from analyses.job.ratings import (
    FEATURES_OF_LINES,
    MAX_ITEMS,
    MAX_RATINGS_PER_USER,
    MAX_USERS,
    Features,
    RatingsSchema,
    check_features,
    digest_of_features,
    digest_of_items,
)
from mpc.public_text import check_public
from party.tables.config import TableConfig
from party.tables.spelling.canonical import check_list
from service.files.name_list import list_or_file
from service.settings import explain_fields

KIND = "ratings"

ColumnName = Annotated[str, Field(min_length=1)]


class RatingsTableConfig(TableConfig):
    """One table of ratings: a row says how one user rates one item.

    Attributes:
        user: the column that names whose rating it is; read as text, and never shared.
        item: the column that names what is rated; read as text.
        rating: the column of ratings, the only one with `bounds`; what is outside them is clipped.
        items: the public list of items, in order, or `{ file = "items.txt" }`, a UTF-8 file with one on each line; or
            how many there are, if they are called 0, 1, 2, ... A rating of any other item is dropped. In the horizontal
            setting all parties declare the same list.
        users: how many users there may be. Public, and never a count: it is fixed without a look at the data. In the
            vertical setting users are called 0, 1, 2, ... at all parties, and ratings of others are dropped.
        ratings_per_user: about how many ratings a user has. Public likewise; only estimates depend on it.
        features: public features of the items, such as genres: a row of numbers for each, in the order of the list, or
            `{ file = "genres.csv" }` with one item on each line and commas between its numbers. Facts that everybody
            knows, never made from ratings. A job that states features asks all owners for the same.
    """

    kind: Literal["ratings"]
    user: ColumnName
    item: ColumnName
    rating: ColumnName
    items: Annotated[
        Annotated[int, Field(ge=1, le=MAX_ITEMS)] | Annotated[tuple[ColumnName, ...], Field(min_length=1)],
        list_or_file(MAX_ITEMS),
    ]
    users: Annotated[int, Field(ge=1, le=MAX_USERS)]
    ratings_per_user: Annotated[int, Field(ge=1, le=MAX_RATINGS_PER_USER)]
    features: Annotated[Features, FEATURES_OF_LINES, list_or_file(MAX_ITEMS)] | None = None

    @model_validator(mode="after")
    def _has_three_columns(self) -> Self:
        if len({self.user, self.item, self.rating}) < 3:
            raise ValueError("user, item, rating: must be three different columns")
        if tuple(self.bounds) != (self.rating,) or self.columns:
            raise ValueError(f"bounds: must be those of the column of ratings, {self.rating!r}, and of no other")
        if self.id_column is not None or self.person_column is not None or self.matching is not None:
            raise ValueError("id_column, person_column, matching: a table of ratings names its users, and nothing else")
        return self

    @model_validator(mode="after")
    def _items_are_distinct(self) -> Self:
        if not isinstance(self.items, int):
            check_list("items", self.items, "item")
            check_public(self.items, "items")
        check_features(self.features, self.n_items, "features")
        return self

    @model_validator(mode="after")
    def _first_budget_suits_the_users(self) -> Self:
        if self.first_budget is not None and self.first_budget.delta >= 1 / self.users:
            raise ValueError(f"first_budget.delta: must be below 1 / {self.users}, as there may be {self.users} users")
        return self

    @property
    def n_items(self) -> int:
        """How many items the public list holds."""
        return self.items if isinstance(self.items, int) else len(self.items)

    @property
    def item_names(self) -> tuple[str, ...]:
        """The public list of items."""
        return tuple(map(str, range(self.items))) if isinstance(self.items, int) else self.items

    @property
    def schema_of_ratings(self) -> RatingsSchema:
        """What is public of the ratings: declarations, and nothing that was read."""
        lower, upper = self.bounds[self.rating]
        return RatingsSchema(
            items=self.n_items,
            items_digest=digest_of_items(self.items),
            users=self.users,
            ratings_per_user=self.ratings_per_user,
            lower=lower,
            upper=upper,
            features_digest=self.features_digest,
        )

    @cached_property
    def features_digest(self) -> str | None:
        """Digest of the public features of the items; None without any."""
        return digest_of_features(self.features)


def _of_its_kind(given: object, info: ValidationInfo) -> object:
    if not isinstance(given, Mapping) or "kind" not in given:
        return given
    if given["kind"] != KIND:
        raise ValueError(f"kind: must be {KIND!r}, or absent for a table of rows")
    try:
        return RatingsTableConfig.model_validate(given, context=info.context)
    except ValidationError as error:
        raise ValueError("; ".join(explain_fields(error))) from None


AnyTableConfig = Annotated[TableConfig, BeforeValidator(_of_its_kind)]
"""A section `[[tables]]`, of whatever kind."""
