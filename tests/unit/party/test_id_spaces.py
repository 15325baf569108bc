"""One budget holds for all tables of an id space; owners hear where tables and budgets do not fit together."""

import os

import pytest
import structlog
from job_builders import PARTIES, make_job, make_schema
from ledgers import UNIT, budget, ledger_in

from analyses.job.job import JobInput
from analyses.registry import analysis_of
from dp.cost.views import PERSON, ROW_UNIT
from party.admission import Admission, Applicant, RefusalError
from party.config import LedgerConfig, PartyConfig
from party.consent import ConsentBox
from party.outcome.report import balance_of
from party.policy import Policy, Rules
from party.server import _start_ledger

FIRST = {"period": "2026", "epsilon": 1.0, "delta": 1e-6}
POLICY = Policy(automatic=Rules(max_epsilon_per_job=1e6), limits=Rules(withstand_coalition=1))


def table(name, **more):
    fields = {"name": name, "path": f"{name}.csv", "bounds": {"x0": [-1, 3], "x1": [-1, 3]}, "rows": [2, 1000]}
    return {**fields, "id_column": "patient", **more}


def config_of(folder, *tables):
    (folder / "bank").mkdir(exist_ok=True)
    document = {
        "name": "bank",
        "federation": "clinics",
        "data_dir": "bank",
        "tls": {"authority": "ca.pem", "certificate": "north.pem", "key": "north.key"},
        "coordinator": {"name": "main", "address": "127.0.0.1:7100"},
        "peers": {"hospital": "127.0.0.1:7102", "telco": "127.0.0.1:7103"},
        "tables": tables,
        "policy": POLICY.model_dump(),
    }
    return PartyConfig.model_validate(document, context={"folder": folder})


class Owner:
    """A party that admits jobs about its tables."""

    def __init__(self, folder, *tables):
        self.config = config_of(folder, *tables)
        self.ledger = ledger_in(folder / "bank", party="bank")
        self.ledger.begin(self.config.first_budgets)
        self.admission = Admission(self.config, self.ledger, ConsentBox(folder / "bank"))

    async def admit(self, job_id, table, epsilon, **more):
        inputs = [{"party": p, "table": table if p == "bank" else "people"} for p in PARTIES]
        job = make_job(inputs=inputs, privacy={"epsilon": epsilon, "delta": 1e-6}, **more)
        self.plan = analysis_of(job).plan(job, [make_schema(p) for p in PARTIES])
        applicant = Applicant(job_id, "ada", job, JobInput(party="bank", table=table), self.config.table_called(table))
        assert [text async for text in self.admission.admit(applicant, self.plan)] == []
        return applicant


@pytest.fixture
def owner(tmp_path):
    spaced = [table(name, id_space="patients", first_budget=FIRST) for name in ("visits", "labs")]
    owner = Owner(tmp_path, *spaced, table("staff", first_budget=FIRST))
    yield owner
    owner.ledger.close()


async def test_jobs_about_any_table_of_an_id_space_are_charged_to_its_one_budget(owner):
    owner.admission.commit(await owner.admit("job-1", "visits", 0.6))
    with pytest.raises(RefusalError, match="the privacy budget of id space patients does not cover this job"):
        await owner.admit("job-2", "labs", 0.9)
    await owner.admit("job-3", "staff", 0.9)  # which has a budget of its own
    await owner.admit("job-4", "labs", 0.5)
    spaced, staff = owner.ledger.balances()
    assert (spaced.dataset, spaced.n_committed, spaced.n_reserved) == ("id space patients", 1, 1)
    assert (staff.dataset, staff.n_reserved) == ("staff", 1)
    assert 0.6 < spaced.held <= 1.0
    shown = balance_of(owner.ledger, "bank", owner.plan, owner.config.accounts)
    assert shown is not None
    assert shown["dataset"] == "id space patients"


async def test_only_a_job_that_was_not_committed_asks_the_ledger_to_release_it(owner, monkeypatch):
    owner.admission.commit(await owner.admit("job-1", "staff", 0.3))
    await owner.admit("job-2", "staff", 0.3)
    released, release = [], owner.ledger.release
    monkeypatch.setattr(owner.ledger, "release", lambda job_id, why: released.append(job_id) or release(job_id, why))
    for job_id in ("job-1", "job-2", "job-3"):
        await owner.admission.release(job_id, "it ended")
    assert released == ["job-2", "job-3"]
    _, staff = owner.ledger.balances()
    assert (staff.n_committed, staff.n_reserved) == (1, 0)


