import numpy as np
import pytest

from analyses.second_moments.spectrum import (
    SimulatedNoise,
    chained_noise,
    edge_of_draws,
    leading_components,
    noise_edge,
    sketch_edge,
    some_components,
    without_noise,
)


def noise(rng, n, lift=0.0):
    draw = rng.normal(size=(n, n))
    draw = (draw + draw.T) / np.sqrt(2)
    draw[0] *= np.sqrt(1 + lift)
    draw[:, 0] *= np.sqrt(1 + lift)
    return draw


@pytest.mark.parametrize(("n", "lift"), [(1, 0.0), (1, 3.0), (2, 0.0), (7, 2.0), (10, 0.0), (40, 0.0), (40, 5.0)])
def test_one_of_twenty_draws_of_pure_noise_is_above_its_edge(n, lift):
    rng = np.random.default_rng(n)
    largest = [np.linalg.eigvalsh(2.5 * noise(rng, n, lift))[-1] for _ in range(2000)]
    edge = noise_edge(n, 2.5, lift)
    assert 0.035 < np.mean(np.array(largest) > edge) < 0.065  # three deviations of 2000 draws
    assert np.mean(np.array(largest) > 0.75 * edge) > 0.085


@pytest.mark.parametrize("n", [400, 8000])
def test_the_edge_of_wide_noise_is_that_of_the_theory(n):
    """The law of Tracy and Widom, centred as [JohMa12] do."""
    assert noise_edge(n, 3.0) == pytest.approx(3.0 * (np.sqrt(4 * n - 2) + 0.9793 * n ** (-1 / 6)), rel=3e-4)


def test_one_of_twenty_sketches_of_pure_noise_is_above_its_edge():
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(2000, 30, 12))
    largest = np.linalg.eigvalsh(draws.transpose(0, 2, 1) @ draws)[:, -1] / 30 - 1
    assert 0.035 < np.mean(largest > sketch_edge(12, 30)) < 0.065


def test_sums_of_squares_have_their_mean_and_variance_on_both_sides_of_the_approximation():
    degrees = (1, 2, 7, 30, 31, 200)
    found = SimulatedNoise().chi_squared(degrees, 20_000)
    assert found.mean(axis=1) == pytest.approx(degrees, rel=0.03)
    assert found.var(axis=1) == pytest.approx(2 * np.array(degrees), rel=0.06)


def test_the_edge_of_draws_is_the_same_quantile():
    simulated = SimulatedNoise()
    assert edge_of_draws(simulated.symmetric(30) for _ in range(300)) == pytest.approx(noise_edge(30, 1.0), rel=0.03)


def test_simulated_noise_has_the_variances_of_the_release_and_is_always_the_same():
    assert (SimulatedNoise().symmetric(3) == SimulatedNoise().symmetric(3)).all()
    simulated = SimulatedNoise()
    many = np.array([simulated.symmetric(3) for _ in range(4000)])
    assert (many == many.transpose(0, 2, 1)).all()
    assert many.var(axis=0) == pytest.approx(np.ones((3, 3)) + np.eye(3), rel=0.08)
    assert np.abs(many.mean(axis=0)).max() < 0.05


def test_simulated_numbers_do_not_depend_on_how_many_are_asked_for_at_a_time():
    whole, parts = SimulatedNoise().normal(3000), SimulatedNoise()
    for start, end in ((0, 1), (1, 5), (5, 300), (300, 300), (300, 2400)):
        assert (parts.normal(end - start) == whole[start:end]).all()
    parts.uniform(100)
    assert (parts.normal(5, 100).ravel() == whole[2500:]).all()


