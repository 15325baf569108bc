"""Imports point one way, between rooms, between the sub-rooms of a room, and between modules: there are no circles.

The rule is read from the source text, so an import inside a function counts too.
"""

import ast
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from syntax import statements

REPOSITORY = Path(__file__).parent.parent

BELOW_ANALYSES = {"entropy", "mpc", "dp"}
BELOW_SERVICES = {*BELOW_ANALYSES, "analyses", "questions", "service", "transport"}
MAY_IMPORT = {
    "entropy": set(),
    "mpc": {"entropy"},
    "dp": {"entropy"},
    "analyses": BELOW_ANALYSES,
    "questions": {*BELOW_ANALYSES, "analyses"},
    "audit": {*BELOW_ANALYSES, "analyses"},
    "verify": {"service"},
    "results": {*BELOW_ANALYSES, "analyses", "service", "verify"},
    "service": BELOW_ANALYSES,
    "transport": {*BELOW_ANALYSES, "service"},
    "ledger": {"dp", "entropy", "analyses", "service"},
    "party": {*BELOW_SERVICES, "ledger"},
    "coordinator": BELOW_SERVICES,
    "device": {*BELOW_SERVICES, "ledger"},
    "analyst": {*BELOW_SERVICES, "results"},
    "page": {*BELOW_SERVICES, "results", "ledger", "party", "coordinator"},
    "cli": {
        *BELOW_SERVICES,
        "verify",
        "results",
        "page",
        "analyst",
        "audit",
        "ledger",
        "party",
        "coordinator",
        "device",
    },
    "demo": {*BELOW_SERVICES, "results", "analyst", "audit", "ledger", "party", "coordinator", "device", "cli"},
    "moiety": {"results", "analyst", "demo"},
}
"""Room to the other rooms that it may import."""

SUB_ROOMS = {
    "mpc": {
        "arithmetic": set(),
        "protocol": {"arithmetic"},
        "proofs": {"arithmetic", "protocol"},
        "prime": set(),
        "vector_proofs": {"prime"},
        "local": {"arithmetic", "protocol"},
        "secagg": {"arithmetic", "protocol", "prime"},
        "matching": {"arithmetic", "protocol"},
        "traffic": {"arithmetic", "protocol", "proofs", "secagg", "matching"},
    },
    "dp": {
        "draw": set(),
        "cost": set(),
        "mechanism": {"draw", "cost"},
        "local_mechanism": {"draw", "cost", "mechanism"},
        "audit": {"draw", "cost", "mechanism", "local_mechanism"},
    },
    "analyses": {
        "job": set(),
        "rows": {"job"},
        "second_moments": {"job", "rows"},
        "pca": {"job", "rows", "second_moments"},
        "low_rank": {"job", "rows", "second_moments", "pca"},
        "least_squares": {"job", "rows", "second_moments"},
        "kept_moments": {"job", "rows", "second_moments", "least_squares", "logistic_regression"},
        "logistic_regression": {"job", "rows", "second_moments"},
        "joint_sums": {"job", "rows", "pattern_count"},
        "circuit": {"job", "rows"},
        "pattern_count": {"job", "rows", "second_moments", "kept_moments"},
        "clustering": {"job", "rows", "second_moments", "pattern_count"},
        "power_moments": {"job", "rows"},
        "sums": {"job", "rows"},
        "distribution": {"job", "rows", "sums"},
        "matrix_factorization": {"job", "rows", "sums"},
    },
    "results": {"drawing": set(), "generic": {"drawing"}, "kinds": {"drawing", "generic"}},
    "party": {"tables": set(), "engine": {"tables"}, "batches": set(), "outcome": {"tables"}},
    "coordinator": {
        "leading": set(),
        "sums": set(),
        "stores": set(),
        "batches": set(),
        "questions": {"stores", "batches", "sums"},
    },
    "transport": {"relay": set(), "calls": {"relay"}, "messages": {"calls"}},
    "cli": {
        "terminal": set(),
        "configuration": {"terminal"},
        "federation": {"configuration", "terminal"},
        "doctor": set(),
        "checks": {"terminal"},
    },
}
"""Room to its sub-rooms, and to each the sub-rooms of the same room that it may import."""

