"""What `pip install` puts at the top level of an environment: rooms, and no name that others have."""

import subprocess
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
WHEEL = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
NAMES = {WHEEL["sources"].get(path, path) for path in WHEEL["packages"]}


NOT_INSTALLED = {"bench", "deploy", "docs", "examples", "proto", "requirements", "tests"}
"""Folders of the repository that hold no room."""


def test_the_wheel_holds_every_room_and_the_generated_code_and_nothing_else():
    listed = subprocess.run(["git", "ls-files", "*/*"], cwd=REPOSITORY, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    folders = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    rooms = {name for name in folders if not name.startswith(".")} - NOT_INSTALLED
    assert rooms | {"wire"} == NAMES


def test_every_package_of_the_wheel_is_there():
    assert [path for path in WHEEL["packages"] if not (REPOSITORY / path / "__init__.py").exists()] == []


def test_no_other_distribution_here_has_a_name_of_ours():
    others = {name: set(found) - {"moiety"} for name, found in packages_distributions().items() if name in NAMES}
    assert {name: found for name, found in others.items() if found} == {}


def test_the_decision_names_them():
    page = (REPOSITORY / "docs" / "decisions" / "030-python-client.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}`" not in page] == []
