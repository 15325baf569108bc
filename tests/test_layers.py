"""Imports point one way. The rule is read from the source text, so an import inside a function counts too."""

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent

MAY_IMPORT = {
    "entropy": set(),
    "mpc": {"entropy"},
    "dp": {"entropy"},
    "algorithms": {"entropy", "mpc", "dp"},
    "transport": {"entropy", "mpc", "dp"},
    "party": {"entropy", "mpc", "dp", "algorithms", "transport"},
    "coordinator": {"entropy", "mpc", "dp", "algorithms", "transport"},
    "cli": {"entropy", "mpc", "dp", "algorithms", "transport", "party", "coordinator"},
}
"""Room to the other rooms that it may import."""

GENERATED = "moiety"
"""The import package of the code that is generated from proto/."""

SPEAKS_GENERATED = ("transport/", "party/server.py", "coordinator/server.py")

EFFECTS = {
    "datetime", "glob", "grpc", "http", "io", "logging", "os", "pathlib", "random", "secrets", "shutil", "signal",
    "socket", "sqlite3", "ssl", "structlog", "subprocess", "sys", "tempfile", "time", "urllib",
}  # fmt: skip
"""Modules through which code reaches the network, files, the clock, logs or hidden randomness."""

PURE = ("mpc/", "dp/", "entropy/")
EXEMPT = {("entropy/source.py", "os")}
"""The one place where the operating system's randomness comes in."""


def modules_imported(source: str) -> list[str]:
    """Full names of the modules that a source text imports, wherever in it."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append("." * node.level + (node.module or ""))
    return names


def violations(path: str, source: str) -> list[str]:
    """What a module imports against the rules; `path` is relative to the repository."""
    room = path.split("/")[0]
    found = []
    for name in modules_imported(source):
        top = name.split(".")[0]
        if name.startswith("."):
            found.append(f"{path} imports {name} relatively")
        elif top == "proto":
            found.append(f"{path} imports {name}: the generated code is called {GENERATED}.v1")
        elif room not in MAY_IMPORT:
            continue
        elif top in MAY_IMPORT and top != room and top not in MAY_IMPORT[room]:
            found.append(f"{path} imports {name}: {room} may import {sorted(MAY_IMPORT[room])}")
        elif top == GENERATED and not path.startswith(SPEAKS_GENERATED):
            found.append(f"{path} imports {name}: only transport and the two servers speak generated code")
        elif top in EFFECTS and path.startswith(PURE) and (path, top) not in EXEMPT:
            found.append(f"{path} imports {name}: {room} is pure")
    return found


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((REPOSITORY / folder).rglob("*.py"))]


def test_every_room_exists_and_has_modules():
    for room in MAY_IMPORT:
        assert python_files(room), f"no Python files in {room}/"


@pytest.mark.parametrize("room", [*MAY_IMPORT, "bench", "examples", "tests"])
def test_imports_point_one_way(room):
    found = []
    for path in python_files(room):
        found += violations(path.relative_to(REPOSITORY).as_posix(), path.read_text(encoding="utf-8"))
    assert found == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("mpc/shamir.py", "import algorithms.job"),
        ("mpc/shamir.py", "from dp.skellam import sample"),
        ("dp/skellam.py", "from mpc.errors import ShapeError"),
        ("entropy/source.py", "import mpc"),
        ("algorithms/pca.py", "from transport.session import RemoteSession"),
        ("transport/session.py", "from algorithms.job import Job"),
        ("party/server.py", "from coordinator.config import CoordinatorConfig"),
        ("coordinator/server.py", "from party.ledger import Ledger"),
        ("transport/session.py", "from cli.main import main"),
        ("party/runner.py", "from moiety.v1 import party_pb2"),
        ("cli/job.py", "import moiety.v1.coordinator_pb2"),
        ("tests/unit/test_frames.py", "from proto.moiety.v1 import party_pb2"),
        ("mpc/shamir.py", "from . import errors"),
        ("mpc/shamir.py", "def now():\n    import time"),
        ("dp/ledger.py", "import logging"),
        ("entropy/stream.py", "import os"),
    ],
)
def test_a_forbidden_import_is_found(path, line):
    assert len(violations(path, line)) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("cli/main.py", "import party.server, coordinator.server, mpc"),
        ("party/server.py", "from moiety.v1 import party_pb2"),
        ("transport/frames.py", "from moiety.v1 import mailbox_pb2\nfrom mpc.errors import PeerLostError"),
        ("algorithms/pca.py", "from mpc.shamir import split\nfrom dp.skellam import sample\nimport numpy"),
        ("entropy/source.py", "import os"),
        ("transport/tls.py", "import datetime"),
    ],
)
def test_an_allowed_import_passes(path, line):
    assert violations(path, line) == []


COMPARISON_ONLY = {"clustering_rivals", "logistic_rivals", "pca_rivals", "faulty_mechanisms"}
"""Modules that hold what other systems do, with the noise that they use, and mechanisms with known faults."""


def randomness_not_from_entropy(source: str) -> list[str]:
    """Uses of generators that are not cryptographic: numpy.random and the `Random` of a galois field."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and (node.attr == "Random" or (node.attr == "random" and ast.unparse(node.value) in {"np", "numpy"}))
    ]


@pytest.mark.parametrize("room", ["entropy", "mpc", "dp", "algorithms", "transport", "party", "coordinator"])
def test_random_numbers_come_from_entropy_only(room):
    paths = [path for path in python_files(room) if path.stem not in COMPARISON_ONLY]
    found = {path.name: randomness_not_from_entropy(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: uses for name, uses in found.items() if uses} == {}


@pytest.mark.parametrize("line", ["np.random.default_rng(1)", "x = field.Random((3, 4))", "numpy.random.normal()"])
def test_a_generator_that_is_not_cryptographic_is_found(line):
    assert len(randomness_not_from_entropy(line)) == 1


@pytest.mark.parametrize("room", ["entropy", "mpc", "dp", "algorithms", "transport", "party", "coordinator"])
def test_no_service_imports_what_is_for_comparison_only(room):
    imported = {name for path in python_files(room) for name in modules_imported(path.read_text(encoding="utf-8"))}
    assert {name for name in imported if name.split(".")[-1] in COMPARISON_ONLY} == set()