_OF_A_ROUND = {"config", "errors", "graph", "member_tree", "messages", "opened_sum", "stage", "vector", "secret"}
INSIDE_SECAGG = {
    "vector": {"errors"},
    "secret": {"vector"},
    "member": _OF_A_ROUND | {"journal", "policy"},
    "coordinator": _OF_A_ROUND,
}
"""Sub-room of mpc/secagg to the other sub-rooms and modules of mpc/secagg that it may import."""

GENERATED = "wire"
"""The import package of the code that is generated from proto/."""

SPEAKS_GENERATED = ("transport/", "party/server.py", "coordinator/server.py")

EFFECTS = {
    "datetime", "glob", "grpc", "http", "io", "logging", "os", "pathlib", "random", "secrets", "shutil", "signal",
    "socket", "sqlite3", "ssl", "structlog", "subprocess", "sys", "tempfile", "time", "urllib",
}  # fmt: skip
"""Modules through which code reaches the network, files, the clock, logs or hidden randomness."""

PURE = ("mpc/", "dp/", "entropy/")
EXEMPT = {("entropy/source.py", "os"), ("mpc/matching/sodium.py", "pathlib")}
"""The one place where the operating system's randomness comes in, and where the file goes that rbcl leaves behind."""


@cache
def imports_in(source: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """All statements of a source text that import something, wherever in it. Most texts are asked for many times."""
    return tuple(node for node in statements(source) if isinstance(node, ast.Import | ast.ImportFrom))


def modules_imported(source: str) -> list[str]:
    """Full names of the modules that a source text imports, wherever in it."""
    names: list[str] = []
    for node in imports_in(source):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        else:
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


def sub_room_violations(path: str, source: str) -> list[str]:
    """What a module of a sub-room imports of its own room against `SUB_ROOMS`."""
    room, _, rest = path.partition("/")
    sub_room = rest.partition("/")[0]
    if room not in SUB_ROOMS or "/" not in rest:
        return []
    if sub_room not in SUB_ROOMS[room]:
        return [f"{path}: SUB_ROOMS does not know {room}/{sub_room}"]
    found = []
    for name in modules_imported(source):
        top, _, below = name.partition(".")
        other = below.partition(".")[0]
        if top != room or other == sub_room:
            continue
        if other in SUB_ROOMS[room]:
            if other not in SUB_ROOMS[room][sub_room]:
                found.append(f"{path} imports {name}: {room}/{sub_room} may import {sorted(SUB_ROOMS[room][sub_room])}")
        elif room != "mpc":  # whose errors all may use
            found.append(f"{path} imports {name}, which is above it")
    return found


def secagg_violations(path: str, source: str) -> list[str]:
    """What a module of a sub-room of mpc/secagg imports of mpc/secagg against `INSIDE_SECAGG`."""
    sub_room, _, module = path.removeprefix("mpc/secagg/").partition("/")
    if not path.startswith("mpc/secagg/") or not module:
        return []
    if sub_room not in INSIDE_SECAGG:
        return [f"{path}: INSIDE_SECAGG does not know mpc/secagg/{sub_room}"]
    parts = {name.split(".")[2] for name in modules_imported(source) if name.startswith("mpc.secagg.")}
    wrong = sorted(parts - {sub_room} - INSIDE_SECAGG[sub_room])
    return [f"{path} imports mpc.secagg.{part}: {sub_room} may not" for part in wrong]


def import_graph(*rooms: str) -> dict[str, set[str]]:
    """Each module of some rooms to the modules of these rooms that it imports."""
    sources = {}
    for path in python_files(*rooms):
        name = path.relative_to(REPOSITORY).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        sources[name] = path.read_text(encoding="utf-8")
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        imported: set[str] = set()
        for node in imports_in(source):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif node.module:
                of_package = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= of_package & set(sources) or {node.module}
        graph[name] = (imported & set(sources)) - {name}
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of a circle of imports, in order; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((REPOSITORY / folder).rglob("*.py"))]


def test_no_service_reads_the_slow_distributions():
    """`scipy.stats` takes a second to import; `dp.cost.binomial` has what services need of it."""
    readers = [
        str(path.relative_to(REPOSITORY))
        for path in python_files(*MAY_IMPORT)
        if any(name.startswith("scipy.stats") for name in modules_imported(path.read_text(encoding="utf-8")))
    ]
    assert sorted(readers) == ["audit/reports.py", "dp/audit/exact_tests.py"]


