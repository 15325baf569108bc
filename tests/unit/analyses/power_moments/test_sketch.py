import numpy as np
import pytest

from analyses.power_moments import sketch as moment_sketch
from analyses.power_moments.sketch import MomentSketch
from entropy import InsecureTestEntropy, KeyStream

X = np.random.default_rng(2).integers(0, 50, 3000)


def signs(seed=0):
    return KeyStream(bytes([seed]) * 32)


def test_the_columns_of_signs_have_the_length_that_noise_is_calibrated_to():
    sketch = MomentSketch(64, (1,), 1)
    stream = signs()
    for _ in range(20):
        column = sketch.sketch(stream, np.array([1]))
        assert set(column.tolist()) == {-1, 1}
        assert int((column**2).sum()) == 64


def test_sketches_of_parts_add_up_to_the_sketch_of_the_sum():
    sketch = MomentSketch(128, (1, 1), 1)
    parts = sketch.sketch(signs(), X) + sketch.sketch(signs(), X[::-1])
    assert np.array_equal(parts, sketch.sketch(signs(), X + X[::-1]))


def test_blocks_of_rows_do_not_matter(monkeypatch):
    sketch = MomentSketch(128, (1,), 1)
    whole = sketch.sketch(signs(), X)
    monkeypatch.setattr(moment_sketch, "_BLOCK_ROWS", 700)
    assert np.array_equal(whole, sketch.sketch(signs(), X))


@pytest.mark.parametrize("variances", [(1,), (10**6, 3 * 10**6)])
def test_the_moment_is_estimated_without_bias_and_its_error_stated(variances):
    sketch, entropy = MomentSketch(64, variances, 1), InsecureTestEntropy("noise")
    exact, found = float((X**2).sum()), []
    for seed in range(200):
        noisy = sketch.sketch(signs(seed), X)
        for party in range(len(variances)):
            noisy = noisy + sketch.draw(entropy, party)
        found.append(sketch.estimate(noisy))
    moments, errors = np.array(found).T
    assert abs(moments.mean() - exact) < 4 * moments.std() / np.sqrt(200)
    # Had the noise not been subtracted, the mean would be off by this much.
    if len(variances) > 1:
        assert sum(variances) > 8 * moments.std() / np.sqrt(200)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(moments.std(), rel=0.15)


def test_errors_of_few_entries_hold_the_moment_about_as_often_as_they_should():
    sketch, rng, values = MomentSketch(8, (3, 3), 4), np.random.default_rng(2), np.arange(1, 5)
    for size, least in ((1, 0.87), (20, 0.82)):  # mostly noise, mostly sketch: squares of few entries are skewed
        x = np.tile(values, size)
        signs = rng.choice([-1, 1], (600, 8, len(x)))
        noise = rng.normal(0, sum(sketch.variances) ** 0.5, (600, 8)).round().astype(np.int64)
        found = [sketch.estimate(entries) for entries in (signs @ x + noise)]
        held = [abs(moment - float(x @ x)) < 1.96 * error for moment, error in found]
        assert least < np.mean(held) < 0.99
