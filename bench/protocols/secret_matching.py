"""Matching under shares among separate processes: processor time, time by the clock, bytes, memory, and how they grow.

    python -m bench.protocols.secret_matching --rows 10000 30000 100000 --columns 10 --parties 3
    python -m bench.protocols.secret_matching --rows 1000000 --rows-of-first 10000

N processes that join each other with `transport.messages.mesh`, mutual TLS on loopback, each an owner of so many rows
with so many columns of integers below 2^20, half of which all have; or, where the first owner has fewer rows than the
others, half of those. Measured is all from the keys of the job to rows
that are masked, of all columns of all owners. `processor_s` is of all processes together. Memory counts each process
from its start, `added_bytes` what the match added. Afterwards the number of matched rows and the sums of all columns
are opened and every party checks them.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from bench.machine import describe_machine
from bench.members import run_members


def measure(n_rows: int, n_first: int | None, n_columns: int, n_parties: int, n_primes: int) -> dict[str, Any]:
    """Run the parties, and add up what they measured."""
    most_rows = [n_first or n_rows, *[n_rows] * (n_parties - 1)]
    reports = run_members(
        "bench.protocols.secret_matching_member",
        n_parties,
        ["--rows", *most_rows, "--columns", n_columns, "--primes", n_primes],
    )
    processor_s = sum(report["processor_s"] for report in reports)
    return {
        "rows": n_rows,
        "rows_of_first": most_rows[0],
        "columns": n_columns * n_parties,
        "primes": n_primes,
        "slots": reports[0]["slots"],
        "matched": reports[0]["matched"],
        "seconds": max(report["seconds"] for report in reports),
        "seconds_to_match": max(report["seconds_to_match"] for report in reports),
        "processor_s": processor_s,
        "processor_us_per_row": processor_s / n_rows * 1e6,
        "processor_to_match_s": sum(report["processor_to_match_s"] for report in reports),
        "sent_bytes": [report["sent_bytes"] for report in reports],
        "peak_resident_bytes": max(report["peak_resident_bytes"] for report in reports),
        "added_bytes": max(report["added_bytes"] for report in reports),
    }


def as_text(report: dict[str, Any]) -> str:
    """Return the lines that people read."""
    n_parties = len(report["runs"][0]["sent_bytes"])
    lines = [f"{n_parties} parties, processes that speak TLS on loopback:"]
    for run in report["runs"]:
        sent = "/".join(f"{one / run['rows']:.0f}" for one in run["sent_bytes"])
        lines.append(
            f"  {run['rows']:,} rows each, {run['rows_of_first']:,} of the first, "
            f"{run['columns']} columns, {run['primes']} primes: {run['seconds']:.1f} s by "
            f"the clock, {run['processor_s']:.1f} s of processors ({run['processor_us_per_row']:.0f} us per row), "
            f"{sent} bytes per row sent, {run['peak_resident_bytes'] / 1e6:.0f} MB resident at most, "
            f"{run['added_bytes'] / 1e6:.0f} MB of them by the match"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 30_000, 100_000], help="of each party")
    parser.add_argument("--rows-of-first", type=int, help="of the first party, where it has fewer")
    parser.add_argument("--columns", type=int, default=10, help="of each party")
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--primes", type=int, default=3, help="of the field")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    runs = [measure(n, options.rows_of_first, options.columns, options.parties, options.primes) for n in options.rows]
    report = {"bench": "secret-matching", "runs": runs, "machine": describe_machine()}
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