def test_every_room_exists_and_has_modules():
    for room in MAY_IMPORT:
        assert python_files(room), f"no Python files in {room}/"


@pytest.mark.parametrize("room", [*MAY_IMPORT, "bench", "examples", "tests"])
def test_imports_point_one_way(room):
    found = []
    for path in python_files(room):
        found += violations(path.relative_to(REPOSITORY).as_posix(), path.read_text(encoding="utf-8"))
    assert found == []


@pytest.mark.parametrize("room", SUB_ROOMS)
def test_imports_between_sub_rooms_point_one_way(room):
    found = []
    for path in python_files(room):
        found += sub_room_violations(path.relative_to(REPOSITORY).as_posix(), path.read_text(encoding="utf-8"))
    assert found == []


def test_imports_inside_masked_sums_point_one_way():
    found = []
    for path in python_files("mpc/secagg"):
        found += secagg_violations(path.relative_to(REPOSITORY).as_posix(), path.read_text(encoding="utf-8"))
    assert found == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("mpc/secagg/vector/group.py", "from mpc.secagg.secret.keys import RoundKey"),
        ("mpc/secagg/member/machine.py", "from mpc.secagg.coordinator.machine import SumCoordinator"),
        ("mpc/secagg/coordinator/machine.py", "from mpc.secagg.drive import host"),
        ("mpc/secagg/new_room/machine.py", "import numpy"),
    ],
)
def test_a_forbidden_import_inside_masked_sums_is_found(path, line):
    assert len(secagg_violations(path, line)) == 1


@pytest.mark.parametrize("rooms", [tuple(MAY_IMPORT), ("bench",), ("tests/support",)])
def test_no_modules_import_each_other_in_a_circle(rooms):
    assert circle(import_graph(*rooms)) == []


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) != []
    assert circle({"a": {"b"}, "b": {"c"}, "d": {"a", "c"}}) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("mpc/arithmetic/field.py", "from mpc.protocol.session import Session"),
        ("dp/draw/noise.py", "from dp.cost.events.skellam import SkellamDpEvent"),
        ("analyses/rows/quantise.py", "from analyses.pca.protocol import party"),
        ("analyses/job/plan.py", "from analyses.registry import ANALYSES"),
        ("party/tables/table.py", "from party.engine.pool import Pool"),
        ("analyses/new_room/plan.py", "import numpy"),
    ],
)
def test_a_forbidden_import_between_sub_rooms_is_found(path, line):
    assert len(sub_room_violations(path, line)) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("mpc/arithmetic/shamir.py", "import analyses.job.job"),
        ("mpc/arithmetic/shamir.py", "from dp.draw.skellam import sample"),
        ("dp/draw/skellam.py", "from mpc.errors import ShapeError"),
        ("entropy/source.py", "import mpc"),
        ("analyses/pca/protocol.py", "from transport.messages.session import RemoteSession"),
        ("transport/messages/session.py", "from analyses.job.job import Job"),
        ("party/server.py", "from coordinator.config import CoordinatorConfig"),
        ("coordinator/server.py", "from ledger.ledger import Ledger"),
        ("device/device.py", "from party.outcome.report import write_report"),
        ("ledger/ledger.py", "from party.jobs import PartyJobs"),
        ("transport/messages/session.py", "from moiety import Client"),
        ("party/jobs.py", "from results.registry import picture_of"),
        ("coordinator/server.py", "from results.registry import result_of"),
        ("device/report.py", "from results.generic.text import table_lines"),
        ("analyses/pca/protocol.py", "from results.kinds.pca import PcaResult"),
        ("results/generic/result.py", "from transport.calls.coordinator_client import JobView"),
        ("transport/messages/session.py", "from cli.main import main"),
        ("party/runner.py", "from wire.v1 import party_pb2"),
        ("cli/job.py", "import wire.v1.coordinator_pb2"),
        ("tests/unit/test_frames.py", "from proto.wire.v1 import party_pb2"),
        ("mpc/arithmetic/shamir.py", "from . import errors"),
        ("mpc/arithmetic/shamir.py", "def now():\n    import time"),
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
        ("party/server.py", "from wire.v1 import party_pb2"),
        ("transport/messages/frames.py", "from wire.v1 import mailbox_pb2\nfrom mpc.errors import PeerLostError"),
        (
            "analyses/pca/protocol.py",
            "from mpc.arithmetic.shamir import split\nfrom dp.draw.skellam import sample\nimport numpy",
        ),
        ("entropy/source.py", "import os"),
        ("service/tls.py", "import datetime"),
    ],
)
def test_an_allowed_import_passes(path, line):
    assert violations(path, line) == []


