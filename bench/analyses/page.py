"""Turns what is kept of the analyses into their pages: the index, the claims, and the numbers below each page.

A page of `docs/analyses/` is written by hand down to the line `NUMBERS`; what follows it is written here.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from analyses.registry import OFFERED
from bench.analyses import claims, clustering_figures, matrix_factorization, primitives_figures
from bench.analyses.claims import Verdict
from bench.analyses.table import Row, cells, of_metrics
from bench.analyses.targets import target_lines

NUMBERS = "<!-- Written by `make bench-analyses` from here on. -->"
QUESTION = re.compile(r"^# (?P<title>.+)\n\n\*\*(?P<question>[^*]+\?)\*\*")

OF_RIVALS = {
    "beside rivals, pattern counts": "pattern-count.md",
    "beside rivals, histograms": "sums.md",
    "beside rivals, moments": "moments.md",
    "beside rivals, principal components": "pca.md",
    "beside rivals, logistic regression": "logistic-regression.md",
    "stated intervals of 95 %": "claims.md",
}
"""Page of each analysis that `bench.analyses.rivals` measures; every other module has its own page."""

OF_SOURCES = {"clustering-figures.md": "[VertClust23]", "primitives-figures.md": "[VertPrim23]"}
"""Page to the source of which it shows all claims."""

HOW_TO_READ = (
    "[How to read the columns](claims.md#how-to-read-the-numbers). Measured by `python -m bench.analyses --only"
)

Kept = Mapping[str, Mapping[str, Any]]
"""Analysis to part to what was kept of it."""


def pages(docs: Path, kept: Kept) -> dict[str, str]:
    """Return the text of each page that shows something measured, and of the index, by file name.

    Args:
        docs: the folder with the parts that are written by hand.
        kept: what was measured.
    """
    sections: dict[str, list[str]] = {}
    for module, parts in kept.items():
        names = dict.fromkeys(_page_of(module, row["analysis"]) for p in parts.values() for row in p["rows"])
        for name in names or ["claims.md"]:  # a module without any row says there why
            sections.setdefault(name, []).append(_section(module, parts, name))
    by_hand = {path.name: path.read_text().partition(NUMBERS) for path in sorted(docs.glob("*.md"))}
    written = {
        name: "\n".join([f"{text}{mark}\n", *_claims(kept, name), *sections.pop(name, [])])
        for name, (text, mark, _) in by_hand.items()
        if mark
    }
    if sections:
        raise ValueError(f"no page for these numbers has the line {NUMBERS}: {', '.join(sections)}")
    return {**written, "README.md": f"{by_hand['README.head.md'][0].rstrip()}\n\n{_index(docs)}"}


def _index(docs: Path) -> str:
    """Return a line for each analysis on offer: its question as its page states it, its page, its jobs."""
    lines = []
    for analysis in OFFERED:
        name = Path(analysis.page).name
        head = QUESTION.match((docs / name).read_text())
        if head is None:
            raise ValueError(f"{name} does not begin with a title and a question in bold")
        question = " ".join(head["question"].split())
        lines.append((question, f"[{head['title']}]({name})", ", ".join(f"`{job}`" for job in analysis.names)))
    return cells(("question", "page", "job"), lines)


def verdicts(rows: list[Row]) -> list[Verdict]:
    """Return the verdicts on all claims, those of figures last."""
    of_figures = (matrix_factorization, primitives_figures, clustering_figures)
    return [*claims.verdicts(rows), *chain.from_iterable(one.verdicts(rows) for one in of_figures)]


def _claims(kept: Kept, name: str) -> Iterator[str]:
    """Yield what a page says of targets and claims, if it does."""
    if name != "claims.md" and name not in OF_SOURCES:
        return
    rows = [Row.from_json(row) for parts in kept.values() for part in parts.values() for row in part["rows"]]
    source = OF_SOURCES.get(name, "")
    said = [(v.claim.removeprefix(source).strip(), v.text, v.numbers) for v in verdicts(rows) if source in v.claim]
    table = cells(("claim", "verdict", "numbers"), said)
    if source:
        yield f"## What the source claims\n\n{table}"
        return
    targets = cells(("what", "target", "measured", "met", "command"), target_lines(rows))
    yield f"## Targets\n\n{targets}"
    yield (
        "## What the papers claim\n\nEvery claim at equal true privacy: in the papers some epsilons are not what is "
        "spent ([corrections](../corrections.md)).\nWritten from the rows of all pages; "
        f'"0.08 to 0.6" is what is claimed to be the smaller, and what it is compared with.\n\n{table}'
    )


def _page_of(module: str, analysis: str) -> str:
    return OF_RIVALS[analysis] if module == "rivals" else f"{module.replace('_', '-')}.md"


def _section(module: str, parts: Mapping[str, Any], name: str) -> str:
    """Return one module's tables on one page, folded, and when and where each part was measured."""
    by_analysis: dict[str, list[Row]] = {}
    here = {}
    for part, measured in parts.items():
        rows = [Row.from_json(row) for row in measured["rows"] if _page_of(module, row["analysis"]) == name]
        if rows or not measured["rows"]:
            here[part] = measured
        for row in rows:
            by_analysis.setdefault(row.analysis, []).append(row)
    failures = [f"**{part} failed on {p['date']}**: {p['failure']}.\n" for part, p in here.items() if "failure" in p]
    tables = [
        f'<details markdown="1">\n<summary>{_title(analysis)}. {_title(metric)} ({len(lines)} rows)</summary>\n\n'
        f"{cells(head, lines)}\n</details>\n"
        for analysis, rows in by_analysis.items()
        for metric, head, lines in of_metrics(rows)
    ]
    heading = "## Beside other programs" if module == "rivals" else "## Numbers"
    return "\n".join([f"{heading}\n", f"{HOW_TO_READ} {module}`: {_when(here)}\n", *failures, *tables])


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
