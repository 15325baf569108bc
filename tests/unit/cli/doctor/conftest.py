import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from deadlines import GENEROUS_S
from doctor_peers import LOOPBACK, serving
from typer.testing import CliRunner

from cli.federation.new import layout_of, write_federation
from cli.main import app

MEMBERS = ("coordinator", "bank", "clinic", "shop")


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A federation as `moiety new` makes it, of which every member's health is served at its address."""
    acme = tmp_path_factory.mktemp("federation") / "acme"
    write_federation(acme, layout_of("acme", "bank,clinic,shop", "", 7100))
    with serving(acme, MEMBERS) as ports:
        for path in acme.rglob("*.toml"):
            text = path.read_text()
            for number, port in enumerate(ports):
                text = text.replace(f"{LOOPBACK}:{7100 + number}", f"{LOOPBACK}:{port}")
            path.write_text(text)
        yield SimpleNamespace(acme=acme, ports=dict(zip(MEMBERS, ports, strict=True)))


@pytest.fixture
def acme(whole, tmp_path) -> Path:
    """A copy of its folders, for one test to break."""
    return Path(shutil.copytree(whole.acme, tmp_path / "acme"))


@pytest.fixture
def doctor():
    """What `moiety doctor` says of a configuration: its exit code, and its checks by name."""

    def examine(path: Path, *more: str, timeout_s: float = GENEROUS_S):
        arguments = ["doctor", "--config", str(path), "--format", "json", "--timeout", str(timeout_s), *more]
        done = CliRunner().invoke(app, arguments)
        assert "Traceback" not in done.output, done.output
        assert done.stdout, done.output
        return done.exit_code, {check["name"]: check for check in json.loads(done.stdout)["checks"]}

    return examine