async def test_what_was_reserved_and_committed_holds_for_the_other_tables_after_a_crash(owner, tmp_path):
    owner.admission.commit(await owner.admit("job-1", "visits", 0.7))
    await owner.admit("job-2", "visits", 0.5)
    owner.ledger.close()  # as a process that is killed: nothing is released
    owner.ledger = again = ledger_in(tmp_path / "bank", party="bank")
    owner.admission = Admission(owner.config, again, ConsentBox(tmp_path / "bank"))
    with pytest.raises(RefusalError, match="does not cover"):
        await owner.admit("job-3", "labs", 0.6)
    assert again.release_leftovers("stopped") == ["job-2"]
    with pytest.raises(RefusalError, match="does not cover"):
        await owner.admit("job-4", "labs", 0.9)
    await owner.admit("job-5", "labs", 0.6)


async def test_an_exact_result_counts_at_the_id_space(owner):
    owner.ledger.record_exact(
        "job-9", dataset=owner.config.accounts["labs"], analyst="a", analysis="s", consent="owner"
    )
    assert [balance.n_exact for balance in owner.ledger.balances()] == [1, 0]


async def test_a_job_of_which_one_unit_is_not_all_of_an_id_is_refused(tmp_path):
    first = {**FIRST, "unit": PERSON}
    persons = {"person_column": "who", "most_rows_per_person": 3, "id_space": "patients", "first_budget": first}
    owner = Owner(tmp_path, table("visits", **persons))
    with pytest.raises(RefusalError, match=r"table 'visits' of bank: the protected unit must be 'person' or"):
        await owner.admit("job-1", "visits", 0.5)
    owner.ledger.close()


def test_tables_without_an_id_space_keep_budgets_of_their_own(tmp_path):
    config = config_of(tmp_path, table("visits"), table("labs", id_space="patients"))
    assert config.accounts == {"visits": "visits", "labs": "id space patients"}


LARGER = {**FIRST, "epsilon": 2.0}
PERSONS = {"person_column": "who", "most_rows_per_person": 3}


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ([table("visits", id_column=None, id_space="p")], "id_space: needs id_column, matching or person_column"),
        ([table("visits", id_space="p", first_budget={**FIRST, "unit": PERSON})], "first_budget.unit: must be 'record"),
        ([table("visits", id_space="p", first_budget=FIRST, **PERSONS)], "first_budget.unit: must be 'person'"),
        ([table("visits", id_space="p"), table("labs", id_space="p", **PERSONS)], "all tables need a person_column"),
        (
            [table("a", id_space="p", first_budget=FIRST), table("b", id_space="p", first_budget=LARGER)],
            "different first budgets",
        ),
        ([table("visits", id_space="no/name")], "id_space"),
    ],
)  # fmt: skip
def test_an_id_space_that_cannot_have_one_budget_is_refused(tmp_path, tables, words):
    with pytest.raises(ValueError, match=words):
        config_of(tmp_path, *tables)


@pytest.mark.parametrize("unit", [UNIT, ROW_UNIT])
def test_where_an_id_is_one_row_budgets_of_records_and_of_rows_cover_it(tmp_path, unit):
    config = config_of(tmp_path, table("visits", id_space="p", first_budget={**FIRST, "unit": unit}))
    assert config.tables[0].problem_with_unit(unit) == ""


QUERY = {"kind": "query", "files": {"t": "visits.csv"}, "query": "SELECT * FROM t"}
POSTGRES = {"kind": "postgres", "url": "postgresql://ann:secret@127.0.0.1/clinic", "table": "visits"}


def sources_of(folder):
    """Sources that read what `visits.csv` or the relation `visits` holds, and others that do not."""
    (folder / "visits.csv").write_text("patient,x0,x1\n1,1,1\n")
    (folder / "labs.csv").write_text("patient,x0,x1\n1,1,1\n")
    (folder / "link.csv").symlink_to("visits.csv")
    os.link(folder / "visits.csv", folder / "hard.csv")
    (folder / "parts").mkdir()
    (folder / "parts" / "1.parquet").write_bytes(b"")
    (folder / "one.parquet").symlink_to("parts/1.parquet")
    csv, parquet = {"kind": "csv", "path": "visits.csv"}, {"kind": "parquet", "path": "parts"}
    return [
        (csv, {"kind": "csv", "path": "./parts/../visits.csv"}, True),
        (csv, {"kind": "csv", "path": "link.csv", "delimiter": ";"}, True),
        (csv, {"kind": "csv", "path": "hard.csv"}, True),
        (csv, QUERY, True),
        (csv, {"kind": "csv", "path": "labs.csv"}, False),
        (QUERY, {**QUERY, "files": {"t": "labs.csv"}}, False),
        (parquet, {"kind": "parquet", "path": "one.parquet"}, True),
        (parquet, {"kind": "arrow", "path": "parts"}, False),
        (POSTGRES, {**POSTGRES, "url": "postgresql://bob@localhost:5432/clinic", "table": "public.visits"}, True),
        (POSTGRES, {**POSTGRES, "table": "archive.visits"}, False),
        (POSTGRES, {**POSTGRES, "url": "postgresql://ann@127.0.0.1/other"}, False),
        (POSTGRES, {**POSTGRES, "url": "postgresql://ann@127.0.0.1/clinic?options=-csearch_path%3Dnorth"}, False),
        (POSTGRES, {**POSTGRES, "url": "postgresql://ann@one:1,two:2/clinic?sslmode=require"}, False),
        (POSTGRES, {**POSTGRES, "url": "postgresql:///clinic?sslmode=require"}, True),
        (POSTGRES, {**POSTGRES, "url": "postgresql://ann@[::1]:5432/clinic"}, True),
        (
            {**POSTGRES, "table": None, "query": "SELECT *\n FROM visits;"},
            {**POSTGRES, "table": None, "query": "SELECT * FROM visits"},
            True,
        ),
    ]


