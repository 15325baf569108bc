"""What masked projections cost, and how they are drawn."""

from fractions import Fraction

import numpy as np

from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.views import Protected
from dp.mechanism.norm_proof import MaskedProjections
from entropy import InsecureTestEntropy

RELEASE = MaskedProjections(squared_norm=49, squared_operator_bound=200, n_projections=100, variance=49 * 10**6)


def test_a_replaced_row_moves_projections_by_twice_its_norm_and_one_that_is_removed_by_its_norm():
    (replaced,), (removed,) = RELEASE.events("coalition"), RELEASE.events("coordinator")
    assert isinstance(replaced, DiscreteGaussianDpEvent)
    assert replaced.squares == Fraction(4 * 200, 10**6)
    assert removed.squares == Fraction(200, 10**6)


def test_k_rows_of_a_person_cost_k_squared():
    person = MaskedProjections(49, 200, 100, 49 * 10**6, Protected("person", 3))
    assert person.events("coalition")[0].squares == 9 * RELEASE.events("coalition")[0].squares


def test_no_row_moves_projections_further_than_stated():
    """Opposite rows of full norm along the leading singular vector attain it where all rows' coefficients are 1."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        sigma = rng.choice([-1, 0, 0, 1], (100, 38))
        rho = rng.choice([-1, 0, 0, 1], 100)
        bound = np.linalg.norm(sigma, 2) ** 2
        direction = np.linalg.svd(sigma)[2][0]
        moved = rho * (sigma @ (2 * 7 * direction))
        assert (moved**2).sum() <= 4 * 49 * bound * (1 + 1e-9)


def test_masks_have_the_stated_variance():
    drawn = np.concatenate([RELEASE.draw(InsecureTestEntropy(f"masks {i}")) for i in range(100)])
    assert drawn.shape == (10_000,)
    assert abs(drawn.std() / 7000 - 1) < 0.03
