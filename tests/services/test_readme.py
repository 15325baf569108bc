"""The README's "Use it", followed to the letter on this machine, and again with keys that each member makes itself."""

import json
import shlex
from pathlib import Path

import pytest
from reader import Reader, blocks_of
from typer.testing import CliRunner

from cli.main import app
from demo.ports import free_row_of_ports

PARTIES = ("bank", "clinic", "shop")
COORDINATOR = "coordinator"


MAKE, START, ASK, CERTIFY = (block.lines for block in blocks_of("README.md", section="## Use it"))
(PROGRAM,) = blocks_of("README.md", section="### Ask from Python")


@pytest.fixture
def reader(tmp_path, monkeypatch):
    reader = Reader(tmp_path, monkeypatch)
    try:
        yield reader
    finally:
        reader.leaves()


BY_RELAY = pytest.param(["--dial-out", ",".join(PARTIES)], marks=pytest.mark.slow, id="dialling out")


@pytest.mark.parametrize("more", [pytest.param([], id="direct"), BY_RELAY])
def test_the_section_starts_a_federation_on_one_machine_and_gets_answers(reader, more):
    first = free_row_of_ports(len(PARTIES) + 2)
    (make,) = MAKE
    reader.types(make, "--first-port", str(first), *more)
    for line in START:
        reader.starts(line)
    reader.waits(first)
    export, mean, components, listing, show, draw = ASK
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
    asked = reader.runs(PROGRAM.text)
    asked["client"].close()
    assert asked["result"].components_.shape == (2, 6)
    assert asked["result"].n_above_noise >= 1  # how active an invented person is
    assert asked["result"].fields.keys() == shown["result"].keys()
    reader.types(draw.replace("JOB", listed[0]))
    assert Path("result.svg").read_text(encoding="utf-8").startswith("<svg ")
    reader.loses_the_folder_of(0, "acme/bank/data", START[0])
    reader.waits(first)
    assert "there is no privacy ledger: restore it if it was lost" in reader.logs()
    refused = CliRunner().invoke(app, [*shlex.split(mean)[1:], "--format", "json"])
    assert "no privacy budget is set for table 'people'" in json.loads(refused.stdout)["reason"]


def test_members_that_make_their_own_keys_start_from_their_folders(reader):
    first = free_row_of_ports(len(PARTIES) + 1)
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
