"""How often stated errors hold the truth: 95 % intervals, and 1.96 standard errors either way, over many releases.

Counts and moments: draws of the noise by the functions that jobs call. Least squares: whole jobs in this process, the
truth being what the released line explains of the table itself. Principal components: released sums without the
shares, the truth being the variance of the table along the released component. Logistic regression: released sums about
rows drawn anew from the table, as its errors are about chance, too, the truth being the weights that the whole table
gives with the same ridge and without noise.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.least_squares import protocol as least_squares
from analyses.logistic_regression.link import LabelledMoments, fit
from analyses.logistic_regression.plan import plan as plan_of_labels
from analyses.logistic_regression.uncertainty import standard_errors
from analyses.logistic_regression.weights import labelled_moments, weights_of
from analyses.pattern_count import protocol as pattern_count
from analyses.pca import protocol as pca
from analyses.pca.spectrum import spectrum
from analyses.power_moments import protocol as moments
from bench.analyses.least_squares import score
from bench.analyses.rivals import tables
from bench.analyses.rivals.numbers import DRAWS, noise_of
from bench.analyses.table import Row
from bench.baselines.components import moment_with_constant
from bench.datasets.labelled_tables import california
from bench.datasets.vertical_tables import EARNINGS_LABEL, HOUSING_LABEL, earnings, housing
from bench.utility.logistic_moments import integer_rows
from bench.utility.moment_runs import plan_of, run_in_process
from entropy import SystemEntropy
from mpc.arithmetic.gram import expand_triangle

EPSILONS = (1.0, 4.0)
RUNS = 100
ANALYSIS = "stated intervals of 95 %"
METRIC = "share of releases in which the interval holds the truth; 0.90 to 0.99 is asked for"

Floats = NDArray[np.float64]


def coverage(quick: bool) -> Iterator[Row]:
    """Yield a row per analysis, table and epsilon."""
    runs = 2 if quick else RUNS
    for epsilon in EPSILONS[:1] if quick else EPSILONS:
        yield _row("pattern counts, Adult, 1.96 standard errors", epsilon, _counts(epsilon), DRAWS)
        yield _row("moments of order 2, Lending Club, 1.96 standard errors", epsilon, _moments(epsilon), DRAWS)
        for name, (parties, label) in {
            "California housing": (housing(), HOUSING_LABEL),
            "CPS earnings": (earnings(), EARNINGS_LABEL),
        }.items():
            yield _row(f"least squares, {name}, R^2", epsilon, _explained(parties, label, epsilon, runs), runs)
            along = _along_components(parties, epsilon, runs)
            for place in range(along.shape[1]):
                held = along[~np.isnan(along[:, place]), place] > 0
                yield _row(f"principal components, {name}, component {place + 1}", epsilon, held, runs)
        yield _row("logistic regression, California, all weights", epsilon, _weights(epsilon, runs), runs)


def _row(what: str, epsilon: float, held: NDArray[np.bool_], runs: int) -> Row:
    return Row(
        analysis=ANALYSIS,
        dataset=what,
        epsilon=epsilon,
        metric=METRIC,
        mpc=float(held.mean()) if held.size else None,
        note=f"{runs} releases; coordinator's view, delta 1e-6" + ("" if held.size else "; none states an interval"),
    )


def _counts(epsilon: float) -> NDArray[np.bool_]:
    parties = tables.patterns()["Adult, 64 patterns"]
    plan = plan_of(pattern_count, "pattern-count", parties, {"max_rows": 40_000}, epsilon)
    return _within(noise_of(plan.noise, plan.n_parties, DRAWS), plan.noise.standard_deviation("coordinator"))


def _moments(epsilon: float) -> NDArray[np.bool_]:
    parties = tables.spread_counts()["Lending Club, accounts"]
    plan = plan_of(moments, "moments", parties, {"max_rows": 20_000, "order": 2}, epsilon)
    noise = plan.shared_noise
    return _within(noise_of(noise, plan.n_parties, DRAWS), noise.standard_deviation("coordinator"))


def _within(noise: NDArray[np.int64], deviation: float) -> NDArray[np.bool_]:
    return np.asarray(np.abs(noise) <= 1.96 * deviation)


def _explained(parties: Any, label: str, epsilon: float, runs: int) -> NDArray[np.bool_]:
    parameters = {"label": label, "max_rows": 2 * parties[0].n_rows}
    plan, held = plan_of(least_squares, "least-squares", parties, parameters, epsilon), []
    for _ in range(runs):
        run = run_in_process(plan, parties)
        if run.result["r_squared_interval"] is not None:
            low, high = run.result["r_squared_interval"]
            held.append(low <= score(run, plan, parties) <= high)
    return np.array(held, dtype=bool)


def _along_components(parties: Any, epsilon: float, runs: int) -> Floats:
    parameters = {"components": 3, "max_rows": 2 * parties[0].n_rows}
    plan = plan_of(pca, "pca", parties, parameters, epsilon)
    exact = moment_with_constant(pca.clipped_rows(parties, plan), plan.constant * plan.unit)
    scatter, held = pca.reference(parties, plan) / parties[0].n_rows, []
    for _ in range(runs):
        found = spectrum(exact + _matrix_noise(plan, plan.mechanism.n_columns) * plan.unit**2, plan)
        if found.intervals is not None:
            along = np.einsum("ki,ij,kj->k", found.components, scatter, found.components)
            hits = (found.intervals[:, 0] <= along) & (along <= found.intervals[:, 1])
            held.append(np.where(np.isnan(found.intervals[:, 0]), np.nan, hits))
    return np.array(held, dtype=np.float64).reshape(-1, 3)


def _weights(epsilon: float, runs: int) -> NDArray[np.bool_]:
    data, rng, held = california(), np.random.default_rng(0), []
    plan: Any = plan_of_labels(data.job(epsilon=epsilon, delta=1e-6), [t.schema for t in data.training])
    rows = integer_rows(data, plan)
    everybody = labelled_moments(plan, rows.T @ rows * plan.unit**2)
    for _ in range(runs):
        some = rows[rng.integers(len(rows), size=len(rows))]
        noisy = some.T @ some + _matrix_noise(plan, plan.n_row_columns)
        released = labelled_moments(plan, noisy * plan.unit**2)
        found = fit(released)
        if (errors := standard_errors(plan, released, found)) is None:
            continue
        quiet = fit(LabelledMoments(everybody.matrix, everybody.constant, 0.0), found.ridge)
        (weights, _), (truth, _) = weights_of(plan, found), weights_of(plan, quiet)
        held.append(np.abs(weights - truth) <= 1.96 * np.array(errors[0]))
    return np.array(held, dtype=bool)


def _matrix_noise(plan: Any, n_columns: int) -> Floats:
    entropy = SystemEntropy()
    total = np.sum([plan.mechanism.draw(entropy) for _ in range(plan.n_parties)], axis=0)
    return expand_triangle(total.astype(np.float64), n_columns)
