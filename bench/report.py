"""Runs the measurements and writes `docs/benchmarks.md` and its picture.

    python -m bench.report                          all; about twelve minutes on two quiet cores
    python -m bench.report --only gram --only kdd   some; the others keep the numbers of their last run
    python -m bench.report --render                 none; the page anew from what is kept
    python -m bench.report --full                   also sums of 1000 members, and of 50 over Flower services

Flower starts a process per member and message: 50 members over its services are too many for two cores and 24 GB.

Each measurement is a program of its own, run with the command that the page shows, one after another. What it returns
is kept in `bench/results/`, one file each, and the page is made from these files. One that fails does not lose the
rest, nor its own numbers of an earlier run: the page says that it failed, and of what day the numbers are. A program to
compare with that cannot be installed here is left out, and the page says so.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import ONE_THREAD, describe_machine
from bench.pages import as_markdown
from bench.peers.environment import UNAVAILABLE
from bench.plot import draw
from bench.plot_growth import draw_growth

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
TIMEOUT_S = 7200.0


@dataclass(frozen=True)
class Measurement:
    """One program and what it is run with.

    Attributes:
        name: of its file of results.
        part: what `--only` calls it, together with others.
        command: module and arguments.
        peer: further arguments that run another program beside ours; left out where that cannot be installed.
        is_long: run with `--full` only.
    """

    name: str
    part: str
    command: tuple[str, ...]
    peer: tuple[str, ...] = ()
    is_long: bool = False


def _gram(parties: int, rows: int, columns: int, *, beside_peer: bool = True) -> Measurement:
    shape = ("--rows", str(rows), "--columns", str(columns), "--parties", str(parties))
    name = f"gram_{parties}_parties_{rows}x{columns}"
    part, peer = ("gram", ("--peer", "mpyc")) if beside_peer else ("shapes", ())
    return Measurement(name, part, ("bench.jobs.gram", *shape, "--repeats", "9"), peer)


def _secagg(members: int, *arguments: str, peer: tuple[str, ...] = (), is_long: bool = False) -> Measurement:
    name = f"secagg_{members}"
    return Measurement(name, name, ("bench.sums.secagg", "--members", str(members), *arguments), peer, is_long)


SHAPES = ((100, 100), (1000, 10), (1000, 100), (10000, 10), (10000, 30), (10000, 100))
MORE_SHAPES = (
    (3, 100, 5),
    *((3, 10000, columns) for columns in (50, 200, 500, 1000)),
    (7, 10000, 100),
    (9, 10000, 100),
)
FLOWER = ("--peer", "flower")
DROPOUTS = ("--vanish", "0.1", "--corrupt", "0.05", "--shared-checks")
TEN_THOUSAND_ELEMENTS = ("--elements", "10000", *DROPOUTS, "--stage-s", "1800", "--grace-s", "90")
GROWTH_1E7 = ("--rows", "10000000", "--analyses", "pca,pattern-count,moments,secure-sum")
MATCHING_1E7 = ("--ids", "10000000", "--parties", "3")
TABLE_SOURCES = ("bench.jobs.table_sources",)
MEASUREMENTS = (
    *(_gram(parties, rows, columns) for parties in (3, 5) for rows, columns in SHAPES),
    *(_gram(*shape, beside_peer=False) for shape in MORE_SHAPES),
    Measurement("kdd", "kdd", ("bench.jobs.gram", "--kdd", "--repeats", "3")),
    Measurement("products", "products", ("bench.protocols.products",), ("--peer", "mpyc")),
    Measurement("matching", "matching", ("bench.protocols.matching", "--strict")),
    Measurement("matching_1e7", "matching_1e7", ("bench.protocols.matching", *MATCHING_1E7), is_long=True),
    Measurement("secret_matching", "secret_matching", ("bench.protocols.secret_matching",)),
    Measurement(
        "secret_matching_1e6",
        "secret_matching_1e6",
        ("bench.protocols.secret_matching", "--rows", "1000000"),
        is_long=True,
    ),
    Measurement("soak", "soak", ("bench.jobs.soak", "--seconds", "3600"), is_long=True),
    Measurement("floor", "floor", ("bench.jobs.floor",)),
    Measurement("wide", "wide", ("bench.jobs.wide",), is_long=True),
    Measurement("demo", "demo", ("bench.jobs.demo",)),
    Measurement("reduction", "reduction", ("bench.protocols.reduction",)),
    Measurement("owners", "owners", ("bench.jobs.owners", "--repeats", "2")),
    Measurement("growth", "growth", ("bench.jobs.growth", "--ids")),
    Measurement("growth_1e7", "growth_1e7", ("bench.jobs.growth", "--ids", *GROWTH_1E7), is_long=True),
    Measurement("table_sources", "table_sources", TABLE_SOURCES, ("--peer", "adbc")),
    Measurement(
        "table_sources_1e7",
        "table_sources_1e7",
        (*TABLE_SOURCES, "--rows", "10000000", "--repeats", "1"),
        ("--peer", "adbc"),
        is_long=True,
    ),
    Measurement("local_gram", "local_gram", ("bench.protocols.local_gram", "--galois")),
    Measurement("sharing", "sharing", ("bench.protocols.sharing", "--galois")),
    Measurement("secagg_core", "secagg_core", ("bench.sums.secagg_core",)),
    Measurement("ring_messages", "ring_messages", ("bench.sums.ring_messages",)),
    _secagg(10, "--repeats", "5", peer=(*FLOWER, "--flower-services")),
    _secagg(50, "--repeats", "3", peer=FLOWER),
    _secagg(200, "--elements", "1000", *DROPOUTS),
    # All members share one process here, which takes long for them.
    _secagg(1000, *DROPOUTS, "--stage-s", "300", is_long=True),
    *(_secagg(members, *TEN_THOUSAND_ELEMENTS, is_long=True) for members in (2000, 10_000)),
    Measurement(
        "secagg_50_services",
        "secagg_50_services",
        ("bench.sums.secagg", "--members", "50"),
        (*FLOWER, "--flower-services"),
        is_long=True,
    ),
    Measurement("noise", "noise", ("bench.privacy.noise",)),
    Measurement("ledger", "ledger", ("bench.privacy.ledger",)),
    Measurement("utility", "utility", ("bench.utility.pca_utility", "--runs", "10")),
)
PARTS = tuple(dict.fromkeys(measurement.part for measurement in MEASUREMENTS))


def run(measurement: Measurement) -> dict[str, Any]:
    """Run one measurement; return what is kept of it: command, date, seconds, machine and `report`, or `failure`."""
    command, note = (*measurement.command, *measurement.peer), None
    started_s = time.perf_counter()
    status, output, said = _output_of(command)
    if status == UNAVAILABLE and measurement.peer:
        note = f"not compared: {said.strip().splitlines()[-1]}"
        sys.stderr.write(f"SKIPPED the comparison of {measurement.name}: {said}\n")
        command = measurement.command
        status, output, said = _output_of(command)
    kept = {
        "command": _shown(command),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(time.perf_counter() - started_s, 1),
        "machine": describe_machine(),
        "note": note,
    }
    if status != 0:
        lines = said.strip().splitlines() or [f"exit status {status}"]
        sys.stderr.write(f"FAILED {measurement.name}:\n{said}\n")
        return {**kept, "failure": lines[-1][:300]}
    return {**kept, "report": json.loads(output)}


def _shown(command: Sequence[str]) -> str:
    return " ".join(("python", "-m", *command))


def _output_of(command: Sequence[str]) -> tuple[int, str, str]:
    """Return exit status, standard output and standard error."""
    sys.stderr.write(f"{_shown(command)}\n")
    environment = {**os.environ, **ONE_THREAD}
    whole = [sys.executable, "-m", *command, "--format", "json"]
    try:
        done = subprocess.run(
            whole,
            check=False,
            capture_output=True,
            env=environment,
            text=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return 124, "", f"it did not end within {TIMEOUT_S:g} s"
    return done.returncode, done.stdout, done.stderr


def keep(folder: Path, name: str, result: dict[str, Any]) -> None:
    """Write a result; a failure is added to the numbers of the last run, if there are any."""
    path = folder / f"{name}.json"
    if "failure" in result and path.exists():
        last = json.loads(path.read_text())
        result = {**last, "failure": result["failure"], "failed_on": result["date"]}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def kept_results(folder: Path) -> dict[str, Any]:
    """Return what is kept, by name, in the order of the measurements."""
    paths = {m.name: folder / f"{m.name}.json" for m in MEASUREMENTS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def render(results: Path, docs: Path) -> str:
    """Write page and picture from what is kept; return the page."""
    kept = kept_results(results)
    page = as_markdown(kept, describe_machine())
    (docs / "images").mkdir(parents=True, exist_ok=True)
    (docs / "benchmarks.md").write_text(page)
    grams = [entry["report"] for name, entry in kept.items() if name.startswith(("gram_", "kdd")) and "report" in entry]
    draw(grams, docs / "images" / "benchmarks.png")
    draw_growth(
        {name: entry["report"] for name, entry in kept.items() if "report" in entry}, docs / "images" / "growth.png"
    )
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be given several times")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of what is kept")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where benchmarks.md and images/ go")
    options = parser.parse_args(arguments)
    failed = []
    for measurement in [] if options.render else MEASUREMENTS:
        wanted = measurement.part in options.only if options.only else options.full or not measurement.is_long
        if not wanted:
            continue
        result = run(measurement)
        keep(options.results, measurement.name, result)
        render(options.results, options.docs)  # what is done is not lost when the rest is interrupted
        if "failure" in result:
            failed.append(measurement.name)
    sys.stdout.write(render(options.results, options.docs))
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
