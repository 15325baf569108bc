"""Standard errors of coefficients, over releases that are drawn: exact moments and noise of the release's own law."""

import numpy as np
import pytest
from moment_jobs import line_tables, plan_for

from analyses.least_squares import protocol as least_squares
from analyses.least_squares.fit import fit, fit_of
from analyses.least_squares.line import in_units_of_columns, solve_moments
from analyses.second_moments.noisy_moments import gram_noise_level
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.ridge import solve


def covered(epsilon, n_runs, seed=1):
    """Per release whether 1.96 standard errors about each coefficient and the intercept hold those without noise."""
    tables = line_tables(2000)
    parameters = {"label": "bank.label", "max_rows": 2000}
    plan = plan_for(least_squares, tables, parameters, privacy={"epsilon": epsilon, "delta": 1e-6})
    rows = np.hstack([plan.quantise(o, t.values)[0] for o, t in zip(plan.owners, tables.values(), strict=True)])
    exact = (rows.T @ rows) * plan.unit**2
    level = gram_noise_level(plan) * plan.unit**2
    true = in_units_of_columns(solve_moments(exact, level, plan), plan)
    deviation = np.sqrt(plan.n_parties * float(plan.party_mu)) * plan.unit**2
    rng, found = np.random.default_rng(seed), []
    for _ in range(n_runs):
        draw = rng.normal(size=exact.shape)
        noisy = exact + deviation * (draw + draw.T) / np.sqrt(2)
        solution = solve_moments(noisy, level, plan)
        line, fit = in_units_of_columns(solution, plan), fit_of(noisy, plan, solution, level)
        off = np.append(line.coefficients - true.coefficients, line.intercept - true.intercept)
        found.append(np.abs(off) <= 1.96 * np.append(fit.standard_errors, fit.intercept_error))
    return np.array(found)


def test_standard_errors_of_coefficients_cover_the_line_without_noise():
    assert covered(200.0, 12).mean() >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [100.0, 400.0])
def test_intervals_of_coefficients_cover_ninety_to_ninety_nine_percent(epsilon):
    assert 0.9 <= covered(epsilon, 40).mean() <= 0.99


def wide_releases(n_columns, n_releases, n_rows=10_000, seed=3):
    """Releases of one wide table, whose noise hides all but two directions and the means."""
    rng, n = np.random.default_rng(seed), n_columns
    exact, mean = np.zeros((n + 1, n + 1)), np.append(0.02 * rng.normal(size=n), 1.0)
    for size in (300.0, 100.0):
        vector = rng.normal(size=n) / np.sqrt(n)
        exact[:-1, :-1] += size * np.sqrt(n) * np.outer(vector, vector)
    exact += n_rows * np.outer(mean, mean)
    nothing, ones, names = np.zeros(n), np.ones(n), tuple(f"bank.x{i}" for i in range(n))
    for _ in range(n_releases):
        draw = rng.normal(size=exact.shape)
        noisy = exact + (draw + draw.T) / np.sqrt(2)
        yield ReleasedMoments(names, noisy, 1.0, 1.0, nothing, ones, nothing, (1, 2 * n_rows))


def test_standard_errors_of_wide_tables_are_the_spread_of_releases():
    releases = list(wide_releases(260, 60))
    lines = [solve(one.matrix, 1.0, one.noise_level, None) for one in releases]
    found = fit(releases[0], lines[0], releases[0].noise_level, None)
    spread = np.std([line.coefficients for line in lines], axis=0, ddof=1)
    assert found.standard_errors.mean() == pytest.approx(spread.mean(), rel=0.1)
    assert found.intercept_error == pytest.approx(np.std([line.intercept for line in lines]), rel=0.5)
