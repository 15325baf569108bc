"""The records of a device in its configuration: `[[records]]`, of numbers or of ratings."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, model_validator

from analyses.job.job import Finite, Name
from analyses.job.ratings import FEATURES_OF_LINES, MAX_RATINGS_PER_USER, Features, check_features
from analyses.matrix_factorization.devices.question import MAX_DEVICE_ITEMS
from analyses.matrix_factorization.devices.record import DeclaredRatings
from analyses.sums.records import DeclaredRecord
from analyses.sums.secure_sum import MAX_LENGTH, MAX_WEIGHT
from device.ratings import KeptRatings, read_ratings
from device.records import KeptRecord, read_record
from mpc.public_text import check_public
from service.files.name_list import list_or_file
from service.settings import FilePath, Settings, explain_fields

RATINGS_KIND = "ratings"


class RecordConfig(Settings):
    """Section `[[records]]`: what this member contributes where a sum asks for it by name.

    Name, length and largest weight are public: they decide whether a question is answered, so analysts can find them
        out. They are declared from what the record is about, and nothing that the file holds decides about an
    answer: a file that is not what is declared contributes zeros.

    Attributes:
        name: name that questions use.
        path: a JSON file: `{"values": [numbers], "weight": 3}`; the weight, a whole number, is for means, and 1 where
            it is left out. It is read anew for each sum.
        length: count of its numbers. Sums and means need it, and answer questions of this length only; a record
            whose number of values varies has none, and is in histograms only.
        largest_weight: largest value of its weight, which is 0 or more. Means need it, and answer questions that allow
            for at least as much.
        fixed: whether surveys get one response per mechanism for ever, even if the value changes: then nobody can tell
            from several responses that it has changed, and no more is ever told of it than by the first one.
    """

    name: Name
    path: FilePath
    length: Annotated[int, Field(ge=1, le=MAX_LENGTH)] | None = None
    largest_weight: Annotated[int, Field(ge=1, le=MAX_WEIGHT)] | None = None
    fixed: bool = False

    @model_validator(mode="after")
    def _a_mean_has_a_length(self) -> Self:
        if self.largest_weight is not None and self.length is None:
            raise ValueError("largest_weight: means need a length too")
        return self

    def as_kept(self) -> KeptRecord:
        """Return the record as the member uses it."""
        declared = DeclaredRecord(self.length, self.largest_weight)
        return KeptRecord(declared, partial(read_record, self.path, declared))


class RatingsRecordConfig(Settings):
    """Section `[[records]]` with `kind = "ratings"`: the ratings of this member's user, for matrix factorizations.

    All of it but the path is public: it decides whether a question is answered.

    Attributes:
        kind: "ratings".
        name: name that questions use.
        path: a JSON file: `{"ratings": [["item", number], ...]}`. It is read anew for each round.
        items: the public list of items, in order, or `{ file = "items.txt" }`, a UTF-8 file with one on each line; or
            how many there are, if they are called 0, 1, 2, ... Ratings of others are dropped.
        bounds: bounds of a rating; what is outside is clipped.
        ratings_per_user: number of ratings that count, the first ones of the file. Default: one for each item.
        features: public features of the items: a row of numbers for each, or `{ file = "genres.csv" }`, with one item
            on each line and commas between its numbers. A question that states features must state these.
    """

    kind: Literal["ratings"]
    name: Name
    path: FilePath
    items: Annotated[
        Annotated[int, Field(ge=1, le=MAX_DEVICE_ITEMS)] | Annotated[tuple[str, ...], Field(min_length=1)],
        list_or_file(MAX_DEVICE_ITEMS),
    ]
    bounds: tuple[Finite, Finite]
    ratings_per_user: Annotated[int, Field(ge=1, le=MAX_RATINGS_PER_USER)] | None = None
    features: Annotated[Features, FEATURES_OF_LINES, list_or_file(MAX_DEVICE_ITEMS)] | None = None

    @model_validator(mode="after")
    def _is_a_declaration(self) -> Self:
        lower, upper = self.bounds
        if not lower < upper:
            raise ValueError("bounds: the lower bound of a rating must be below its upper bound")
        if not isinstance(self.items, int):
            if len(set(self.items)) < len(self.items):
                raise ValueError("items: the same item appears more than once")
            check_public(self.items, "items")
        check_features(self.features, self.items if isinstance(self.items, int) else len(self.items), "features")
        return self

    @property
    def declared(self) -> DeclaredRatings:
        """What is public of it."""
        n_items = self.items if isinstance(self.items, int) else len(self.items)
        return DeclaredRatings(self.items, *self.bounds, most=self.ratings_per_user or n_items, features=self.features)

    def as_kept(self) -> KeptRatings:
        """Return the ratings as the member uses them."""
        return KeptRatings(self.declared, partial(read_ratings, self.path, self.declared))


def _of_its_kind(given: object, info: ValidationInfo) -> object:
    if not isinstance(given, Mapping) or "kind" not in given:
        return given
    if given["kind"] != RATINGS_KIND:
        raise ValueError(f"kind: must be {RATINGS_KIND!r}, or absent for a record of numbers")
    try:
        return RatingsRecordConfig.model_validate(given, context=info.context)
    except ValidationError as error:
        raise ValueError("; ".join(explain_fields(error))) from None


AnyRecordConfig = Annotated[RecordConfig | RatingsRecordConfig, BeforeValidator(_of_its_kind)]
"""A section `[[records]]`, of whatever kind."""
