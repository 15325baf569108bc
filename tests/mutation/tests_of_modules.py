"""Which tests a module is changed against: a rule, so that no table has to be kept."""

import re
from functools import cache
from pathlib import Path

ROOMS = ("mpc", "dp", "ledger")
"""What is changed."""

SUITES = ("unit", "accounting", "property", "protocols", "security")
"""Folders of tests that may be run for each change. Tests of services take minutes, and slow tests are left out too."""

MAX_FILES = 8
"""Longest list of test files of one module."""


def modules(root: Path) -> list[str]:
    """Return the modules of `ROOMS` that contain more than names of others."""
    found = sorted(path for room in ROOMS for path in (root / room).rglob("*.py"))
    return [str(path.relative_to(root)) for path in found if path.name != "__init__.py"]


def tests_of(module: str, root: Path) -> list[str]:
    """Return the test files of a module, nearest first, at most `MAX_FILES`.

    First the mirror: of `mpc/secagg/member/machine.py` that is `tests/unit/mpc/secagg/member/test_machine.py`, and
    `tests/unit/mpc/secagg/test_member.py` where one file tests a whole folder. Then the tests that import the module,
    those of its own room first. At last the other unit tests of its folder, or of the nearest folder above that has
    some: they reach modules that no test names.
    """
    path = Path(module)
    mirrors = [Path("tests/unit") / path.parent / f"test_{path.stem}.py"]
    mirrors += [Path("tests/unit") / folder.parent / f"test_{folder.name}.py" for folder in path.parents if folder.name]
    found = [str(mirror) for mirror in mirrors if (root / mirror).exists()]
    found += _importing(".".join(path.with_suffix("").parts), path.parts[0], root)
    near = ((root / "tests/unit" / folder).glob("test_*.py") for folder in path.parents if folder.name)
    found += next(filter(None, (sorted(str(p.relative_to(root)) for p in tests) for tests in near)), [])
    return list(dict.fromkeys(found))[:MAX_FILES]


def _importing(dotted: str, room: str, root: Path) -> list[str]:
    parent, _, name = dotted.rpartition(".")
    statement = rf"^\s*(from {dotted} import|import {dotted}\b"
    statement += rf"|from {parent} import (\(|[^\n(]*\b{name}\b))" if parent else ")"
    pattern = re.compile(statement, re.MULTILINE)
    found = [test for test, text in _texts(root) if pattern.search(text)]
    return sorted(found, key=lambda test: (f"tests/unit/{room}/" not in test, "tests/unit/" not in test, test))


@cache
def _texts(root: Path) -> list[tuple[str, str]]:
    """Return the test files with the lines of their imports."""
    files = sorted(path for suite in SUITES for path in (root / "tests" / suite).rglob("test_*.py"))
    imports = re.compile(r"^\s*(?:from|import) .*", re.MULTILINE)
    return [(str(path.relative_to(root)), "\n".join(imports.findall(path.read_text()))) for path in files]
