"""The deployment of docker-compose.yml: a job, the crash of a party during another, and a job after its return."""

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids
from analyses.pca import protocol as pca
from analyst.connection import ClientConfig, connect
from demo.data_sets.kdd import MAX_ROWS, MIN_ROWS, bounds_of, write_kdd_parties
from demo.loopback import toml
from transport.calls.coordinator_client import JobView

pytestmark = pytest.mark.compose

REPOSITORY = Path(__file__).parents[2]
JOB_FILE = REPOSITORY / "examples" / "pca.toml"
PARTIES = ("carrier", "host", "monitor")


def parties_of(example: Path) -> set[str]:
    return {brought["party"] for brought in tomllib.loads(example.read_text()).get("inputs", [])}


EXAMPLES = sorted(
    p.stem for p in (REPOSITORY / "examples").glob("*.toml") if parties_of(p) and parties_of(p) <= set(PARTIES)
)
"""Jobs of this federation; that of distributions is about other parties, and has a test of its own."""
NUMBERS = {"carrier": "wrong_fragment", "host": "hot", "monitor": "dst_host_count"}
"""Party to the column of its table `numbers`."""
REST_S = 150.0
N_PROBES = 20
MOST_STARTS = 2
"""Starts of an interpreter that speaks gRPC whose processor time a probe may take, with its service meanwhile."""


@pytest.fixture(scope="session")
def job() -> Job:
    return Job.from_toml(JOB_FILE.read_text())


@pytest.fixture(scope="session")
def exact_matrix(job, tmp_path_factory) -> np.ndarray:
    """The scatter of the pooled table about its mean, by plain NumPy on this machine."""
    pooled = write_kdd_parties(tmp_path_factory.mktemp("tables")).pooled
    tables, start, ids = [], 0, digest_of_ids(f"row {row}" for row in range(len(pooled)))
    for party in PARTIES:
        columns = tuple(ColumnSchema(name=n, lower=low, upper=up) for n, (low, up) in bounds_of(party).items())
        schema = BlockSchema(party=party, columns=columns, has_ids=True, rows=(MIN_ROWS, MAX_ROWS))
        tables.append(Table(schema, pooled[:, start : start + len(columns)], ids))
        start += len(columns)
    plan = pca.plan(job, [table.schema for table in tables])
    return pca.reference(tables, plan)


def captured_share(components: list[list[float]], exact: np.ndarray) -> float:
    """How much of the best possible variance the components capture."""
    basis = np.array(components)
    return float(np.trace(basis @ exact @ basis.T) / np.linalg.eigvalsh(exact)[-len(basis) :].sum())


def test_every_container_is_confined(federation):
    for service in (*PARTIES, "coordinator"):
        state = federation.inspect(service)
        host = state["HostConfig"]
        assert host["ReadonlyRootfs"], service
        assert host["CapDrop"] == ["ALL"], service
        assert host["CapAdd"] is None, service
        assert any(option.startswith("no-new-privileges") for option in host["SecurityOpt"]), service
        assert state["Config"]["User"] == "moiety", service


def test_the_coordinator_is_not_on_the_network_of_the_parties(federation):
    networks = {s: set(federation.inspect(s)["NetworkSettings"]["Networks"]) for s in (*PARTIES, "coordinator")}
    mesh, control = f"{federation.project}_mesh", f"{federation.project}_control"
    assert networks == {**{party: {mesh, control} for party in PARTIES}, "coordinator": {control}}


def start_s():
    """Return the processor seconds that this machine takes to start an interpreter that speaks gRPC."""
    used = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import asyncio, grpc, ssl"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(used)


def test_a_federation_at_rest_takes_little_more_than_its_probes(federation):
    """For two minutes and a half, in which every container is probed five times."""
    services = (*PARTIES, "coordinator")
    time.sleep(30)  # what `up` has left to do
    before, starts_s = [federation.processor_s(s) for s in services], [start_s()]
    if None in before:
        pytest.skip("the engine's accounts of processor time are not where they are looked for")
    time.sleep(REST_S)
    used_s = sum(federation.processor_s(s) - b for s, b in zip(services, before, strict=True))
    starts_s.append(start_s())
    assert used_s < N_PROBES * MOST_STARTS * max(starts_s)


def test_probes_are_answered_and_none_has_failed(federation):
    for service in (*PARTIES, "coordinator"):
        health = federation.inspect(service)["State"]["Health"]
        assert (health["Status"], health["FailingStreak"]) == ("healthy", 0)
        assert all(probe["ExitCode"] == 0 for probe in health["Log"][-3:]), health["Log"]


@pytest.mark.parametrize("member", [*PARTIES, "coordinator"])
def test_a_member_holds_its_own_key_only(federation, member):
    listed = federation.call("exec", "-T", member, "ls", "/var/lib/moiety/tls")
    assert set(listed.split()) == {"ca.pem", f"{member}.pem", f"{member}.key"}


