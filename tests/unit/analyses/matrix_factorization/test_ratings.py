"""Ratings in compressed rows: what is refused, clipped, dropped and kept."""

import numpy as np
import pytest

from analyses.job.job import JobError
from analyses.matrix_factorization.ratings import Ratings, read_ratings
from entropy import KeyStream

PLACES = {"a": 0, "b": 1, "c": 2}


def read(users, items, values):
    return read_ratings(users, items, np.array(values, dtype=float), item_places=PLACES, bounds=(1.0, 5.0), centre=3.5)


def test_a_table_becomes_rows_of_users_clipped_to_the_bounds():
    ratings, users, report = read(["u", "t", "u"], ["c", "a", "a"], [9.0, 2.0, 4.0])
    assert users == ["t", "u"]
    assert ratings.starts.tolist() == [0, 1, 3]
    assert ratings.columns.tolist() == [0, 0, 2]
    assert ratings.deviations.tolist() == [-1.5, 0.5, 1.5]
    assert (report.n_ratings, report.n_outside, report.n_unknown) == (3, 1, 0)


def test_ratings_of_unknown_items_are_dropped_and_their_user_stays():
    ratings, users, report = read(["u", "v"], ["a", "nowhere"], [4.0, 4.0])
    assert (users, ratings.n_rows, ratings.n_ratings) == (["u", "v"], 2, 1)
    assert report.n_unknown == 1


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_rating_that_is_not_finite_is_refused(wrong):
    with pytest.raises(JobError, match="not a finite number"):
        read(["u"], ["a"], [wrong])


def test_a_pair_that_occurs_twice_is_refused_and_not_named():
    with pytest.raises(JobError, match="twice") as error:
        read(["somebody", "somebody"], ["a", "a"], [4.0, 3.0])
    assert "somebody" not in str(error.value)


def test_numbers_out_of_range_are_refused():
    with pytest.raises(ValueError, match="does not exist"):
        Ratings.of(np.array([0]), np.array([3]), np.array([1.0]), 1, 3)


def test_transposing_twice_gives_the_same_ratings():
    rng = np.random.default_rng(1)
    users, items = np.nonzero(rng.random((6, 4)) < 0.5)
    ratings = Ratings.of(users, items, rng.normal(size=len(users)), 6, 4)
    again = ratings.transposed().transposed()
    for name in ("starts", "columns", "deviations"):
        np.testing.assert_array_equal(getattr(again, name), getattr(ratings, name))


def test_trimming_keeps_at_most_so_many_of_each_row_by_coins_that_no_other_row_throws():
    users, items = np.nonzero(np.ones((5, 9), dtype=bool))
    ratings = Ratings.of(users, items, np.arange(45.0), 5, 9)
    kept = ratings.trimmed(4, KeyStream(bytes(32)))
    assert kept.row_sizes.tolist() == [4] * 5
    assert set(kept.deviations) < set(ratings.deviations)
    assert ratings.trimmed(0, KeyStream(bytes(32))).n_ratings == 0
    assert len({tuple(kept.columns[4 * i : 4 * i + 4]) for i in range(5)}) > 1


def test_parts_of_rows_hold_everything_once():
    users, items = np.nonzero(np.ones((5, 3), dtype=bool))
    ratings = Ratings.of(users, items, np.arange(15.0), 5, 3)
    parts = list(ratings.split_rows(2))
    assert [part.n_rows for part in parts] == [3, 2]
    assert sorted(np.concatenate([part.deviations for part in parts])) == list(range(15))


def test_nothing_private_is_printed():
    ratings, _, _ = read(["u"], ["a"], [4.0])
    assert "0.5" not in repr(ratings)
