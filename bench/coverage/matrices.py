"""Intervals of what follows from second moments: exact moments of a real table and draws of the noise of a release."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from analyses.job.forecast import NORMAL_95
from analyses.least_squares import protocol as least_squares
from analyses.least_squares.fit import explained, fit_of
from analyses.least_squares.line import in_units_of_columns, moments_in_order, solve_moments
from analyses.logistic_regression.link import fit
from analyses.logistic_regression.plan import plan as plan_of_labels
from analyses.logistic_regression.uncertainty import standard_errors
from analyses.logistic_regression.weights import labelled_moments, weights_of
from analyses.pca import protocol as pca
from analyses.pca.spectrum import spectrum
from analyses.second_moments.centred import centred
from analyses.second_moments.forecast import noise_level
from analyses.second_moments.gram_plan import deviation_of
from analyses.second_moments.ridge import solve
from analyses.second_moments.spectrum import SimulatedNoise
from bench.baselines.components import moment_with_constant
from bench.coverage.record import Coverage
from bench.datasets.labelled_tables import california
from bench.datasets.labelled_tables import earnings as labelled_earnings
from bench.datasets.small_tables import benign_tumours, split_columns, tumour_columns
from bench.datasets.vertical_tables import EARNINGS_LABEL, HOUSING_LABEL, earnings, housing
from bench.distribution.samples import Floats
from bench.utility.logistic_moments import integer_rows
from bench.utility.moment_runs import plan_of

EPSILONS = (0.5, 2.0, 8.0)
NOISE_KEY = b"noise of releases whose coverage"


def tables() -> dict[str, tuple[Sequence[Any], str]]:
    """Return tables and the label of each: houses, earnings, tumours."""
    return {
        "California housing": (housing(), HOUSING_LABEL),
        "CPS earnings": (earnings(), EARNINGS_LABEL),
        "breast tumours": (split_columns(tumour_columns()), "worst.worst_radius"),
    }


def components(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of the variance along each of three released components."""
    for name, (parties, _) in tables().items():
        for epsilon in EPSILONS:
            parameters = {"components": 3, "max_rows": 2 * parties[0].n_rows}
            plan = plan_of(pca, "pca", parties, parameters, epsilon)
            exact = moment_with_constant(pca.clipped_rows(parties, plan), plan.constant * plan.unit)
            scatter, noise = pca.reference(parties, plan) / parties[0].n_rows, SimulatedNoise(NOISE_KEY)
            held, known = [], []
            for _ in range(runs):
                found = spectrum(exact + plan.noise_deviation * noise.symmetric(len(exact)), plan)
                along = np.einsum("ki,ij,kj->k", found.components, scatter, found.components)
                assert found.intervals is not None
                held.append((found.intervals[:, 0] <= along) & (along <= found.intervals[:, 1]))
                known.append(~np.isnan(found.intervals[:, 0]))
            for at in range(3):
                what = f"principal components: variance along component {at + 1}"
                yield Coverage.of(what, name, epsilon, runs, np.array(held)[:, at], np.array(known)[:, at])


def lines(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of coefficients and intercept, about the line of the rows with the same ridge, and of R^2."""
    for name, (parties, label) in tables().items():
        for epsilon in EPSILONS:
            parameters = {"label": label, "max_rows": 2 * parties[0].n_rows}
            plan = plan_of(least_squares, "least-squares", parties, parameters, epsilon)
            constant = plan.constant * plan.unit
            exact = moment_with_constant(pca.clipped_rows(parties, plan), constant)
            scatter = centred(moments_in_order(exact, plan), constant, (-1.0, 1.0), (1, 1 << 60)).matrix
            noise, level = SimulatedNoise(NOISE_KEY), noise_level(plan)
            held, known, shares, told = [], [], [], []
            ordered, n_numbers = moments_in_order(exact, plan), len(exact) - 1
            for _ in range(runs):
                released = exact + deviation_of(plan) * noise.symmetric(len(exact))
                solution = solve_moments(released, level, plan)
                found = fit_of(released, plan, solution, level)
                errors = None if found is None else found.standard_errors
                known.append(np.full(n_numbers, errors is not None))
                held.append(np.zeros(n_numbers, dtype=bool))
                told.append(found is not None)
                shares.append(False)
                if found is not None:
                    share = explained(scatter, solution)
                    shares[-1] = found.interval[0] <= share <= found.interval[1]
                if found is not None and errors is not None and found.intercept_error is not None:
                    half = NORMAL_95 * np.append(errors, found.intercept_error)
                    truth = _line(solve(ordered, constant, 0.0, solution.ridge), plan)
                    held[-1] = np.abs(_line(solution, plan) - truth) <= half
            hits, stated = np.array(held), np.array(known)
            yield Coverage.of("least squares: coefficients", name, epsilon, runs, hits[:, :-1], stated[:, :-1])
            yield Coverage.of("least squares: intercept", name, epsilon, runs, hits[:, -1], stated[:, -1])
            yield Coverage.of("least squares: R^2", name, epsilon, runs, np.array(shares), np.array(told))


def _line(solution: Any, plan: Any) -> Floats:
    line = in_units_of_columns(solution, plan)
    assert line is not None
    return np.append(line.coefficients, line.intercept)


def logistic(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of the weights by moments: those of the whole table with the same ridge.

    Each run has a random sample of the table, as the errors are of noise and of chance.
    """
    for name, data in {
        "California housing": california(),
        "CPS earnings": labelled_earnings(),
        "breast tumours": benign_tumours(),
    }.items():
        for epsilon in (1.0, 8.0):
            plan: Any = plan_of_labels(data.job(epsilon=epsilon, delta=1e-6), [t.schema for t in data.training])
            rows, rng = integer_rows(data, plan), np.random.default_rng(7)
            whole = labelled_moments(plan, rows.T @ rows * plan.unit**2)
            noise, held, known = SimulatedNoise(NOISE_KEY), [], []
            for _ in range(runs):
                some = rows[rng.integers(len(rows), size=len(rows))]
                released = some.T @ some * plan.unit**2 + deviation_of(plan) * noise.symmetric(rows.shape[1])
                moments = labelled_moments(plan, released)
                found = fit(moments)
                errors = standard_errors(plan, moments, found)
                truth = np.append(*weights_of(plan, fit(replace(whole, deviation=0.0), found.ridge)))
                known.append(np.full(len(truth), errors is not None))
                half = np.zeros(len(truth)) if errors is None else NORMAL_95 * np.append(*errors)
                held.append(np.abs(np.append(*weights_of(plan, found)) - truth) <= half)
            what = "logistic regression by moments: weights and intercept"
            yield Coverage.of(what, name, epsilon, runs, np.array(held), np.array(known))
