"""Tables are read late, and what is found in a file is told in one way, over real services.

A job that policy, plan, budget or owner refuse reads nothing, anywhere. The files are pipes: whoever opens one to read
it waits there, and is found.
"""

import asyncio
import os

import pytest
from watched_services import watched_services

from analyses.job.job import Job
from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME, LocalTable
from party.policy import Policy, Rules
from party.tables.sources import columnar_file, csv_text, file
from transport.calls.party_client import Failed, Progressed, Reserved

pytestmark = pytest.mark.real_time  # real services, and pipes that threads wait to read

PARTIES = ("bank", "hospital", "telco")
BOUNDS = {"x0": (-1.0, 3.0), "x1": (-1.0, 3.0)}
ROWS = (5, 100)


def job_of(**changes):
    fields = {
        "analysis": "pca",
        "inputs": [{"party": p, "table": "people"} for p in PARTIES],
        "privacy": {"epsilon": 10.0, "delta": 1e-6},
        "deadline_s": 20.0,
        "parameters": {"components": 2, "gamma": 256},
    }
    return Job.model_validate({**fields, **changes})


LOOKED_AT = set()
"""Files that a source of tables has asked about, as it does before it opens one."""


@pytest.fixture(autouse=True)
def _looks(monkeypatch):
    LOOKED_AT.clear()

    def asked(path, real=file.check_regular):
        LOOKED_AT.add(path)
        real(path)

    for module in (csv_text, columnar_file):
        monkeypatch.setattr(module, "check_regular", asked)


@pytest.fixture
def pipes(tmp_path):
    made = {party: tmp_path / f"{party}.csv" for party in PARTIES}
    for pipe in made.values():
        os.mkfifo(pipe)
    return made


def services_of(folder, pipes, monkeypatch, **options):
    (folder / "run").mkdir()
    tables = {party: [LocalTable("people", pipe, BOUNDS, ROWS, "id")] for party, pipe in pipes.items()}
    return watched_services(folder / "run", tables, monkeypatch, **options)


def hospital_with(policy):
    """Let the hospital, and nobody else, have another policy."""
    return {"change": lambda one: one.model_copy(update={"policy": policy}) if one.name == "hospital" else one}


def limits(**rules):
    return hospital_with(Policy(automatic=Rules(max_epsilon_per_job=5.0), limits=Rules(**rules)))


