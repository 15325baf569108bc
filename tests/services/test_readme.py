"""The README's "Use it", followed to the letter on this machine, and again with keys that each member makes itself."""

import contextlib
import json
import random
import re
import shlex
import shutil
import socket
from pathlib import Path

import pytest
from deadlines import GENEROUS_S
from forked_services import ForkedService, free_ports
from typer.testing import CliRunner

from cli.main import app

README = Path(__file__).parents[2] / "README.md"
PARTIES = ("bank", "clinic", "shop")
COORDINATOR = "coordinator"


def commands() -> list[list[str]]:
    """Return the lines of each block of the section, without their comments."""
    section = re.search(r"^## Use it\n(.*?)^##", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^```\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)
    return [[line.partition("  #")[0].strip() for line in block.splitlines()] for block in blocks]


MAKE, START, ASK, CERTIFY = commands()


class Reader:
    """Types what the README says, in an empty folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.services: list[ForkedService] = []
        monkeypatch.chdir(folder)
        monkeypatch.delenv("MOIETY_CLIENT", raising=False)

    def types(self, line: str, *more: str, answer: str = "") -> str:
        if line.startswith("export "):
            self.monkeypatch.setenv(*line.removeprefix("export ").split("="))
            return ""
        name, *arguments = shlex.split(line)
        assert name == "moiety"
        done = CliRunner().invoke(app, [*arguments, *more], input=answer)
        assert done.exit_code == 0, done.output
        return done.stdout

    def starts(self, line: str) -> None:
        _, *arguments = shlex.split(line)
        arguments[-1] = str(self.folder / arguments[-1])
        log = self.folder / f"{len(self.services)}-{random.getrandbits(32)}.log"
        self.services.append(ForkedService(log, "cli.main", arguments, {}))

    def loses_the_folder_of(self, number: int, folder: str) -> None:
        """End a service, delete its folder, and start it again."""
        service = self.services[number]
        service.kill()
        service.wait(GENEROUS_S)
        shutil.rmtree(self.folder / folder)
        self.starts(START[number])
        self.services[number] = self.services.pop()

    def waits(self, first_port: int) -> None:
        for port in range(first_port, first_port + len(self.services)):
            while True:
                assert all(service.poll() is None for service in self.services), self.logs()
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), GENEROUS_S):
                    break

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))

    def leaves(self) -> None:
        for service in self.services:
            service.terminate()
        for service in self.services:
            service.wait(GENEROUS_S)


@pytest.fixture
def reader(tmp_path, monkeypatch):
    reader = Reader(tmp_path, monkeypatch)
    try:
        yield reader
    finally:
        reader.leaves()


def test_the_section_starts_a_federation_on_one_machine_and_gets_answers(reader):
    first = free_ports(len(PARTIES) + 1)
    (make,) = MAKE
    reader.types(make, "--first-port", str(first))
    for line in START:
        reader.starts(line)
    reader.waits(first)
    export, mean, components, listing, show = ASK
    reader.types(export)
    answer = json.loads(reader.types(mean, "--format", "json"))
    assert (answer["state"], answer["analysis"]) == ("DONE", "secure-mean")
    assert len(answer["result"]["mean"]) == 2
    reader.types(components)
    listed = [line.split()[0] for line in reader.types(listing).splitlines()]
    assert listed[1] == answer["job_id"]
    assert len(listed) == 2
    shown = json.loads(reader.types(show.replace("JOB", listed[0])))
    assert len(shown["result"]["components"]) == 2
    reader.loses_the_folder_of(0, "acme/bank/data")
    reader.waits(first)
    assert "there is no privacy ledger: restore it if it was lost" in reader.logs()
    refused = CliRunner().invoke(app, [*shlex.split(mean)[1:], "--format", "json"])
    assert "no privacy budget is set for table 'people'" in json.loads(refused.stdout)["reason"]


def test_members_that_make_their_own_keys_start_from_their_folders(reader):
    first = free_ports(len(PARTIES) + 1)
    names = [*PARTIES, COORDINATOR]
    hosts = ",".join(f"{name}=127.0.0.1:{first + number}" for number, name in enumerate(names))
    (make,) = MAKE
    reader.types(make, "--hosts", hosts)
    folder = reader.folder / "acme"
    assert [path.name for path in folder.rglob("*.key")] == ["ca.key"]
    request, sign = CERTIFY
    for role, name in [*(("party", name) for name in PARTIES), (COORDINATOR, COORDINATOR), ("analyst", "analyst")]:
        reader.monkeypatch.chdir(folder / name)
        reader.types(request.replace("party/bank", f"{role}/{name}"))
        reader.monkeypatch.chdir(reader.folder)
        reader.types(sign.replace("bank.csr", f"acme/{name}/pki/{name}.csr"), answer="y\n")
        (reader.folder / "certificates" / f"{name}.pem").rename(folder / name / "pki" / f"{name}.pem")
    for name in PARTIES:
        reader.starts(f"moiety party serve --config acme/{name}/party.toml")
    reader.starts("moiety coordinator serve --config acme/coordinator/coordinator.toml")
    reader.waits(first)
    reader.monkeypatch.chdir(folder / "analyst")
    answer = json.loads(reader.types("moiety job submit mean.toml --format json"))
    assert answer["state"] == "DONE"
