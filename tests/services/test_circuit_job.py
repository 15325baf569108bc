"""Programs of an analyst's own over real services: separate processes, mutual TLS on loopback, policies by digest."""

import numpy as np
import pytest
from federation import Analyst, result_of
from forked_services import ForkedDeployment

from analyses.circuit.program import program_of
from analyses.job.job import Job
from analyst.recording import record
from demo.local_deployment import LocalTable

PARTIES = ("bank", "hospital", "telco")
N_ROWS = 300
LINES = [
    *(f"{party} = column({party}.points)" for party in PARTIES),
    "most = maximum(bank, hospital)",
    "many = less(telco, most)",
    "weighed = mul(many, most)",
    "open many = sum(many)",
    "open weighed = sum(weighed)",
]
BY_KEY = record(
    """
async def program(c, tables):
    for group in range(11):
        inside = await c.equal(tables["hospital"]["points"], group)
        c.open(f"group_{group}", (inside * tables["bank"]["points"]).sum())
    c.open("telco", tables["telco"]["points"].sum())
"""
)
RATIOS = record(
    """
async def program(c, tables):
    bank, hospital, telco = (tables[party]["points"] for party in ("bank", "hospital", "telco"))
    share = await c.divide(bank, telco + 1, scale_bits=8)
    root = await c.sqrt(64 * hospital, 6)
    c.open("share", share.sum())
    c.open("weighed", (await c.multiply_fixed(share, root, 6)).sum())
    c.open("middle", (await c.median([bank, hospital, telco])).sum())
"""
)
FORBIDDEN = [*LINES[:-1], "open most = sum(most)"]


def values():
    rng = np.random.default_rng(5)
    return {party: rng.integers(0, 11, (N_ROWS, 1)).astype(float) for party in PARTIES}


VALUES = values()


def job_of(lines, **changes):
    fields = {
        "analysis": "circuit",
        "inputs": [{"party": party, "table": "people"} for party in PARTIES],
        "order": "trusted",
        "privacy": {"epsilon": 100.0, "delta": 1e-6},
        "parameters": {"program": lines, "max_rows": 1000},
    }
    return Job.model_validate({**fields, **changes})


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = {}
    for party in PARTIES:
        path = folder / f"{party}.csv"
        path.write_text("points\n" + "\n".join(str(int(value)) for value in VALUES[party][:, 0]) + "\n")
        tables[party] = [LocalTable("people", path, {"points": (0.0, 10.0)}, (2, 1000))]
    (folder / "run").mkdir()
    admitted = {
        "telco": {"policy.limits": {"programs": [program_of(lines).digest for lines in (LINES, BY_KEY, RATIOS)]}}
    }
    with ForkedDeployment(folder / "run", tables, budget=(1e4, 1e-6), policy=admitted) as running:
        yield running


@pytest.mark.parametrize("security", ["semi-honest", "malicious"])
def test_a_program_runs_over_services_and_gives_the_pooled_answer(deployment, security):
    view = Analyst(deployment).run(job_of(LINES, security=security))
    result = result_of(view)
    bank, hospital, telco = (VALUES[party][:, 0] for party in PARTIES)
    most = np.maximum(bank, hospital)
    exact = [(telco < most).sum(), (most * (telco < most)).sum()]
    assert result["names"] == ["many", "weighed"]
    for value, right, error in zip(result["values"], exact, result["standard_errors"], strict=True):
        assert abs(value - right) <= 8 * error + 1e-9
    assert result["program"] == program_of(LINES).digest
    assert result["privacy"].get("security", "semi-honest") == security
    assert deployment.report("bank", view.job_id)["budget"] is not None


def test_a_python_file_adds_up_one_owners_column_by_the_secret_key_of_another(deployment):
    result = result_of(Analyst(deployment).run(job_of(BY_KEY)))
    bank, hospital, telco = (VALUES[party][:, 0] for party in PARTIES)
    exact = [*(bank[hospital == group].sum() for group in range(11)), telco.sum()]
    for value, right, error in zip(result["values"], exact, result["standard_errors"], strict=True):
        assert abs(value - right) <= 8 * error + 1e-9
    assert max(result["standard_errors"]) < 1


@pytest.mark.parametrize("security", ["semi-honest", pytest.param("malicious", marks=pytest.mark.slow)])
def test_functions_of_fractions_come_out_within_their_noise_and_the_rounding_that_is_stated(deployment, security):
    result = result_of(Analyst(deployment).run(job_of(RATIOS, security=security)))
    assert result["privacy"].get("security", "semi-honest") == security
    bank, hospital, telco = (VALUES[party][:, 0] for party in PARTIES)
    share = 256 * bank / (telco + 1)
    exact = [share.sum(), (share * np.sqrt(hospital)).sum(), np.median([bank, hospital, telco], axis=0).sum()]
    assert result["roundings_per_row"][2] == 0
    for value, right, error, rounding in zip(
        result["values"], exact, result["standard_errors"], result["roundings_per_row"], strict=True
    ):
        assert abs(value - right) <= 8 * error + N_ROWS * rounding
    assert max(result["standard_errors"]) < 0.1 * max(exact)


def test_an_owner_whose_policy_names_other_programs_refuses(deployment):
    view = Analyst(deployment).run(job_of(FORBIDDEN))
    assert (view.state, view.culprit) == ("FAILED", "telco"), view.reason
    assert f"program {program_of(FORBIDDEN).digest} is not among those that may run" in view.reason


def test_a_program_with_a_wrong_line_is_refused_before_anybody_is_asked(deployment):
    view = Analyst(deployment).run(job_of([*LINES[:3], "x = shuffle(bank)", "open x = sum(x)"]))
    assert view.state == "FAILED"
    assert "line 4" in view.reason
    assert "no operation shuffle" in view.reason
