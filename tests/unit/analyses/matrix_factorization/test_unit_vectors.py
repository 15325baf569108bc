"""The certified integers of one unit: bounds hold whatever the data and the broadcast, and are attained."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.unit_vectors import (
    VectorRule,
    add_factors,
    add_offsets,
    add_ratings,
    sensitivity,
    solve,
    within_ball,
)
from mpc.arithmetic import rating_kernels

COARSE = VectorRule(units=4, mean_ridge=1.0)
UNIT = "user"
VALUES = (None, -4.0, -0.6, 0.3, 4.0)


def table(rows: list[tuple]) -> Ratings:
    """Ratings by user; None where a user has not rated an item."""
    cells = [(i, j, x) for i, row in enumerate(rows) for j, x in enumerate(row) if x is not None]
    users, items, values = (np.array(v) for v in zip(*cells, strict=True)) if cells else (np.zeros(0),) * 3
    return Ratings.of(users, items, values, len(rows), len(rows[0]) if rows else 2)


def users_of(n_items: int) -> list[tuple]:
    return list(itertools.product(VALUES, repeat=n_items))


def offsets_of(rows):
    return add_offsets(COARSE, table(list(rows)))


OFFSETS, VECTORS = np.array([0.2, -0.5, 0.1]), np.array([[1.0, 0.3], [-0.7, 1.1], [0.4, -2.0]])


def factors_of(rows):
    ratings = table(list(rows))
    n = ratings.n_columns
    solved = solve(ratings, OFFSETS[:n], np.column_stack([np.ones(n), VECTORS[:n]]), np.array([1.0, 0.1, 0.1]))
    return add_factors(COARSE, ratings, OFFSETS[:n], solved[:, 0].copy(), within_ball(3 * solved[:, 1:]))


@pytest.mark.parametrize(
    ("total_of", "bound", "n_nonzeros"),
    [(offsets_of, COARSE.offset_bound, 6), (factors_of, COARSE.factor_bound, 9)],
    ids=["offsets", "factors"],
)
def test_every_pair_of_neighbours_is_within_the_sensitivity_and_one_comes_near(total_of, bound, n_nonzeros):
    other = (0.3, None, -4.0)
    alone = {user: total_of([user]) for user in users_of(3)}
    add, replace = (sensitivity(bound, n_nonzeros, view, UNIT) for view in ("coordinator", "coalition"))
    assert (replace.squared_l2, replace.l1) == (4 * add.squared_l2, 2 * add.l1)
    longest = 0
    without = total_of([other])
    for user, z in alone.items():
        moved = total_of([other, user]) - without
        np.testing.assert_array_equal(moved, z)  # a unit's integers depend on no other unit
        assert moved @ moved <= add.squared_l2
        assert np.abs(moved).sum() <= add.l1
        longest = max(longest, int(moved @ moved))
    vectors = np.array(list(alone.values()))
    apart = vectors[:, None, :] - vectors[None, :, :]
    assert (apart**2).sum(axis=2).max() <= replace.squared_l2
    assert np.abs(apart).sum(axis=2).max() <= replace.l1
    assert longest > 0.8 * bound


def test_the_bound_of_round_0_is_attained():
    z = add_offsets(COARSE, table([(4.0, None)]))
    assert z.tolist() == [4, 6, 0, 0]  # kappa = 1 and Y = 1.5 in units of 1/4; own mean 4 / (1 + 1) = 2
    assert z @ z == COARSE.offset_bound == 16 + 36


def test_the_bound_of_a_factor_round_is_attained_when_the_factors_point_one_way():
    rule = VectorRule(units=6)
    z = add_factors(rule, table([(4.0, None)]), np.zeros(2), np.zeros(1), np.array([[1.0, 0.0]]))
    assert z.tolist() == [9, 0, 0, 0, 2, 0, 0]
    assert z @ z == rule.factor_bound == 81 + 4


def test_the_bound_of_one_rating_is_attained_without_factors():
    z = add_ratings(COARSE, table([(4.0, None)]), np.zeros(2), np.zeros((2, 0)), Fraction(1))
    assert z.tolist() == [4, 6]
    assert z @ z == COARSE.rating_bound(Fraction(1))


def test_every_pair_of_tables_that_differ_in_one_rating_is_within_the_bound_of_a_rating():
    rule, squared_length = VectorRule(units=8), Fraction(9, 4)
    vectors = within_ball(np.array([[1.0, 1.0], [0.5, -0.2]]), float(squared_length - 1) ** 0.5)

    def total(rows):
        return add_ratings(rule, table(rows), OFFSETS[:2], vectors, squared_length)

    bound, longest = rule.rating_bound(squared_length), 0
    for rest in itertools.product(VALUES, repeat=3):
        for value in VALUES:
            moved = total([(value, rest[0]), rest[1:]]) - total([(None, rest[0]), rest[1:]])
            assert moved @ moved <= bound
            longest = max(longest, int(moved @ moved))
    assert longest > 0.7 * bound


def test_bounds_hold_for_any_broadcast_and_any_ratings():
    rng = np.random.default_rng(5)
    for rule in (VectorRule(), VectorRule(units=1 << 20), VectorRule(units=3, residual_bound=Fraction(7, 3))):
        for scale in (1e-9, 1.0, 1e8):
            n, m = 60, 12
            present = rng.random((n, m)) < 0.5
            users, items = np.nonzero(present)
            ratings = Ratings.of(users, items, scale * rng.standard_cauchy(len(users)).clip(-5, 5), n, m)
            offsets = scale * rng.normal(size=m)
            means, factors = scale * rng.normal(size=n), within_ball(rng.normal(size=(n, 4)))
            for i in range(n):
                one, at = ratings.of_rows(np.array([i])), np.array([i])
                z = add_offsets(rule, one)
                assert sum(int(v) ** 2 for v in z) <= rule.offset_bound
                z = add_factors(rule, one, offsets, means[at], factors[at])
                assert sum(int(v) ** 2 for v in z) <= rule.factor_bound


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e300])
def test_numbers_that_no_bound_covers_are_refused_before_anything_is_summed(wrong):
    ratings = table([(1.0, 2.0), (None, 1.0)])
    with pytest.raises(ValueError, match="not finite, or too large"):
        add_factors(COARSE, ratings, np.array([wrong, 0.0]), np.zeros(2), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="longer than"):
        add_factors(COARSE, ratings, np.zeros(2), np.zeros(2), np.array([[wrong], [0.0]]))
    with pytest.raises(ValueError, match="longer than"):
        add_ratings(COARSE, ratings, np.zeros(2), np.array([[wrong], [0.0]]), Fraction(2))


def test_a_vector_that_is_far_too_long_is_shrunk_in_few_steps():
    total = np.zeros(4, dtype=np.int64)
    ratings = table([(4.0, None)])
    n_shrunk = rating_kernels.add_offset_vectors(
        total, ratings.starts, ratings.columns, ratings.deviations, np.ones(1), 1024.0, 1.0, 1.5, 1.0, 5
    )
    assert n_shrunk == 1
    assert 0 < total @ total <= 5


def test_factors_longer_than_1_are_refused():
    with pytest.raises(ValueError, match="longer than 1"):
        add_factors(COARSE, table([(1.0, 2.0)]), np.zeros(2), np.zeros(1), np.array([[1.1]]))


def test_a_cold_user_adds_a_zero_vector_and_is_solved_by_zero():
    ratings = table([(None, None)])
    assert not add_offsets(COARSE, ratings).any()
    assert not add_factors(COARSE, ratings, np.zeros(2), np.zeros(1), np.ones((1, 1))).any()
    assert not solve(ratings, np.zeros(2), np.ones((2, 1)), np.ones(1)).any()


def test_local_solutions_are_those_of_the_normal_equations():
    rng = np.random.default_rng(2)
    users, items = np.nonzero(rng.random((20, 15)) < 0.4)
    ratings = Ratings.of(users, items, rng.normal(size=len(users)), 20, 15)
    offsets, vectors, ridges = rng.normal(size=15), rng.normal(size=(15, 6)), rng.random(6) + 0.1
    found = solve(ratings, offsets, vectors, ridges)
    for i in range(20):
        mine = users == i
        f = vectors[items[mine]]
        right = f.T @ (ratings.deviations[mine] - offsets[items[mine]])
        np.testing.assert_allclose(found[i], np.linalg.solve(f.T @ f + np.diag(ridges), right), atol=1e-10)


def test_sums_are_those_of_a_dense_calculation():
    rng = np.random.default_rng(3)
    users, items = np.nonzero(rng.random((8, 5)) < 0.5)
    ratings = Ratings.of(users, items, rng.normal(size=len(users)), 8, 5)
    rule = VectorRule(units=1 << 16)
    offsets, means = rng.normal(size=5), rng.normal(size=8)
    factors = within_ball(rng.normal(size=(8, 2)))
    expected, moments = np.zeros((5, 2)), np.zeros(3)
    for i in range(8):
        mine = users == i
        if mine.any():
            moments += [factors[i, 0] ** 2, factors[i, 0] * factors[i, 1], factors[i, 1] ** 2]
        residual = np.clip(ratings.deviations[mine] - offsets[items[mine]] - means[i], -1.5, 1.5)
        expected[items[mine]] += np.outer(residual / np.sqrt(max(1, mine.sum())), factors[i])
    total = add_factors(rule, ratings, offsets, means, factors) / rule.units
    np.testing.assert_allclose(total[:10].reshape(5, 2), expected, atol=8 / rule.units)
    np.testing.assert_allclose(total[10:], moments / 3, atol=8 / rule.units)


def test_a_rule_whose_sums_would_leave_64_bits_is_refused():
    with pytest.raises(ValueError, match="64 bits"):
        VectorRule(units=1 << 20, residual_bound=Fraction(1000))
    with pytest.raises(ValueError, match="units"):
        VectorRule(units=1)
    with pytest.raises(ValueError, match="positive"):
        VectorRule(residual_bound=Fraction(0))
