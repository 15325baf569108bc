"""Measures the analyses and writes the numbers of the pages in `docs/analyses`, and their index.

python -m bench.analyses                     all of them
python -m bench.analyses --only clustering   one; the others keep the numbers of their last run
python -m bench.analyses --part moments      parts of this name alone, likewise
python -m bench.analyses --render            none; the pages anew from what is kept
python -m bench.analyses --quick             all, on small tables, to see that it runs; writes nothing

Each analysis is measured in parts. What a part measured is kept in `bench/results/analyses/` when it is done; one that
fails keeps what it has measured until then, loses nothing of the others, and its page says so.
"""

import argparse
import importlib
import json
import os
import pkgutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import bench.analyses
from bench.analyses.page import pages
from bench.analyses.table import Row
from bench.machine import describe_machine

RESULTS = Path(__file__).parent.parent / "results" / "analyses"
DOCS = Path(__file__).parent.parent.parent / "docs" / "analyses"

Part = Callable[[bool], Iterator[Row]]


def measured() -> dict[str, dict[str, Part]]:
    """Return the analyses that are measured: module to its parts."""
    modules = [info.name for info in pkgutil.iter_modules(bench.analyses.__path__) if info.name != "__main__"]
    loaded = {name: importlib.import_module(f"bench.analyses.{name}") for name in modules}
    return {name: module.parts() for name, module in loaded.items() if hasattr(module, "parts")}


def run(part: Part, quick: bool) -> dict[str, Any]:
    """Measure one part; return what is kept of it: date, machine, load, seconds, rows and, where it failed, `failure`.

    The load is the mean number of processes that wanted a processor in the last minute of the part, ours among them.
    """
    rows: list[Row] = []
    kept: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "machine": describe_machine()}
    started_s = time.perf_counter()
    try:
        rows.extend(part(quick))  # one by one: what was measured before a failure is not lost
    except Exception as error:
        traceback.print_exc()
        kept["failure"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    kept["load"] = round(os.getloadavg()[0], 1)
    return {**kept, "seconds": time.perf_counter() - started_s, "rows": [row.as_json() for row in rows]}


def keep(folder: Path, analysis: str, part: str, result: dict[str, Any]) -> None:
    """Add a part to what is kept of its analysis. After a failure, rows that are missing are those of the last run."""
    path = folder / f"{analysis}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    if "failure" in result and part in kept:
        known = {_key(row) for row in result["rows"]}
        result["rows"] += [row for row in kept[part]["rows"] if _key(row) not in known]
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**kept, part: result}, indent=1) + "\n")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("analysis", "dataset", "epsilon", "metric"))


def kept_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what is kept: analysis to part to what `run` returned."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def write(docs: Path, results: Path) -> None:
    """Write the pages anew from what is kept."""
    for name, text in pages(docs, kept_results(results)).items():
        (docs / name).write_text(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; a part that fails is said and does not lose the rest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    analyses = measured()
    parser.add_argument("--only", action="append", choices=analyses, help="may be given several times")
    parser.add_argument("--part", action="append", help="name of a part, as the page gives it; likewise")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of what is kept")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the pages")
    options = parser.parse_args(arguments)
    failed = []
    for analysis, parts in {} if options.render else analyses.items():
        if options.only and analysis not in options.only:
            continue
        for part, measure in parts.items():
            if options.part and part not in options.part:
                continue
            result = run(measure, options.quick)
            if "failure" in result:
                failed.append(f"{analysis}, {part}")
            sys.stderr.write(f"{analysis}, {part}: {len(result['rows'])} rows in {result['seconds']:.0f} s\n")
            if options.quick:
                print(json.dumps({"analysis": analysis, "part": part, **result}))
                continue
            keep(options.results, analysis, part, result)
            write(options.docs, options.results)
    if options.render:
        write(options.docs, options.results)
    if failed:
        sys.stderr.write(f"failed: {'; '.join(failed)}\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
