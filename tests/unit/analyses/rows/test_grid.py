"""Ranges in parts of equal length."""

import numpy as np
import pytest

from analyses.rows.grid import Grid


def test_values_lie_in_their_parts_and_outside_ones_count_as_the_nearer_end():
    places, n_clipped = Grid(0.0, 8.0, 4).places(np.array([-1e300, 0.0, 1.9, 2.0, 7.9, 8.0, 1e300]))
    assert places.tolist() == [0, 0, 0, 1, 3, 3, 3]
    assert n_clipped == 2
    assert Grid(0.0, 8.0, 4).edges.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("lower", "upper", "n_parts", "what"),
    [
        (5.0, 5.0, 2, "range: the lower end"),
        (5.0, 1.0, 2, "range: the lower end"),
        (-1.7e308, 1.7e308, 2, "range: the lower end"),
        (float("nan"), 1.0, 2, "range: the lower end"),
        (1.0, 1.0000000000000002, 4, "range, buckets: the buckets are too narrow"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_what_is_no_range_in_parts_is_refused(lower, upper, n_parts, what):
    with pytest.raises(ValueError, match=what):
        Grid(lower, upper, n_parts)
