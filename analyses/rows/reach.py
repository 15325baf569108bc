"""How far a row can lie from the origin, from public bounds and groups alone: row norms, and each column's zero.

A column with bounds [l, u] is scaled to z = (x - l) / (u - l) in [0, 1], and a public centre is subtracted. Columns
that were encoded from one column of a table form a group of k: in each row at most one of them is away from its lower
bound (`ColumnSchema.group`), so a group's block of a row is t e_i for some column i and 0 <= t <= 1. A column without a
group is a group of k = 1. With the centre c in all columns of a group its squared distance from the origin is

    |t e_i - c 1|^2 = (t - c)^2 + (k - 1) c^2,

which is convex in t, so largest at t = 0, where it is k c^2, or at t = 1, where it is 1 - 2 c + k c^2.

* Origin `lower`: c = 0, so a group reaches 1, however many columns it has.
* Origin `middle`: c = 1 / max(2, k). As c <= 1/2, t = 1 decides: 1/4 for k = 1, the middle between the bounds, and
  1 - 1/k for k >= 2. No other c makes that smaller: for k >= 2 the derivative of 1 - 2 c + k c^2 is zero at c = 1/k.

Squared distances of groups add up. Nothing here is a premise of privacy: whatever a party's rows are, its quantiser
shortens each to the norm that was planned (`BlockQuantiser`), in integers. What is proven here is that rows of an
honest encoder are not shortened, and that the norm, with it the noise, is no larger than they need.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import ColumnSchema

Origin = Literal["lower", "middle"]
"""The value of a column that is mapped to 0: its lower bound, or the middle between its bounds; groups: see above."""

FURTHEST: Mapping[Origin, float] = {"lower": 1.0, "middle": 0.5}
"""The largest absolute value of a scaled value of a column without a group."""


def group_sizes(columns: Sequence[ColumnSchema]) -> tuple[int, ...]:
    """Return for each column of one party's block how many columns of the block are of its group, itself included."""
    sizes = Counter(column.group for column in columns if column.group is not None)
    return tuple(1 if column.group is None else sizes[column.group] for column in columns)


def centres(columns: Sequence[ColumnSchema], origin: Origin) -> NDArray[np.float64]:
    """Return c of each column of one party's block, as a share of its range; shape (columns,)."""
    sizes = np.array(group_sizes(columns), dtype=np.float64)
    return np.zeros(len(columns)) if origin == "lower" else 1.0 / np.maximum(2.0, sizes)


def zeros_of(columns: Sequence[ColumnSchema], origin: Origin) -> NDArray[np.float64]:
    """Return the values of one party's columns that are mapped to 0, in the columns' own units; shape (columns,)."""
    lower, upper = np.array([c.lower for c in columns]), np.array([c.upper for c in columns])
    return np.asarray(lower + centres(columns, origin) * (upper - lower), dtype=np.float64)


def squared_reach(columns: Sequence[ColumnSchema], origin: Origin) -> Fraction:
    """Return the largest squared norm of one party's block of a row after scaling, exactly; 0 without columns."""
    total = Fraction(0)
    for size, n_columns in Counter(group_sizes(columns)).items():  # of thousands of columns there are few sizes
        centre = Fraction(0) if origin == "lower" else Fraction(1, max(2, size))
        total += n_columns * (1 - 2 * centre + size * centre**2) / size  # a group's columns share what it brings
    return total


def most_nonzero(columns: Sequence[ColumnSchema]) -> int:
    """Return how many of one party's values differ from 0 at once in a row, in their own units and within their bounds.

    A group whose lower bounds are all 0 counts as one column, as all but one of its columns are there. Any other column
    counts by itself.
    """
    grounded = {c.group for c in columns if c.group is not None}
    grounded -= {c.group for c in columns if c.lower != 0}
    return len(grounded) + sum(c.group not in grounded for c in columns)
