"""Two coordinators, one database, real services: the leader is killed or stopped amid a job, and the other goes on."""

import re
import signal

import pytest
from deadlines import GENEROUS_S, wait_until
from dying_coordinator import DIES_AT
from federation import Analyst, jobs_paid, tables_of
from postgres import schema_of_its_own
from takeovers import JOB, PARTIES, VALUES, WHOLE, check_result, steps
from two_coordinators import NAMES, TwoCoordinators

from coordinator.leading.lease import LOST_EXIT_CODE
from service.errors import UnreachableError


@pytest.fixture(scope="module")
def deployment(tmp_path_factory, cluster):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    environment = {DIES_AT: str(folder / "run" / "dies-at")}
    url = schema_of_its_own(cluster, str(folder))
    with TwoCoordinators(folder / "run", tables_of(VALUES, folder), environment=environment, url=url) as running:
        yield running


def paid(deployment):
    return jobs_paid(deployment, PARTIES)


MOMENTS = ["after RUNNING", "telco in multiply", "after OPENING", "before DONE"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_other_finishes_the_job_of_a_leader_that_was_killed_and_it_is_paid_for_once(deployment, moment):
    before, leader = paid(deployment), deployment.leader()
    deployment.end_at(moment)
    job_id = Analyst(deployment).submit(JOB)
    deployment.until_ended(leader, job_id)
    deployment.move_address(leader)
    check_result(Analyst(deployment).wait(job_id, timeout_s=GENEROUS_S))
    assert steps(deployment, job_id) == WHOLE
    assert paid(deployment) == {name: n + 1 for name, n in before.items()}
    deployment.restart(leader)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_leader_that_was_stopped_past_its_lease_ends_by_itself_and_changes_nothing(deployment, moment):
    before, leader = paid(deployment), deployment.leader()
    deployment.end_at(moment, stop=True)
    job_id = Analyst(deployment).submit(JOB)
    deployment.until_ended(leader, job_id)
    deployment.move_address(leader)
    check_result(Analyst(deployment).wait(job_id, timeout_s=GENEROUS_S))
    tables = [f"SELECT * FROM {table} ORDER BY 1, 2" for table in ("coordinator_jobs", "coordinator_events")]
    stored = [deployment.execute(table) for table in tables]
    deployment.send_signal(leader, signal.SIGCONT)
    assert deployment.processes[leader].wait(GENEROUS_S) == LOST_EXIT_CODE
    assert [deployment.execute(table) for table in tables] == stored
    assert steps(deployment, job_id) == WHOLE
    assert paid(deployment) == {name: n + 1 for name, n in before.items()}
    deployment.restart(leader)


@pytest.mark.slow
def test_what_parties_would_send_to_the_old_leader_goes_to_the_new_one_however_late_the_address_moves(deployment):
    """A stopped leader keeps its connections: whatever is written to them is lost."""
    before, leader = paid(deployment), deployment.leader()
    deployment.end_at("telco in multiply", stop=True)
    job_id = Analyst(deployment).submit(JOB)
    deployment.until_ended(leader, job_id)
    logs = [deployment.log_path(party) for party in PARTIES]
    back = f'"job": "{job_id}".*the coordinator is back, and is sent all again'
    wait_until(lambda: all(re.search(back, log.read_text()) for log in logs))
    deployment.move_address(leader)
    check_result(Analyst(deployment).wait(job_id, timeout_s=GENEROUS_S))
    assert paid(deployment) == {name: n + 1 for name, n in before.items()}
    deployment.send_signal(leader, signal.SIGCONT)
    deployment.restart(leader)


@pytest.mark.slow
def test_a_leader_that_comes_back_while_the_other_runs_its_job_does_not_disturb_it(deployment):
    before, leader = paid(deployment), deployment.leader()
    deployment.end_at("telco in multiply", stop=True)
    job_id = Analyst(deployment).submit(JOB)
    deployment.until_ended(leader, job_id)
    wait_until(lambda: deployment.leader() != leader)
    deployment.send_signal(leader, signal.SIGCONT)
    assert deployment.processes[leader].wait(GENEROUS_S) == LOST_EXIT_CODE
    deployment.move_address(leader)
    check_result(Analyst(deployment).wait(job_id, timeout_s=GENEROUS_S))
    assert steps(deployment, job_id) == WHOLE
    assert paid(deployment) == {name: n + 1 for name, n in before.items()}
    deployment.restart(leader)


def test_who_stands_by_refuses_calls_and_says_who_leads(deployment):
    leader = deployment.leader()
    (other,) = set(NAMES) - {leader}
    wait_until(lambda: f'"leader": "{leader}"' in deployment.log_path(other).read_text())
    deployment.relay.lead_to(deployment.addresses[other])
    with pytest.raises(UnreachableError, match=f"this coordinator stands by: {leader} leads") as refused:
        Analyst(deployment).submit(JOB)
    assert refused.value.code == "coordinator-stands-by"
    deployment.relay.lead_to(deployment.addresses[leader])
    check_result(Analyst(deployment).run(JOB))


def test_a_leader_that_ends_in_order_leaves_its_jobs_to_the_other(deployment):
    before, leader = paid(deployment), deployment.leader()
    analyst = Analyst(deployment)
    jobs = [analyst.submit(JOB.model_copy(update={"title": f"number {i}"})) for i in range(4)]
    wait_until(lambda: deployment.job(jobs[0])[0][0] not in ("SUBMITTED", "PROPOSED"))
    deployment.send_signal(leader, signal.SIGTERM)
    assert deployment.processes[leader].wait(GENEROUS_S) == 0
    deployment.move_address(leader)
    views = [analyst.wait(job_id, timeout_s=GENEROUS_S) for job_id in jobs]
    ended = [view.state for view in views]
    lost = "the coordinator restarted while the job was PROPOSED"
    assert [view.reason for view in views if view.state != "DONE" and not view.reason.startswith(lost)] == []
    assert ended.count("DONE") >= len(jobs) - 2  # two run at a time, and both may have been proposed just then
    assert paid(deployment) == {name: n + ended.count("DONE") for name, n in before.items()}
    deployment.restart(leader)
