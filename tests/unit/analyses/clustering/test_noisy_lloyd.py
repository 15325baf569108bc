"""The iterations' accounting against an enumeration of neighbours, and what they find."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from analyses.clustering import noisy_lloyd
from analyses.clustering.noisy_lloyd import ITERATIONS, NoisyLloyd
from analyses.clustering.weighted_clustering import nearest
from dp.mechanism.release import StepwiseNoise
from entropy import InsecureTestEntropy

WIDTH = 2
ROWS = [np.array(row) for row in itertools.product(range(WIDTH + 1), repeat=2)]


def noise(seed):
    return StepwiseNoise(InsecureTestEntropy(seed))


@pytest.fixture
def releases(monkeypatch):
    """Write down each vector before its noise, and let the noise decide alone where centres go."""
    written = []

    def write_down(noise, values, variance):
        written.append((values.copy(), variance))
        return np.full(values.shape, 4 + len(written))

    monkeypatch.setattr(StepwiseNoise, "added_to", write_down)

    def of(mechanism, rows, seed):
        written.clear()
        mechanism.centres(np.array(rows), 2, noise("unused"), np.random.default_rng(seed))
        return list(written)

    return of


@pytest.mark.parametrize("seed", range(4))
def test_no_neighbours_cost_more_than_the_iterations_state(releases, seed):
    mechanism = NoisyLloyd(2, WIDTH, Fraction(3, 2), Fraction(9, 5))
    of_row = {tuple(row): releases(mechanism, [[0, 1], [2, 2], row], seed) for row in ROWS}
    without = releases(mechanism, [[0, 1], [2, 2]], seed)

    def squares(first, second):
        assert len(first) == len(second) == 2 * ITERATIONS
        return sum(Fraction(int(((a - b) ** 2).sum())) / s for (a, s), (b, _) in zip(first, second, strict=True))

    added = max(squares(without, release) for release in of_row.values())
    replaced = max(squares(a, b) for a, b in itertools.combinations(of_row.values(), 2))
    # A corner of the domain attains the bound for an added row; two corners at one centre that for a replaced one.
    assert added == mechanism.squares(replace=False)
    assert replaced <= mechanism.squares(replace=True)


def test_a_budget_is_used_up():
    mechanism = NoisyLloyd.of_cost(5, 4096, Fraction(1, 7))
    assert mechanism.squares(replace=False) == Fraction(1, 7)
    assert mechanism.squares(replace=True) == Fraction(2, 7)


def test_iterations_find_clusters():
    rng = np.random.default_rng(0)
    middles = np.array([[600, 600], [3500, 3500]])
    rows = np.clip(middles[rng.integers(0, 2, 4000)] + np.rint(rng.normal(0, 100, (4000, 2))), 0, 4096).astype(int)
    found = NoisyLloyd.of_cost(2, 4096, Fraction(1, 2)).centres(rows, 2, noise("lloyd"), rng)
    assert np.abs(found[found[:, 0].argsort()] - middles).max() < 60


def test_a_centre_without_rows_stays_in_the_domain():
    found = NoisyLloyd.of_cost(2, 4096, Fraction(1, 100)).centres(
        np.zeros((5, 2), dtype=np.int64), 6, noise("few"), np.random.default_rng(0)
    )
    assert found.shape == (6, 2)
    assert found.min() >= 0
    assert found.max() <= 4096


def tied_rows_and_centres(rng):
    """Return rows, three of them equally near to two centres, and centres on the lattice of the rows."""
    k, m = int(rng.integers(2, 9)), int(rng.integers(1, 9))
    n = int(rng.integers(2, 40))
    centres = np.rint(np.clip(rng.normal(2048, 500, (k, m)), 0, 4096))
    between = centres[0].astype(np.int64)
    centres[:2] = between + np.array([[1], [-1]]) * rng.integers(-400, 400, m)
    return np.concatenate([np.tile(between, (3, 1)), rng.integers(0, 4097, (n, m))]), centres


def assignments_by_place(rows, centres):
    """Return where each row goes in blocks that begin at each of the rows, and alone: shape (ways, rows)."""
    ways = [
        np.roll(nearest(np.roll(rows, shift, axis=0).astype(np.float64), centres)[0], -shift)
        for shift in range(len(rows))
    ]
    alone = [int(nearest(row[None].astype(np.float64), centres)[0][0]) for row in rows]
    return np.array([*ways, alone])


def test_with_centres_on_the_lattice_a_row_goes_to_the_same_one_wherever_it_stands():
    rng = np.random.default_rng(5)
    for _ in range(100):
        rows, centres = tied_rows_and_centres(rng)
        ways = assignments_by_place(rows, centres)
        assert np.all(ways == ways[0])
        exact = ((rows[:, None].astype(object) - centres.astype(np.int64)[None].astype(object)) ** 2).sum(axis=2)
        assert ways[0].tolist() == exact.argmin(axis=1).tolist()  # the first of equals


def test_the_rows_are_assigned_to_centres_on_the_lattice_in_every_iteration(monkeypatch):
    asked = []

    def write_down(points, centres):
        asked.append(centres.copy())
        return nearest(points, centres)

    monkeypatch.setattr(noisy_lloyd, "nearest", write_down)
    rows = np.random.default_rng(3).integers(0, 4097, (500, 3))
    found = NoisyLloyd.of_cost(3, 4096, Fraction(1, 2)).centres(rows, 4, noise("lattice"), np.random.default_rng(1))
    assert len(asked) == ITERATIONS
    for centres in (*asked, found):
        assert np.array_equal(centres, np.rint(centres))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_released_does_not_depend_on_the_order_of_the_rows(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 9, (300, 2)) * 512  # many rows at few places: ties
    released = [
        NoisyLloyd.of_cost(2, 4096, Fraction(4)).centres(
            ordered, 5, noise(f"order {seed}"), np.random.default_rng(seed)
        )
        for ordered in (rows, rows[::-1], rows[rng.permutation(len(rows))], np.roll(rows, 7, axis=0))
    ]
    assert all(np.array_equal(centres, released[0]) for centres in released)


def test_columns_so_many_that_distances_would_be_rounded_are_refused():
    with pytest.raises(ValueError, match="too large for exact distances"):
        NoisyLloyd(1 << 27, 1 << 12, Fraction(1), Fraction(1))
