"""Whether the range of a forecast holds the errors that results then have, on real tables."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from analyses.least_squares import protocol as least_squares
from analyses.least_squares.forecast import forecast as forecast_of_line
from analyses.least_squares.line import feature_names, in_units_of_columns, moments_in_order, solve_moments
from analyses.logistic_regression.link import fit
from analyses.logistic_regression.plan import plan as plan_of_labels
from analyses.logistic_regression.uncertainty import forecast as forecast_of_labels
from analyses.logistic_regression.weights import labelled_moments, weights_of
from analyses.pca import protocol as pca
from analyses.pca.forecast import forecast as forecast_of_components
from analyses.pca.spectrum import spectrum
from analyses.second_moments.forecast import noise_level
from analyses.second_moments.gram_plan import deviation_of
from analyses.second_moments.ridge import solve
from analyses.second_moments.spectrum import SimulatedNoise
from bench.analyses.table import cells
from bench.baselines.components import moment_with_constant
from bench.coverage.matrices import NOISE_KEY, tables
from bench.datasets.labelled_tables import adult, california, nsl_kdd
from bench.datasets.labelled_tables import earnings as labelled_earnings
from bench.datasets.small_tables import benign_tumours, high_digits
from bench.distribution.samples import Floats
from bench.utility.logistic_moments import integer_rows
from bench.utility.moment_runs import plan_of

EPSILONS = (1.0, 4.0, 8.0)
SLACK = 1.25
"""A root mean square of so few runs as there are may be off by this factor."""


@dataclass(frozen=True)
class Ranges:
    """How the errors of one result lie in the range that was forecast.

    Attributes:
        analysis: its name.
        table: the data.
        epsilon: of the job.
        cells: numbers of the result with a forecast; 0 where it says that it makes none.
        inside: how many of them have a root mean square error in the range.
        least, median, largest: error over the best case, among the cells.
        bad: bad case over best case, the median.
    """

    analysis: str
    table: str
    epsilon: float
    cells: int
    inside: int
    least: float = 0.0
    median: float = 0.0
    largest: float = 0.0
    bad: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


def _ranges(analysis: str, table: str, epsilon: float, found: dict[str, float], quantities: Any) -> Ranges:
    """Compare root mean square errors, by name of the quantity, with the forecast."""
    three = [
        (found[q.name], q.best_half_width / 1.959964, q.half_width / 1.959964) for q in quantities if q.name in found
    ]
    if not three:
        return Ranges(analysis, table, epsilon, 0, 0)
    error, best, bad = np.array(three).T
    inside = int(np.count_nonzero((error >= best / SLACK) & (error <= bad * SLACK)))
    over = error / best
    return Ranges(
        analysis,
        table,
        epsilon,
        len(three),
        inside,
        *map(float, np.quantile(over, [0, 0.5, 1])),
        float(np.median(bad / best)),
    )


def _rms(errors: list[Floats]) -> Floats:
    found: Floats = np.sqrt(np.mean(np.square(errors), axis=0))
    return found


def forecasts(runs: int) -> Iterator[Ranges]:
    """Yield the ranges of regressions and principal components."""
    labelled = {
        "California housing": california(),
        "CPS earnings": labelled_earnings(),
        "breast tumours": benign_tumours(),
        "digits": high_digits(),
        "Adult": adult(),
        "NSL-KDD": nsl_kdd(),
    }
    vertical = tables() | {name: (labelled[name].training, labelled[name].label) for name in ("Adult", "NSL-KDD")}
    for name, (parties, label) in vertical.items():
        for epsilon in EPSILONS:
            noise = SimulatedNoise(NOISE_KEY)
            plan: Any = plan_of(least_squares, "least-squares", parties, {"label": label}, epsilon)
            constant, level = plan.constant * plan.unit, noise_level(plan)
            exact = moment_with_constant(pca.clipped_rows(parties, plan), constant)
            ordered, errors = moments_in_order(exact, plan), []
            for _ in range(runs):
                solution = solve_moments(exact + deviation_of(plan) * noise.symmetric(len(exact)), level, plan)
                line, true = (
                    in_units_of_columns(one, plan) for one in (solution, solve(ordered, constant, 0.0, solution.ridge))
                )
                if line is not None and true is not None:
                    errors.append(line.coefficients - true.coefficients)
            names = [f"coefficient of {one}" for one in feature_names(plan)]
            found = dict(zip(names, _rms(errors).tolist(), strict=True)) if errors else {}
            yield _ranges("least squares", name, epsilon, found, forecast_of_line(plan).quantities)
            yield _components(name, parties, epsilon, runs)
    for name, data in labelled.items():
        for epsilon in EPSILONS:
            noise = SimulatedNoise(NOISE_KEY)
            plan = plan_of_labels(data.job(epsilon=epsilon, delta=1e-6), [t.schema for t in data.training])
            rows, rng, errors = integer_rows(data, plan), np.random.default_rng(7), []
            whole = rows.T @ rows
            for _ in range(runs):
                some = rows[rng.integers(len(rows), size=len(rows))]
                released = some.T @ some * plan.unit**2 + deviation_of(plan) * noise.symmetric(len(whole))
                estimate = fit(labelled_moments(plan, released))
                quiet = fit(labelled_moments(plan, whole * plan.unit**2), estimate.ridge)
                if estimate.weights.any():
                    errors.append(weights_of(plan, estimate)[0] - weights_of(plan, quiet)[0])
            names = [f"weight of {one}" for one in plan.feature_names]
            found = dict(zip(names, _rms(errors).tolist(), strict=True)) if errors else {}
            yield _ranges("logistic regression", name, epsilon, found, forecast_of_labels(plan).quantities)


def _components(name: str, parties: Any, epsilon: float, runs: int) -> Ranges:
    plan = plan_of(pca, "pca", parties, {"components": 3}, epsilon)
    exact = moment_with_constant(pca.clipped_rows(parties, plan), plan.constant * plan.unit)
    scatter, noise, errors = pca.reference(parties, plan) / parties[0].n_rows, SimulatedNoise(NOISE_KEY), []
    for _ in range(runs):
        found = spectrum(exact + plan.noise_deviation * noise.symmetric(len(exact)), plan)
        assert found.variance is not None
        errors.append(found.variance - np.einsum("ki,ij,kj->k", found.components, scatter, found.components))
    (quantity,) = forecast_of_components(plan).quantities
    seen = np.linalg.eigvalsh(scatter)[::-1][:3] >= quantity.seen_from
    each = [_ranges("principal components", name, epsilon, {quantity.name: e}, [quantity]) for e in _rms(errors)[seen]]
    if not each:
        return Ranges("principal components", name, epsilon, 0, 0)
    over, inside = [one.median for one in each], sum(one.inside for one in each)
    middle = float(np.median(over))
    return Ranges("principal components", name, epsilon, len(each), inside, min(over), middle, max(over), each[0].bad)


def table_of(kept: Sequence[dict[str, Any]]) -> str:
    """Return the section of the documentation: how many errors lay in the range that was forecast."""
    found = [Ranges(**one) for one in kept]
    all_cells, inside = sum(one.cells for one in found), sum(one.inside for one in found)
    lines = [
        (
            one.table,
            one.analysis,
            f"{one.epsilon:g}",
            f"{one.inside} of {one.cells}" if one.cells else "no forecast",
            f"{one.least:.3g}, {one.median:.3g}, {one.largest:.3g}" if one.cells else "",
            f"{one.bad:.3g}" if one.cells else "",
        )
        for one in found
    ]
    head = f"""## Ranges of forecasts

A forecast says an error in the best case and in a bad one ([forecasts](../forecasts.md)), or one error where noise is
all there is: then all numbers with that noise count as one. In {inside} of {all_cells} numbers the root mean square
error was in the range, to a factor of {SLACK:g}, by which that of so few releases may be off. Components and
eigenvalues below `seen_from` are left out. The last two columns are in units of the best case: the least, the median
and the largest error, and the bad case; numbers whose best case is 0 are left out of them.
Noise of whole numbers that is seldom other than 0, as of histograms at epsilon 8, shows itself in too few releases.
"""
    return f"{head}\n{cells(('table', 'analysis', 'epsilon', 'in the range', 'errors', 'bad case'), lines)}"
