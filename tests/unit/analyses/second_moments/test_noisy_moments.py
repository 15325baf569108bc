import numpy as np
import pytest
from moment_jobs import line_tables, plan_for, run

from analyses.least_squares import protocol as least_squares
from analyses.low_rank import protocol as low_rank
from analyses.rows.row_plan import clipped_rows
from analyses.second_moments.noisy_moments import gram_noise_level, open_moments, sketch_noise_level
from dp.cost.composition import composed_epsilon
from mpc.protocol.session import COORDINATOR

METHODS = {
    "mpc": {},
    "gaussian": {"method": "sketch", "sketch_rows": 2000},
    "signs": {"method": "sketch", "sketch_entries": "signs", "sketch_rows": 2000},
}
ANALYSES = {"low-rank": (low_rank, {"rank": 2}), "least-squares": (least_squares, {"label": "bank.label"})}


@pytest.mark.parametrize("view", ["coordinator", "coalition"])
@pytest.mark.parametrize("origin", ["lower", "middle"])
@pytest.mark.parametrize("analysis", ANALYSES)
@pytest.mark.parametrize("method", METHODS)
def test_what_a_plan_charges_is_what_the_job_asked_for_and_hardly_less(method, analysis, origin, view):
    module, parameters = ANALYSES[analysis]
    parameters = {**parameters, "origin": origin, "max_rows": 1_000_000, **METHODS[method]}
    privacy = {"epsilon": 2.0, "delta": 1e-6, "view": view}
    plan = plan_for(module, line_tables(10), parameters, privacy=privacy)
    assert 1.99 < composed_epsilon(plan.privacy_events(view), 1e-6).epsilon <= 2.0
    assert plan.privacy_report()["views"][view]["epsilon"] <= 2.0


class Moments:
    """An analysis that returns the estimate itself."""

    __name__ = "analyses.low_rank.protocol"
    plan = staticmethod(low_rank.plan)
    party = staticmethod(low_rank.party)
    coordinator = staticmethod(open_moments)


@pytest.mark.parametrize("method", METHODS)
async def test_the_estimate_of_the_second_moments_has_no_bias_and_errs_by_about_its_noise_level(method):
    tables = line_tables(300)
    plan = plan_for(Moments, tables, {"rank": 2, **METHODS[method]}, privacy={"epsilon": 10.0, "delta": 1e-6})
    results, _ = await run(Moments, plan, tables)
    moments = results[COORDINATOR]
    rows = clipped_rows(list(tables.values()), plan)
    error = moments.matrix - rows.T @ rows
    assert np.linalg.norm(error, 2) < 3 * moments.noise_level
    assert np.linalg.norm(error, 2) > 0.1 * moments.noise_level
    if method != "mpc":  # the noise that is subtracted is many times what is left
        noise = moments.noise_level / (2 * np.sqrt(4 / 2000) + 4 / 2000)
        assert abs(np.trace(error)) / 4 < 0.15 * noise
    assert moments.wrong_shares_from == []


def test_noise_levels_are_those_of_random_matrices():
    rng = np.random.default_rng(1)
    plan = plan_for(low_rank, line_tables(10), {"rank": 1})
    deviation = np.sqrt(plan.n_parties * float(plan.party_mu))
    norms = []
    for _ in range(50):
        noise = np.triu(rng.normal(0, deviation, (4, 4)), 1)
        norms.append(np.linalg.norm(noise + noise.T + np.diag(rng.normal(0, deviation * np.sqrt(2), 4)), 2))
    assert np.median(norms) == pytest.approx(gram_noise_level(plan), rel=0.3)
    plan = plan_for(low_rank, line_tables(10), {"rank": 1, "method": "sketch", "sketch_rows": 100})
    draws = [rng.normal(0, 1.0, (100, 4)) for _ in range(50)]
    norms = [np.linalg.norm(draw.T @ draw / 100 - np.eye(4), 2) for draw in draws]
    assert np.median(norms) == pytest.approx(sketch_noise_level(plan, 1.0), rel=0.3)
