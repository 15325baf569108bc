"""Files that are damaged or written over while a job reads them, at a living party: only the job ends."""

import gzip
import json
import threading
import time

import polars as pl
import pytest
from damaged_files import FRAME, many, whole
from deadlines import GENEROUS_S
from federation import Analyst
from forked_services import ForkedDeployment

from analyses.job.job import Job
from demo.local_deployment import LocalTable

KINDS = ("csv", "csv.gz", "parquet", "arrow")
COLUMNS = """
[tables.columns]
a = { kind = "number", bounds = [0, 9], missing = { value = 5 }, others = "missing" }
"""
SUM = float(FRAME["a"].sum())
LARGE = 1_000_000


def name_of(kind):
    return kind.replace(".", "-")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage")
    (folder / "run").mkdir()
    tables = []
    for kind in KINDS:
        (folder / f"people.{kind}").write_bytes(whole(kind))
        tables.append(LocalTable(name_of(kind), folder / f"people.{kind}", {}, (1, 2 * LARGE), sections=COLUMNS))
    (folder / "zeros.csv").write_text("a\n0\n")
    zeros = [LocalTable("zeros", folder / "zeros.csv", {"a": (0.0, 1.0)}, (1, 10))]
    parties = {"bank": tables, "clinic": zeros, "shop": zeros}
    with ForkedDeployment(folder / "run", parties, budget=(1e7, 1e-7)) as running:
        yield running


def ended(deployment, kind):
    """Run a job on a table of the bank to its end, and return how it ended."""
    inputs = [{"party": "bank", "table": name_of(kind)}, *({"party": p, "table": "zeros"} for p in ("clinic", "shop"))]
    target = {"epsilon": 5000.0, "delta": 1e-7}
    job = Job.model_validate(
        {
            "analysis": "secure-sum",
            "inputs": inputs,
            "privacy": target,
            "deadline_s": GENEROUS_S,
            "parameters": {"names": ["a"]},
        }
    )
    view = Analyst(deployment).run(job)
    if view.state == "FAILED":
        assert "cannot be used" in view.reason
        return None
    assert view.state == "DONE", view.reason
    return json.loads(view.result_json)["sum"][0]


def path_of(deployment, kind):
    return deployment.folder.parent / f"people.{kind}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_jobs_on_damaged_files_end_and_one_on_a_whole_file_is_done(deployment, kind, n):
    path = path_of(deployment, kind)
    for content in many(kind, n, seed=7):
        path.write_bytes(content)
        ended(deployment, kind)
    path.write_bytes(whole(kind))
    assert ended(deployment, kind) == pytest.approx(SUM, abs=3)
    assert deployment.processes["bank"].poll() is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_cut_and_written_over_in_place_while_it_is_read_ends_no_party(deployment, kind, tmp_path):
    """As `cp` does: the same file, of no bytes for a moment, and then of others."""
    rows = pl.DataFrame({"a": [float(row % 7) for row in range(LARGE)], "n": range(LARGE)})
    {"parquet": rows.write_parquet, "arrow": rows.write_ipc}.get(kind, rows.write_csv)(tmp_path / "other")
    content, path, is_over = (tmp_path / "other").read_bytes(), path_of(deployment, kind), threading.Event()
    if kind == "csv.gz":
        content = gzip.compress(content, 1)

    def write_over():
        while not is_over.is_set():
            time.sleep(0.02)
            with path.open("r+b") as file:
                file.truncate(len(content) // 3)
                file.write(content)

    path.write_bytes(content)
    writer = threading.Thread(target=write_over)
    writer.start()
    try:
        outcomes = [ended(deployment, kind) for _ in range(4)]
    finally:
        is_over.set()
        writer.join()
    assert None in outcomes, "no job read while the file was written"
    path.write_bytes(whole(kind))
    assert ended(deployment, kind) == pytest.approx(SUM, abs=3)
    assert deployment.processes["bank"].poll() is None