def test_a_job_from_the_host_finds_the_components_of_the_pooled_table(federation, exact_matrix):
    view = json.loads(federation.submit_from_host(JOB_FILE, "--format", "json"))
    assert view["state"] == "DONE"
    assert view["result"]["columns"] == [f"{party}.{column}" for party in PARTIES for column in bounds_of(party)]
    assert captured_share(view["result"]["components"], exact_matrix) > 0.95
    exact = np.linalg.eigvalsh(exact_matrix)[::-1]
    noisy = np.array(view["result"]["eigenvalues"])
    assert noisy[0] == pytest.approx(exact[0], rel=0.05)
    assert np.abs(noisy - exact).max() > 1.0, "no noise was added"


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_runs_among_the_containers(federation, name):
    view = json.loads(federation.submit_from_host(REPOSITORY / "examples" / f"{name}.toml", "--format", "json"))
    assert view["state"] == "DONE", view["reason"]
    assert view["result"]["privacy"]["views"]["coordinator"]


@pytest.fixture(scope="session")
def numbers(tmp_path_factory) -> np.ndarray:
    """The numbers of all parties' tables `numbers`, one column each, as one."""
    pooled = write_kdd_parties(tmp_path_factory.mktemp("numbers")).pooled
    columns = [column for party in PARTIES for column in bounds_of(party)]
    return np.concatenate([pooled[:, columns.index(NUMBERS[party])] for party in PARTIES])


@pytest.mark.parametrize("method", ["wave", "masked"])
def test_the_distribution_of_a_number_is_estimated_among_the_containers(federation, numbers, method, tmp_path):
    """The example of distributions is about other parties: this job asks it of those that are there."""
    tree = tomllib.loads((REPOSITORY / "examples" / "distribution.toml").read_text())
    tree["inputs"] = [{"party": party, "table": "numbers", "columns": [column]} for party, column in NUMBERS.items()]
    tree["parameters"] = {"method": method, "range": [0, 16], "buckets": 16, "smoothing": 1, "queries": [[0, 1]]}
    job = tmp_path / "distribution.toml"
    job.write_text(toml_of(tree))
    view = json.loads(federation.submit_from_host(job, "--format", "json"))
    assert view["state"] == "DONE", view["reason"]
    result = view["result"]
    exact = np.histogram(np.clip(numbers, 0, 16), 16, (0, 16))[0] / len(numbers)
    if method == "masked":
        assert np.abs(np.cumsum(result["probabilities"]) - np.cumsum(exact)).max() < 0.002
    else:  # spikes at both ends are spread by smoothing, the mean in closed form has no bias
        assert abs(result["closed_mean"] - exact @ (np.arange(16) + 0.5)) < 6 * result["closed_mean_error"]
    assert result["rows"] == pytest.approx(len(numbers), rel=0.05)
    assert result["privacy"]["views"]["coalition"]["epsilon"] <= tree["privacy"]["epsilon"]


def toml_of(tree: dict) -> str:
    """A job as text."""
    sections = {name: tree[name] for name in ("privacy", "parameters")}
    plain = {name: value for name, value in tree.items() if name not in ("inputs", *sections)}
    inputs = "".join("\n[[inputs]]\n" + toml(brought) for brought in tree["inputs"])
    return toml(plain) + inputs + toml({}, sections)


async def killed_while_running(federation, job: Job, victim: str) -> JobView:
    """Submit a job, kill a party with SIGKILL as soon as it works on it, and return how the job ended."""
    federation.limit_processor(victim, percent=20)  # the job lasts long enough to be hit
    async with connect(ClientConfig.load(federation.client_config)) as coordinator:
        job_id = await coordinator.submit(job.canonical_json(), f"crash of {victim}")
        async for event in coordinator.watch(job_id):
            if event.member == victim:
                break
        await asyncio.to_thread(federation.kill, victim)
        async for _ in coordinator.watch(job_id):
            pass
        return await coordinator.show(job_id)


def test_a_killed_party_is_named_and_the_federation_recovers(federation, job, monkeypatch, exact_matrix):
    monkeypatch.setenv("MOIETY_CLIENT__COORDINATOR__ADDRESS", f"127.0.0.1:{federation.port}")
    view = asyncio.run(killed_while_running(federation, job, "host"))
    assert view.state == "FAILED"
    assert view.culprit == "host"
    assert view.stage
    assert "host" in view.reason
    assert not federation.inspect("host")["State"]["Running"]

    federation.limit_processor("host", percent=None)
    federation.call("start", "host")
    federation.wait_until_healthy("host")
    arguments = ["job", "submit", "examples/pca.toml", "--client", "deploy/compose/client.toml", "--format", "json"]
    again = json.loads(federation.call("run", "--rm", "-T", "analyst", *arguments))
    assert again["state"] == "DONE"
    assert captured_share(again["result"]["components"], exact_matrix) > 0.95
