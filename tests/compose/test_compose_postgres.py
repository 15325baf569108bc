"""One party's table lies in PostgreSQL, in a container of its own: jobs of the joint table read it there."""

import json

import numpy as np
import polars as pl
import pytest

from demo.data_sets.kdd import write_kdd_parties
from demo.loopback import toml

pytestmark = pytest.mark.compose

COLUMNS = {"carrier": ("duration", "flag_SF"), "host": ("hot", "logged_in"), "monitor": ("count", "same_srv_rate")}
TABLES = {"carrier": "visitors", "host": "visitors-in-postgres", "monitor": "visitors"}
MOST = np.array([3600, 1, 16, 1, 511, 1])


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The means of the rows that all parties have, as deploy/compose/tables makes them, and how many these are."""
    folder = tmp_path_factory.mktemp("visitors")
    write_kdd_parties(folder)
    frames = [pl.read_parquet(folder / f"{party}.parquet").head(3000).select(names) for party, names in COLUMNS.items()]
    common = np.hstack([frame.to_numpy() for frame in frames])[np.arange(3000) % 7 > 2]
    return np.clip(common, 0, MOST).mean(axis=0), len(common)


def answered(federation, folder, expected, **matching):
    """Run principal components with means, check them, and return the job's id."""
    mean, n_rows = expected
    view = submitted(federation, folder, **matching)
    assert view["state"] == "DONE", view["reason"]
    assert view["result"]["n_rows"] == pytest.approx(n_rows, abs=0.05 * n_rows)
    assert (np.abs(np.array(view["result"]["mean"]) - mean) / MOST).max() < 0.03
    return view["job_id"]


def submitted(federation, folder, **matching):
    job = {"analysis": "pca", "privacy": {"epsilon": 8.0, "delta": 1e-6}, "matching": {"kind": "revealed", **matching}}
    inputs = "".join("\n[[inputs]]\n" + toml({"party": party, "table": table}) for party, table in TABLES.items())
    path = folder / "job.toml"
    path.write_text(toml(job | {"parameters": {"components": 2}}) + inputs)
    return json.loads(federation.submit_from_host(path, "--format", "json"))


def test_jobs_read_a_table_in_a_database_of_its_own_container_and_go_by_a_match_of_it(
    federation_with_database, expected, tmp_path
):
    federation = federation_with_database
    match = answered(federation, tmp_path, expected, keep=True)
    answered(federation, tmp_path, expected, match=match)


def test_the_password_stands_in_no_log_and_nobody_but_the_host_reaches_the_database(federation_with_database):
    federation = federation_with_database
    password = federation.call("exec", "-T", "host", "cat", "/var/lib/moiety/database/password").strip()
    assert len(password) >= 24
    assert password not in federation.call("logs")
    networks = {
        service: set(federation.inspect(service)["NetworkSettings"]["Networks"])
        for service in ("carrier", "host", "monitor", "coordinator", "database")
    }
    records = f"{federation.project}_records"
    assert {service for service, of in networks.items() if records in of} == {"host", "database"}
    assert networks["database"] == {records}


def test_a_database_that_is_gone_fails_the_job_and_its_return_lets_the_next_one_run(
    federation_with_database, expected, tmp_path
):
    federation = federation_with_database
    federation.kill("database")
    with pytest.raises(pytest.fail.Exception, match="table 'visitors-in-postgres' of party 'host' cannot be used"):
        submitted(federation, tmp_path)
    assert "does not answer" in federation.call("logs", "host")
    federation.call("start", "database")
    federation.wait_until_healthy("database")
    answered(federation, tmp_path, expected)
