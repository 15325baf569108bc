"""Ratings of one owner, in compressed rows: what the compiled loops read. Private, and never a dense matrix."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import JobError
from entropy import KeyStream

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RatingReport:
    """What an owner may know of its ratings, and nobody else: the counts are private.

    Attributes:
        n_ratings: ratings that were kept.
        n_outside: ratings outside the public bounds, which were clipped.
        n_unknown: ratings of items outside the public list, which were dropped.
    """

    n_ratings: int
    n_outside: int
    n_unknown: int


@dataclass(frozen=True)
class Ratings:
    """Sparse ratings by row: a row is a user, or, transposed, an item.

    Attributes:
        starts: shape (rows + 1,), ascending from 0: the ratings of row i are starts[i] .. starts[i + 1] - 1.
        columns: shape (ratings,), which column each belongs to, in 0 .. n_columns - 1.
        deviations: shape (ratings,), finite: the rating less the public centre.
        n_columns: how many columns there are.
    """

    starts: Integers = field(repr=False)
    columns: Integers = field(repr=False)
    deviations: Floats = field(repr=False)
    n_columns: int

    @classmethod
    def of(cls, rows: Integers, columns: Integers, deviations: Floats, n_rows: int, n_columns: int) -> "Ratings":
        """Return the ratings in compressed rows, each row's in the order of its columns.

        Args:
            rows: shape (ratings,), each in 0 .. n_rows - 1.
            columns: shape (ratings,), each in 0 .. n_columns - 1.
            deviations: shape (ratings,).
            n_rows: how many rows there are.
            n_columns: how many columns there are.

        Raises:
            ValueError: an index is out of range, a value is not finite, or a pair occurs twice. The text tells none.
        """
        rows, columns = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
        deviations = np.asarray(deviations, dtype=np.float64)
        if not rows.shape == columns.shape == deviations.shape or rows.ndim != 1:
            raise ValueError("ratings have one row, one column and one value each")
        if rows.size and not (
            0 <= rows.min() <= rows.max() < n_rows and 0 <= columns.min() <= columns.max() < n_columns
        ):
            raise ValueError("a rating is about a row or a column that does not exist")
        if not np.isfinite(deviations).all():
            raise ValueError("a rating is not a finite number")
        pairs = rows * n_columns + columns
        order = np.argsort(pairs, kind="stable")  # next to nothing where they are in order
        pairs = pairs[order]
        if np.any(pairs[1:] == pairs[:-1]):
            raise ValueError("a user has rated an item twice")
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(np.int64)
        return cls(starts, columns[order], deviations[order], n_columns)

    @property
    def n_rows(self) -> int:
        """How many rows there are, those without ratings included."""
        return len(self.starts) - 1

    @property
    def n_ratings(self) -> int:
        """How many ratings there are."""
        return len(self.columns)

    @cached_property
    def row_sizes(self) -> Integers:
        """Ratings per row. Private."""
        return np.diff(self.starts)

    @cached_property
    def rows(self) -> Integers:
        """The row of each rating."""
        return np.repeat(np.arange(self.n_rows), self.row_sizes)

    def transposed(self) -> "Ratings":
        """Return the same ratings with rows and columns exchanged."""
        order = np.argsort(self.columns, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.columns, minlength=self.n_columns))]).astype(np.int64)
        return Ratings(starts, self.rows[order], self.deviations[order], self.n_rows)

    def of_rows(self, rows: Integers) -> "Ratings":
        """Return the ratings of some rows, in their order."""
        pieces = [np.arange(self.starts[i], self.starts[i + 1]) for i in rows]
        kept = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(self.row_sizes[rows])]).astype(np.int64)
        return Ratings(starts, self.columns[kept], self.deviations[kept], self.n_columns)

    def select(self, kept: NDArray[np.bool_]) -> "Ratings":
        """Return the ratings for which `kept`, shape (ratings,), is true; rows and columns keep their numbers."""
        sizes = np.bincount(self.rows[kept], minlength=self.n_rows)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Ratings(starts, self.columns[kept], self.deviations[kept], self.n_columns)

    def trimmed(self, most: int, stream: KeyStream) -> "Ratings":
        """Return at most `most` ratings of each row, chosen by coins that depend on no other row and on no value.

        Args:
            most: at least 0.
            stream: the owner's coins; one 64-bit word per rating is read, in every case.
        """
        words = stream.words(self.n_ratings)
        if not self.n_ratings or int(self.row_sizes.max()) <= most:
            return self
        order = np.lexsort((words, self.rows))
        place = np.empty(self.n_ratings, dtype=np.int64)
        place[order] = np.arange(self.n_ratings) - np.repeat(self.starts[:-1], self.row_sizes)
        return self.select(place < most)

    def split_rows(self, n_parts: int) -> Iterator["Ratings"]:
        """Yield the ratings of rows 0, n_parts, 2 n_parts, ..., then of rows 1, n_parts + 1, ..., and so on."""
        for part in range(n_parts):
            yield self.of_rows(np.arange(part, self.n_rows, n_parts))


def read_ratings(
    users: list[str],
    items: list[str],
    values: Floats,
    *,
    item_places: Mapping[str, int],
    bounds: tuple[float, float],
    centre: float,
) -> tuple[Ratings, list[str], RatingReport]:
    """Turn one owner's table into ratings by user.

    Args:
        users: whose each rating is.
        items: what each is about.
        values: shape (ratings,).
        item_places: the public list of items, name to place.
        bounds: public, of a rating; what is outside is clipped.
        centre: mu0, public.

    Returns:
        The ratings; the users in the order of their rows, a user of dropped ratings only included; what was clipped
        and dropped.

    Raises:
        JobError: a rating is not finite, or a user has rated an item twice. The text tells neither.
    """
    if not np.isfinite(values).all():
        raise JobError("ratings: a rating is not a finite number")
    names = sorted(set(users))
    user_places = {name: place for place, name in enumerate(names)}
    known = np.array([item in item_places for item in items], dtype=bool)
    rows = np.array([user_places[user] for user in users], dtype=np.int64)[known]
    columns = np.array([item_places[item] for item in items if item in item_places], dtype=np.int64)
    lower, upper = bounds
    kept = values[known]
    outside = int(np.count_nonzero((kept < lower) | (kept > upper)))
    try:
        ratings = Ratings.of(rows, columns, np.clip(kept, lower, upper) - centre, len(names), len(item_places))
    except ValueError as error:
        raise JobError(f"ratings: {error}") from error
    return ratings, names, RatingReport(ratings.n_ratings, outside, int(np.count_nonzero(~known)))
