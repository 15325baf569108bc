"""A data folder that cannot be made, or read, is one line and exit code 2 from whatever command wants it."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from child_processes import child_environ

from cli.terminal.output import exit_codes
from demo.loopback import tls_files, toml, write_certificates
from device.config import write_identity_key
from entropy import SystemEntropy
from service.identity import Role

COORDINATOR = {"name": "hub", "address": "127.0.0.1:1"}
DATA_DIR = "/proc/nope/x"
"""In a folder in which nobody can make one."""

PEERS = {"south": "127.0.0.1:2", "west": "127.0.0.1:3"}
SET_BUDGET = ["visits", "--epsilon", "4", "--delta", "1e-6", "--period", "2026", "--reason", "first"]


def moiety(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments], capture_output=True, text=True, env=child_environ(), timeout=300
    )
    # The certificates of this test are for a day, of which services warn.
    lines = [line for line in done.stderr.splitlines(keepends=True) if "the certificate expires in" not in line]
    return done.returncode, "".join(lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    members = [(Role.PARTY, "north"), (Role.DEVICE, "ann"), (Role.COORDINATOR, "hub")]
    write_certificates(tmp_path, "clinics", members)
    own = {"federation": "clinics", "data_dir": DATA_DIR}
    (tmp_path / "visits.csv").write_text("age\n30\n")
    party = toml({"name": "north", **own}, {"tls": tls_files("north"), "coordinator": COORDINATOR, "peers": PEERS})
    table = '[[tables]]\nname = "visits"\npath = "visits.csv"\nbounds = { age = [0, 120] }\n'
    (tmp_path / "party.toml").write_text(party + table)
    keys = {name: write_identity_key(tmp_path / f"{name}.identity", SystemEntropy()).hex() for name in ("ann", "ben")}
    pinned = "".join(f'[[members]]\nname = "{name}"\nidentity = "{key}"\n' for name, key in keys.items())
    (tmp_path / "roster.toml").write_text(pinned)
    device = {"name": "ann", **own, "identity_file": "ann.identity", "roster": "roster.toml"}
    records = '[[records]]\nname = "steps"\npath = "steps.json"\n'
    sections = {"tls": tls_files("ann"), "coordinator": COORDINATOR}
    (tmp_path / "device.toml").write_text(toml(device, sections) + records)
    hub = {"name": "hub", "federation": "clinics", "listen": "127.0.0.1:0", "store": f"{DATA_DIR}/jobs.sqlite"}
    listed = "".join(
        f'[[parties]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\n'
        for port, name in ((1, "north"), (2, "south"), (3, "west"))
    )
    sections = {"tls": tls_files("hub"), "analysts": {"allowed": ["ada"]}}
    (tmp_path / "coordinator.toml").write_text(toml(hub, sections) + listed)
    return tmp_path


@pytest.mark.parametrize("command", ["party serve", "device run", "budget set"])
def test_a_data_folder_that_cannot_be_made_is_named_with_the_cause(folder: Path, command: str) -> None:
    config = folder / ("device.toml" if command == "device run" else "party.toml")
    extra = SET_BUDGET if command == "budget set" else []
    code, stderr = moiety(*command.split(), "--config", str(config), *extra)
    assert (code, stderr) == (
        2,
        f"error: data_dir: {DATA_DIR} cannot be made: No such file or directory [configuration-invalid]\n",
    )


def test_a_job_store_that_cannot_be_made_is_one_line_too(folder: Path) -> None:
    code, stderr = moiety("coordinator", "serve", "--config", str(folder / "coordinator.toml"))
    assert code in (1, 2)
    assert stderr.startswith("error: ")
    assert f"{DATA_DIR}/jobs.sqlite" in stderr
    assert stderr.count("\n") == 1


def test_a_file_that_cannot_be_read_is_named_and_other_errors_of_the_system_pass(capsys) -> None:
    with pytest.raises(typer.Exit) as caught, exit_codes():
        Path("/proc/nope").read_text()
    assert (caught.value.exit_code, capsys.readouterr().err) == (
        2,
        "error: /proc/nope: No such file or directory [file-unusable]\n",
    )
    with pytest.raises(BrokenPipeError), exit_codes():
        raise BrokenPipeError
