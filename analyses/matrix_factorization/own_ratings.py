"""A party's ratings as the rounds read them: every value that does not fit is mapped by a public rule, and counted.

| in the table | becomes |
| --- | --- |
| rating outside the bounds | the nearer bound |
| rating of an item that the public list does not hold | nothing |
| vertical: rating by a user who is not called 0 .. users - 1 | nothing |
| the same user and item again | nothing: the first one in the order of the table counts |

Each rule looks at the rows of one user alone, for a protected rating at those of one user and one item. So tables that
differ in one unit become ratings that differ in that unit at most (docs/decisions/018-public-mapping.md). Where a
rating is protected, the unit is all that the table says of one user and one item, however often it says so.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyses.job.ratings import UNKNOWN, RatingRows
from analyses.job.schema import LocalReport
from analyses.matrix_factorization.ratings import Ratings

Integers = NDArray[np.int64]

_WORD_BITS = 63

UNKNOWN_ITEM = "item, unknown and dropped"
UNKNOWN_USER = "user, unknown and dropped"
REPEATED = "user and item, repeated and dropped"
RATING = "rating"
"""Keys of the owner's report."""


@dataclass(frozen=True)
class OwnRatings:
    """One party's ratings. Private.

    Attributes:
        ratings: deviations from the centre, by user.
        user_names: names of the rows, in their order.
        report: what was clipped and dropped, for the owner.
        failures: the table's own (`analyses.rows.own_values`).
    """

    ratings: Ratings = field(repr=False)
    user_names: tuple[str, ...] = field(repr=False)
    report: LocalReport = field(repr=False)
    failures: Counter[str] = field(default_factory=Counter, repr=False)

    def place_of(self, user: str) -> int | None:
        """Return the row of a user; None where there is no such user."""
        return self.user_names.index(user) if user in self.user_names else None


def own_ratings(
    rows: RatingRows, *, n_items: int, bounds: tuple[float, float], centre: float, n_users: int | None = None
) -> OwnRatings:
    """Return the ratings of a table.

    Args:
        rows: the table's rows.
        n_items: in the public list.
        bounds: a rating's bounds.
        centre: mu0.
        n_users: in the vertical setting, where users are called 0 .. n_users - 1; None where each party has its own.
    """
    users, names = rows.users, rows.user_names
    if n_users is not None:
        users, names = _numbers(names, n_users)[rows.users], tuple(map(str, range(n_users)))
    is_item, is_user = rows.items != UNKNOWN, users != UNKNOWN
    known = np.flatnonzero(is_item & is_user)
    kept = known[first_of_each(users[known] * n_items + rows.items[known], len(names) * n_items)]
    values = rows.values[kept]
    lower, upper = bounds
    report = LocalReport(
        n_rows=len(rows.values),
        clipped_values={RATING: int(np.count_nonzero((values < lower) | (values > upper)))},
        clipped_rows=0,
        mapped_values={
            UNKNOWN_ITEM: int(np.count_nonzero(~is_item)),
            UNKNOWN_USER: int(np.count_nonzero(~is_user)),
            REPEATED: len(known) - len(kept),
        },
    )
    deviations = np.clip(values, lower, upper) - centre
    return OwnRatings(Ratings.of(users[kept], rows.items[kept], deviations, len(names), n_items), names, report)


def no_ratings(n_rows: int, *, n_items: int, n_users: int | None = None) -> OwnRatings:
    """Return what stands for a table whose ratings cannot be used: one user without any, or all vertical ones.

    Arguments of `own_ratings`, and the number of rows of the table.
    """
    names = tuple(map(str, range(n_users or 1)))
    nothing = np.zeros(0, dtype=np.int64)
    ratings = Ratings.of(nothing, nothing, nothing.astype(np.float64), len(names), n_items)
    return OwnRatings(ratings, names, LocalReport(n_rows, {}, 0))


def first_of_each(pairs: Integers, end: int) -> Integers:
    """Return the place of the first one of each different number, in ascending order of the numbers.

    Numbers and their places in one word sort in place, which takes a fraction of the time that it takes to sort places.

    Args:
        pairs: shape (n,), each in 0 .. end - 1.
        end: at most 2^62.
    """
    n_bits = len(pairs).bit_length()
    if end.bit_length() + n_bits <= _WORD_BITS:
        words = pairs << n_bits
        words |= np.arange(len(pairs))
        words.sort()
        order, ascending = words & ((1 << n_bits) - 1), words >> n_bits
    else:
        order = np.argsort(pairs, kind="stable")
        ascending = pairs[order]
    is_first = np.ones(len(pairs), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return np.asarray(order[is_first])


def _numbers(names: tuple[str, ...], end: int) -> Integers:
    """Return the whole number that each name is, `UNKNOWN` where it is none in 0 .. end - 1."""
    digits = [name if name.isascii() and name.isdigit() and len(name) < 19 else str(UNKNOWN) for name in names]
    numbers = np.array(digits, dtype=str).astype(np.int64)
    return np.where((numbers >= 0) & (numbers < end), numbers, UNKNOWN).astype(np.int64)
