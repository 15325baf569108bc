import numpy as np
import pytest

from analyses.second_moments.sketch_matrix import MAX_BLOCK_COLUMNS, SketchMatrix
from entropy import KeyStream


def stream(number=0):
    return KeyStream(bytes(32), number)


@pytest.mark.parametrize("entries", ["gaussian", "signs"])
def test_equal_streams_give_equal_columns_and_other_streams_others(entries):
    matrix = SketchMatrix(7, entries)
    assert np.array_equal(matrix.draw(stream(), 100), matrix.draw(stream(), 100))
    assert not np.array_equal(matrix.draw(stream(), 100), matrix.draw(stream(1), 100))


@pytest.mark.parametrize("entries", ["gaussian", "signs"])
def test_entries_have_mean_zero_and_the_stated_variance_and_reach(entries):
    matrix = SketchMatrix(50, entries)
    drawn = matrix.draw(stream(), 4000).astype(np.float64)
    assert abs(drawn.mean()) < 4 * np.sqrt(matrix.variance / drawn.size)
    assert drawn.var() == pytest.approx(matrix.variance, rel=0.02)
    assert np.abs(drawn).max() <= matrix.largest_entry


def test_gaussian_entries_have_the_fourth_moment_of_a_gaussian_variable_and_signs_have_not():
    drawn = {e: SketchMatrix(50, e).draw(stream(), 4000).astype(np.float64) for e in ("gaussian", "signs")}
    kurtosis = {e: (d**4).mean() / (d**2).mean() ** 2 for e, d in drawn.items()}
    assert kurtosis["gaussian"] == pytest.approx(3 - 1 / 32, abs=0.05)
    assert kurtosis["signs"] == pytest.approx(1.0)


def test_columns_of_signs_are_equally_long_and_gaussian_ones_are_not():
    signs, gaussian = SketchMatrix(16, "signs"), SketchMatrix(16, "gaussian")
    assert signs.largest_squared_norm(signs.draw(stream(), 1000)) == 16
    columns = gaussian.draw(stream(), 1000)
    squared = (columns.astype(np.int64) ** 2).sum(axis=1)
    assert gaussian.largest_squared_norm(columns) == squared.max() > 1.5 * squared.mean()


def test_the_sketch_keeps_second_moments_on_average():
    rng = np.random.default_rng(0)
    x = rng.integers(-5, 6, (300, 3))
    matrix = SketchMatrix(4000, "gaussian")
    sketch = matrix.draw(stream(), 300).astype(np.float64).T @ x
    assert sketch.T @ sketch / (4000 * matrix.variance) == pytest.approx(x.T @ x, rel=0.1, abs=200)


@pytest.mark.parametrize("n_rows", [1, 100, 4096])
def test_a_block_of_columns_keeps_products_exact_and_memory_small(n_rows):
    columns = SketchMatrix(n_rows, "gaussian").block_columns
    assert columns <= MAX_BLOCK_COLUMNS
    assert columns * n_rows <= 1 << 20
    assert columns * 32 * (1 << 30) < 1 << 53
