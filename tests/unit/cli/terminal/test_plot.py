import numpy as np
import pytest
from matplotlib.image import imread

from cli.terminal.plot import PlotError, plot_distribution, plot_errors, plot_pca

RESULT = {
    "analysis": "pca",
    "columns": [f"bank.x{i}" for i in range(12)],
    "components": np.eye(12)[:2].tolist(),
    "eigenvalues": [100.0, 10.0, 1.0, *[0.1] * 7, -0.1, -3.0],
}


def test_a_result_becomes_a_png_of_reasonable_size(tmp_path):
    plot_pca(RESULT, tmp_path / "plot.png")
    height, width, _ = imread(tmp_path / "plot.png").shape
    assert (500 < height < 1000, 1000 < width < 2000) == (True, True)


def test_the_exact_spectrum_is_drawn_only_where_it_is_given(tmp_path):
    plot_pca(RESULT, tmp_path / "private.png")
    plot_pca(RESULT, tmp_path / "both.png", exact_eigenvalues=[90.0] * 12)
    assert not np.array_equal(imread(tmp_path / "private.png"), imread(tmp_path / "both.png"))


def test_results_of_other_analyses_are_not_drawn(tmp_path):
    with pytest.raises(PlotError, match="PCA"):
        plot_pca({"analysis": "sum"}, tmp_path / "plot.png")


def distribution(*, half_widths=True):
    probabilities = [0.1, 0.4, 0.3, 0.2]
    half = {"probabilities": [0.05] * 4} if half_widths else None
    return {"edges": [0.0, 1.0, 2.0, 3.0, 4.0], "probabilities": probabilities, "half_widths": half}


def drawn(path, results, **more):
    plot_distribution(results, path, **more)
    return imread(path)


def test_two_densities_become_one_png_of_two_panels(tmp_path):
    two = drawn(tmp_path / "two.png", {"wave": distribution(), "masked": distribution()})
    assert (500 < two.shape[0] < 1000, 1000 < two.shape[1] < 2000) == (True, True)


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return drawn(tmp_path_factory.mktemp("usual") / "plot.png", {"wave": distribution()})


@pytest.mark.parametrize(
    "other",
    [
        {"results": {"wave": distribution(half_widths=False)}},
        {"exact": [0.2, 0.3, 0.3, 0.2]},
        {"quantity": "hours"},
    ],
    ids=["interval", "exact", "quantity"],
)
def test_interval_exact_density_and_quantity_are_drawn_where_they_are_given(usual, tmp_path, other):
    assert not np.array_equal(usual, drawn(tmp_path / "other.png", **{"results": {"wave": distribution()}, **other}))


def test_errors_over_epsilon_become_a_png_with_a_line_for_each_method(tmp_path):
    levels = {"no noise": 1.0, "pooled": 0.9, "alone": 1.2}
    one = {"released": {"8": 1.1, "1": 1.5}}
    plot_errors(one, levels, tmp_path / "one.png", title="errors")
    plot_errors(one | {"own": {"8": 1.0, "1": 1.1}}, levels, tmp_path / "two.png", title="errors")
    first, second = imread(tmp_path / "one.png"), imread(tmp_path / "two.png")
    assert first.shape == second.shape
    assert not np.array_equal(first, second)