EXACT = {"privacy": None, "analysis": "secure-sum", "parameters": {"max_rows": 100, "units": 16}}
REFUSALS = {
    "analyst": ({}, limits(analysts=["grace"]), f"analyst '{ANALYST_NAME}' is not among"),
    "column": ({}, limits(columns={"people": ["x0"]}), "column 'x1' of table 'people' may not be used"),
    "analysis": ({}, limits(analyses=["moments"]), "analysis 'pca' is not among"),
    "receiver": (
        {},
        limits(receivers=["grace", COORDINATOR_NAME]),
        f"'{ANALYST_NAME}' may not get results",
    ),
    "exact result": (EXACT, {}, "an exact result of table 'people', which has no privacy guarantee, is not allowed"),
    "column without bounds": (
        {"inputs": [{"party": p, "table": "people", "columns": ["x0", "name"]} for p in PARTIES]},
        {},
        "column 'name' has no public bounds",
    ),
    "epsilon": ({}, limits(max_epsilon_per_job=5.0), "epsilon 10 of the job is above 5"),
    "budget": ({}, {"budget": (4.0, 1e-6)}, "does not cover this job"),
    "delta": ({"privacy": {"epsilon": 3.0, "delta": 1e-3}}, {}, "delta is too large for table 'people'"),
    "deadline": ({"deadline_s": 9.0}, {}, "deadline_s: 9 is below 10, the shortest deadline that"),
    "parameters": (
        {"parameters": {"components": 99, "gamma": 256}},
        {},
        ("parameters.components: 99 components are more than the 6 columns of the table"),
    ),
    "owner": (
        {},
        hospital_with(Policy(approval_deadline_s=0.3)),
        "the owner did not approve the job within 0.3 s",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_job_that_is_refused_reads_no_table_of_anybody(tmp_path, pipes, monkeypatch, name):
    changes, options, words = REFUSALS[name]
    async with services_of(tmp_path, pipes, monkeypatch, **options) as services:
        seen = await services.run(job_of(**changes))
        assert seen.view.state == "FAILED"
        assert words in seen.view.reason
        assert set() == LOOKED_AT


async def test_a_job_that_all_admit_reads_the_tables_only_when_it_runs(tmp_path, pipes, monkeypatch):
    async with services_of(tmp_path, pipes, monkeypatch) as services:
        job_id = await services.submit(job_of())
        async with asyncio.timeout(60):
            while set(pipes.values()) != LOOKED_AT:  # noqa: ASYNC110 - readers tell nobody
                await asyncio.sleep(0.01)
        seen = services.seen[job_id]
        async with asyncio.timeout(60):
            while not all(seen.events.values()):  # noqa: ASYNC110 - what is told may come after the pipe is opened
                await asyncio.sleep(0.01)
        assert all(Reserved() in answers for answers in seen.answers.values())
        assert all(events[0] == Progressed("reading", 0) for events in seen.events.values())
        assert len(seen.events) == len(PARTIES)


# What is found in a file

GOOD = "".join(f"row-{i},{i % 3},0.5\n" for i in range(10))
FILES = {
    "words": f"id,x0,x1\n{GOOD}row-10,many,0.5\n",
    "empty": f"id,x0,x1\n{GOOD}row-10,,0.5\n",
    "nan": f"id,x0,x1\n{GOOD}row-10,nan,0.5\n",
    "repeated": f"id,x0,x1\n{GOOD}row-9,1,0.5\n",
    "nameless": f"id,x0,x1\n{GOOD},1,0.5\n",
    "few": "id,x0,x1\nrow-0,1,0.5\n",
    "rowless": "id,x0,x1\n",
    "narrow": f"id,x0\n{GOOD}",
    "ragged": f"id,x0,x1\n{GOOD}row-10,1,0.5,7\n",
    "blank": "",
    "missing": None,
}


async def test_what_makes_a_file_unusable_reads_the_same_in_public_and_costs_nothing(tmp_path, monkeypatch, capsys):
    people = tmp_path / "people.csv"
    people.write_text(f"id,x0,x1\n{GOOD}row-10,1,0.5\n")
    tables = {party: [LocalTable("people", people, BOUNDS, ROWS, "id")] for party in PARTIES}
    for kind, text in FILES.items():
        if text is not None:
            (tmp_path / f"{kind}.csv").write_text(text)
        tables["hospital"].append(LocalTable(kind, tmp_path / f"{kind}.csv", BOUNDS, ROWS, "id"))
    (tmp_path / "run").mkdir()
    public, logged = {}, {}
    async with watched_services(tmp_path / "run", tables, monkeypatch) as services:
        for kind in FILES:
            inputs = [{"party": p, "table": kind if p == "hospital" else "people"} for p in PARTIES]
            capsys.readouterr()
            seen = await services.run(job_of(inputs=inputs))
            logged[kind] = next(line for line in capsys.readouterr().out.splitlines() if "table cannot be used" in line)
            view, name = seen.view, f"table '{kind}'"
            public[kind] = (
                seen.answers,
                [
                    Failed(e.stage, e.reason.replace(name, "it"), e.culprit, e.is_finding)
                    if isinstance(e, Failed)
                    else e
                    for e in seen.events["hospital"]
                ],
                (view.state, view.culprit, view.result_json, seen.received, seen.total_bytes),
                view.reason.partition(": ")[2].replace(name, "it"),  # before it stands whichever party told it first
            )
    what = "it of party 'hospital' cannot be used; its owner finds the reason in the log of the service"
    _, told, ended, reason = public["words"]
    assert told == [Progressed("reading", 0), Failed("reading", f"{what} [table-unusable]", "", False)]
    assert ended == ("FAILED", "hospital", "", {}, {})
    assert reason == what
    assert all(one == public["words"] for one in public.values())
    assert len({line.partition("reason=")[2] for line in logged.values()}) > len(FILES) / 2
