"""Two coordinators at two addresses, real services: the leader is killed, and all members find the other one."""

import json
import re
import signal
import urllib.request

import pytest
from commands import moiety
from deadlines import GENEROUS_S, wait_until
from dying_coordinator import DIES_AT
from federation import jobs_paid, tables_of
from pages import metrics_of
from postgres import schema_of_its_own
from takeovers import JOB, PARTIES, VALUES, WHOLE, check_result, steps
from two_coordinators import NAMES, TwoAddresses

from analyses.sums.secure_sum import SumParams
from analyst.client import Client
from coordinator.leading.lease import LOST_EXIT_CODE
from demo.devices.deployment import ROSTER, _make_identities, write_device
from demo.loopback import toml
from service.identity import Role

DEVICES = ("ann", "ben", "cem")
QUESTION = SumParams(analysis="secure-sum", record="steps", length=1, largest=100, stage_s=GENEROUS_S)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory, cluster):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    environment = {DIES_AT: str(folder / "run" / "dies-at")}
    identities = _make_identities(folder / "run", DEVICES)
    roster = "".join("[[members]]\n" + toml({"name": n, "identity": i}) + "\n" for n, i in identities.items())
    (folder / "run" / ROSTER).write_text(roster)
    with TwoAddresses(
        folder / "run",
        tables_of(VALUES, folder),
        environment=environment,
        url=schema_of_its_own(cluster, str(folder)),
        members=[(Role.DEVICE, name) for name in DEVICES],
        sum_members=identities,
    ) as running:
        for number, name in enumerate(DEVICES, start=1):
            policy = {"policy": {"smallest_cohort": 2, "corrupt_fraction": 0.0, "exact_sums": True}}
            write_device(running, name, {"values": [number]}, policy, {"name": "steps", "length": 1})
            running.name_both(running.config_path(name))
        paths = [part for name in DEVICES for part in ("--config", str(running.config_path(name)))]
        running.launch("devices", "cli.main", "device", "run", *paths)
        yield running


@pytest.fixture
def client(deployment):
    """A program of the analyst, whose connection stands before the leader goes."""
    with Client(deployment.client_config) as connected:
        connected.jobs()
        yield connected


def asked(deployment):
    """Return the answer of a sum over the devices."""
    with Client(deployment.client_config) as client:
        return client.ask(QUESTION)


def read(deployment, name, path):
    with urllib.request.urlopen(f"http://{deployment.page_at[name]}{path}", timeout=GENEROUS_S) as answer:
        return answer.read().decode()


def check_who_leads(deployment, leader):
    """All pages and metrics name the same leader, as soon as who stands by has looked again."""
    (other,) = set(NAMES) - {leader}
    ((term, lapses),) = deployment.execute("SELECT term, lapses_at > clock_timestamp() FROM coordinator_leader")
    assert lapses
    deployment.wait_until_logged(other, "page is served")
    wait_until(lambda: f"{other} stands by: {leader} leads, in term {term}." in read(deployment, other, "/"))
    assert re.search(rf"{leader} leads, in term {term}, since 20\d\d-\d\d-\d\d .* UTC\.", read(deployment, leader, "/"))
    at_leader, at_other = (metrics_of(read(deployment, name, "/metrics")) for name in (leader, other))
    names = ("moiety_coordinator_leads", "moiety_coordinator_term", "moiety_coordinator_leads_since_seconds")
    assert [at_leader[name] for name in names[:2]] == [1, term]
    assert abs(at_leader[names[2]] - term / 1000) < GENEROUS_S  # terms are milliseconds of the database's clock
    assert [at_other.get(name) for name in names] == [0, term, None]
    assert "moiety_certificate_days" in at_leader.keys() & at_other.keys()


@pytest.mark.parametrize("moment", ["telco in multiply", pytest.param("before DONE", marks=pytest.mark.slow)])
def test_the_other_ends_the_job_of_a_killed_leader_at_its_own_address_and_all_find_it_there(deployment, client, moment):
    before, leader = jobs_paid(deployment, PARTIES), deployment.leader()
    check_who_leads(deployment, leader)
    deployment.end_at(moment)
    submitted = client.submit(JOB)
    submitted.watch()  # through the takeover: who watches follows the leader
    assert deployment.processes[leader].wait(GENEROUS_S) == -signal.SIGKILL
    assert deployment.leader() != leader
    check_result(submitted.view())
    assert steps(deployment, submitted.job_id) == WHOLE
    for party in PARTIES:
        assert deployment.report(party, submitted.job_id)
    assert jobs_paid(deployment, PARTIES) == {name: n + 1 for name, n in before.items()}

    later = client.submit(JOB)
    later.watch()
    check_result(later.view())
    done = moiety("job", "show", later.job_id, "--client", deployment.client_config, "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "DONE"), done.stderr
    assert jobs_paid(deployment, PARTIES) == {name: n + 2 for name, n in before.items()}
    assert asked(deployment)["survivors"] == list(DEVICES)
    after = deployment.leader()
    deployment.restart(leader)
    check_who_leads(deployment, after)


@pytest.mark.slow
def test_a_leader_that_was_stopped_keeps_its_connections_and_yet_all_find_the_other(deployment, client):
    before = jobs_paid(deployment, PARTIES)
    deployment.end_at("telco in multiply or before OPENING", stop=True)
    submitted = client.submit(JOB)
    submitted.watch()
    check_result(submitted.view())
    assert steps(deployment, submitted.job_id) == WHOLE
    assert jobs_paid(deployment, PARTIES) == {name: n + 1 for name, n in before.items()}
    assert asked(deployment)["survivors"] == list(DEVICES)
    leader = deployment.stopped()
    deployment.send_signal(leader, signal.SIGCONT)
    assert deployment.processes[leader].wait(GENEROUS_S) == LOST_EXIT_CODE
    deployment.restart(leader)
