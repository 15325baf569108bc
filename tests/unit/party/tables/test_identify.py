"""One row for each id: which rows have one, in which order they stand, and what several of one id become."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyses.job.row_ids import digests_of_ids
from analyses.job.schema import ColumnSchema
from party.tables.identify import identify, one_row_each
from party.tables.matching_config import MatchingConfig

IDS = ["ben", "ada", "", "ben", "cleo", "ada", "ben"]
COLUMNS = (
    ColumnSchema(name="x", lower=0, upper=10),
    ColumnSchema(name="y", lower=5, upper=10, group="y"),
    ColumnSchema(name="y=missing", lower=0, upper=1, group="y"),
)
VALUES = np.array(
    [[1, 6, 0], [2, 5, 1], [99, 9, 0], [4, 5, 1], [5, 5, 1], [6, 5, 1], [10, 8, 0]],
    dtype=float,
)


def rule(duplicates):
    return MatchingConfig(columns=("id",), duplicates=duplicates, missing="leave out")


def test_ids_stand_in_the_order_in_which_they_come_first_with_all_their_rows():
    found = identify([pl.Series(IDS)])
    np.testing.assert_array_equal(found.ids, digests_of_ids([["ben", "ada", "cleo"]]))
    assert found.rows.tolist() == [0, 3, 6, 1, 5, 4]
    assert (found.first.tolist(), found.last.tolist()) == ([0, 1, 4], [6, 5, 4])
    assert found.sizes.tolist() == [3, 2, 1]


@given(st.lists(st.tuples(st.text(min_size=1), st.sampled_from(["x", "é" * 63, "y" * 127, "y" * 128, "é" * 200]))))
def test_ids_have_the_digests_of_their_fields_whatever_their_length(rows):
    rows = list(dict.fromkeys(rows))
    fields = [[row[place] for row in rows] for place in (0, 1)]
    found = identify([pl.Series(one, dtype=pl.String) for one in fields])
    np.testing.assert_array_equal(found.ids, digests_of_ids(fields))


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "ab"]), st.sampled_from(["", "a", "b"])), max_size=20))
def test_rows_of_one_id_are_those_whose_fields_are_all_equal_and_none_is_empty(rows):
    found = identify([pl.Series([row[place] for row in rows], dtype=pl.String) for place in (0, 1)])
    expected = {}
    for number, row in enumerate(rows):
        if all(row):
            expected.setdefault(row, []).append(number)
    groups = [found.rows[s : s + n].tolist() for s, n in zip(found.starts, found.sizes, strict=True)]
    assert groups == list(expected.values())


@pytest.mark.parametrize(
    ("duplicates", "expected"),
    [
        ("first", [[1, 6, 0], [2, 5, 1], [5, 5, 1]]),
        ("last", [[10, 8, 0], [6, 5, 1], [5, 5, 1]]),
        ("mean", [[5, 7, 0], [4, 5, 1], [5, 5, 1]]),
        ("sum", [[15, 14, 0], [8, 5, 1], [5, 5, 1]]),
        ("max", [[10, 8, 0], [6, 5, 1], [5, 5, 1]]),
        ("min", [[1, 6, 0], [2, 5, 1], [5, 5, 1]]),
        ({"x": "sum", "y": "last"}, [[15, 8, 0], [8, 5, 1], [5, 5, 1]]),
    ],
)
def test_rows_of_one_id_become_what_is_declared_and_gaps_do_not_count(duplicates, expected):
    assert one_row_each(rule(duplicates), identify([pl.Series(IDS)]), VALUES, COLUMNS).tolist() == expected


@settings(max_examples=200)
@given(
    duplicates=st.sampled_from(["first", "last", "mean", "sum", "max", "min"]),
    ids=st.lists(st.sampled_from("abc"), min_size=1, max_size=12),
    data=st.data(),
)
def test_at_most_one_column_of_a_group_is_away_from_its_lower_bound_afterwards(duplicates, ids, data):
    gaps = np.array(data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids))))
    values = np.stack([np.zeros(len(ids)), np.where(gaps, 5.0, 8.0), gaps], axis=1)
    merged = one_row_each(rule(duplicates), identify([pl.Series(ids)]), values, COLUMNS)
    assert not ((merged[:, 1] > 5) & (merged[:, 2] > 0)).any()


@pytest.mark.parametrize("duplicates", ["mean", "sum"])
def test_no_sum_of_the_largest_values_is_infinite(duplicates):
    huge = np.finfo(np.float64).max
    columns = COLUMNS[:1]
    merged = one_row_each(
        rule(duplicates), identify([pl.Series(["a"] * 4)]), np.array([[huge], [huge], [-huge], [huge]]), columns
    )
    assert np.isfinite(merged).all()
    assert merged[0, 0] > 0


def test_one_row_of_the_source_moves_the_row_of_its_id_and_no_other():
    for duplicates in ("mean", "sum", "max", "min", "first", "last"):
        whole = one_row_each(rule(duplicates), identify([pl.Series(IDS)]), VALUES, COLUMNS)
        for without in range(len(IDS)):
            ids = [one for row, one in enumerate(IDS) if row != without]
            less = one_row_each(
                rule(duplicates), identify([pl.Series(ids)]), np.delete(VALUES, without, axis=0), COLUMNS
            )
            names = {name: whole[place].tolist() for place, name in enumerate(dict.fromkeys(filter(None, IDS)))}
            for place, name in enumerate(dict.fromkeys(filter(None, ids))):
                assert name == IDS[without] or less[place].tolist() == names[name]
