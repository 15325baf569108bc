"""Measures how often the 95 % intervals of results hold the truth, and writes `docs/analyses/coverage.md`.

python -m bench.coverage                     all; prints JSON, keeps it, and writes the page
python -m bench.coverage --only closed_means a part; the others keep the numbers of their last run
python -m bench.coverage --render            the page anew, from what is kept
python -m bench.coverage --runs 2 --quick    a few releases of each; prints JSON and writes nothing

No services run: exact numbers of a table get draws of the noise, or responses are drawn by their law, and the functions
that the coordinator calls make a result of them.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.coverage import answers, counts, distributions, errors, matrices, models, ranges, terms
from bench.coverage.ranges import Ranges, table_of
from bench.coverage.record import Coverage, page

RESULTS = Path(__file__).parent.parent / "results" / "coverage.json"
DOCS = Path(__file__).parent.parent.parent / "docs" / "analyses"

FORECASTS = ("forecasts", "other_forecasts")
"""Parts about ranges of forecasts; the others are about intervals."""

PARTS: dict[str, tuple[Callable[[int], Iterator[Coverage] | Iterator[Ranges]], int]] = {
    "additive": (counts.additive, 1000),
    "joint": (counts.joint, 1000),
    "reports": (counts.reports, 100),
    "persons": (counts.persons, 300),
    "masked": (distributions.masked, 300),
    "responses": (distributions.responses, 100),
    "pairs": (distributions.pairs, 100),
    "closed_means": (distributions.closed_means, 1000),
    "components": (matrices.components, 100),
    "lines": (matrices.lines, 100),
    "logistic": (matrices.logistic, 60),
    "answers": (answers.answers, 1000),
    "models": (models.models, 1000),
    "terms": (terms.terms, 1000),
    "moments": (errors.moments_by_reports, 100),
    "forecasts": (ranges.forecasts, 12),
    "other_forecasts": (errors.forecasts, 60),
}
"""Name to what is measured, and how many releases of each table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be given several times")
    parser.add_argument("--runs", type=int, help="releases of each table; by default as many as a part says")
    parser.add_argument("--quick", action="store_true", help="write nothing")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    options = parser.parse_args(arguments)
    for name in [] if options.render else options.only or PARTS:
        measure, runs = PARTS[name]
        found = [one.as_json() for one in measure(options.runs or runs)]
        print(json.dumps({name: found}, indent=1))
        if not options.quick:
            kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            RESULTS.write_text(json.dumps({**kept, name: found}, indent=1) + "\n")
    if not options.quick:
        (DOCS / "coverage.md").write_text(text_of_page())
    return 0


def text_of_page() -> str:
    """Return the page by what is kept."""
    kept = json.loads(RESULTS.read_text())
    head = (DOCS / "coverage.head.md").read_text()
    found = page(head, [one for name in PARTS if name in kept and name not in FORECASTS for one in kept[name]])
    return f"{found}\n{table_of([one for name in FORECASTS for one in kept.get(name, [])])}"


if __name__ == "__main__":
    raise SystemExit(main())
