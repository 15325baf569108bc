import json

import numpy as np
import pytest
from moment_jobs import checked_plan_for, line_tables, plan_for, run

from analyses.job.job import JobError
from analyses.low_rank import protocol as low_rank
from analyses.rows.row_plan import clipped_rows
from dp.cost.views import VIEWS
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.session import COORDINATOR
from results.registry import lines_of

METHODS = {"mpc": {}, "gaussian": {"method": "sketch"}, "signs": {"method": "sketch", "sketch_entries": "signs"}}


async def losses(tables, parameters, epsilon):
    """What the private approximation and the best one lose, as shares of the norm of the table."""
    plan = plan_for(low_rank, tables, parameters, privacy={"epsilon": epsilon, "delta": 1e-6})
    results, _ = await run(low_rank, plan, tables)
    rows, owned = clipped_rows(list(tables.values()), plan), results[COORDINATOR]
    components = np.array(owned["components"])
    assert components @ components.T == pytest.approx(np.eye(len(components)), abs=1e-9)
    best = low_rank.residual(rows, low_rank.reference(list(tables.values()), plan))
    return low_rank.residual(rows, components), best, owned


async def test_counted_under_shares_it_is_the_best_approximation_but_for_little_noise():
    lost, best, result = await losses(line_tables(), {"rank": 2}, 1000.0)
    assert best <= lost < best + 1e-3
    assert result["n_seen"] == 2
    assert result["kept"] == pytest.approx(1 - best**2, abs=0.01)


@pytest.mark.parametrize("method", ["gaussian", "signs"])
async def test_a_sketch_with_little_noise_is_a_bicriteria_approximation(method):
    lost, best, _ = await losses(line_tables(), {"rank": 2, "sketch_rows": 200, **METHODS[method]}, 1e6)
    assert best <= lost < 1.1 * best


async def test_under_shares_less_is_lost_than_with_either_sketch_at_the_same_epsilon_and_signs_lose_less():
    lost = {name: (await losses(line_tables(), {"rank": 2, **m}, 20.0))[0] for name, m in METHODS.items()}
    assert lost["mpc"] < lost["signs"] < lost["gaussian"]


@pytest.mark.parametrize("method", METHODS)
async def test_the_result_is_json_and_names_columns_method_and_both_epsilons(method):
    tables = line_tables(50)
    plan = plan_for(low_rank, tables, {"rank": 1, **METHODS[method]}, privacy={"epsilon": 4.0, "delta": 1e-6})
    results, _ = await run(low_rank, plan, tables)
    result = json.loads(json.dumps(results[COORDINATOR]))
    assert result["columns"] == ["bank.label", "hospital.a", "hospital.c", "telco.b"]
    assert result["method"] == plan.params.method
    assert len(result["eigenvalues"]) == 4
    assert result["privacy"]["views"]["coalition"]["epsilon"] <= 4.0
    assert set(result["privacy"]["views"]) == set(VIEWS)


@pytest.mark.parametrize("method", METHODS)
async def test_tables_with_different_rows_are_refused_and_nothing_is_opened(method):
    tables = line_tables(50)
    tables["telco"] = line_tables(49)["telco"]
    plan = plan_for(low_rank, tables, {"rank": 1, **METHODS[method]})
    results, network = await run(low_rank, plan, tables, absent=(COORDINATOR,))
    assert isinstance(results[1], UnequalValuesError)
    assert "telco" in str(results[1])
    assert not [m for m in network.transcript if m.receiver == COORDINATOR]


async def test_an_approximation_that_is_hidden_in_the_noise_is_said_to_be_unseen():
    tables = line_tables(20)
    plan = plan_for(low_rank, tables, {"rank": 2, "max_rows": 100_000}, privacy={"epsilon": 0.01, "delta": 1e-6})
    results, _ = await run(low_rank, plan, tables)
    assert (results[COORDINATOR]["n_seen"], results[COORDINATOR]["kept"]) == (0, None)
    lines = lines_of("low-rank", results[COORDINATOR])
    assert lines[0].startswith("components 1 to 2 are not distinguishable from noise")


def test_the_residual_is_the_share_of_the_norm_outside_the_subspace():
    matrix = np.eye(4)
    assert low_rank.residual(matrix, matrix[:4]) == 0.0
    assert low_rank.residual(matrix, matrix[:1]) == pytest.approx(np.sqrt(3 / 4))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "parameters.rank"),
        ({"rank": 0}, "parameters.rank"),
        ({"rank": 4}, "parameters.rank: a table of 4 columns needs no approximation of rank 4"),
        (
            {"rank": 3, "method": "sketch", "sketch_rows": 2},
            ("parameters.sketch_rows: a sketch of 2 rows cannot span a subspace of 3 dimensions"),
        ),
        ({"rank": 1, "method": "guess"}, "parameters.method"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(parameters, words):
    with pytest.raises(JobError, match=words):
        plan_for(low_rank, line_tables(10), parameters)


@pytest.mark.parametrize("method", METHODS)
def test_an_epsilon_too_small_for_any_answer_is_refused_before_anything_is_spent(method):
    privacy = {"epsilon": 1e-3, "delta": 1e-6}
    with pytest.raises(JobError, match=r"privacy.epsilon: .*no answer could be seen"):
        checked_plan_for(low_rank, line_tables(10), {"rank": 1, **METHODS[method]}, privacy=privacy)