COMPARISONS = ("faulty", "less_noise")
"""How the names of modules begin that hold mechanisms with known faults, and what takes noise away."""

SERVICE_ROOMS = (
    "entropy",
    "mpc",
    "dp",
    "analyses",
    "questions",
    "service",
    "transport",
    "party",
    "device",
    "coordinator",
)
"""Rooms of what runs at owners and at the coordinator."""


def is_for_comparison(name: str) -> bool:
    """Tell by its name whether a module is there for comparisons only."""
    return name.rpartition(".")[2].startswith(COMPARISONS)


def comparison_violations(path: str, source: str) -> list[str]:
    """What a module of the product imports that only comparisons may: `bench`, and in services what is faulty."""
    room = path.split("/")[0]
    if room not in MAY_IMPORT and room != "examples":
        return []
    names = set(modules_imported(source))
    for node in imports_in(source):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return [
        f"{path} imports {name}, which is for comparisons only"
        for name in sorted(names)
        if is_module(name) and (name.startswith("bench.") or (room in SERVICE_ROOMS and is_for_comparison(name)))
    ]


@cache
def is_module(name: str) -> bool:
    """Tell whether a full name is that of a module of this repository."""
    return (REPOSITORY / name.replace(".", "/")).with_suffix(".py").exists()


def randomness_not_from_entropy(source: str) -> list[str]:
    """Uses of generators that are not cryptographic: numpy.random and the `Random` of a galois field."""
    if "random" not in source and "Random" not in source:
        return []
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and (node.attr == "Random" or (node.attr == "random" and ast.unparse(node.value) in {"np", "numpy"}))
    ]


@pytest.mark.parametrize("room", SERVICE_ROOMS)
def test_random_numbers_come_from_entropy_only(room):
    paths = [path for path in python_files(room) if not is_for_comparison(path.stem)]
    found = {path.name: randomness_not_from_entropy(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: uses for name, uses in found.items() if uses} == {}


@pytest.mark.parametrize("line", ["np.random.default_rng(1)", "x = field.Random((3, 4))", "numpy.random.normal()"])
def test_a_generator_that_is_not_cryptographic_is_found(line):
    assert len(randomness_not_from_entropy(line)) == 1


@pytest.mark.parametrize("room", [*MAY_IMPORT, "examples"])
def test_only_comparisons_import_what_is_for_comparisons(room):
    found = []
    for path in python_files(room):
        found += comparison_violations(path.relative_to(REPOSITORY).as_posix(), path.read_text(encoding="utf-8"))
    assert found == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("analyses/pca/protocol.py", "from bench.baselines.components import central_components"),
        ("analyses/pca/protocol.py", "from bench.baselines import components"),
        ("cli/job.py", "import bench.baselines.clusters"),
        ("demo/comparison.py", "from bench.baselines.clusters import central_clustering"),
        ("party/runner.py", "from audit.less_noise import with_noise"),
    ],
)
def test_an_import_of_what_is_for_comparisons_is_found(path, line):
    assert len(comparison_violations(path, line)) == 1


@pytest.mark.parametrize("path", ["bench/pca.py", "tests/unit/test_x.py"])
def test_comparisons_import_baselines(path):
    assert comparison_violations(path, "from bench.baselines.components import central_components") == []


MAX_LINES = 400
MAX_MODULES = 16


@pytest.mark.parametrize("room", [*MAY_IMPORT, "bench"])
def test_no_module_is_too_long_and_no_folder_too_full(room):
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(room)}
    folders = Counter(path.parent for path in lengths if path.name != "__init__.py")
    assert [path.name for path, length in lengths.items() if length > MAX_LINES] == []
    assert [folder.name for folder, modules in folders.items() if modules > MAX_MODULES] == []
