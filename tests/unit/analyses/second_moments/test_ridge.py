import numpy as np
import pytest

from analyses.second_moments.ridge import solve

CONSTANT = 0.5


def data(n_rows=200, seed=1):
    rng = np.random.default_rng(seed)
    features = rng.uniform(-0.5, 0.5, (n_rows, 3))
    label = features @ np.array([0.4, -0.2, 0.0]) + 0.1 + rng.normal(0, 0.05, n_rows)
    return features, label


def moments_of(features, label):
    rows = np.column_stack([features, label, np.full(len(label), CONSTANT)])
    return rows.T @ rows


def test_without_noise_it_is_least_squares():
    features, label = data()
    found = solve(moments_of(features, label), CONSTANT, 0.0, None)
    design = np.column_stack([features, np.ones(len(label))])
    exact = np.linalg.lstsq(design, label)[0]
    assert np.append(found.coefficients, found.intercept) == pytest.approx(exact, abs=1e-9)
    residual = label - design @ exact
    assert found.r_squared == pytest.approx(1 - residual @ residual / ((label - label.mean()) ** 2).sum())
    assert (found.ridge, found.note) == (0.0, "")


def test_a_given_ridge_penalises_all_coefficients_but_the_intercept():
    features, label = data()
    found = solve(moments_of(features, label), CONSTANT, 0.0, 5.0)
    centred = features - features.mean(axis=0)
    exact = np.linalg.solve(centred.T @ centred + 5.0 * np.eye(3), centred.T @ label)
    assert found.coefficients == pytest.approx(exact)
    assert found.intercept == pytest.approx(label.mean() - features.mean(axis=0) @ exact)


def test_a_smallest_eigenvalue_below_the_noise_is_lifted_to_half_of_it_and_said():
    features, label = data()
    features[:, 2] = features[:, 0] + features[:, 1]
    found = solve(moments_of(features, label), CONSTANT, 2.0, None)
    assert found.smallest_eigenvalue == pytest.approx(0.0, abs=1e-9)
    assert found.ridge == pytest.approx(1.0)
    assert found.note.startswith("singular up to noise")
    assert found.note.endswith("a ridge lifts it")


def test_a_smallest_eigenvalue_that_is_half_hidden_is_lifted_by_the_rest_only():
    features, label = data()
    free = solve(moments_of(features, label), CONSTANT, 0.0, None)
    found = solve(moments_of(features, label), CONSTANT, 3.0 * free.smallest_eigenvalue, None)
    assert found.ridge == pytest.approx(0.5 * free.smallest_eigenvalue)
    assert solve(moments_of(features, label), CONSTANT, 1.9 * free.smallest_eigenvalue, None).ridge == 0.0


def test_a_ridge_of_zero_on_a_singular_matrix_gives_no_coefficients_and_says_why():
    features, label = data()
    features[:, 2] = 0.0
    moments = moments_of(features, label)
    moments[2, 2] -= 0.3  # as noise may do
    found = solve(moments, CONSTANT, 1.0, 0.0)
    assert found.coefficients is None
    assert found.note.startswith("singular: with the noise")


def test_unstable_coefficients_are_said_where_the_ridge_is_given_as_zero():
    features, label = data()
    features[:, 2] = 1e-3 * features[:, 2]
    found = solve(moments_of(features, label), CONSTANT, 1.0, 0.0)
    assert found.coefficients is not None
    assert found.note.endswith("the coefficients are unstable")


def test_rows_that_cannot_be_told_from_noise_give_no_answer_and_say_so():
    features, label = data()
    found = solve(moments_of(features, label), CONSTANT, 200 * CONSTANT**2 + 1, None)
    assert (found.coefficients, found.r_squared) == (None, None)
    assert found.note.startswith("too few rows for this epsilon")


def test_a_label_whose_variation_drowns_has_no_r_squared():
    features, label = data()
    variation = ((label - label.mean()) ** 2).sum()
    assert solve(moments_of(features, label), CONSTANT, 0.99 * variation, None).r_squared is not None
    assert solve(moments_of(features, label), CONSTANT, 1.01 * variation, None).r_squared is None


def test_no_share_is_stated_where_with_the_noise_the_line_leaves_less_than_nothing():
    features, label = data()
    moments = moments_of(features, label)
    assert solve(moments_of(features, features @ np.array([0.4, -0.2, 0.0])), CONSTANT, 0.0, None).r_squared == 1.0
    moments[0, 3] = moments[3, 0] = 3 * moments[0, 3]  # as noise may do
    found = solve(moments, CONSTANT, 0.1, None)
    assert found.coefficients is not None
    assert found.r_squared is None
