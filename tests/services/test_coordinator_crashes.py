"""A coordinator killed by SIGKILL at every stage of a job: jobs go on, a result that was opened is told, paid once."""

import dataclasses
import json
import re
import signal
import time

import numpy as np
import pytest
from deadlines import GENEROUS_S
from dying_coordinator import DIES_AT
from dying_deployment import DyingDeployment
from federation import Analyst, jobs_paid, memory_table, pca_job, random_values, result_of, tables_of
from relays import Relay

from analyses.job.job import Job
from analyses.pca import protocol as pca
from analyses.registry import analysis_of
from demo.local_deployment import COORDINATOR_NAME
from demo.loopback import loopback_addresses

PARTIES = ("bank", "hospital", "telco")
VALUES = {name: random_values((200, 2), seed) for seed, name in enumerate(PARTIES)}
PATIENCE_S = GENEROUS_S
"""The deadline of the jobs: so long a coordinator may be away."""

LEAST_DEADLINE_S = 10.0
"""The shortest that parties accept; a test waits for it."""

LISTENING_ANALYSIS = pca_job(
    PARTIES,
    parameters={"components": 2, "center": False, "gamma": 1024, "max_rows": 1_000_000},
    deadline_s=PATIENCE_S,
)
MASKED_SUM = Job.model_validate(
    {
        "analysis": "secure-sum",
        "inputs": [{"party": name, "table": "people"} for name in PARTIES],
        "parameters": {"max_rows": 1000, "units": 3000},
        "privacy": {"epsilon": 50.0, "delta": 1e-6},
        "deadline_s": PATIENCE_S,
    }
)


@dataclasses.dataclass
class RelayedDeployment(DyingDeployment):
    """One party calls the coordinator through a relay, which a test may close."""

    relayed = ""
    relay = None

    def write_files(self):
        super().write_files()
        address, path = loopback_addresses(["relay"])["relay"], self.config_path(self.relayed)
        direct = self.addresses[COORDINATOR_NAME]
        assert direct in path.read_text()
        path.write_text(path.read_text().replace(direct, address))
        self.relay = Relay(address, direct)

    def __exit__(self, *error):
        super().__exit__(*error)
        self.relay.close()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    (folder / "run" / "dies-at").touch()
    environment = {DIES_AT: str(folder / "run" / "dies-at")}
    with DyingDeployment(folder / "run", tables_of(VALUES, folder), environment=environment) as running:
        yield running


def paid(deployment):
    return jobs_paid(deployment, PARTIES)


def run_and_kill(deployment, job, moment):
    """Run a job whose coordinator is killed at a moment, and started again; return what became of the job."""
    deployment.let_it_die(moment)
    analyst = Analyst(deployment)
    job_id = analyst.submit(job)
    deployment.restart(job_id)
    return end_of(analyst, job_id)


def end_of(analyst, job_id):
    return analyst.wait(job_id, timeout_s=GENEROUS_S)


@pytest.mark.parametrize(
    "moment",
    [
        "after RUNNING",
        "bank in keys",
        "telco in multiply",
        "after OPENING",
        "before DONE",
    ],
)
def test_a_job_goes_on_after_a_restart_and_is_paid_for_once(deployment, moment):
    before = paid(deployment)
    result = result_of(run_and_kill(deployment, LISTENING_ANALYSIS, moment))
    tables = [memory_table(p, VALUES[p]) for p in PARTIES]
    exact = pca.reference(tables, pca.plan(LISTENING_ANALYSIS, [t.schema for t in tables]))
    values, _ = pca.leading_components(exact, 2)
    assert np.allclose(result["eigenvalues"][0], values[0], rtol=0.05)
    assert paid(deployment) == {name: n + 1 for name, n in before.items()}


@pytest.mark.parametrize("moment", ["bank in advertise keys", "telco in masked input", "before OPENING", "before DONE"])
def test_a_masked_sum_goes_on_though_the_coordinator_carries_its_messages(deployment, moment):
    before = paid(deployment)
    result = result_of(run_and_kill(deployment, MASKED_SUM, moment))
    exact = sum(VALUES[name].sum(axis=0) for name in PARTIES)
    assert result["sum"] == pytest.approx(exact, abs=100.0)
    assert paid(deployment) == {name: n + 1 for name, n in before.items()}


def test_a_result_that_a_full_disk_kept_from_being_written_is_opened_again_after_an_orderly_end(deployment):
    before = paid(deployment)
    deployment.let_it_die("cannot write DONE")
    analyst = Analyst(deployment)
    job_id = analyst.submit(LISTENING_ANALYSIS)
    log = deployment.log_path(COORDINATOR_NAME)
    while not any(job_id in line and "cannot be written yet" in line for line in log.read_text().splitlines()):
        assert analyst.show(job_id).state not in ("FAILED", "DONE")
        time.sleep(0.05)
    deployment.send_signal(COORDINATOR_NAME, signal.SIGTERM)
    deployment.processes[COORDINATOR_NAME].wait(GENEROUS_S)
    deployment.let_it_die("")
    deployment.start(COORDINATOR_NAME)
    deployment.wait_until_ready(COORDINATOR_NAME)
    assert result_of(end_of(analyst, job_id))
    assert paid(deployment) == {name: n + 1 for name, n in before.items()}


