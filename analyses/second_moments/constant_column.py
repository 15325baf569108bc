"""The constant column beside rows whose second moments are opened: it tells their number and the columns' sums."""

from dataclasses import replace
from math import isqrt

from analyses.rows.row_plan import RowBounds

CONSTANT_PART = 8
"""The squared constant is the squared norm of the other columns divided by this: see `with_constant`."""


def with_constant(rows: RowBounds) -> RowBounds:
    """Return the bounds of rows that have a constant column besides, which tells their number and the columns' sums.

    Let B be the squared norm of the rest of a row and c the constant. A row (x, c) of integers has a squared norm of
    at most B + c^2, which is what `NoisyGram` is calibrated to; no more is known of c there, so its proof covers a
    column that is the same in all rows, also where a row is added or replaced (`dp.mechanism.gram.GramSensitivity`).
    So noise is (B + c^2) / B times as large as without the column. Once the mean m is subtracted, noise in its
    direction is 1 + |m|^2 / c^2 times as large besides (`analyses.second_moments.centred`): a small c harms one
    direction, a large c all of them. With c^2 = B / 8 all directions pay an eighth.
    """
    constant = max(1, isqrt(sum(rows.squared_norm_bounds) // CONSTANT_PART))
    return replace(rows, n_columns=rows.n_columns + 1, constant=constant)
