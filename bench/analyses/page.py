"""Turns what is kept of the analyses into `docs/analyses/README.md`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.analyses.claims import verdicts
from bench.analyses.table import Row, cells, markdown
from bench.analyses.targets import target_lines

CLAIMS = """\
## What the papers claim

Every claim at equal true privacy: in the papers some epsilons are not what is spent ([corrections](../corrections.md)).
Written from the rows below; "0.08 to 0.6" is what is claimed to be the smaller, and what it is compared with.
"""

Kept = Mapping[str, Mapping[str, Any]]
"""Analysis to part to what was kept of it."""


def page(docs: Path, kept: Kept) -> str:
    """Return the page: head, targets, claims, and the tables of all analyses."""
    rows = [Row.from_json(row) for parts in kept.values() for part in parts.values() for row in part["rows"]]
    targets = cells(("what", "target", "measured", "met", "command"), target_lines(rows))
    said = cells(("claim", "verdict", "numbers"), [(v.claim, v.text, v.numbers) for v in verdicts(rows)])
    sections = [f"## Targets\n\n{targets}", f"{CLAIMS}\n{said}", *(_section(name, kept[name]) for name in kept)]
    return (docs / "README.head.md").read_text().rstrip() + "\n\n" + "\n".join(sections)


def _section(name: str, parts: Mapping[str, Any]) -> str:
    """Return one module's tables, and when, where and in how many seconds each part was measured."""
    by_analysis: dict[str, list[Row]] = {}
    for part in parts.values():
        for row in part["rows"]:
            by_analysis.setdefault(row["analysis"], []).append(Row.from_json(row))
    head = f"Measured by `python -m bench.analyses --only {name}`: {_when(parts)}"
    failures = [f"**{part} failed on {p['date']}**: {p['failure']}." for part, p in parts.items() if "failure" in p]
    tables = [f"### {_title(analysis)}\n\n{markdown(rows)}" for analysis, rows in by_analysis.items()]
    return "\n".join([f"## {_title(name.replace('_', ' '))}\n", f"{head}\n", *(f"{f}\n" for f in failures), *tables])


def _when(parts: Mapping[str, Any]) -> str:
    by_place: dict[str, list[str]] = {}
    for name, part in parts.items():
        machine = part["machine"]
        where = f"{machine['cores']} cores of {machine['cpu']}, {part['date']}"
        if part.get("load", 0) > machine["cores"] + 1:
            where += ", busy with other work, so wall times are too long"
        by_place.setdefault(where, []).append(f"{name} {part['seconds']:.0f} s")
    return "; ".join(f"{', '.join(times)} ({where})" for where, times in by_place.items()) + "."


def _title(text: str) -> str:
    return text[0].upper() + text[1:]
