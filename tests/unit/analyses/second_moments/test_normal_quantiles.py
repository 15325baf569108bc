import numpy as np
from scipy.special import ndtri

from analyses.second_moments.normal_quantiles import normal_quantiles


def test_quantiles_are_those_of_scipy_within_a_last_place_or_two():
    small = 10.0 ** -np.linspace(0.31, 15.9, 3000)
    p = np.tile(np.concatenate([small, 1 - small[small > 1e-15], np.linspace(0.001, 0.999, 4001)]), 2)
    found, exact = normal_quantiles(p[:, None])[:, 0], ndtri(p)
    assert (np.abs(found - exact) <= 1e-15 * np.maximum(np.abs(exact), 1)).all()
    assert normal_quantiles(np.array([0.5])).tolist() == [0.0]