def test_tables_that_read_the_same_data_and_have_two_budgets_are_told(tmp_path):
    for one, other, is_same in sources_of(tmp_path):
        tables = [table("first", path=None, source=one), table("second", path=None, source=other)]
        notices = config_of(tmp_path, *tables).budget_notices([])
        assert [notice.account for notice in notices] == (["first"] if is_same else []), (one, other)
        if is_same:
            assert "the tables 'first', 'second' read the same data and have budgets of their own" in notices[0].text
            assert "secret" not in notices[0].text
        spaced = config_of(tmp_path, *({**fields, "id_space": "patients"} for fields in tables))
        assert spaced.budget_notices([]) == []


def test_three_tables_of_which_the_last_joins_the_others_are_one_group(tmp_path):
    sources_of(tmp_path)
    query = {**QUERY, "files": {"t": "visits.csv", "u": "labs.csv"}, "query": "SELECT * FROM t JOIN u ON t.id = u.id"}
    config = config_of(tmp_path, table("visits"), table("labs"), table("both", path=None, source=query))
    (notice,) = config.budget_notices([])
    assert "'visits', 'labs', 'both'" in notice.text


def test_a_first_budget_that_the_ledger_does_not_have_is_told_and_one_that_it_has_is_not(owner):
    assert owner.config.budget_notices(owner.ledger.balances()) == []
    owner.ledger.set_budget("staff", budget(2.0, period="2027"), "next year")
    (notice,) = owner.config.budget_notices(owner.ledger.balances())
    assert "table 'staff': first_budget declares epsilon 1 at delta 1e-06" in notice.text
    assert "the ledger holds epsilon 2 at delta 1e-06" in notice.text
    assert "period '2027', which counts. The section has no effect" in notice.text


def test_a_service_that_starts_sets_one_first_budget_for_an_id_space_and_warns(tmp_path):
    tables = [table(name, id_space="patients", first_budget=FIRST) for name in ("visits", "labs")]
    config = config_of(tmp_path, *tables)
    config = config.model_copy(update={"ledger": LedgerConfig(may_begin=True)})
    with structlog.testing.capture_logs() as quiet:
        _start_ledger(config, "here").close()
    assert [one["event"] for one in quiet] == ["first budget set"]
    copies = [{**fields, "path": "visits.csv", "id_space": None} for fields in tables]
    (tmp_path / "visits.csv").touch()
    with structlog.testing.capture_logs() as told:
        ledger = _start_ledger(config_of(tmp_path, *copies), "here")
    warned = [one["about"] for one in told if one["event"] == "look at a budget"]
    assert "read the same data and have budgets of their own" in warned[0]
    assert "id space patients: the configuration has no table that is charged to it" in warned[1]
    assert {one["log_level"] for one in told if one["event"] == "look at a budget"} == {"warning"}
    ledger.close()


@pytest.mark.parametrize("change", [{"epsilon": 2.0}, {"delta": 1e-7}, {"period": "x"}, {"unit": ROW_UNIT}])
def test_every_field_of_a_first_budget_counts_as_a_difference(tmp_path, change):
    owner = Owner(tmp_path, table("visits", first_budget=FIRST))
    changed = config_of(tmp_path, table("visits", first_budget={**FIRST, **change}))
    assert len(changed.budget_notices(owner.ledger.balances())) == 1
    owner.ledger.close()


def test_budgets_of_tables_that_are_gone_or_moved_to_an_id_space_are_told(owner, tmp_path):
    moved = config_of(tmp_path, table("staff", id_space="people"))
    texts = [notice.text for notice in moved.budget_notices(owner.ledger.balances())]
    assert texts[0].startswith("budget of id space patients: the configuration has no table that is charged to it.")
    assert texts[1].startswith("budget of table 'staff': the table is now charged to the id space people")
