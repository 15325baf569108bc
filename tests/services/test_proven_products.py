"""Jobs of three owners with `security = "malicious"` over real services, one of which multiplies wrongly."""

import numpy as np
import pytest
from federation import Analyst, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from lying_dealers import serve_a_wrong_multiplier

from analyses.job.job import Job

PARTIES = ("bank", "hospital", "telco")
VALUES = {name: random_values((300, 1), seed).round() for seed, name in enumerate(PARTIES)}
"""Categories -1 .. 3."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of(VALUES, folder)
    (folder / "run").mkdir()
    serves = {"bank": serve_a_wrong_multiplier}
    with ForkedDeployment(folder / "run", tables, budget=(1e4, 1e-5), serves=serves) as running:
        yield running


def job_of(parties, **changes):
    return Job.model_validate(
        {
            "analysis": "pattern-count",
            "inputs": [{"party": p, "table": "people"} for p in parties],
            "privacy": {"epsilon": 50.0, "delta": 1e-6},
            "parameters": {"max_rows": 1000},
            "security": "malicious",
            **changes,
        }
    )


def test_honest_parties_get_their_counts_and_who_multiplies_wrongly_is_named_before_anything_is_opened(deployment):
    """The bank lies where it is the first member."""
    analyst = Analyst(deployment)
    honest = ("hospital", "telco", "bank")
    counts = np.array(result_of(analyst.run(job_of(honest)))["counts"])
    places = tuple(VALUES[party][:, 0].astype(int) + 1 for party in honest)
    expected = np.zeros((5, 5, 5))
    np.add.at(expected, places, 1)
    assert np.abs(counts - expected).max() < 20
    view = analyst.run(job_of(PARTIES))
    assert view.state == "FAILED"
    assert view.culprit == "bank"
    assert "not the products" in view.reason
    assert not view.result_json


def test_who_multiplies_wrongly_within_a_comparison_is_named_before_anything_is_opened(deployment):
    analyst = Analyst(deployment)
    lines = [
        *(f"{party} = column({party}.x0)" for party in PARTIES),
        "product = mul(bank, hospital)",
        "more = less(product, telco)",
        "open more = sum(more)",
    ]
    asked = {"analysis": "circuit", "parameters": {"program": lines, "max_rows": 1000}}
    result = result_of(analyst.run(job_of(("hospital", "telco", "bank"), **asked)))
    bank, hospital, telco = (VALUES[party][:, 0] for party in PARTIES)
    assert abs(result["values"][0] - (bank * hospital < telco).sum()) < 8 * result["standard_errors"][0]
    view = analyst.run(job_of(PARTIES, **asked))
    assert (view.state, view.culprit) == ("FAILED", "bank"), view.reason
    assert not view.result_json
