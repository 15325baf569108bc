"""`moiety doctor` of a coordinator whose jobs are in PostgreSQL, on a real server."""

import pytest
from leases import lease_on, let_it_lapse

COORDINATOR = "spiffe://acme/coordinator/coordinator"


@pytest.fixture
def checked(acme, url, doctor):
    """What is said of the store of jobs, at some URL."""

    def check(place=url):
        path = acme / "coordinator" / "coordinator.toml"
        lines = [line for line in path.read_text().splitlines() if not line.startswith(("store =", "survey_store ="))]
        path.write_text("\n".join([f'store = "{place}"', 'survey_store = "data/surveys.sqlite"', *lines]) + "\n")
        code, checks = doctor(path)
        return code, checks

    return check


def test_an_empty_database_is_well_and_stays_empty(checked):
    for _ in range(2):
        code, checks = checked()
        assert code == 0
        assert (
            checks["store of jobs"]["found"] == "the database can be used and has no tables yet; the service makes them"
        )
    assert {"store of surveys", "data folder", "disk space"} <= set(checks)


def test_it_is_told_who_leads(checked, url):
    lease = lease_on(url, "north-host", coordinator=COORDINATOR)
    lease.take()
    assert checked()[1]["store of jobs"]["found"] == "the database can be used; north-host leads"
    let_it_lapse(url)
    assert checked()[1]["store of jobs"]["found"] == "the database can be used; no coordinator leads now"
    lease.close()


def test_a_database_of_another_coordinator_fails(checked, url):
    lease = lease_on(url, "north-host", coordinator="spiffe://acme/coordinator/stranger")
    lease.take()
    code, checks = checked()
    assert code == 1
    assert "holds the jobs of spiffe://acme/coordinator/stranger" in checks["store of jobs"]["found"]
    lease.close()


def test_a_server_that_is_not_there_fails_and_a_password_in_a_file_for_all_is_warned_of(checked):
    code, checks = checked("postgresql://moiety:hunter2@127.0.0.1:1/jobs")
    assert code == 1
    assert checks["store of jobs"]["outcome"] == "failed"
    assert "it does not answer" in checks["store of jobs"]["found"]
    assert checks["configuration"]["outcome"] == "warning"
    assert "MOIETY_COORDINATOR__STORE" in checks["configuration"]["fix"]
    assert "hunter2" not in str(checks)
