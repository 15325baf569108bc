"""Write what follows from the code and from other pages: `python docs/drawings.py [--check]`.

The drawings of rooms and of a job's life in the architecture, and the index of decisions by room.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from coordinator.state import NEXT

DOCS = Path(__file__).parent
DECISION = re.compile(
    r"# (?P<title>(?P<number>\d{3})\. .+)\n\nAccepted, \d{4}-\d\d(?P<changed>; changed by [^\n]+?\))?\. "
    r"Rooms?: (?P<rooms>[a-z, ]+)\."
)
"""Heading and status of a decision."""

HEAD_OF_INDEX = """\
# Decisions

Why things are as they are, by the room of the code that a decision is about; some are about two. All are accepted;
where a later one changed something, it is named.

Written by `python docs/drawings.py` from the heads of the decisions."""


def life_of_a_job() -> str:
    """Return the states of a job and the steps between them as a Mermaid diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> SUBMITTED"]
    for state, following in NEXT.items():
        lines += [f"    {state} --> {after}" for after in sorted(following, key=list(NEXT).index)]
        lines += [f"    {state} --> [*]"] if not following else []
    return "\n".join([*lines, "```"])


def imports_between_rooms() -> dict[str, set[str]]:
    """Return each room of the wheel with the other rooms that its modules import, anywhere in them."""
    wheel = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    rooms = [path for path in wheel["targets"]["wheel"]["packages"] if "/" not in path]
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for room in rooms:
        for module in (DOCS.parent / room).rglob("*.py"):
            for node in _statements(module.read_text(encoding="utf-8")):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                found[room] |= {name.partition(".")[0] for name in names} & (set(rooms) - {room})
    return found


def _statements(source: str) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:  # without the expressions, which `ast.walk` would take seconds for
        node = waiting.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, name, ())


def rooms_and_imports() -> str:
    """Return the rooms as a Mermaid diagram: an arrow for each import that no way over other rooms shows already.

    Raises:
        ValueError: two rooms import each other.
    """
    imports = imports_between_rooms()
    below: dict[str, set[str]] = {}
    while len(below) < len(imports):
        ready = [room for room in imports if room not in below and imports[room] <= below.keys()]
        if not ready:
            raise ValueError(f"rooms import each other: {sorted(imports.keys() - below.keys())}")
        for room in ready:
            below[room] = imports[room].union(*(below[lower] for lower in imports[room]))
    lines = ["```mermaid", "flowchart TD"]
    for room, lower in imports.items():
        direct = {one for one in lower if not any(one in below[other] for other in lower)}
        lines += [f"    {room} --> {one}" for one in sorted(direct)]
    return "\n".join([*lines, "```"])


def with_drawings(text: str) -> str:
    """Return the page with its drawings made anew."""
    for name, drawing in (("rooms and imports", rooms_and_imports()), ("life of a job", life_of_a_job())):
        pattern = rf"(<!-- begin: {name} [^\n]*-->\n).*?(<!-- end: {name} -->)"
        text = re.sub(pattern, lambda found, new=drawing: f"{found[1]}{new}\n{found[2]}", text, flags=re.DOTALL)
    return text


def index_of_decisions(folder: Path) -> str:
    """Return the decisions of each room, with what changed them since.

    Raises:
        ValueError: a decision does not begin with its number, its title, its status and its rooms.
    """
    by_room: dict[str, list[str]] = {}
    for page in sorted(folder.glob("[0-9]*.md")):
        found = DECISION.match(page.read_text(encoding="utf-8"))
        if found is None or found["number"] != page.name[:3]:
            raise ValueError(f"{page.name}: expected '# NNN. Title', then 'Accepted, YYYY-MM. Rooms: ...'")
        for room in found["rooms"].split(", "):
            by_room.setdefault(room, []).append(f"* [{found['title']}]({page.name}){found['changed'] or ''}")
    sections = [f"## {room}\n\n" + "\n".join(by_room[room]) for room in sorted(by_room)]
    return "\n\n".join([HEAD_OF_INDEX, *sections]) + "\n"


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` say whether they are up to date."""
    architecture, index = DOCS / "architecture.md", DOCS / "decisions" / "README.md"
    written = {
        architecture: with_drawings(architecture.read_text(encoding="utf-8")),
        index: index_of_decisions(DOCS / "decisions"),
    }
    if "--check" in arguments:
        return int(any(not page.exists() or page.read_text(encoding="utf-8") != text for page, text in written.items()))
    for page, text in written.items():
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
