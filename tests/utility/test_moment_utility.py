"""How the error of least squares depends on noise and rows: what [VertPrim23, theorem E.4] says of the sketch, and what
counting under shares makes better."""

import numpy as np
import pytest
from moment_jobs import plan_for, run, table_of

from analyses.least_squares import protocol as least_squares

pytestmark = pytest.mark.slow

METHODS = {"mpc": {}, "sketch": {"method": "sketch", "sketch_entries": "signs", "sketch_rows": 200}}
SEEDS = 11


def exact_line(n_rows):
    """Tables whose label is a line in the features, so that the optimal loss is 0 and all that is lost is additive."""
    features = np.random.default_rng(3).uniform(-1, 1, (n_rows, 4))
    label = features @ np.array([0.5, -0.25, 0.2, 0.0])
    tables = {
        "bank": table_of("bank", {"label": (-1, 1, label)}),
        "hospital": table_of("hospital", {f"a{i}": (-1, 1, features[:, i]) for i in (0, 1)}),
        "telco": table_of("telco", {f"a{i}": (-1, 1, features[:, i]) for i in (2, 3)}),
    }
    return tables, features, label


async def loss(method, n_rows, epsilon):
    """The median of |A x - b|^2 over the seeds, and the variance of one party's noise."""
    tables, features, label = exact_line(n_rows)
    parameters = {"label": "bank.label", "max_rows": 40_000, "gamma": 1 << 16, **METHODS[method]}
    plan = plan_for(least_squares, tables, parameters, privacy={"epsilon": epsilon, "delta": 1e-6})
    losses = []
    for seed in range(SEEDS):
        result = (await run(least_squares, plan, tables, f"seed {seed}"))[0][0]
        line = least_squares.Line(np.array(result["coefficients"]), result["intercept"])
        losses.append(((line.predict(features) - label) ** 2).sum())
    return np.median(losses), plan.party_mu if method == "mpc" else plan.multiplier


@pytest.mark.parametrize(("method", "epsilons"), [("mpc", (2.0, 16.0)), ("sketch", (32.0, 128.0))])
async def test_the_additive_error_is_proportional_to_the_variance_of_the_noise(method, epsilons):
    (more, more_noise), (less, less_noise) = [await loss(method, 4000, epsilon) for epsilon in epsilons]
    assert np.log(more / less) / np.log(more_noise / less_noise) == pytest.approx(1.0, abs=0.25)


async def test_the_additive_error_of_a_sketch_does_not_depend_on_the_rows_and_under_shares_it_falls_with_them():
    slopes = {}
    for method, epsilon in (("mpc", 4.0), ("sketch", 64.0)):
        few, many = [(await loss(method, n_rows, epsilon))[0] for n_rows in (2000, 32_000)]
        slopes[method] = np.log(many / few) / np.log(16)
    assert slopes["mpc"] == pytest.approx(-1.0, abs=0.2)
    assert slopes["sketch"] == pytest.approx(0.0, abs=0.35)
