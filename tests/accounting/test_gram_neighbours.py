"""Every pair of neighbouring rows of tiny domains: the sensitivities hold, and most are attained."""

import itertools
import math

import numpy as np
import pytest

from dp.cost.accounting import Adjacency
from dp.mechanism.gram import GramSensitivity

NAMES = ("squares", "squares_second", "sizes", "sizes_second")


def rows(n: int, bound: int) -> list[np.ndarray]:
    reach = range(-math.isqrt(bound), math.isqrt(bound) + 1)
    return [np.array(x) for x in itertools.product(reach, repeat=n) if sum(v * v for v in x) <= bound]


def sums(difference: np.ndarray) -> tuple[int, int, int, int]:
    """The four sums over the upper triangle at mu = 1 on the diagonal and 1/2 off it, written out."""
    n = len(difference)
    squares = squares_second = sizes = sizes_second = 0
    for i in range(n):
        for j in range(i, n):
            d, inverse_mu = abs(int(difference[i, j])), 1 if i == j else 2
            squares += d**2 * inverse_mu
            squares_second += d**2 * inverse_mu**2
            sizes += d * inverse_mu
            sizes_second += d * inverse_mu**2
    return squares, squares_second, sizes, sizes_second


def worst(n: int, bound: int, adjacency: Adjacency) -> dict[str, int]:
    grams = [np.outer(x, x) for x in rows(n, bound)]
    distinct = {gram.tobytes(): gram for gram in grams}.values()
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        found = [sums(gram) for gram in distinct]
    else:
        found = [sums(a - b) for a, b in itertools.combinations(distinct, 2)]
    return dict(zip(NAMES, np.max(found, axis=0).tolist(), strict=True))


@pytest.mark.parametrize("adjacency", Adjacency, ids=lambda a: a.value)
@pytest.mark.parametrize(
    ("n", "bound"),
    [(1, 1), (1, 4), (1, 7), (2, 1), (2, 2), (2, 5), (2, 13), (2, 25), (3, 2), (3, 3), (3, 6), (3, 9), (4, 4), (4, 2)],
)
def test_no_neighbours_exceed_the_four_sums(n, bound, adjacency):
    stated, found = GramSensitivity.of(n, bound, adjacency), worst(n, bound, adjacency)
    for name in NAMES:
        assert found[name] <= getattr(stated, name), name


@pytest.mark.parametrize("adjacency", Adjacency, ids=lambda a: a.value)
@pytest.mark.parametrize(("n", "bound"), [(1, 4), (2, 2), (2, 13), (3, 1), (3, 2), (3, 6), (4, 2), (4, 3), (5, 2)])
def test_neighbours_move_at_most_so_many_entries_and_some_as_many(n, bound, adjacency):
    grams = np.array([np.outer(x, x)[np.triu_indices(n)] for x in rows(n, bound)])
    others = grams if adjacency is Adjacency.REPLACE_ONE else np.zeros((1, grams.shape[1]))
    n_moved = int((grams[:, None] != others[None]).sum(axis=2).max())
    stated = GramSensitivity.of(n, bound, adjacency).event(100).n_moved
    assert n_moved <= stated < 2 * n_moved
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        assert n_moved == stated


@pytest.mark.parametrize(("n", "bound"), [(1, 1), (2, 2), (3, 3), (4, 4), (2, 8), (3, 2), (4, 2)])
def test_a_row_of_equal_entries_attains_all_four_sums_of_adding_it(n, bound):
    stated = GramSensitivity.of(n, bound, Adjacency.ADD_OR_REMOVE_ONE)
    assert worst(n, bound, Adjacency.ADD_OR_REMOVE_ONE) == {name: getattr(stated, name) for name in NAMES}


@pytest.mark.parametrize(("n", "bound"), [(2, 2), (2, 8), (3, 2), (4, 4)])
def test_orthogonal_rows_attain_both_sums_of_squares_of_replacing_one_by_the_other(n, bound):
    stated, found = GramSensitivity.of(n, bound, Adjacency.REPLACE_ONE), worst(n, bound, Adjacency.REPLACE_ONE)
    assert (found["squares"], found["squares_second"]) == (stated.squares, stated.squares_second)


def test_the_bound_of_the_1_norm_for_a_replaced_row_is_nearly_attained():
    # (12, 5) and (-5, 12): D = [[119, 120], [120, -119]], sum of sizes 478 of floor(169 sqrt 8) = 478.
    assert sums(np.outer((12, 5), (12, 5)) - np.outer((-5, 12), (-5, 12)))[2] == 478
    assert GramSensitivity.of(2, 169, Adjacency.REPLACE_ONE).sizes == 478


def test_replacing_the_only_column_costs_what_adding_costs():
    add, replace = (GramSensitivity.of(1, 9, adjacency) for adjacency in Adjacency)
    assert [getattr(add, name) for name in NAMES] == [getattr(replace, name) for name in NAMES] == [81, 81, 9, 9]
