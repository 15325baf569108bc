"""A party's service that deviates at one of its messages, in jobs with `security = "malicious"`.

Whatever it is, over the in-process network, is in tests/security/test_any_deviation.py.
"""

from functools import partial

import numpy as np
import pytest
from deviating_member import SILENCE, Point, serve_a_deviating_member
from federation import Analyst, random_values, result_of, tables_of
from forked_services import ForkedDeployment

from analyses.job.job import Job

PARTIES = ("bank", "hospital", "telco")
VALUES = {name: random_values((200, 1), seed).round() for seed, name in enumerate(PARTIES)}
"""Categories -1 .. 3."""

DEVIATIONS = [
    ("another element", Point("patterns/table", 0)),
    ("another element", Point("projections", 0, 2)),
    ("another element", Point("norms/coin commitments", 0, 3)),
    ("an earlier message", Point("norms/proof answers", 1)),
    ("another element of another prime", Point("patterns/products", 0)),
    ("no elements", Point("patterns/proof answers", 0)),
    ("in another stage", Point("norms/proof opened", 0)),
    (SILENCE, Point("patterns/coin seeds", 0)),
]
IN_FRACTIONS = [("another element", Point("bits 0/input", 0)), ("another element", Point("opening 0", 0))]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of(VALUES, folder)
    (folder / "run").mkdir()
    serves = {"bank": partial(serve_a_deviating_member, DEVIATIONS + IN_FRACTIONS)}
    with ForkedDeployment(folder / "run", tables, budget=(1e5, 1e-3), serves=serves) as running:
        yield running


def counts_job(**fields):
    return Job.model_validate(
        {
            "analysis": "pattern-count",
            "inputs": [{"party": p, "table": "people"} for p in PARTIES],
            "privacy": {"epsilon": 50.0, "delta": 1e-6},
            "parameters": {"max_rows": 1000},
            "security": "malicious",
            **fields,
        }
    )


def fractions_job(**fields):
    """A quotient, in a program of the bank's values."""
    lines = [f"{party} = column({party}.x0)" for party in PARTIES]
    lines += ["above = add(hospital, 9)", "more = add(above, telco)", "share = divide(bank, more, 4)"]
    program = {"program": [*lines, "open share = sum(share)"], "max_rows": 1000}
    return counts_job(analysis="circuit", parameters=program, **fields)


@pytest.mark.slow
def test_each_deviation_ends_its_job_with_nothing_opened_and_the_next_job_is_right(deployment):
    analyst = Analyst(deployment)
    jobs = [counts_job] * len(DEVIATIONS) + [fractions_job] * len(IN_FRACTIONS)
    for job, (deviation, point) in zip(jobs, DEVIATIONS + IN_FRACTIONS, strict=True):
        view = analyst.run(job(deadline_s=20.0))
        assert view.state == "FAILED", (deviation, point)
        assert not view.result_json
        assert view.culprit in ("", "bank"), (deviation, point, view.reason)
    counts = np.array(result_of(analyst.run(counts_job()))["counts"])
    expected = np.zeros((5, 5, 5))
    np.add.at(expected, tuple(VALUES[party][:, 0].astype(int) + 1 for party in PARTIES), 1)
    assert np.abs(counts - expected).max() < 20
    result = result_of(analyst.run(fractions_job()))
    bank, hospital, telco = (VALUES[party][:, 0] for party in PARTIES)
    off = abs(result["values"][0] - (16 * bank / (hospital + telco + 9)).sum())
    assert off <= 8 * result["standard_errors"][0] + len(bank) * result["roundings_per_row"][0]
