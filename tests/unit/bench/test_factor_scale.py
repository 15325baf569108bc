"""Made-up ratings of a known rank, files of MovieLens, and what is known before a method runs."""

import numpy as np
import pytest

from bench.privacy import continual
from bench.scale import factor_scale
from bench.scale.factor_scale import Size


def test_made_up_ratings_are_as_many_as_asked_once_each_and_no_method_errs_less_than_their_floor():
    size = Size(1000, 1000, 20_000)
    (rows, columns, values), means = factor_scale.made_up(size, 2)
    assert len(values) == len(means) == len(np.unique(rows * size.items + columns)) == size.ratings
    assert set(np.unique(values)) <= set(np.arange(1, 11) / 2)
    rest = factor_scale.DEVIATIONS["rest"]
    assert np.mean((values - means) ** 2) == pytest.approx(rest**2, rel=0.1)
    data, known = factor_scale.split((rows, columns, values), means)
    assert data.train.n_ratings + len(data.test[0]) == size.ratings
    for run_one, _ in factor_scale.methods(2).values():
        assert known["floor"] < run_one(data, None) < known["one_constant_for_all"]


def test_files_of_movielens_are_read_in_both_forms(tmp_path):
    (tmp_path / "ratings.dat").write_text("7::122::5::838985046\n7::185::4.5::838983525\n9::122::1::838983392\n")
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n7,122,5.0,1\n7,185,4.5,2\n9,122,1.0,3\n")
    for name in ("ratings.dat", "ratings.csv"):
        users, items, values = factor_scale.read_movielens(tmp_path / name)
        assert (users.tolist(), items.tolist(), values.tolist()) == ([0, 0, 1], [0, 1, 0], [5.0, 4.5, 1.0])


def test_a_forecast_grows_with_ratings_and_rank():
    small, large = Size(100, 50, 1000), Size(100_000, 50_000, 25_000_000)
    for what in ("gib", "seconds"):
        assert factor_scale.forecast(small, 0)[what] < factor_scale.forecast(large, 0)[what]
        assert factor_scale.forecast(large, 0)[what] < factor_scale.forecast(large, 64)[what]
    assert factor_scale.forecast(large, 64)["gib"] > factor_scale.forecast(large, 8)["gib"] + 15


def test_nodes_of_a_tree_and_the_square_root_make_the_sums_that_are_wanted():
    assert continual.tree(3).tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert continual.variances("tree", continual.tree(7)).tolist() == [1, 1, 2, 1, 2, 2, 3]
    every = continual.variances("tree, all nodes", continual.tree(2))
    np.testing.assert_allclose(every, [1, 2 / 3])  # the root, of variance 1, and both leaves, of 2
    root = continual.square_root(6) / continual.SCALE
    np.testing.assert_allclose(root @ root, np.tri(6), atol=0.05)
    assert continual.moved(continual.tree(4), every=False).sum() == 3  # a leaf and what it is in
    assert continual.moved(continual.tree(4), every=True).tolist() == [1, 1, 2, 1, 1, 2, 4]
