"""Files of strangers at one real party: each is used as it is meant, or refused before anybody pays, and told alike.

The cases stand in `tests/support/strangers_*.py`. What reads a table for a job, `moiety doctor` and
`moiety table draft` read each; whole jobs, some of every kind of file.
"""

import json

import numpy as np
import pytest
from federation import Analyst, jobs_paid, result_of
from forked_services import ForkedDeployment
from strangers_columnar import COLUMNAR
from strangers_lines import LINES
from strangers_values import VALUES

from analyses.job.job import Job, JobInput
from cli.configuration.table_draft import drafted
from cli.doctor.tables import check_table
from demo.local_deployment import LocalTable
from party.config import load_party_config
from party.tables.sources.source import SourceError
from party.tables.table import UnusableTableError, load_table

CASES = (*LINES, *COLUMNAR, *VALUES)
ROWS = (1, 100_000)
PARTIES = ("bank", "clinic", "shop")
OF_JOBS = (
    "whole file", "too few fields", "blank line at the end", "break outside quotes", "packed in two parts", "utf 16",
    "cp1252", "parquet", "parquet folder", "parquet cut", "parquet that is a pipe", "arrow", "arrow that is parquet",
    "query over text", "query over a bad line", "declared commas", "codes with a fraction", "a point under a comma",
    "integers and texts of gaps in a folder", "times in a declared zone", "ids with a fraction",
)  # fmt: skip
"""Labels of the cases about which jobs are run: all others differ in what reads them, not in what a job does then."""

ZEROS = [f"z{place}" for place in range(12)]
"""Columns of the two other parties, which are added to those of a case by their places."""
NOISE = 2
"""No sum is further off: with the widest bounds, of 2000, its Laplace noise has a scale of 0.074; one in 10^11 is."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "run").mkdir()
    tables = [LocalTable(one.table, None, {}, ROWS, sections=one.sections(one.write(folder))) for one in CASES]
    (folder / "zeros.csv").write_text(f"{','.join(ZEROS)}\n{','.join('0' for _ in ZEROS)}\n")
    zeros = [LocalTable("zeros", folder / "zeros.csv", dict.fromkeys(ZEROS, (0.0, 1.0)), ROWS)]
    parties = {"bank": tables, "clinic": zeros, "shop": zeros}
    with ForkedDeployment(folder / "run", parties, budget=(1e8, 1e-6)) as running:
        yield running


@pytest.fixture(scope="module")
def config(deployment):
    return load_party_config(deployment.config_path("bank"))


def table_of(config, case):
    return next(one for one in config.tables if one.name == case.table)


def sum_of(config, case):
    zeros = ZEROS[: len(table_of(config, case).encoded)]
    inputs = [
        {"party": "bank", "table": case.table},
        *({"party": party, "table": "zeros", "columns": zeros} for party in ("clinic", "shop")),
    ]
    target = {"epsilon": 100_000.0, "delta": 1e-6}
    names = {"names": zeros}
    return Job.model_validate({"analysis": "secure-sum", "inputs": inputs, "privacy": target, "parameters": names})


def reasons(deployment, job_id):
    """Return what the owner reads of a job in its log."""
    entries = [json.loads(line) for line in deployment.log_path("bank").read_text().splitlines() if line[:1] == "{"]
    return "; ".join(one.get("reason", "") for one in entries if one.get("job") == job_id)


@pytest.mark.parametrize("case", [one for one in CASES if one.label in OF_JOBS], ids=lambda case: case.label)
def test_a_job_gets_what_is_meant_or_fails_unpaid_and_its_owner_reads_why(deployment, config, case):
    before = jobs_paid(deployment, PARTIES)
    view = Analyst(deployment).run(sum_of(config, case))
    paid = {party: n - before[party] for party, n in jobs_paid(deployment, PARTIES).items()}
    assert paid == dict.fromkeys(PARTIES, int(not isinstance(case.outcome, str)))
    if isinstance(case.outcome, str):
        assert view.state == "FAILED", f"read as {view.result_json}"
        assert f"table {case.table!r} of party 'bank' cannot be used" in view.reason
        assert case.outcome in reasons(deployment, view.job_id)
        return
    names = [column.name for column in table_of(config, case).encoded]
    assert dict(zip(names, result_of(view)["sum"], strict=True)) == pytest.approx(case.outcome, abs=NOISE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_party_reads_what_is_meant_or_says_why(config, case):
    """As a job reads it, without the noise of one."""
    brought = JobInput(party="bank", table=case.table)
    if isinstance(case.outcome, str):
        with pytest.raises(UnusableTableError) as caught:
            load_table(config, brought)
        assert case.outcome in caught.value.detail
        return
    read = load_table(config, brought)
    names = [column.name for column in read.schema.columns]
    assert dict(zip(names, clipped_sums(read), strict=True)) == pytest.approx(case.outcome, abs=1e-6)


def clipped_sums(read):
    bounds = [(column.lower, column.upper) for column in read.schema.columns]
    return np.clip(read.values, *np.transpose(bounds)).sum(axis=0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_the_doctor_says_the_same(config, case):
    failed = [check.found for check in check_table(config, table_of(config, case)) if check.outcome == "failed"]
    assert bool(failed) == isinstance(case.outcome, str), failed


@pytest.mark.parametrize("case", [one for one in CASES if one.warned], ids=lambda case: case.label)
def test_the_doctor_warns_of_what_a_job_would_lose(config, case):
    warned = [check.found for check in check_table(config, table_of(config, case)) if check.outcome == "warning"]
    assert [found for found in warned if case.warned in found], warned


@pytest.mark.parametrize("case", [one for one in CASES if one.drafted], ids=lambda case: case.label)
def test_a_draft_knows_the_form_of_a_file(config, case):
    path = table_of(config, case).make_source().path
    try:
        told = "\n".join(drafted(path, "people"))
    except SourceError as error:
        told = str(error)
    assert case.drafted in told
