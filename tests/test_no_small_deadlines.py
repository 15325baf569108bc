"""No test depends on how fast the machine is: the smallest limit that honest work may reach is `MIN_S`.

Outside of `services` and `compose` asynchronous tests run on a virtual clock (`support/virtual_time.py`), on which a
small deadline is as good as a long one. The machine's clock is left for threads, processes and real sockets.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from syntax import nodes

TESTS = Path(__file__).parent
MIN_S = 60.0

REAL_SOCKETS = ("services", "compose", "support")
"""Folders in which asynchronous code meets the machine's clock."""

LIMITS = {
    "approval_deadline_s", "deadline_s", "max_job_s", "patience_s", "seconds", "stage_s", "start_s", "timeout_s",
    "transfer_s", "within_s",
}  # fmt: skip
"""Keyword arguments and defaults that are limits: of asynchronous waiting."""

REAL_LIMITS = {"timeout"}
"""Of waiting for processes, threads and calls."""

CLOCKS = {"monotonic", "perf_counter", "time"}

SILENT = "the only link that waits is to a member that stays silent; what others sent has arrived before"
ALLOWED = {
    ("services/test_call_limits.py", "timeout=0.5"): "a call that is repeated until it is accepted, then never answers",
    ("services/test_coordinator_crashes.py", "LEAST_DEADLINE_S = 10.0"): "a party that cannot call is waited for",
    ("services/test_deviating_party.py", "deadline_s=20.0"): "jobs that must fail, one of them by silence",
    ("services/test_demo_sum.py", '"seconds": 4.0'): "a made-up measurement",
    ("services/test_postgres_tables.py", '"timeout_s": 1'): "a statement that sleeps for minutes",
    ("services/test_session.py", "deadline_s=0.5"): SILENT,
    ("services/test_session.py", "deadline_s=0.7"): SILENT,
    ("services/test_session.py", "deadline_s=0.2"): SILENT,
    ("services/test_session.py", "deadline_s=0.3"): SILENT,
    ("services/test_slow_parties.py", "deadline_s=5.0"): "the peer is slow by the test's own doing",
    ("services/test_slow_parties.py", "for i in range(1000)"): "the bytes of an array, sent slowly",
    ("services/test_strangers_networks.py", "deadline_s=1.0"): "tried again until it fails for the reason that is due",
    ("services/test_tls.py", "deadline_s=1.0"): "nothing listens there",
    ("support/fault_injection.py", "DEADLINE_S = 10.0"): "of virtual time",
    ("support/party_federation.py", "deadline_s=2.0"): "of virtual time",
    ("support/proven.py", "deadline_s=5"): "of virtual time",
    ("unit/service/reach/test_dial.py", "asyncio.run(run())"): "real sockets, without a deadline",
    ("unit/party/tables/looks/test_at_start.py", "asyncio.run("): "a process that looks at tables, without a deadline",
    ("unit/cli/test_consent.py", "asyncio.run(box.ask"): "in a thread beside the command, without a deadline",
}
"""File and piece of code that may be small: why nobody but a silent one reaches it."""


def in_real_time(path: Path) -> bool:
    return path.relative_to(TESTS).parts[0] in REAL_SOCKETS


def is_small(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and 0 < node.value < MIN_S
    )


def name_of(function: ast.AST) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def calls_in(node: ast.AST) -> set[str]:
    return {name_of(call.func) for call in nodes(node) if isinstance(call, ast.Call)}


def limits_of_call(call: ast.Call, real: bool) -> Iterator[ast.AST]:
    """The small limits that a call sets."""
    names = LIMITS | REAL_LIMITS if real else REAL_LIMITS
    yield from (keyword.value for keyword in call.keywords if keyword.arg in names and is_small(keyword.value))
    name = name_of(call.func)
    if name in ("join", "wait") and len(call.args) == 1 and is_small(call.args[0]):  # of threads and processes
        yield call.args[0]
    if name == "to_thread" and len(call.args) > 1 and is_small(call.args[-1]):
        yield call.args[-1]
    if real and name == "timeout" and call.args and is_small(call.args[0]):
        yield call.args[0]
    if real and name == "wait_for" and len(call.args) > 1 and is_small(call.args[1]):
        yield call.args[1]


