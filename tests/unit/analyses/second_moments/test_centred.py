import numpy as np
import pytest

from analyses.second_moments.centred import centred

CONSTANT, REACH, ROWS = 0.4, (0.0, 1.0), (1, 1000)


def moments_of(rows):
    extended = np.column_stack([rows, np.full(len(rows), CONSTANT)])
    return extended.T @ extended


@pytest.fixture
def rows():
    return np.random.default_rng(3).uniform(0, 1, (50, 3)) * [1.0, 0.5, 0.25]


def test_without_noise_it_is_the_scatter_about_the_mean(rows):
    found = centred(moments_of(rows), CONSTANT, REACH, ROWS)
    assert found.matrix == pytest.approx(50 * np.cov(rows.T, bias=True))
    assert found.mean == pytest.approx(rows.mean(axis=0))
    assert found.n_rows == pytest.approx(50)
    assert found.lift == pytest.approx((rows.mean(axis=0) ** 2).sum() / CONSTANT**2)


def test_rows_and_means_that_cannot_be_are_brought_to_what_can(rows):
    moments = moments_of(rows)
    moments[-1, -1] = -5.0
    moments[0, -1] = moments[-1, 0] = 1e6
    moments[1, -1] = moments[-1, 1] = -1e6
    found = centred(moments, CONSTANT, REACH, (10, 60))
    assert (found.n_rows, found.mean[0], found.mean[1]) == (10.0, 1.0, 0.0)


def test_noise_is_larger_by_the_lift_in_the_direction_of_the_mean_and_as_it_was_in_others(rows):
    rng, exact = np.random.default_rng(5), moments_of(rows) * 1e6
    plain = centred(exact, CONSTANT, REACH, (1, 10**9))
    along = plain.mean / np.linalg.norm(plain.mean)
    across = np.linalg.svd(along[None])[2][1]
    moved = []
    for _ in range(4000):
        noise = rng.normal(size=(4, 4))
        found = centred(exact + (noise + noise.T) / np.sqrt(2), CONSTANT, REACH, (1, 10**9)).matrix - plain.matrix
        moved.append([along @ found @ along, across @ found @ across])
    deviations = np.std(moved, axis=0) / np.sqrt(2)
    assert deviations == pytest.approx([1 + plain.lift, 1.0], rel=0.06)
