import numpy as np
import pytest
from scipy.linalg import hadamard

from mpc.secagg.vector.rotation import padded_length, rotate, rotate_back


@pytest.mark.parametrize(("length", "padded"), [(1, 1), (2, 2), (3, 4), (4, 4), (1000, 1024), (1025, 2048)])
def test_vectors_are_padded_to_a_power_of_two(length, padded):
    assert padded_length(length) == padded == rotate(np.ones(length), "x").size


@pytest.mark.parametrize("length", [1, 5, 64, 1000])
def test_rotating_back_restores_the_vector(length):
    vector = np.random.default_rng(0).normal(size=length)
    rotated = rotate(vector, "label")
    assert rotate_back(rotated, length, "label") == pytest.approx(vector)
    assert np.linalg.norm(rotated) == pytest.approx(np.linalg.norm(vector))


def test_it_is_the_hadamard_matrix_times_random_signs():
    columns = np.stack([rotate(unit, "label") for unit in np.eye(16)], axis=1)
    signs = columns[0] * 4
    assert set(signs) == {-1.0, 1.0}
    assert columns == pytest.approx(hadamard(16) / 4 * signs)


def test_labels_decide_the_signs_and_the_argument_is_left_alone():
    vector = np.random.default_rng(0).normal(size=64)
    kept = vector.copy()
    assert np.array_equal(rotate(vector, "a"), rotate(vector, "a"))
    assert not np.allclose(rotate(vector, "a"), rotate(vector, "b"))
    rotated = rotate(vector, "a")
    again = rotated.copy()
    rotate_back(rotated, 64, "a")
    assert np.array_equal(vector, kept)
    assert np.array_equal(rotated, again)
