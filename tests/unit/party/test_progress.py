"""What parties tell of their progress is the same whatever the number of rows."""

import numpy as np
import pytest
from job_builders import PARTIES, make_job
from moment_jobs import table_of
from party_federation import Federation

from analyses.job.plan import OPENING_STAGE
from analyses.pattern_count import products as pattern_products
from analyses.power_moments import protocol as moments
from analyses.rows import joint_computation
from party.events import FinishedEvent, ProgressEvent

BLOCK_ROWS = 4
ROWS = (1, BLOCK_ROWS, BLOCK_ROWS + 1, 5 * BLOCK_ROWS)  # as 1, 4096, 4097 and 20,000 rows are to blocks of 4096
MAX_ROWS = 1 << 20
JOBS = {
    "pca": {"components": 1, "gamma": 1024},
    "low-rank": {"rank": 1, "gamma": 1024},
    "low-rank sketch": {"rank": 1, "gamma": 1024, "method": "sketch", "sketch_rows": 8, "max_rows": 1 << 14},
    "moments": {"order": 3},
    "pattern-count": {},
    "joint-mean": {},
    "joint-count": {},
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(joint_computation, "ROWS_PER_BLOCK", BLOCK_ROWS)
    monkeypatch.setattr(moments, "BLOCK_ROWS", BLOCK_ROWS)
    monkeypatch.setattr(pattern_products, "MAX_PRODUCTS", 12 * BLOCK_ROWS)  # 3 categories, then 3 * 3


async def progress_of(name, n_rows, folder, parties=PARTIES):
    values = np.random.default_rng(n_rows).integers(0, 3, (len(parties), n_rows))
    tables = {p: table_of(p, {"x0": (0, 2, column)}) for p, column in zip(parties, values, strict=True)}
    parameters = {"max_rows": MAX_ROWS, **JOBS[name]}
    folder.mkdir()
    inputs = [{"party": p, "table": "people"} for p in parties]
    job = make_job(analysis=name.split()[0], parameters=parameters, inputs=inputs, anyway=True)  # of a single row, too
    events, _ = await Federation(tables, folder).run(job)
    assert all(of_party[-1] == FinishedEvent() for of_party in events.values())
    return {p: [(e.stage, e.percent) for e in all_ if isinstance(e, ProgressEvent)] for p, all_ in events.items()}


@pytest.mark.parametrize(
    "parties", [PARTIES, (*PARTIES, "zoo")], ids=["all needed", "one may drop out after its input"]
)
@pytest.mark.parametrize("name", JOBS)
async def test_the_sequence_of_stages_and_quarters_is_equal_for_every_number_of_rows(name, parties, tmp_path):
    first, *others = [await progress_of(name, n_rows, tmp_path / str(n_rows), parties) for n_rows in ROWS]
    for other in others:
        assert other == first


@pytest.mark.parametrize("n_rows", [1, 5 * BLOCK_ROWS])
async def test_a_stage_in_blocks_tells_every_quarter_in_order(n_rows, tmp_path):
    told = await progress_of("pca", n_rows, tmp_path / "run")
    assert [percent for stage, percent in told["bank"] if stage == "multiply"] == [0, 25, 50, 75, 100]
    assert told["bank"][-5:] == [(OPENING_STAGE, percent) for percent in (0, 25, 50, 75, 100)]
