"""What sketches say: against exact distributions by enumeration, and against the sizes that made them."""

import numpy as np
import pytest

from analyses.clustering.estimators.sketch_estimate import (
    complement_cardinality,
    deviation_of_meeting,
    likely_cardinality,
    likely_meeting,
    meeting_masses,
)
from dp.mechanism.cardinality import HIGHEST, highest_of_clusters, highest_of_many
from entropy import InsecureTestEntropy, KeyStream


def levels_of(n_users, n_sketches=4096, name="levels"):
    return highest_of_many(KeyStream(InsecureTestEntropy(name).read(32)), n_users, n_sketches)


BIAS = 2 * np.log(2.0)
"""c = (1 + gamma) ln(1 + gamma) / gamma at gamma = 1: 2^level has a harmonic mean of c N for large N."""


def harmonic_cardinality(levels):
    """M / sum over sketches of 2^-level, over c: about N, with a relative deviation of 1.04 / sqrt(M)."""
    return 1 / np.mean(np.exp2(-levels.astype(np.float64)), axis=0) / BIAS


def two_parties(k, n_rows, n_sketches, seed=0, floor=1):
    """Return the levels and memberships of two parties without phantoms."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, k, n_rows)
    second = np.where(rng.random(n_rows) < 0.5, first, rng.integers(0, k, n_rows))
    key = InsecureTestEntropy(f"users {seed}").read(32)
    levels = [np.maximum(highest_of_clusters(KeyStream(key), m, k, n_sketches), floor) for m in (first, second)]
    return levels, (first, second)


@pytest.mark.parametrize("n_users", [40, 1000, 100_000])
def test_both_estimates_of_a_cardinality_find_it(n_users):
    levels = levels_of(n_users)
    slack = 4 * 1.04 / np.sqrt(4096)
    assert harmonic_cardinality(levels) == pytest.approx(n_users, rel=slack + 1 / n_users)
    assert likely_cardinality(levels, 1) == pytest.approx(n_users, rel=slack)


def test_the_printed_estimate_is_two_times_too_large():
    levels = levels_of(5000).astype(np.float64)
    printed = 2 ** (len(levels) / np.sum(1 / levels))
    assert 2.0 < printed / 5000 < 2.4
    assert 0.95 < harmonic_cardinality(levels_of(5000)) / 5000 < 1.05


def test_the_deviation_is_that_of_the_largest_value_only_and_not_the_printed_one():
    found = np.array([harmonic_cardinality(levels_of(2000, 1024, f"repeat {i}")) for i in range(300)])
    relative = found.std() / 2000 * np.sqrt(1024)
    assert 0.9 < relative < 1.2  # 1.04; the paper has 0.649


def test_a_floor_does_not_mislead_the_likelihood():
    levels = np.maximum(levels_of(300), 9)
    assert likely_cardinality(levels, 9) == pytest.approx(300, rel=0.15)
    assert likely_cardinality(levels, 1) > 400  # who does not know of the floor is misled


@pytest.mark.parametrize("floor", [1, 3])
def test_the_masses_of_the_three_kinds_are_those_of_an_enumeration(floor):
    common, size_a, size_b = 3.0, 5.0, 8.0

    def cdf(r):
        return 0.0 if r < floor else 1.0 if r == HIGHEST else 1 - 0.5**r

    expected = np.zeros((3, HIGHEST + 1))
    for a in range(floor, 13):
        for b in range(floor, 13):
            mass = 0.0
            for r, s, sign in ((a, b, 1), (a - 1, b, -1), (a, b - 1, -1), (a - 1, b - 1, 1)):
                value = cdf(min(r, s)) ** common * cdf(r) ** (size_a - common) * cdf(s) ** (size_b - common)
                mass += sign * value
            expected[0 if a < b else 1 if a > b else 2, max(a, b)] += mass
    found = meeting_masses(np.array([common]), np.array([size_a]), np.array([size_b]), floor)[0]
    assert found[:, :13] == pytest.approx(expected[:, :13], abs=1e-12)
    assert found.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.slow
def test_the_likely_meeting_is_unbiased_and_as_far_off_as_the_information_says():
    k, n_rows, n_sketches = 3, 1200, 2048
    errors = []
    for seed in range(30):
        levels, (first, second) = two_parties(k, n_rows, n_sketches, seed)
        sizes = tuple(np.bincount(m, minlength=k).astype(np.float64) for m in (first, second))
        exact = np.bincount(first * k + second, minlength=k * k).reshape(k, k)
        errors.append(likely_meeting(levels[0], levels[1], sizes, 1) - exact)
    errors = np.array(errors)
    diagonal = np.eye(k, dtype=bool)
    for cells, common in ((diagonal, n_rows * 2 / 9), (~diagonal, n_rows / 18)):
        stated = deviation_of_meeting(n_sketches, common, n_rows / k, n_rows / k, 1)
        assert errors[:, cells].std() == pytest.approx(stated, rel=0.25)
        assert abs(errors[:, cells].mean()) < 4 * stated / np.sqrt(30 * cells.sum())


def test_the_likely_meeting_is_much_closer_than_the_difference_of_unions():
    k, n_rows = 4, 4000
    levels, (first, second) = two_parties(k, n_rows, 4096)
    exact = np.bincount(first * k + second, minlength=k * k).reshape(k, k)
    sizes = tuple(np.bincount(m, minlength=k).astype(np.float64) for m in (first, second))
    likely = likely_meeting(levels[0], levels[1], sizes, 1) - exact
    of_unions = n_rows - complement_cardinality(levels) - exact
    assert np.sqrt(np.mean(likely**2)) < 0.5 * np.sqrt(np.mean(of_unions**2))


def test_the_union_of_all_other_clusters_is_counted_for_every_cell():
    k, n_rows = 3, 6000
    rng = np.random.default_rng(5)
    memberships = [rng.integers(0, k, n_rows) for _ in range(3)]
    key = InsecureTestEntropy("three").read(32)
    levels = [highest_of_clusters(KeyStream(key), m, k, 2048) for m in memberships]
    found = complement_cardinality(levels)
    assert found.shape == (3, 3, 3)
    for cell in ((0, 0, 0), (2, 1, 0)):
        inside = np.all([m == a for m, a in zip(memberships, cell, strict=True)], axis=0).sum()
        assert found[cell] == pytest.approx(n_rows - inside, rel=0.1)
    # By the definition, sketch by sketch, for one cell.
    union = np.max(
        [np.delete(of_party, a, axis=1).max(axis=1) for of_party, a in zip(levels, (2, 1, 0), strict=True)], 0
    )
    assert found[2, 1, 0] == pytest.approx(harmonic_cardinality(union), rel=1e-12)
