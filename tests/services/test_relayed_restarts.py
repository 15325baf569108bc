"""Coordinators that relay and are killed amid a job of parties that only dial out: one that comes back, one of two."""

import re

import pytest
from deadlines import GENEROUS_S
from dying_coordinator import DIES_AT
from dying_deployment import DyingDeployment
from federation import Analyst, jobs_paid, tables_of
from postgres import schema_of_its_own
from takeovers import JOB, PARTIES, VALUES, check_result
from two_coordinators import NAMES, TwoCoordinators

from demo.local_deployment import COORDINATOR_NAME, HUB
from demo.loopback import loopback_addresses, toml


class OneAfterAnother(TwoCoordinators):
    """Two coordinators, each of which relays while it leads: members know the relays of both."""

    def write_files(self):
        super().write_files()
        hubs = loopback_addresses([f"relay of {name}" for name in NAMES])
        self.addresses |= hubs
        common = self.addresses[HUB]
        for name in NAMES:
            own = self.config_path(name).read_text().replace(common, hubs[f"relay of {name}"])
            self.config_path(name).write_text(own)
        for name in self.tables:
            path = self.config_path(name)
            head, _, table = path.read_text().partition("\n[[relays]]\n")
            entry = toml({"name": COORDINATOR_NAME, "role": "coordinator", "address": common})
            assert table.startswith(entry)
            both = "".join("\n[[relays]]\n" + entry.replace(common, address) for address in hubs.values())
            path.write_text(head + both + table.removeprefix(entry))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory, cluster):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    environment = {DIES_AT: str(folder / "run" / "dies-at")}
    url = schema_of_its_own(cluster, str(folder))
    tables = tables_of(VALUES, folder)
    with OneAfterAnother(folder / "run", tables, environment=environment, url=url, dial_out=PARTIES) as running:
        yield running


def check_end(deployment, view, before, *, goes_on):
    """Check that a job has ended well, or with its reason, and that nobody has paid twice."""
    paid = {name: n - before[name] for name, n in jobs_paid(deployment, PARTIES).items()}
    assert max(paid.values()) <= 1
    if goes_on or view.state == "DONE":
        check_result(view)
        assert set(paid.values()) == {1}
    else:
        assert view.state == "FAILED"
        because = "the coordinator restarted while the job was (RUNNING|OPENING), and it could not go on: ."
        assert re.match(because, view.reason), view.reason


MOMENTS = [("after RUNNING", False), ("telco in multiply", False), ("after OPENING", False), ("before DONE", True)]
"""Moment of the end, and whether the job surely goes on. Before, parties may exchange what the relay carries."""


@pytest.mark.parametrize(("moment", "goes_on"), MOMENTS)
def test_the_other_coordinator_and_its_relay_take_over_and_nothing_is_paid_twice(deployment, moment, goes_on):
    before, leader = jobs_paid(deployment, PARTIES), deployment.leader()
    deployment.end_at(moment)
    job_id = Analyst(deployment).submit(JOB)
    deployment.until_ended(leader, job_id)
    deployment.move_address(leader)
    view = Analyst(deployment).wait(job_id, timeout_s=GENEROUS_S)
    check_end(deployment, view, before, goes_on=goes_on)
    deployment.restart(leader)
    check_result(Analyst(deployment).run(JOB))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    (folder / "run").mkdir()
    (folder / "run" / "dies-at").touch()
    environment = {DIES_AT: str(folder / "run" / "dies-at")}
    tables = tables_of(VALUES, folder)
    with DyingDeployment(folder / "run", tables, environment=environment, dial_out=PARTIES) as running:
        yield running


@pytest.mark.parametrize(("moment", "goes_on"), MOMENTS)
def test_a_coordinator_that_comes_back_relays_again_and_nothing_is_paid_twice(alone, moment, goes_on):
    before, analyst = jobs_paid(alone, PARTIES), Analyst(alone)
    alone.let_it_die(moment)
    job_id = analyst.submit(JOB)
    alone.restart(job_id)
    check_end(alone, analyst.wait(job_id, timeout_s=GENEROUS_S), before, goes_on=goes_on)
    check_result(analyst.run(JOB))
