"""Jobs and results of megabytes over a real coordinator: what was paid for can be read, and the list stays short."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import tls_in
from child_processes import child_environ
from coordinator_setup import (
    COORDINATOR,
    FEDERATION,
    PARTIES,
    CoordinatorSetup,
    accepts,
    finished,
    job_for_all,
    progress,
    running_coordinator,
    wait_forever,
)
from wire.v1.party_pb2 import PartyEvent, ProposalReply

from analyses.job.job import Job
from analyses.registry import ANALYSES
from coordinator.scheduler import MAX_JOB_BYTES
from demo.loopback import toml
from service.errors import InvalidRequestError, TooMuchError, WrongStateError
from service.identity import Role

MAX_GRPC_MESSAGE_BYTES = 4 << 20
EDGES = np.sort(np.random.default_rng(7).uniform(0.0, 1.0, 1 << 16)).tolist()
COMPONENTS = np.random.default_rng(8).normal(size=(480, 500)).tolist()
RESULT = {"analysis": "pca", "columns": [f"north.x{i}" for i in range(500)], "components": COMPONENTS}


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[CoordinatorSetup]:
    async with running_coordinator(tmp_path) as running:
        yield running


def histogram(**changes: Any) -> Job:
    """A job with the most edges that there may be: 1.3 MB, whose plan is twice as long."""
    return job_for_all(
        analysis="secure-histogram", parameters={"max_rows": 1000, "edges": EDGES}, **changes, deadline_s=600.0
    )


def answer_at_once(setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch, result: dict[str, Any]) -> None:
    """Have any job end with this result, and all parties bring one column."""

    async def run() -> AsyncIterator[PartyEvent]:
        yield progress("multiply", 100)
        yield finished()

    async def coordinator(session: Any, plan: Any) -> dict[str, Any]:
        return result

    for name, party in setup.parties.items():
        party.script, party.answer = run, one_column(name)
    for analysis in ("pca", "secure-histogram"):
        monkeypatch.setitem(ANALYSES, analysis, replace(ANALYSES[analysis], coordinator=coordinator))


def one_column(name: str) -> Any:
    async def accept() -> ProposalReply:
        return accepts(name, n_columns=1)

    return accept


def config_of(setup: CoordinatorSetup, folder: Path) -> Path:
    """Write the `client.toml` of ada."""
    setup.issue(Role.ANALYST, "ada")
    files = {name: str(path) for name, path in tls_in(setup.folder, Role.ANALYST, "ada").items()}
    coordinator = {"name": COORDINATOR.name, "address": setup.address}
    path = folder / "client.toml"
    path.write_text(toml({"federation": FEDERATION}, {"coordinator": coordinator, "tls": files}))
    return path


async def moiety(*arguments: object) -> Any:
    """Run a command in a process of its own, as gRPC wants one event loop per process, and return its JSON."""
    command = ["-m", "cli.main", "job", *map(str, arguments), "--format", "json"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env=child_environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-1000:]
    return json.loads(out)


async def test_a_result_above_grpc_s_limit_is_shown(setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_at_once(setup, monkeypatch, RESULT)
    view = await setup.run(job_for_all())
    assert (view.state, view.reason) == ("DONE", "")
    assert len(view.result_json) > MAX_GRPC_MESSAGE_BYTES
    assert json.loads(view.result_json) == RESULT
    assert json.loads(view.plan_json)["job"] == json.loads(view.job_json)


async def test_six_jobs_of_the_most_edges_are_submitted_listed_shown_and_cancelled(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges_and_counts = {"analysis": "secure-histogram", "edges": EDGES, "counts": [1000] * (len(EDGES) - 1)}
    answer_at_once(setup, monkeypatch, edges_and_counts)
    done = await setup.run(histogram(title="The first"), "first")
    assert (done.state, done.reason) == ("DONE", "")
    for party in setup.parties.values():
        party.answer = wait_forever
    async with setup.client() as client:
        ids = [await client.submit(histogram(title=f"No. {i}").canonical_json(), f"key {i}") for i in range(5)]
        jobs = await client.jobs()
        assert [job.job_id for job in jobs] == [*ids[::-1], done.job_id]
        assert [job.job_id for job in await client.jobs(3)] == ids[:-4:-1]
        assert sum(len(histogram().canonical_json()) for _ in jobs) > MAX_GRPC_MESSAGE_BYTES
        assert (jobs[0].title, jobs[-1].title, jobs[-1].state) == ("No. 4", "The first", "DONE")
        waiting = await client.show(ids[-1])
        assert json.loads(waiting.job_json)["parameters"]["edges"] == EDGES
        assert (waiting.plan_json, waiting.result_json) == ("", "")
        for job_id in ids:
            cancelled = await client.cancel(job_id)
            assert (cancelled.state, json.loads(cancelled.job_json)["parameters"]["edges"]) == ("CANCELLED", EDGES)
        with pytest.raises(WrongStateError, match="has ended: it is DONE"):
            await client.cancel(done.job_id)
    whole = [done.job_json, done.plan_json, done.result_json]
    assert sum(map(len, whole)) > MAX_GRPC_MESSAGE_BYTES
    assert json.loads(done.result_json) == edges_and_counts


async def test_the_commands_print_all_of_a_large_job_and_list_it_in_short(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer_at_once(setup, monkeypatch, RESULT)
    client, job_file = config_of(setup, tmp_path), tmp_path / "job.toml"
    lines = ['analysis = "secure-histogram"', 'title = "Many bins"', "[privacy]", "epsilon = 1.0", "delta = 1e-6"]
    lines += [line for name in PARTIES for line in ("[[inputs]]", f'party = "{name}"', 'table = "visits"')]
    job_file.write_text("\n".join([*lines, "[parameters]", "max_rows = 1000", f"edges = {EDGES}"]))
    shown = await moiety("submit", job_file, "--client", client)
    assert (shown["state"], shown["result"], shown["job"]["parameters"]["edges"]) == ("DONE", RESULT, EDGES)
    assert await moiety("show", shown["job_id"], "--client", client) == shown
    (listed,) = await moiety("list", "--client", client)
    same = {name: value for name, value in shown.items() if name not in ("job", "plan", "result")}
    assert listed == {**same, "title": "Many bins"}


async def test_a_job_that_the_parties_could_not_be_sent_is_refused_at_once(setup: CoordinatorSetup) -> None:
    async with setup.client() as client:
        for size, error in ((MAX_JOB_BYTES, InvalidRequestError), (MAX_GRPC_MESSAGE_BYTES, TooMuchError)):
            job = job_for_all(parameters={"notes": ["x" * 1000] * (size // 1000 + 1)})
            with pytest.raises(error, match=r"the job is \d+ bytes long|a request has at most"):
                await client.submit(job.canonical_json(), "key")
        assert await client.jobs() == []


async def test_a_failure_with_a_reason_of_megabytes_does_not_spoil_the_list(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_at_once(setup, monkeypatch, {})
    parameters = {"max_rows": 1000, "edges": [None] * (1 << 16)}  # each is told to be wrong
    view = await setup.run(job_for_all(analysis="secure-histogram", parameters=parameters))
    assert view.state == "FAILED"
    assert view.reason.startswith("parameters.edges.0: must be a number, got None parameters.edges.1: ")
    assert len(view.reason) < 10_000
    async with setup.client() as client:
        assert [job.reason for job in await client.jobs()] == [view.reason]
