"""Standard errors of coefficients, over releases that are drawn: exact moments and noise of the release's own law."""

import numpy as np
import pytest
from moment_jobs import line_tables, plan_for

from analyses.least_squares import protocol as least_squares
from analyses.least_squares.fit import fit_of
from analyses.least_squares.line import in_units_of_columns, solve_moments
from analyses.second_moments.noisy_moments import gram_noise_level


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
