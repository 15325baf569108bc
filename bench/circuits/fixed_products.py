"""The product of two matrices of fractions beside that of integers, among separate processes.

    python -m bench.circuits.fixed_products --side 1000

Entries have 20 bits, of fractions 10 behind the point. The product of integers runs twice: in three primes, which hold
it, and in five, as that of fractions, which has a mask of 40 bits more. The three take turns, so that all meet the same
load of the machine; processor seconds are the busiest party's, bytes those of the party that sends most.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from bench.machine import describe_machine
from bench.members import run_members

PRODUCTS = {
    "integers": "matrix-product",
    "integers, wide field": "matrix-product-wide",
    "fractions": "matrix-product-fixed",
}
"""Name in the report to the operation of `bench.protocols.comparisons_member`."""

GOAL = 2.0


def measure(side: int, n_parties: int, turns: int, repeats: int) -> dict[str, Any]:
    """Run all in turns; a first run of each is not counted."""
    processor_s: dict[str, list[float]] = {name: [] for name in PRODUCTS}
    sent: dict[str, float] = {}
    arguments = ["--elements", side**2, "--colluding", (n_parties - 1) // 2, "--repeats", 1 + repeats]
    for _ in range(turns):
        for name, operation in PRODUCTS.items():
            member = "bench.protocols.comparisons_member"
            reports = run_members(member, n_parties, ["--operation", operation, *arguments])
            together = zip(*(report["processor_s"] for report in reports), strict=True)
            processor_s[name] += list(map(max, together))[1:]
            sent[name] = max(report["sent_bytes"] for report in reports) / side**2
    used = {name: statistics.median(each) for name, each in processor_s.items()}
    return {
        "bench": "fixed-products",
        "side": side,
        "parties": n_parties,
        "processor_s": used,
        "all_processor_s": processor_s,
        "sent_bytes_per_entry": sent,
        "times_the_processor_time": {name: used["fractions"] / used[name] for name in list(PRODUCTS)[:2]},
        "goal": GOAL,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=1000, help="rows and columns of each matrix")
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="in a turn, after a first one, which opens the streams")
    options = parser.parse_args(arguments)
    report = measure(options.side, options.parties, options.turns, options.repeats)
    sys.stdout.write(json.dumps({**report, "machine": describe_machine()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
