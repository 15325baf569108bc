"""`moiety doctor` of every member of a federation that runs, and of one whose peer has gone."""

import json

import pytest
from deadlines import GENEROUS_S
from doctor_peers import authority_of, now, running_members, write_pair
from typer.testing import CliRunner

from cli.federation.new import layout_of, write_federation
from cli.main import app
from demo.ports import free_row_of_ports
from service.identity import Role
from service.pki import issue

FILES = {
    "bank": "bank/party.toml",
    "clinic": "clinic/party.toml",
    "shop": "shop/party.toml",
    "coordinator": "coordinator/coordinator.toml",
    "analyst": "analyst/client.toml",
}

WARNED = {
    "bank": {"counter"},
    "clinic": {"counter"},
    "shop": {"counter", "certificate"},
    "coordinator": {"certificate"},
}


@pytest.fixture
def federation(tmp_path):
    """A federation whose services run; the certificates of the shop and the coordinator have twelve days left."""
    acme, first = tmp_path / "acme", free_row_of_ports(4)
    write_federation(acme, layout_of("acme", "bank,clinic,shop", "", first))
    for role, name in ((Role.PARTY, "shop"), (Role.COORDINATOR, "coordinator")):
        pki = acme / name / "pki"
        pair = issue(authority_of(acme), role, name, days=12, now=now())
        write_pair(pair, pki / f"{name}.pem", pki / f"{name}.key")
    with running_members(acme, tmp_path, first) as services:
        yield acme, services


def doctor(path):
    arguments = ["doctor", "--config", str(path), "--format", "json", "--timeout", str(GENEROUS_S)]
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_all_is_well_in_a_federation_that_runs_until_a_member_goes(federation, tmp_path):
    acme, services = federation
    for name, file in FILES.items():
        code, checks = doctor(acme / file)
        told = {check["name"]: check["found"] for check in checks.values() if check["outcome"] != "ok"}
        assert set(told) == WARNED.get(name, set()), told
        assert code == 0
        if name != "analyst":
            assert "this service serves" in checks["port"]["found"]
        if name in ("bank", "clinic", "shop"):
            assert "is whole: 1 entry" in checks["ledger"]["found"]
            assert "100% of epsilon 4 remains" in checks["budget of people"]["found"]
    for name in ("shop", "coordinator"):
        assert "the certificate expires in 11 days" in (tmp_path / f"{name}.log").read_text()
    assert "expires" not in (tmp_path / "bank.log").read_text()
    services["bank"].terminate()
    services["bank"].wait(GENEROUS_S)
    code, checks = doctor(acme / FILES["clinic"])
    assert code == 1
    assert [name for name, check in checks.items() if check["outcome"] == "failed"] == ["reach bank"]
    assert "nothing listens there" in checks["reach bank"]["found"]
    assert checks["reach bank"]["fix"].startswith("Start bank")
