"""Print the tests of what has changed: those of the rooms that changed, and of the rooms above them.

    PYTHONPATH=. python tests/support/changed_tests.py [COMMIT]

What has changed is what differs from the commit at which this branch left `main`, or from another one, the files that
are not committed included. Which rooms are above others is what `tests/test_layers.py` says. Of a room with sub-rooms
only those count that may import what changed. Tests of services are run by `make test`, unless they changed themselves.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from tests.test_layers import MAY_IMPORT, REPOSITORY, SUB_ROOMS, modules_imported

ALWAYS = ("tests/test_layers.py", "tests/test_words.py")
"""Rules about all files."""

BESIDE = {
    "mpc": ("tests/protocols", "tests/transcripts"),
    "dp": ("tests/accounting",),
    "proto": ("tests/test_generated.py", "tests/test_protocol_number.py", "tests/unit/transport"),
    "bench": ("tests/unit/bench",),
    "docs": ("tests/test_docs.py", "tests/test_documented_numbers.py", "tests/test_recipes.py"),
    "deploy": ("tests/test_deployment.py",),
    "examples": ("tests/test_analyses.py",),
}
"""Folder at the top to tests of it beside those of its room, which rooms above it do not need."""


def changed_files(since: str = "") -> list[str]:
    """Return the paths of files that differ from a commit, or from that at which this branch left `main`."""
    since = since or _git("merge-base", "main", "HEAD") or "HEAD"
    differ = _git("diff", "--name-only", since)
    return sorted({*differ.splitlines(), *_git("ls-files", "--others", "--exclude-standard").splitlines()})


def chosen_tests(changed: Iterable[str]) -> list[str]:
    """Return the files and folders of tests to run, none of them within another one."""
    found: set[str] = set()
    for path in changed:
        found |= set(_tests_of_one(PurePosixPath(path)))
    there = {one for one in found if (REPOSITORY / one).exists()}
    outermost = {one for one in there if not any(str(above) in there for above in PurePosixPath(one).parents)}
    return sorted(outermost | set(ALWAYS)) if there or found else []


def rooms_above(room: str) -> set[str]:
    """Return the rooms that may import a room."""
    return {one for one, below in MAY_IMPORT.items() if room in below}


def sub_rooms_of(room: str, sub_room: str) -> set[str]:
    """Return a sub-room and those that may import it, directly or by others."""
    found = {sub_room}
    while more := {one for one, below in SUB_ROOMS[room].items() if below & found} - found:
        found |= more
    return found


def _tests_of_one(path: PurePosixPath) -> Iterator[str]:
    top, *rest = path.parts
    yield from BESIDE.get(top, ())
    if top in MAY_IMPORT:
        yield from (f"tests/unit/{one}" for one in rooms_above(top))
        yield from _tests_of_room(top, rest)
    elif path.suffix == ".md":
        yield from BESIDE["docs"]
    elif rest[:1] == ["support"]:
        yield from _importers_of(path.stem)
    elif top == "tests" and path.suffix == ".py":
        is_shared = path.parent == PurePosixPath("tests") and not path.name.startswith("test_")
        yield "tests/unit" if is_shared else str(path if path.name.startswith("test_") else path.parent)
    else:
        yield ALWAYS[0]


def _tests_of_room(room: str, rest: list[str]) -> Iterator[str]:
    """Yield the tests of a room, or those of a sub-room, of what may import that, and of no sub-room."""
    folder = f"tests/unit/{room}"
    if len(rest) < 2 or rest[0] not in SUB_ROOMS.get(room, {}):
        yield folder
        return
    yield from (f"{folder}/{one}" for one in sub_rooms_of(room, rest[0]))
    yield from (path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / folder).glob("test_*.py"))


def _importers_of(module: str) -> Iterator[str]:
    """Yield the test files that import a module of `tests/support`, directly or by others; none of services."""
    tests = REPOSITORY / "tests"
    imported = {path: set(modules_imported(path.read_text(encoding="utf-8"))) for path in tests.rglob("*.py")}
    wanted, seen = {module}, set[str]()
    while wanted - seen:
        seen |= wanted
        wanted |= {path.stem for path, names in imported.items() if path.parent.name == "support" and names & seen}
    yield from (
        path.relative_to(REPOSITORY).as_posix()
        for path, names in imported.items()
        if path.name.startswith("test_") and path.parent != tests / "services" and names & wanted
    )


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    print(*chosen_tests(changed_files(*sys.argv[1:])))
