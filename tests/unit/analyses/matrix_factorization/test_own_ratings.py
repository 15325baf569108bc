"""Values that do not fit are mapped by rules that look at one unit alone: tables that differ in one unit stay so."""

import numpy as np
import pytest
from rating_jobs import rows_of

from analyses.matrix_factorization.own_ratings import (
    RATING,
    REPEATED,
    UNKNOWN_ITEM,
    UNKNOWN_USER,
    first_of_each,
    own_ratings,
)

N_ITEMS, BOUNDS, CENTRE = 4, (1.0, 5.0), 3.0


def messy(seed, n=200):
    """Users -1 .. 9, items -1 .. 3, ratings 0 .. 6: unknown, repeated and outside the bounds."""
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 10, n), rng.integers(-1, N_ITEMS, n), rng.uniform(0, 6, n)


def mapped(users, items, values, n_users=None):
    own = own_ratings(rows_of(users, items, values), n_items=N_ITEMS, bounds=BOUNDS, centre=CENTRE, n_users=n_users)
    ratings = own.ratings
    names = [own.user_names[row] for row in ratings.rows]
    return dict(zip(zip(names, ratings.columns.tolist(), strict=True), ratings.deviations.tolist(), strict=True)), own


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_users", [None, 9])
def test_without_one_user_all_others_have_the_same_ratings(seed, n_users):
    users, items, values = messy(seed)
    whole, _ = mapped(users, items, values, n_users)
    for user in range(-1, 10):
        rest, _ = mapped(users[users != user], items[users != user], values[users != user], n_users)
        assert rest == {key: value for key, value in whole.items() if key[0] != str(user)}


@pytest.mark.parametrize("seed", range(5))
def test_without_one_user_and_item_all_other_ratings_are_the_same(seed):
    users, items, values = messy(seed)
    whole, _ = mapped(users, items, values, 9)
    for user, item in {(u, i) for u, i in zip(users.tolist(), items.tolist(), strict=True)}:
        kept = (users != user) | (items != item)
        rest, _ = mapped(users[kept], items[kept], values[kept], 9)
        assert rest == {key: value for key, value in whole.items() if key != (str(user), item)}


def test_the_first_of_repeated_ratings_counts_and_each_rule_is_counted_apart():
    found, own = mapped([0, 0, 0, 1, 12], [2, 2, -1, 3, 0], [9.0, 1.0, 3.0, 2.0, 3.0], 9)
    assert found == {("0", 2): 2.0, ("1", 3): -1.0}
    assert own.report.clipped_values == {RATING: 1}
    assert own.report.mapped_values == {UNKNOWN_ITEM: 1, UNKNOWN_USER: 1, REPEATED: 1}
    assert own.report.n_rows == 5
    assert own.ratings.n_rows == 9
    assert own.place_of("1") == 1
    assert own.place_of("12") is None


def test_a_user_of_unknown_items_only_is_a_cold_user_with_no_ratings():
    _, own = mapped([0, 1], [-1, 2], [3.0, 3.0])
    assert own.user_names == ("0", "1")
    assert own.ratings.row_sizes.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["9", "-1", "+1", " 1", "1.0", "1e0", "one", "٣", "²", "1_0", "9" * 5000])
def test_a_user_whose_name_is_no_number_below_the_declared_one_is_unknown_in_the_vertical_setting(name):
    found, own = mapped([0, name], [2, 2], [3.0, 3.0], 9)
    assert found == {("0", 2): 0.0}
    assert own.report.mapped_values[UNKNOWN_USER] == 1


@pytest.mark.parametrize("end", [40, 1 << 54, 1 << 62], ids=["few", "a word is just enough", "more than a word holds"])
@pytest.mark.parametrize("n", [0, 1, 200])
def test_the_first_of_equal_numbers_counts_however_large_numbers_may_be(end, n):
    pairs = np.random.default_rng(1).integers(0, 40, n) * ((end - 1) // 39)
    assert first_of_each(pairs, end).tolist() == np.unique(pairs, return_index=True)[1].tolist()
    assert pairs.size == 0 or pairs.max() < end