@pytest.mark.parametrize("n", [20, 400])
def test_leading_components_are_those_of_all_eigenvectors_and_as_many_as_lie_above_an_edge(n):
    matrix = noise(np.random.default_rng(1), n) + np.diag(np.append([300.0, 200.0, 100.0], np.zeros(n - 3)))
    values, vectors = np.linalg.eigh(matrix)
    for k, above, n_found in ((1, np.inf, 1), (2, 150.0, 2), (1, 50.0, 3), (0, 1e9, 0)):
        found, components = leading_components(matrix, k, above)
        assert found == pytest.approx(values[::-1], abs=1e-9)
        assert components.shape == (n_found, n)
        signs = np.sign(np.einsum("ij,ji->i", components, vectors[:, ::-1][:, :n_found]))
        assert components == pytest.approx(signs[:, None] * vectors[:, ::-1][:, :n_found].T, abs=1e-9)
        assert (components[np.arange(n_found), np.abs(components).argmax(axis=1)] > 0).all()


def test_a_wide_matrix_of_what_is_no_number_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        leading_components(np.full((300, 300), np.nan), 1)


@pytest.mark.parametrize("n", [20, 400])
def test_some_components_are_the_leading_ones(n):
    matrix = noise(np.random.default_rng(1), n) + np.diag(np.append([300.0, 200.0, 100.0], np.zeros(n - 3)))
    values, vectors = some_components(matrix, 3)
    all_values, leading = leading_components(matrix, 3)
    assert values == pytest.approx(all_values[:3])
    assert np.abs(np.einsum("ij,ij->i", vectors, leading)) == pytest.approx(np.ones(3))


def test_what_noise_adds_to_lone_eigenvalues_is_taken_away_again():
    n, exact, deviation = 100, np.append([90.0, 50.0], np.full(98, 0.5)), 1.0
    rng = np.random.default_rng(2)
    draws = [np.linalg.eigvalsh(np.diag(exact) + deviation * noise(rng, n))[::-1] for _ in range(40)]
    edge = noise_edge(n, deviation)
    found = np.median([without_noise(values, edge, deviation) for values in draws], axis=0)
    assert found[:2] == pytest.approx(exact[:2], abs=0.9)
    assert found[2:] == pytest.approx(exact[2:], abs=0.25)
    assert np.mean(draws, axis=0)[1] > exact[1] + 1.5


def test_eigenvalues_that_are_all_noise_leave_nothing_negative():
    values = np.linalg.eigvalsh(noise(np.random.default_rng(4), 50) - 3 * np.eye(50))[::-1]
    assert (without_noise(values, noise_edge(50, 1.0), 1.0) == 0).all()


@pytest.mark.parametrize("sizes", [(12, 12, 12, 4), (20, 20), (40,)])
def test_chained_noise_with_all_blocks_has_the_eigenvalues_of_the_noise(sizes):
    """Mean and deviation of the largest eigenvalue and of the first entry, over 600 draws of 40 columns."""
    simulated = SimulatedNoise()
    pairs = [(chained_noise(simulated, sizes, 40), simulated.symmetric(40)) for _ in range(600)]
    for of in (lambda noise: np.linalg.eigvalsh(noise)[-1], lambda noise: noise[0, 0], lambda noise: (noise**2).sum()):
        chained, dense = (np.array([of(pair[at]) for pair in pairs]) for at in (0, 1))
        assert abs(chained.mean() - dense.mean()) < 4 * dense.std() * np.sqrt(2 / 600)
        assert chained.std() == pytest.approx(dense.std(), rel=4 * np.sqrt(1 / 600))


@pytest.mark.parametrize(("n", "s"), [(1, 8), (2, 8), (12, 8), (12, 100)])
def test_the_edge_of_a_sketch_is_that_of_products_of_normal_numbers(n, s):
    draws = np.random.default_rng(n + s).normal(size=(2000, s, n))
    largest = np.linalg.eigvalsh(np.swapaxes(draws, 1, 2) @ draws / s - np.eye(n))[:, -1]
    above = np.mean(largest > sketch_edge(n, s))
    assert 0.03 < above < 0.085  # an edge by 400 draws is off by a hundredth of its quantile
