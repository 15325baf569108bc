import re
import stat
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analyses.job.job import Job
from analyses.registry import analysis_of
from cli.client import ClientConfig
from cli.federation.member_files import COLUMNS, N_ROWS
from cli.main import app
from coordinator.config import CoordinatorConfig
from party.config import load_party_config

EXAMPLES = Path(__file__).parents[4] / "examples"
PARTIES = ("bank", "clinic", "shop")
HOSTS = "bank=10.0.0.1,clinic=clinic.example.org:7777,shop=[::1],coordinator=10.0.0.4"


def new(*arguments, ok=True):
    result = CliRunner().invoke(app, ["new", *map(str, arguments)])
    assert (result.exit_code == 0) == ok, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def trial(tmp_path):
    new("acme", "--parties", "bank,clinic,shop", "--out", tmp_path / "acme")
    return tmp_path / "acme"


def test_every_configuration_can_be_read_and_all_know_the_same_members(trial):
    configs = {name: load_party_config(trial / name / "party.toml", environ={}) for name in PARTIES}
    listen = {name: config.listen for name, config in configs.items()}
    coordinator = CoordinatorConfig.load(trial / "coordinator" / "coordinator.toml")
    assert coordinator.roster == listen
    for name, config in configs.items():
        assert config.peers == {peer: address for peer, address in listen.items() if peer != name}
        assert config.coordinator.address == coordinator.listen
    assert ClientConfig.load(trial / "analyst" / "client.toml").coordinator.address == coordinator.listen


def test_the_jobs_are_valid_and_name_the_tables_that_there_are(trial):
    for file in ("mean.toml", "pca.toml"):
        job = Job.from_toml((trial / "analyst" / file).read_text())
        analysis_of(job).check_parameters(job)
        assert [(one.party, one.table) for one in job.inputs] == [(name, "people") for name in PARTIES]


def test_invented_tables_differ_and_keep_their_declarations(trial):
    texts = [(trial / name / "people.csv").read_text() for name in PARTIES]
    assert len(set(texts)) == len(PARTIES)
    rows = [line.split(",") for line in texts[0].splitlines()]
    assert rows[0] == ["id", *COLUMNS]
    assert len(rows) == N_ROWS + 1
    for row in rows[1:]:
        assert all(low <= float(x) <= high for x, (low, high) in zip(row[1:], COLUMNS.values(), strict=True))


def test_on_one_machine_keys_lie_with_their_members_alone(trial):
    keys = sorted(path.relative_to(trial).as_posix() for path in trial.rglob("*.key"))
    assert keys == [
        "analyst/pki/analyst.key",
        "authority/ca.key",
        *(f"{name}/pki/{name}.key" for name in ("bank", "clinic", "coordinator", "shop")),
    ]
    assert {stat.S_IMODE((trial / key).stat().st_mode) for key in keys} == {0o600}


def test_on_several_machines_no_key_is_made_but_the_authoritys(tmp_path):
    shown = new("acme", "--parties", "bank,clinic,shop", "--hosts", HOSTS, "--out", tmp_path / "acme").stdout
    assert [path.name for path in (tmp_path / "acme").rglob("*.key")] == ["ca.key"]
    for who in ("party/bank", "coordinator/coordinator", "analyst/analyst"):
        assert f"moiety pki request --federation acme --member {who} --out pki" in shown
    bank = load_party_config(tmp_path / "acme" / "bank" / "party.toml", environ={})
    assert bank.listen == "0.0.0.0:7101"
    assert bank.peers == {"clinic": "clinic.example.org:7777", "shop": "[::1]:7103"}
    assert bank.coordinator.address == "10.0.0.4:7100"
    clinic = load_party_config(tmp_path / "acme" / "clinic" / "party.toml", environ={})
    assert clinic.listen == "0.0.0.0:7777"


@pytest.mark.parametrize("name", [*PARTIES, "coordinator"])
def test_the_files_that_run_a_service_name_its_own_files(trial, name):
    role = "coordinator" if name == "coordinator" else "party"
    port = (load_party_config if role == "party" else CoordinatorConfig.load)(
        trial / name / f"{role}.toml"
    ).listen.rpartition(":")[2]
    unit = (trial / name / f"moiety-{name}.service").read_text()
    assert f"ExecStart=/opt/moiety/bin/moiety {role} serve --config /etc/moiety/{name}/{role}.toml" in unit
    compose = (trial / name / "compose.yml").read_text()
    assert f'command: ["{role}", "serve", "--config", "/etc/moiety/{role}.toml"]' in compose
    assert f'- "{port}:{port}"' in compose
    manifest = (trial / name / "kubernetes.yaml").read_text()
    assert f'args: ["{role}", "serve", "--config", "/etc/moiety/{role}.toml"]' in manifest
    assert "$" not in manifest + unit


def test_names_of_environment_variables_in_the_manifest_are_fields_of_the_configuration(trial, monkeypatch):
    for name, role in (("bank", "party"), ("coordinator", "coordinator")):
        text = (trial / name / "kubernetes.yaml").read_text()
        variables = dict(re.findall(r'name: (MOIETY_\w+), value: "([^"]*)"', text))
        assert len(variables) == 5
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        if role == "party":
            assert str(load_party_config(trial / name / "party.toml").data_dir) == "/data"
        else:
            assert str(CoordinatorConfig.load(trial / name / "coordinator.toml").store) == "/data/jobs.sqlite"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--parties", "bank,clinic"], "at least three parties, and these are 2"),
        (["--parties", "bank,clinic,bank"], "'bank' is named twice"),
        (["--parties", "bank,clinic,coordinator"], "'coordinator' is named twice, or is the coordinator's name"),
        (["--parties", "bank,clinic,analyst"], "a party cannot be called 'analyst'"),
        (["--parties", "bank,clinic,Shop"], "party name 'Shop'"),
        (
            ["--parties", "bank,clinic,shop", "--hosts", "bank=10.0.0.1"],
            "no host is given for coordinator, clinic, shop",
        ),
        (["--parties", "bank,clinic,shop", "--hosts", f"{HOSTS},pub=10.0.0.9"], "'pub' is neither a party nor"),
        (["--parties", "bank,clinic,shop", "--first-port", "65535"], "leaves no ports for 3 parties"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(tmp_path, arguments, words):
    refused = new("acme", *arguments, "--out", tmp_path / "acme", ok=False)
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert not (tmp_path / "acme").exists()


def test_an_existing_folder_is_left_as_it_is(trial):
    before = {path: path.read_bytes() for path in trial.rglob("*") if path.is_file()}
    assert "exists already; nothing was written" in new("acme", "--parties", "a,b,c", "--out", trial, ok=False).stderr
    assert {path: path.read_bytes() for path in trial.rglob("*") if path.is_file()} == before


def test_templates_and_examples_have_the_same_fields(trial):
    """A field that the examples no longer have would otherwise stay in new federations."""
    for made, example in (("bank/party.toml", "party.toml"), ("coordinator/coordinator.toml", "coordinator.toml")):
        written = tomllib.loads((trial / made).read_text())
        shown = tomllib.loads((EXAMPLES / example).read_text(encoding="utf-8"))
        assert set(written) <= set(shown)
        assert written["tls"].keys() == shown["tls"].keys()
