"""The iterations' accounting against an enumeration of neighbours, and what they find."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from algorithms import noisy_lloyd
from algorithms.noisy_lloyd import ITERATIONS, NoisyLloyd
from entropy import InsecureTestEntropy

WIDTH = 2
ROWS = [np.array(row) for row in itertools.product(range(WIDTH + 1), repeat=2)]


@pytest.fixture
def releases(monkeypatch):
    """Write down each vector before its noise, and let the noise decide alone where centres go."""
    written = []

    def write_down(values, variance, entropy):
        written.append((values.copy(), variance))
        return np.full(values.shape, 4 + len(written))

    monkeypatch.setattr(noisy_lloyd, "with_noise", write_down)

    def of(mechanism, rows, seed):
        written.clear()
        mechanism.centres(np.array(rows), 2, InsecureTestEntropy("unused"), np.random.default_rng(seed))
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
    found = NoisyLloyd.of_cost(2, 4096, Fraction(1, 2)).centres(rows, 2, InsecureTestEntropy("lloyd"), rng)
    assert np.abs(found[found[:, 0].argsort()] - middles).max() < 60


def test_a_centre_without_rows_stays_in_the_domain():
    found = NoisyLloyd.of_cost(2, 4096, Fraction(1, 100)).centres(
        np.zeros((5, 2), dtype=np.int64), 6, InsecureTestEntropy("few"), np.random.default_rng(0)
    )
    assert found.shape == (6, 2)
    assert found.min() >= 0
    assert found.max() <= 4096
