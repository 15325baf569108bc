"""The files under deploy/ agree with the code that they configure."""

import re
import tomllib
from pathlib import Path

import pytest

from demo.data_sets.kdd import ID_COLUMN, NUMERIC, ON_REQUEST, TABLE_NAME, bounds_of

COMPOSE = Path(__file__).parent.parent / "deploy" / "compose"


@pytest.mark.parametrize("party", NUMERIC)
def test_a_party_of_the_compose_file_publishes_the_demos_bounds(party):
    table = tomllib.loads((COMPOSE / f"{party}.toml").read_text())["tables"][0]
    assert (table["name"], table["id_column"]) == (TABLE_NAME, ID_COLUMN)
    expected = {**bounds_of(party), **ON_REQUEST[party]}
    assert {column: tuple(bounds) for column, bounds in table["bounds"].items()} == expected
    assert list(table["bounds"]) == list(expected)
    assert table.get("on_request", []) == list(ON_REQUEST[party])


def test_the_visitors_in_postgresql_are_declared_as_those_in_a_file():
    """The host's configuration there is this file behind its own (deploy/compose/postgres/make)."""
    text = (COMPOSE / "host.toml").read_text() + (COMPOSE / "postgres" / "table.toml").read_text()
    tables = {table["name"]: table for table in tomllib.loads(text)["tables"]}
    in_file, in_database = tables["visitors"], tables["visitors-in-postgres"]
    for field in ("rows", "matching", "bounds", "first_budget"):
        assert in_database[field] == in_file[field]
    assert in_database["source"]["kind"] == "postgres"
    assert "password" not in in_database["source"]["url"]


def test_everybody_knows_the_same_members():
    roster = {p["name"]: p["address"] for p in tomllib.loads((COMPOSE / "coordinator.toml").read_text())["parties"]}
    assert set(roster) == set(NUMERIC)
    for party in NUMERIC:
        own = tomllib.loads((COMPOSE / f"{party}.toml").read_text())
        assert set(own["peers"]) == set(NUMERIC) - {party}
        assert own["name"] == party


def test_the_image_has_one_name_wherever_it_is_named():
    """What makes it without a registry, what starts it here and at members, and the page that says how."""
    repository = COMPOSE.parent.parent
    script = (repository / "deploy/without-registry/image").read_text()
    assert "name=${1:-moiety}" in script
    assert "\nbuild local\n" in script
    page = (repository / "docs/how-to/containers-without-a-registry.md").read_text()
    templates = (repository / "cli/federation/templates").glob("*.y*ml")
    files = [repository / "docker-compose.yml", *COMPOSE.glob("*.yml"), *templates]
    named = {name for file in files for name in re.findall(r"image: .*?\b(moiety:[a-z]+)", file.read_text())}
    assert named == {"moiety:local", "moiety:postgres"}
    assert sorted(name for name in named if f"`{name}`" in page) == sorted(named)


def test_all_that_the_image_is_built_from_enters_its_build():
    repository = COMPOSE.parent.parent
    admitted = {line[1:] for line in (repository / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    dockerfile = (repository / "Dockerfile").read_text()
    used = set(re.findall(r"(?<![\w/])(?:/src/)?(deploy/image/[\w-]+)", dockerfile))
    assert {path.name for path in (repository / "deploy" / "image").iterdir()} == {Path(one).name for one in used}
    rooms = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    wanted = used | {Path(room).parts[0] for room in rooms["packages"]}
    assert wanted - admitted == set()
