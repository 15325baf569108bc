"""The table of truth: its parts run on jobs like those over services, and what fails loses nothing else."""

import asyncio
import importlib
import json
import shutil
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from analyses.job.schema import BlockSchema
from analyses.registry import ANALYSES
from bench.analyses import __main__ as analyses
from bench.analyses.claims import verdicts
from bench.analyses.page import NUMBERS, pages
from bench.analyses.table import Row, Spent
from bench.utility import moment_runs
from bench.utility.moment_runs import run_in_process, tables_of_example
from demo.data_sets.kdd import write_kdd_parties


class InProcess:
    """Stands for a federation of services: runs its jobs in this process."""

    def __init__(self, data):
        self.data = data

    async def run(self, job):
        module = ANALYSES[job.analysis]
        tables = tables_of_example(self.data, job)
        schemas = {t.schema.party: t.schema for t in tables}
        plan = module.plan(job, [schemas.get(m, BlockSchema(party=m)) for m in job.members])
        run = await asyncio.to_thread(run_in_process, plan, tables)
        sent = dict.fromkeys(job.members, run.spent.sent_bytes)
        return SimpleNamespace(seconds=run.spent.seconds, sent_bytes=sent, result=run.result)


@pytest.fixture
def without_services(monkeypatch, tmp_path):
    """No process is started: jobs over services run in this one."""
    data = write_kdd_parties(tmp_path, rows=moment_runs.QUICK_ROWS)

    @asynccontextmanager
    async def federation(tables):
        assert set(tables) == set(data.tables)
        yield InProcess(data)

    monkeypatch.setattr(moment_runs, "running_federation", federation)


@pytest.mark.usefixtures("without_services")
@pytest.mark.parametrize("name", ["clustering", "least_squares", "low_rank", "moments", "pattern_count", "pca"])
def test_every_example_over_services_gives_rows_with_time_and_bytes(name):
    module = importlib.import_module(f"bench.analyses.{name}")
    found = module.over_services(True)
    rows = [found] if isinstance(found, Row) else list(found)
    assert rows
    for row in rows:
        assert row.mpc is not None
        assert row.mpc_spent.seconds > 0
        assert row.mpc_spent.sent_bytes > 0
        assert Row.from_json(json.loads(json.dumps(row.as_json()))) == row


def row(number, dataset="a table"):
    return Row("pca", dataset, 1.0, "captured", mpc=number, mpc_spent=Spent(0.5, 1000))


def failing(quick):
    yield row(0.5)
    raise KeyError("the last line")


def working(quick):
    yield row(0.4)
    yield row(0.3, "another table")


def test_what_was_measured_before_a_failure_is_kept_and_the_rest_is_of_the_last_run(tmp_path):
    analyses.keep(tmp_path, "pca", "KDD", analyses.run(working, quick=False))
    analyses.keep(tmp_path, "pca", "other", analyses.run(working, quick=False))
    analyses.keep(tmp_path, "pca", "KDD", analyses.run(failing, quick=False))
    kept = analyses.kept_results(tmp_path)["pca"]
    assert kept["KDD"]["failure"] == "KeyError: 'the last line'"
    assert [(r["dataset"], r["mpc"]) for r in kept["KDD"]["rows"]] == [("a table", 0.5), ("another table", 0.3)]
    assert "failure" not in kept["other"]


def test_a_part_that_fails_is_said_on_the_page_and_the_others_are_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(analyses, "measured", lambda: {"pca": {"first": failing, "second": working}})
    docs = shutil.copytree(analyses.DOCS, tmp_path / "docs")
    assert analyses.main(["--results", str(tmp_path / "results"), "--docs", str(docs)]) == 1
    page = (docs / "pca.md").read_text()
    by_hand = page.partition(NUMBERS)[0]
    assert by_hand == (analyses.DOCS / "pca.md").read_text().partition(NUMBERS)[0]
    assert "**first failed on" in page
    assert "<summary>Pca. Captured (3 rows)</summary>" in page
    assert "| a table | 1 |  | 0.5 |  |  | - / 0.50 s | - / 0.0010 MB |" in page
    assert "| another table | 1 |  | 0.3 |" in page
    assert "failed: pca, first" in capsys.readouterr().err


def test_numbers_go_to_the_page_of_their_analysis_and_none_is_lost(tmp_path):
    kept = {"pca": {"KDD": analyses.run(working, quick=False)}}
    (tmp_path / "README.head.md").write_text("# Head\n")
    with pytest.raises(ValueError, match=r"no page for these numbers has the line .*: pca\.md"):
        pages(tmp_path, kept)


def test_the_pages_follow_from_what_is_kept():
    """So whoever edits a number, or a question, by hand is told; `python -m bench.analyses --render` writes them."""
    written = pages(analyses.DOCS, analyses.kept_results(analyses.RESULTS))
    assert [name for name, text in written.items() if (analyses.DOCS / name).read_text() != text] == []
    assert len(written) == 14


def losses(way, epsilon, private, mpc):
    metric = "mean squared distance, less is better"
    name = "mixed Gaussian, S = 2"
    return Row(f"clustering, {way}", name, epsilon, metric, private=private, mpc=mpc, central=0.08)


def test_a_claim_holds_only_where_every_setting_does_and_exceptions_are_named():
    best = "every other counting"
    good = [losses(way, 1.0, 0.5, 0.1) for way in ("independent", "ldp", "pattern", "fm-sketch")]
    (verdict,) = [v for v in verdicts(good) if best in v.claim]
    assert verdict.holds
    (verdict,) = [v for v in verdicts([*good, losses("ldp", 4.0, 0.1, 0.2)]) if best in v.claim]
    assert verdict.text == "**does not hold**"
    assert "4 of 5 settings; not at mixed Gaussian, S = 2, epsilon 4, ldp: 0.2 to 0.1" in verdict.numbers
    (verdict,) = [v for v in verdicts(good) if "at most twice" in v.claim]
    assert verdict.holds
    (verdict,) = [v for v in verdicts([losses("independent", 1.0, 0.5, 0.2)]) if "at most twice" in v.claim]
    assert not verdict.holds
    assert all(v.holds is None for v in verdicts([]))