def test_a_result_that_was_stored_is_there_after_a_restart_and_parties_are_free_for_others(deployment):
    assert run_and_kill(deployment, LISTENING_ANALYSIS, "after DONE").state == "DONE"
    assert result_of(Analyst(deployment).run(LISTENING_ANALYSIS))


def test_a_job_that_was_being_proposed_has_failed_and_costs_nothing(deployment):
    before = paid(deployment)
    view = run_and_kill(deployment, LISTENING_ANALYSIS, "before RUNNING")
    assert (view.state, view.reason) == ("FAILED", "the coordinator restarted while the job was PROPOSED")
    assert paid(deployment) == before


def test_jobs_that_wait_keep_their_places(deployment):
    analyst = Analyst(deployment)
    jobs = [analyst.submit(LISTENING_ANALYSIS.model_copy(update={"title": f"number {i}"})) for i in range(4)]
    deployment.let_it_die("telco in multiply")  # of any job: the first one may have ended
    deployment.restart(jobs[-1])
    views = [end_of(analyst, job_id) for job_id in jobs]
    lost = [
        view.reason for view in views if view.state != "DONE"
    ]  # of two that run, one may have been proposed just then
    assert lost in ([], ["the coordinator restarted while the job was PROPOSED"])


def test_what_a_party_has_forgotten_too_is_lost_and_the_job_says_so(deployment):
    before = paid(deployment)
    deployment.let_it_die("before DONE")
    analyst = Analyst(deployment)
    job_id = analyst.submit(LISTENING_ANALYSIS)
    deployment.until_dead(job_id)
    deployment.send_signal("telco", signal.SIGKILL)
    for name in ("telco", COORDINATOR_NAME):
        deployment.start(name)
        deployment.wait_until_ready(name)
    view = end_of(analyst, job_id)
    assert view.state == "FAILED"
    assert view.reason == (
        "the coordinator restarted while the job was OPENING, and it could not go on: "
        f"party telco failed in stage plan: job {job_id} was not accepted here, or has ended"
    )
    assert paid(deployment) == {name: n + 1 for name, n in before.items()}
    assert result_of(analyst.run(LISTENING_ANALYSIS))


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["telco in multiply", "before DONE"])
def test_where_a_party_cannot_call_the_restarted_coordinator_the_job_ends_with_that_reason(tmp_path, moment):
    """The party goes on to say that it lives; without a limit the coordinator waits as long as a job may run."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "dies-at").touch()
    environment = {DIES_AT: str(tmp_path / "run" / "dies-at")}
    running = RelayedDeployment(tmp_path / "run", tables_of(VALUES, tmp_path), environment=environment)
    running.relayed = "telco"
    with running:
        running.let_it_die(moment)
        analyst = Analyst(running)
        job_id = analyst.submit(LISTENING_ANALYSIS.model_copy(update={"deadline_s": LEAST_DEADLINE_S}))
        running.until_dead(job_id)
        running.relay.close()
        running.restart(job_id)
        view = end_of(analyst, job_id)
        assert view.state == "FAILED"
        unreached = (
            "party telco failed.*: (coordinator has restarted and cannot be reached|.*coordinator: nothing listens)"
        )
        finished = "telco has dropped out: it has finished, but what it had to send did not arrive"
        assert re.search(f"and it could not go on: ({unreached}|{finished})", view.reason), view.reason
        assert set(paid(running).values()) <= {0, 1}


@pytest.mark.slow
def test_a_masked_sum_that_lost_a_party_too_fails_and_no_other_members_are_named(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "dies-at").touch()
    names = (*PARTIES, "insurer", "shop")
    values = {name: random_values((200, 2), seed) for seed, name in enumerate(names)}
    environment = {DIES_AT: str(tmp_path / "run" / "dies-at")}
    inputs = [{"party": name, "table": "people"} for name in names]
    job = Job.model_validate({**json.loads(MASKED_SUM.canonical_json()), "inputs": inputs})
    assert "so 1 may drop out" in analysis_of(job).survival(job).in_words
    with DyingDeployment(tmp_path / "run", tables_of(values, tmp_path), environment=environment) as running:
        running.let_it_die("before DONE")
        analyst = Analyst(running)
        job_id = analyst.submit(job)
        running.until_dead(job_id)
        running.send_signal("shop", signal.SIGKILL)
        running.restart(job_id)
        view = end_of(analyst, job_id)
        assert view.state == "FAILED"
        cause = "the coordinator restarted while the job was OPENING, and it could not go on: "
        assert view.reason.startswith(f"{cause}party shop went away")
        assert set(paid(running).values()) == {1}
