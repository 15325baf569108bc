"""A party's memory during a job hardly grows with the rows of its table, measured in the process that serves."""

import sys

import numpy as np
import polars as pl
import pytest
from deadlines import GENEROUS_S
from federation import Analyst, result_of
from forked_services import ForkedDeployment
from process_memory import forget_peak, peak_mib

from analyses.job.job import Job
from demo.local_deployment import LocalTable

OWNERS = ("bank", "hospital", "telco")
COLUMNS = ("x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7")
FEW, MANY = 1 << 18, 1 << 21  # a source is read in pieces of 2^18 rows
SLACK_MIB = 96
"""The values of more rows are 112 MiB more, and their ids, of 30 characters, 80 and as much to compare them. Of all
that 14 MiB are kept; what allocators keep besides is some 50 MiB."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = {}
    for number, owner in enumerate(OWNERS):
        tables[owner] = []
        for n_rows in (FEW, MANY):
            drawn = np.random.default_rng(number).random((n_rows, len(COLUMNS)))
            ids = pl.Series(np.arange(n_rows)).cast(pl.String)
            frame = pl.DataFrame(drawn, schema=list(COLUMNS)).with_columns(id="the row with the number " + ids)
            path = folder / f"{owner}-{n_rows}.parquet"
            frame.write_parquet(path, row_group_size=1 << 16)
            bounds = dict.fromkeys(COLUMNS, (0.0, 1.0))
            tables[owner].append(LocalTable(f"rows-{n_rows}", path, bounds, (n_rows, n_rows), id_column="id"))
    (folder / "run").mkdir()
    few_mib = {"MOIETY_PARTY__TABLE_MEMORY_MIB": "8"}  # less than the smaller table has
    with ForkedDeployment(folder / "run", tables, environment=few_mib) as running:
        yield running


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("analysis", "columns", "parameters"),
    [("pca", COLUMNS, {"components": 1}), ("moments", ("x0",), {})],
)
def test_eight_times_the_rows_take_hardly_more_memory(deployment, analysis, columns, parameters):
    analyst, peaks = Analyst(deployment), {}
    pids = [deployment.processes[owner].pid for owner in OWNERS]
    for n_rows in (FEW, FEW, MANY):  # the first one also loads what jobs need
        for pid in pids:
            forget_peak(pid)
        job = Job.model_validate(
            {
                "analysis": analysis,
                "inputs": [{"party": o, "table": f"rows-{n_rows}", "columns": columns} for o in OWNERS],
                "privacy": {"epsilon": 1.0, "delta": 1e-7},
                "parameters": {"max_rows": MANY, **parameters},
                "deadline_s": 600.0,
            }
        )
        result_of(analyst.run(job, timeout_s=GENEROUS_S))
        peaks[n_rows] = [peak_mib(pid) for pid in pids]
    assert all(many - few < SLACK_MIB for few, many in zip(peaks[FEW], peaks[MANY], strict=True)), peaks
