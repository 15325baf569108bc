"""Two coordinators at two addresses, real services: the leader is killed, and all members find the other one."""

import asyncio
import json
import signal

import pytest
from commands import moiety
from deadlines import GENEROUS_S
from dying_coordinator import DIES_AT
from federation import jobs_paid, tables_of
from postgres import throwaway_cluster
from takeovers import JOB, PARTIES, VALUES, WHOLE, check_result, steps
from two_coordinators import TwoAddresses

from analyses.sums.secure_sum import SumParams
from analyst.client import Client
from analyst.connection import ClientConfig
from cli.sum import run_sum
from demo.devices.deployment import ROSTER, _make_identities, write_device
from demo.loopback import toml
from service.identity import Role

DEVICES = ("ann", "ben", "cem")
QUESTION = SumParams(analysis="secure-sum", record="steps", length=1, largest=100, stage_s=GENEROUS_S)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    environment = {DIES_AT: str(folder / "run" / "dies-at")}
    identities = _make_identities(folder / "run", DEVICES)
    roster = "".join("[[members]]\n" + toml({"name": n, "identity": i}) + "\n" for n, i in identities.items())
    (folder / "run" / ROSTER).write_text(roster)
    with (
        throwaway_cluster() as url,
        TwoAddresses(
            folder / "run",
            tables_of(VALUES, folder),
            environment=environment,
            url=url,
            members=[(Role.DEVICE, name) for name in DEVICES],
            sum_members=identities,
        ) as running,
    ):
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
    """Return the answer of a sum over the devices, which no parameter of a test changes."""
    return asyncio.run(run_sum(ClientConfig.load(deployment.client_config), QUESTION))


@pytest.mark.parametrize("moment", ["telco in multiply", "before DONE"])
def test_the_other_ends_the_job_of_a_killed_leader_at_its_own_address_and_all_find_it_there(deployment, client, moment):
    before, leader = jobs_paid(deployment, PARTIES), deployment.leader()
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

    after = client.submit(JOB)
    after.watch()
    check_result(after.view())
    done = moiety("job", "show", after.job_id, "--client", deployment.client_config, "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "DONE"), done.stderr
    assert jobs_paid(deployment, PARTIES) == {name: n + 2 for name, n in before.items()}
    assert asked(deployment)["survivors"] == list(DEVICES)
    deployment.restart(leader)
