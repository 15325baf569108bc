"""How a device declares its user's ratings, checks a question against that, and contributes to a round.

Whether a question is answered is decided by the declaration and the question alone, both of which are public. Whatever
the record holds, one vector of the round's form leaves: that of the ratings that count, or zeros. Nobody but the owner
learns which.

| in the record | becomes |
| --- | --- |
| rating outside the bounds | the nearer bound |
| rating of an item that the public list does not hold | nothing |
| more ratings than are declared | nothing: the first ones in the order of the record count |
| an item twice, a rating that is no finite number | the whole record counts as empty: a vector of zeros |

All of it looks at one user alone, so the bound of `unit_vectors` holds for whatever a record holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import JobError
from analyses.job.ratings import UNKNOWN, digest_of_features, digest_of_items
from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember
from analyses.matrix_factorization.devices.descent_rounds import DescentRounds
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.matrix_factorization.devices.rounds import DeviceRounds
from analyses.matrix_factorization.devices.statistics_rounds import PRIOR, StatisticsRounds
from analyses.matrix_factorization.horizontal import member_vector
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.ratings import Ratings
from entropy import KeyStream

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DeclaredRatings:
    """The public declaration of one user's ratings.

    Attributes:
        items: the public list of items, or how many there are, if they are called 0, 1, 2, ...
        lower, upper: bounds of a rating.
        most: largest number of ratings that count.
        features: public features of the items, a row for each; None for none.
    """

    items: int | tuple[str, ...]
    lower: float
    upper: float
    most: int
    features: tuple[tuple[float, ...], ...] | None = None

    @property
    def n_items(self) -> int:
        """How many items the public list holds."""
        return self.items if isinstance(self.items, int) else len(self.items)

    @cached_property
    def digest(self) -> str:
        """Digest of the public list."""
        return digest_of_items(self.items)

    @cached_property
    def features_digest(self) -> str | None:
        """Digest of the public features; None for none."""
        return digest_of_features(self.features)

    def name_of(self, place: int) -> str:
        """Return what an item is called."""
        return str(place) if isinstance(self.items, int) else self.items[place]

    def places(self, names: Sequence[str]) -> Integers:
        """Return the place of each item in the public list, `UNKNOWN` where it has none."""
        if isinstance(self.items, int):
            found = (_number(name, self.items) for name in names)
        else:
            found = (self._places.get(name, UNKNOWN) for name in names)
        return np.fromiter(found, dtype=np.int64, count=len(names))

    @cached_property
    def _places(self) -> dict[str, int]:
        assert not isinstance(self.items, int)
        return {name: place for place, name in enumerate(self.items)}

    def check(self, question: FactorQuestion) -> None:
        """Refuse a question that this declaration does not fit.

        Raises:
            JobError: the text is made of the question and the declaration only.
        """
        name = question.record
        if (question.items, question.items_digest) != (self.n_items, self.digest):
            raise JobError(f"items: the question has another list of items than {name} is declared with here")
        if question.features is not None and question.features_digest != self.features_digest:
            what = "no public features" if self.features is None else "other public features"
            raise JobError(f"features: the question states some of the items, and {name} is declared with {what} here")
        if question.bounds != (self.lower, self.upper):
            raise JobError(
                f"lower, upper: the question has ratings of {question.lower:g} to {question.upper:g}, but {name} is "
                f"declared here with {self.lower:g} to {self.upper:g}"
            )


def _number(name: str, end: int) -> int:
    is_number = name.isascii() and name.isdecimal() and len(name) <= len(str(end)) and str(int(name)) == name
    return int(name) if is_number and int(name) < end else UNKNOWN


@dataclass(frozen=True)
class RatedItems:
    """The record of one user, as read. Nothing about it has been checked. Private.

    Attributes:
        items: what is rated.
        values: shape (ratings,), finite or not.
    """

    items: tuple[str, ...] = field(repr=False)
    values: Floats = field(repr=False)


@dataclass(frozen=True)
class UsedRatings:
    """The ratings of one user that count, and facts about them that only the owner may know.

    Attributes:
        places: shape (ratings,), of the items in the public list, each once. Private.
        values: shape (ratings,), within the bounds. Private.
        n_outside: ratings outside the bounds, which were clipped. Private.
        n_unknown: ratings of unknown items, which were dropped. Private.
        n_left_out: ratings beyond the declared number, which were dropped. Private.
        not_used_because: why the record counts as empty; empty where it is used. Private.
    """

    places: Integers = field(repr=False)
    values: Floats = field(repr=False)
    n_outside: int = field(default=0, repr=False)
    n_unknown: int = field(default=0, repr=False)
    n_left_out: int = field(default=0, repr=False)
    not_used_because: str = field(default="", repr=False)

    def ratings(self, declared: DeclaredRatings, centre: float) -> Ratings:
        """Return them as the one row of a table, less the centre."""
        rows = np.zeros(len(self.places), dtype=np.int64)
        return Ratings.of(rows, self.places, self.values - centre, 1, declared.n_items)


def no_ratings(why: str) -> UsedRatings:
    """Return what stands for a record that cannot be used."""
    return UsedRatings(np.zeros(0, dtype=np.int64), np.zeros(0), not_used_because=why)


def used_ratings(declared: DeclaredRatings, rated: RatedItems) -> UsedRatings:
    """Return the ratings of a record that count, whatever it holds."""
    values = np.asarray(rated.values, dtype=np.float64)
    if values.shape != (len(rated.items),):
        return no_ratings("it does not have one rating for each item")
    if not np.isfinite(values).all():
        return no_ratings("it has a rating that is not a finite number")
    if len(set(rated.items)) < len(rated.items):
        return no_ratings("it rates an item twice")
    places = declared.places(rated.items)
    known = np.flatnonzero(places != UNKNOWN)
    kept = known[: declared.most]
    found = values[kept]
    return UsedRatings(
        places[kept],
        np.clip(found, declared.lower, declared.upper),
        n_outside=int(np.count_nonzero((found < declared.lower) | (found > declared.upper))),
        n_unknown=len(places) - len(known),
        n_left_out=len(known) - len(kept),
    )


@dataclass(frozen=True)
class Coins:
    """What a device throws its coins with in a series of rounds about samples. Private: they are its amplification.

    Attributes:
        key: key of all coins of the series and of the choice of its ratings, 32 bytes.
        n_before: vectors of the series for which coins were thrown before.
    """

    key: bytes = field(repr=False)
    n_before: int


def device_vector(
    rounds: DeviceRounds,
    number: int,
    model: FactorModel | None,
    declared: DeclaredRatings,
    used: UsedRatings,
    coins: Coins | None = None,
) -> Integers:
    """Return a device's integers in a round, |z|^2 at most the bound B of the round. Private: masked before it leaves.

    In the form sgd these are the gradient of its user's ratings, or zeros where its coin shows tails.

    Args:
        rounds: the question's rounds.
        number: the round's number.
        model: the model that the round starts from, checked; None for round 0.
        declared: public.
        used: the ratings that count.
        coins: the coins of the form sgd.
    """
    ratings = used.ratings(declared, rounds.question.middle)
    if isinstance(rounds, StatisticsRounds):
        return member_vector(rounds.plan, number, model, ratings, PRIOR)
    assert isinstance(rounds, DescentRounds)
    assert coins is not None
    points = rounds.first_points if model is None else model.vectors_q
    if coins.n_before >= rounds.n_rounds:
        return np.zeros(points.size, dtype=np.int64)
    member = HorizontalMember(rounds.plan, ratings, rounds.first_points, KeyStream(coins.key), coins.n_before)
    return member.gradient(points).ravel()
