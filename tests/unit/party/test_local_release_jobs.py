"""Jobs whose parties send the coordinator reports of their own: what ledgers and gates make of them."""

import numpy as np
import pytest
from job_builders import PARTIES
from ledgers import budget
from party_federation import Federation

from analyses.clustering.local_clustering import LocalClustering
from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids
from mpc.protocol.session import COORDINATOR
from party.admission import RefusalError
from party.events import FinishedEvent
from party.gate import COMMIT_STAGE


def table(party, seed):
    values = np.random.default_rng(seed).integers(0, 4, (40, 1)).astype(float)
    column = ColumnSchema(name="x0", lower=0, upper=3)
    schema = BlockSchema(party=party, columns=(column,), has_ids=True, rows=(2, 50))
    return Table(schema, values, digest_of_ids(map(str, range(40))))


@pytest.fixture
def tables():
    return {party: table(party, seed) for seed, party in enumerate(PARTIES)}


def job(analysis, **parameters):
    return Job.model_validate(
        {
            "analysis": analysis,
            "inputs": [{"party": p, "table": "people"} for p in PARTIES],
            "privacy": {"epsilon": 4.0, "delta": 1e-5},
            "parameters": {"max_rows": 50, **parameters},
        }
    )


REPORTED = [
    job("pattern-count", method="randomized-response"),
    job("pattern-count", method="subsampled", share=0.5),
    job("moments", method="sketch", sketch_rows=64),
    job("moments", method="laplace", order=1),
]


@pytest.mark.parametrize("wanted", REPORTED, ids=lambda wanted: wanted.parameters["method"])
async def test_reports_leave_a_party_only_when_all_owners_have_committed_the_cost(wanted, tables, tmp_path):
    federation = Federation(tables, tmp_path)
    events, result = await federation.run(wanted)
    assert all(isinstance(last, FinishedEvent) for *_, last in events.values())
    stages = [(stage, receiver) for stage, receiver in federation.sent]
    first_report = next(i for i, (_, receiver) in enumerate(stages) if receiver == COORDINATOR)
    assert sum(stage == COMMIT_STAGE for stage, _ in stages[:first_report]) >= len(PARTIES)
    for ledger in federation.ledgers.values():
        assert 3.9 < ledger.balance("people").spent <= 4.0
    assert result["privacy"]["views"]["coalition"]["epsilon"] <= 4.0


@pytest.mark.parametrize("wanted", REPORTED, ids=lambda wanted: wanted.parameters["method"])
async def test_values_that_are_no_category_or_count_show_in_their_owners_report_alone(wanted, tables, tmp_path):
    seen = []
    for name, planted in (("clean", (1.0, 1.0)), ("planted", (9.0, 0.5))):
        tables["hospital"].values[3:5, 0] = planted
        (tmp_path / name).mkdir()
        federation = Federation(tables, tmp_path / name)
        events, result = await federation.run(wanted)
        assert isinstance(result, dict), result
        seen.append((events, sorted(federation.sent)))
    assert seen[0] == seen[1]
    n_clipped = int(wanted.analysis == "moments")  # there 9 is a count, above the largest
    report = federation.reports["hospital"]
    assert (report.clipped_values, report.mapped_values) == ({"x0": n_clipped}, {"x0": 2 - n_clipped})


async def test_single_events_are_charged_to_a_budget_for_events_only(tables, tmp_path):
    federation = Federation(tables, tmp_path)
    wanted = job("moments", method="threshold", threshold=6)
    with pytest.raises(RefusalError, match="'record of the joint table', but this job protects the unit 'event'"):
        await federation.reserve(wanted)
    for ledger in federation.ledgers.values():
        ledger.set_budget("people", budget(100.0, delta=1e-5, period="2027", unit="event"), "test")
    events, result = await federation.run(wanted, job_id="job-2")
    assert all(isinstance(last, FinishedEvent) for *_, last in events.values())
    assert result["privacy"]["unit"] == "event"
    assert all(3.9 < ledger.balance("people").spent <= 4.0 for ledger in federation.ledgers.values())


async def test_local_centres_are_paid_for_before_they_are_drawn(tables, tmp_path, monkeypatch):
    """How long the draw takes depends on noisy counts: whoever calls the job off meanwhile learns nothing for free."""
    states = []

    def release(local, rows, noise, choices):
        states.append([ledger.balance("people").n_committed for ledger in federation.ledgers.values()])
        raise RuntimeError("the analyst called the job off here")

    monkeypatch.setattr(LocalClustering, "release", release)
    federation = Federation(tables, tmp_path, deadline_s=0.5)
    await federation.run(job("clustering", k=2, k_local=2))
    assert states
    assert all(any(committed) for committed in states)
