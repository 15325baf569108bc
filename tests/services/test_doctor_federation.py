"""`moiety doctor --federation`: the coordinator learns who reaches whom, faults that only others see included."""

import json
import re
from importlib.metadata import version

import pytest
from cryptography import x509
from deadlines import GENEROUS_S
from doctor_peers import authority_of, now, running_members
from typer.testing import CliRunner

from cli.federation.new import layout_of, write_federation
from cli.main import app
from demo.ports import free_row_of_ports
from service.trust.revocation import create_list

MEMBERS = ("coordinator", "bank", "clinic", "shop")


def matrix(path, *more):
    arguments = ["doctor", "--federation", "--config", str(path), "--timeout", str(GENEROUS_S), *more]
    return CliRunner().invoke(app, arguments)


def told(path):
    done = matrix(path, "--format", "json")
    answer = json.loads(done.stdout)
    rows = {row["name"]: {cell["name"]: cell for cell in row["reaches"]} for row in answer["members"]}
    return done.exit_code, answer, rows


def outcomes(rows):
    return {(a, b): cell["outcome"] for a, row in rows.items() for b, cell in row.items()}


@pytest.fixture
def federation(tmp_path):
    acme, first = tmp_path / "acme", free_row_of_ports(4)
    write_federation(acme, layout_of("acme", "bank,clinic,shop", "", first))
    return acme, first


def change(path, pattern, replacement):
    text, n = re.subn(pattern, replacement, path.read_text(), flags=re.MULTILINE)
    assert n == 1
    path.write_text(text)


def test_everybody_reaches_everybody_until_a_member_goes(federation, tmp_path):
    acme, first = federation
    config = acme / "coordinator" / "coordinator.toml"
    with running_members(acme, tmp_path, first) as services:
        code, answer, rows = told(config)
        assert (code, answer["ok"]) == (0, True)
        pairs = {(a, b) for a in MEMBERS for b in MEMBERS if a != b}
        assert outcomes(rows) == dict.fromkeys(pairs, "ok")
        versions = {row["name"]: row["version"] for row in answer["members"]}
        assert versions["bank"] == versions["shop"] == versions["coordinator"] == version("moiety")

        services["bank"].terminate()
        services["bank"].wait(GENEROUS_S)
        code, answer, rows = told(config)
        assert (code, answer["ok"]) == (1, False)
        assert rows["bank"] == {}
        failed = {pair for pair, outcome in outcomes(rows).items() if outcome != "ok"}
        assert failed == {("coordinator", "bank"), ("clinic", "bank"), ("shop", "bank")}
        assert "nothing listens there" in rows["clinic"]["bank"]["found"]
        shown = matrix(config)
        assert shown.exit_code == 1
        assert "not asked" in shown.stdout
        assert "-> Start bank" in shown.stdout


def test_faults_that_only_one_party_sees_are_found_and_named(tmp_path):
    parties = ("bank", "clinic", "shop", "dentist")
    acme, first, closed = tmp_path / "acme", free_row_of_ports(5), free_row_of_ports(1)
    write_federation(acme, layout_of("acme", ",".join(parties), "", first))
    change(acme / "clinic" / "party.toml", r'^shop = ".*"$', f'shop = "127.0.0.1:{closed}"')
    change(acme / "shop" / "party.toml", r'^dentist = ".*"\n', "")
    with running_members(acme, tmp_path, first, parties):
        code, _, rows = told(acme / "coordinator" / "coordinator.toml")
    assert code == 1
    unwell = {pair: outcome for pair, outcome in outcomes(rows).items() if outcome != "ok"}
    assert unwell == {("clinic", "shop"): "failed", ("shop", "dentist"): "warning"}
    assert f"127.0.0.1:{closed} is refused" in rows["clinic"]["shop"]["found"]
    assert "does not list dentist" in rows["shop"]["dentist"]["found"]


def test_a_revoked_member_is_named_by_all_who_have_the_list(federation, tmp_path):
    acme, first = federation
    shown = x509.load_pem_x509_certificate((acme / "bank" / "pki" / "bank.pem").read_bytes())
    revoked = create_list(authority_of(acme), [shown.serial_number], days=3, now=now())
    for name, file in (("coordinator", "coordinator.toml"), ("clinic", "party.toml")):
        (acme / name / "revoked.pem").write_bytes(revoked)
        change(acme / name / file, r"^\[tls\]$", '[tls]\nrevoked = "revoked.pem"')
    with running_members(acme, tmp_path, first):
        code, _, rows = told(acme / "coordinator" / "coordinator.toml")
    assert code == 1
    for name in ("coordinator", "clinic"):
        assert rows[name]["bank"]["outcome"] == "failed"
        assert "is revoked, says" in rows[name]["bank"]["found"]
    assert rows["shop"]["bank"]["outcome"] == "ok"  # has no list


def test_nobody_but_the_coordinator_makes_a_party_dial_others(federation, tmp_path):
    acme, first = federation
    config = acme / "coordinator" / "stolen.toml"
    config.write_text((acme / "coordinator" / "coordinator.toml").read_text())
    change(config, r'^certificate = ".*"$', 'certificate = "../analyst/pki/analyst.pem"')
    change(config, r'^key = ".*"$', 'key = "../analyst/pki/analyst.key"')
    with running_members(acme, tmp_path, first):
        code, _, rows = told(config)
    assert code == 1
    assert {name for name, cell in rows["coordinator"].items() if cell["outcome"] == "failed"} == set(MEMBERS[1:])
    assert "may be called by coordinator only" in rows["coordinator"]["bank"]["found"]
    assert rows["bank"] == {}


def test_other_members_are_told_whose_command_it_is(federation):
    acme, _ = federation
    done = matrix(acme / "bank" / "party.toml")
    assert done.exit_code == 2
    assert "is the configuration of a party: --federation is for the coordinator" in done.stderr
