import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.loopback import loopback_addresses
from service.identity import Role
from service.pki import KeyPair, create_authority, issue

JOB = """
analysis = "pca"
title = "Visits"

[privacy]
epsilon = 1.0
delta = 1e-6

[parameters]
components = 2
max_rows = 1000

[[inputs]]
party = "north"
table = "visits"

[[inputs]]
party = "south"
table = "visits"

[[inputs]]
party = "west"
table = "visits"
"""


def write_pair(folder: Path, name: str, pair: KeyPair) -> None:
    (folder / f"{name}.pem").write_bytes(pair.certificate_pem)
    (folder / f"{name}.key").touch(mode=0o600)
    (folder / f"{name}.key").write_bytes(pair.key_pem)


@pytest.fixture
def authority() -> KeyPair:
    return create_authority("hospitals", days=2, now=datetime.datetime.now(datetime.UTC))


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


@pytest.fixture
def closed_port() -> int:
    return int(loopback_addresses(["nobody"])["nobody"].rpartition(":")[2])


@pytest.fixture
def write_client(tmp_path: Path, authority: KeyPair, closed_port: int) -> Callable[..., Path]:
    """Write a client.toml with certificates; its coordinator listens nowhere unless an address is given."""

    def write(address: str = f"127.0.0.1:{closed_port}", federation: str = "hospitals") -> Path:
        now = datetime.datetime.now(datetime.UTC)
        (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
        write_pair(tmp_path, "ada", issue(authority, Role.ANALYST, "ada", days=1, now=now))
        path = tmp_path / "client.toml"
        path.write_text(
            f'federation = "{federation}"\n[coordinator]\nname = "hub"\naddress = "{address}"\n'
            '[tls]\nauthority = "ca.pem"\ncertificate = "ada.pem"\nkey = "ada.key"\n'
        )
        return path

    return write


PARTY = """
name = "north"
federation = "clinics"
data_dir = "state"

[tls]
authority = "ca.pem"
certificate = "north.pem"
key = "north.key"

[coordinator]
name = "hub"
address = "127.0.0.1:1"

[peers]
south = "127.0.0.1:2"
west = "127.0.0.1:3"

[[tables]]
name = "visits"
path = "visits.csv"
bounds = { age = [0, 120] }
"""


@pytest.fixture
def party_config(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text("age\n" + "30\n" * 100)
    path = tmp_path / "party.toml"
    path.write_text(PARTY)
    return path
