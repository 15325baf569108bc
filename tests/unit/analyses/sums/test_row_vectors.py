import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.sums.row_vectors import BinnedRows, ScaledRows, WeightedRows

POSITIVE = ScaledRows((1.0, 2.0), 3, None, is_non_negative=True)
SIGNED = ScaledRows((1.0, 2.0), 3, None, is_non_negative=False)
SHORT = ScaledRows((1.0, 2.0), 3, 0.7, is_non_negative=False)
RULES = {
    "positive": (POSITIVE, [(0.0, 1.0), (0.0, 2.0)]),
    "signed": (SIGNED, [(-1.0, 1.0), (-2.0, 2.0)]),
    "shortened": (SHORT, [(-1.0, 1.0), (-2.0, 2.0)]),
    "counted": (WeightedRows(POSITIVE, None, 1), [(0.0, 1.0), (0.0, 2.0)]),
    "weighted": (WeightedRows(SIGNED, 1, 4), [(-1.0, 1.0), (0.0, 4.0), (-2.0, 2.0)]),
    "binned": (BinnedRows((0.0, 1.0, 3.0, 4.0)), [(-1.0, 5.0)]),
    "binned, others too": (BinnedRows((0.0, 1.0, 3.0, 4.0), has_below=True, has_above=True), [(-1.0, 5.0)]),
}


def corners(bounds):
    """Rows with entries at bounds, at 0 and in between, clipped as the rules get them."""
    return [np.array([row]) for row in itertools.product(*([low, (low + high) / 3, 0.0, high] for low, high in bounds))]


@pytest.mark.parametrize("name", RULES)
def test_no_two_rows_differ_by_more_than_the_stated_sensitivities(name):
    """Over all pairs of corners. Without weights and norms the bounds are reached: not looser than need be."""
    rule, bounds = RULES[name]
    vectors = [rule.of_rows(row)[0][0] for row in corners(bounds)]
    added, replaced = (rule.bound.sensitivity(view, "row") for view in ("coordinator", "coalition"))
    for x in vectors:
        assert len(x) == rule.n_entries
        assert np.abs(x).max() <= rule.largest_entry
        assert x @ x <= rule.bound.squared_norm == added.squared_l2
        assert np.abs(x).sum() <= added.l1
        for y in vectors:
            assert (x - y) @ (x - y) <= replaced.squared_l2
            assert np.abs(x - y).sum() <= replaced.l1
    assert added.squared_l2 <= replaced.squared_l2
    assert added.l1 <= replaced.l1
    if name in ("positive", "signed", "binned"):
        assert max(x @ x for x in vectors) == added.squared_l2
        assert max((x - y) @ (x - y) for x in vectors for y in vectors) == replaced.squared_l2


@settings(max_examples=200, deadline=None)
@given(
    row=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3),
    norm=st.floats(1e-3, 5.0),
    units=st.integers(1, 1 << 24),
)
def test_a_shortened_row_is_within_its_bound_as_integers(row, norm, units):
    rule = ScaledRows((1e6, 1e6, 1e6), units, norm, is_non_negative=False)
    vector, _ = rule.of_rows(np.array([row]))
    assert sum(int(v) ** 2 for v in vector[0]) <= rule.bound.squared_norm <= (norm * units) ** 2


def table_of(values, bounds):
    columns = tuple(ColumnSchema(name=f"x{i}", lower=low, upper=high) for i, (low, high) in enumerate(bounds))
    return Table(BlockSchema(party="bank", columns=columns), np.asarray(values, dtype=float))


def test_values_outside_the_bounds_are_clipped_and_counted():
    table = table_of([[5.0, 1.0], [0.5, -3.0]], [(0.0, 1.0), (0.0, 2.0)])
    total, report = POSITIVE.total(table, 1000)
    assert total.tolist() == [3 + 2, 2]  # halves become even
    assert report.clipped_values == {"x0": 1, "x1": 1}
    assert report.clipped_rows == 0


def test_long_rows_are_shortened_and_counted():
    table = table_of([[1.0, 2.0], [0.1, 0.0]], [(0.0, 1.0), (0.0, 2.0)])
    total, report = SHORT.total(table, 1000)
    assert (total <= [2, 2]).all()
    assert report.clipped_rows == 1


@pytest.mark.parametrize("n_rows", [40_000, 40_001])
def test_one_more_row_never_moves_a_clipped_total_by_more_than_a_row(n_rows):
    """Also where the clip is reached in the middle of the table."""
    rng = np.random.default_rng(1)
    values = rng.choice([-1.0, 1.0], (n_rows, 2))
    one_less = np.delete(values, 7, axis=0)
    bounds = [(-1.0, 1.0), (-2.0, 2.0)]
    for largest in (3, 30, 300, 10**6):
        with_it, without = (SIGNED.total(table_of(v, bounds), largest)[0] for v in (values, one_less))
        assert np.abs(with_it).max() <= largest
        assert (np.abs(with_it - without) <= 3).all()


def test_a_histogram_counts_in_half_open_bins_the_last_one_closed():
    table = table_of([[-1.0], [0.0], [0.9], [1.0], [2.9], [3.0], [4.0], [4.1]], [(-1.0, 5.0)])
    rule = BinnedRows((0.0, 1.0, 3.0, 4.0), has_below=True, has_above=True)
    total, _ = rule.total(table, 1000)
    assert total.tolist() == [1, 2, 2, 2, 1]
    assert rule.parts(total) == {"counts": [2, 2, 2], "below": 1, "above": 1}
    assert BinnedRows((0.0, 1.0, 3.0, 4.0)).parts(total[1:4]) == {"counts": [2, 2, 2], "below": None, "above": None}


def test_weights_are_rounded_down_and_multiply_the_row():
    rule, bounds = RULES["weighted"]
    total, report = rule.total(table_of([[1.0, 2.9, -2.0], [1.0, 0.5, 2.0]], bounds), 1000)
    assert total.tolist() == [6, -6, 6]
    assert report.mapped_values == {"x1": 2}


def test_indicators_of_a_category_are_bounded_as_one_column_and_rows_that_are_none_are_shortened():
    rule = ScaledRows((1.0,) * 5, 8, None, is_non_negative=True, most_nonzero=1)
    assert rule.bound.squared_norm == 64
    vectors, n_shortened = rule.of_rows(np.eye(5))
    assert np.array_equal(vectors, 8 * np.eye(5))
    assert n_shortened == 0
    vectors, n_shortened = rule.of_rows(np.ones((3, 5)))
    assert n_shortened == 3
    assert (vectors**2).sum(axis=1).max() <= 64
