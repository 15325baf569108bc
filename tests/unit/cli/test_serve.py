"""A service that is given another member's configuration says whose it is, and what to run."""

import subprocess
import sys
from functools import partial

import pytest
import typer
from child_processes import child_environ
from typer.testing import CliRunner

from cli.main import app
from cli.serve import _read
from coordinator.config import CoordinatorConfig
from party.config import load_party_config
from service.settings_tree import SettingsError

ROLES = {"bank/party.toml": "party", "coordinator/coordinator.toml": "coordinator", "analyst/client.toml": "analyst"}
READ = {"party": load_party_config, "coordinator": CoordinatorConfig.load}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    shown = CliRunner().invoke(app, ["new", "acme", "--parties", "bank,clinic,shop", "--out", str(folder / "acme")])
    assert shown.exit_code == 0, shown.output
    return folder / "acme"


@pytest.mark.parametrize(
    ("service", "given"), [(service, given) for service in READ for given in ROLES if ROLES[given] != service]
)
def test_another_member_s_configuration_is_called_so(folder, capsys, service, given):
    path = folder / given
    with pytest.raises(typer.Exit):
        _read(partial(READ[service], path), path, service)
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path} is the configuration of a member of the role {ROLES[given]}, not {service}")
    assert said.endswith("[configuration-invalid]\n")
    assert (f" {ROLES[given]} serve --config {path}`" in said) == (ROLES[given] != "analyst")


@pytest.mark.parametrize(
    ("service", "given"), [("party", "bank/party.toml"), ("coordinator", "coordinator/coordinator.toml")]
)
def test_a_mistake_in_the_right_file_is_named(folder, tmp_path, service, given):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("roster = 1\n" + (folder / given).read_text())
    with pytest.raises(SettingsError, match="roster: there is no such field"):
        _read(partial(READ[service], wrong), wrong, service)


def test_the_command_says_so(folder):
    command = [sys.executable, "-m", "cli.main", "party", "serve", "--config", "coordinator/coordinator.toml"]
    done = subprocess.run(command, cwd=folder, env=child_environ(), capture_output=True, text=True)
    assert done.returncode == 2
    assert "is the configuration of a member of the role coordinator, not party" in done.stderr
