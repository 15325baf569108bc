import numpy as np
from matplotlib.image import imread

from demo.error_plot import plot_errors


def test_errors_over_epsilon_become_a_png_with_a_line_for_each_method(tmp_path):
    levels = {"no noise": 1.0, "pooled": 0.9, "alone": 1.2}
    one = {"released": {"8": 1.1, "1": 1.5}}
    plot_errors(one, levels, tmp_path / "one.png", title="errors")
    plot_errors(one | {"own": {"8": 1.0, "1": 1.1}}, levels, tmp_path / "two.png", title="errors")
    first, second = imread(tmp_path / "one.png"), imread(tmp_path / "two.png")
    assert first.shape == second.shape
    assert not np.array_equal(first, second)