def faults_in(tree: ast.AST, real: bool) -> Iterator[tuple[ast.AST, str]]:
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            yield from ((limit, "a small limit") for limit in limits_of_call(node, real))
            if not real and ast.unparse(node.func) == "asyncio.run":
                yield node, "asyncio.run on the machine's clock: use run_in_virtual_time"
        elif isinstance(node, ast.arguments) and real:
            named = [*node.posonlyargs, *node.args]
            pairs = [*zip(named[len(named) - len(node.defaults) :], node.defaults, strict=True)]
            pairs += zip(node.kwonlyargs, node.kw_defaults, strict=True)
            yield from ((v, "a small limit") for a, v in pairs if v and a.arg in LIMITS | REAL_LIMITS and is_small(v))
        elif isinstance(node, ast.Dict) and real:
            pairs = [(k, v) for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)]
            yield from ((v, "a small limit") for k, v in pairs if k.value in LIMITS and is_small(v))
        elif isinstance(node, ast.Assign) and is_small(node.value):
            if any(isinstance(t, ast.Name) and t.id.endswith(("DEADLINE_S", "PATIENCE_S", "WAIT_S", "LIMIT_S", "END_S"))
                   for t in node.targets) and real:  # fmt: skip
                yield node, "a small limit"
        elif isinstance(node, ast.Assert) and CLOCKS & calls_in(node):
            if any(isinstance(op, ast.Lt | ast.LtE) and not isinstance(right, ast.Name)
                   for compare in nodes(node) if isinstance(compare, ast.Compare)
                   for op, right in zip(compare.ops, compare.comparators, strict=True)):  # fmt: skip
                yield node, "a comparison with the time that something took"
        elif isinstance(node, ast.For) and "range" in calls_in(node.iter) and real:
            sleeps = [n for n in nodes(node) if isinstance(n, ast.Call) and name_of(n.func) == "sleep" and n.args]
            if any(ast.unparse(sleep.args[0]) != "0" for sleep in sleeps):
                yield node, "a loop that waits a fixed number of times"


def found_in(path: Path) -> list[tuple[int, str, str]]:
    """Line, its text and what is wrong with it."""
    source = path.read_text()
    lines = source.splitlines()
    faults = faults_in(ast.parse(source), in_real_time(path))
    return sorted({(node.lineno, lines[node.lineno - 1].strip(), what) for node, what in faults})


def test_no_limit_is_small():
    found = {path.relative_to(TESTS).as_posix(): found_in(path) for path in sorted(TESTS.rglob("*.py"))}
    faults, used = [], set()
    for file, lines in found.items():
        for number, text, what in lines:
            excuses = {(f, piece) for f, piece in ALLOWED if f == file and piece in text}
            used |= excuses
            if not excuses:
                faults.append(f"{file}:{number}: {what}: {text}")
    assert not faults, "\n".join(faults)
    assert set(ALLOWED) == used, f"allowed and not found any more: {set(ALLOWED) - used}"


@pytest.mark.parametrize(
    ("code", "real"),
    [
        ("session(1, deadline_s=0.5)", True),
        ("asyncio.timeout(20)", True),
        ("asyncio.wait_for(task, 20)", True),
        ("job = {'deadline_s': 5.0}", True),
        ("def f(patience_s=5.0): pass", True),
        ("WAIT_S = 8.0", True),
        ("for _ in range(100): time.sleep(0.1)", True),
        ("thread.join(10)", False),
        ("event.wait(10)", False),
        ("subprocess.run(command, timeout=30)", False),
        ("assert time.monotonic() - begun_s < 2", False),
        ("asyncio.run(main())", False),
    ],
)
def test_small_limits_are_found(code, real):
    assert list(faults_in(ast.parse(code), real))


@pytest.mark.parametrize(
    ("code", "real"),
    [
        ("session(1, deadline_s=0.5)", False),  # virtual
        ("session(1, deadline_s=GENEROUS_S)", True),
        ("subprocess.run(command, timeout=600)", False),
        ("assert time.monotonic() - begun_s > 0.4", True),
        ("asyncio.sleep(0.1)", True),
        ("run_in_virtual_time(main())", False),
    ],
)
def test_others_are_not(code, real):
    assert not list(faults_in(ast.parse(code), real))
