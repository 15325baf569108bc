"""Comparisons of secret arrays of 20-bit integers among separate processes, alone or beside MPyC.

    python -m bench.protocols.comparisons --elements 100000 --parties 3 --peer mpyc
    python -m bench.protocols.comparisons --operation sort --elements 1000 --peer mpyc
    python -m bench.protocols.comparisons --operation equal --elements 1000000
    python -m bench.protocols.comparisons --elements 10000 --proven

As `bench.protocols.products`: ours over mutual TLS on loopback, MPyC after ours over TCP without TLS, on the same
integers; seconds are the slowest party's, processor seconds the busiest one's, bytes those of the party that sends
most. `equal-by-power` is the rival that decision 087 turned down.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.machine import describe_machine
from bench.members import WrongResultError, run_members
from bench.peers.environment import UNAVAILABLE, PeerUnavailableError
from bench.peers.mpyc_environment import ensure_mpyc, run_peer
from bench.protocols.comparisons_member import OPERATIONS, operand


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run ours, and MPyC after it."""
    t = (options.parties - 1) // 2
    arguments = ["--operation", options.operation, "--elements", options.elements, "--colluding", t]
    repeats = ["--repeats", 1 + options.repeats, *["--proven"] * options.proven]
    reports = run_members("bench.protocols.comparisons_member", options.parties, [*arguments, *repeats])
    seconds = [max(together) for together in zip(*(r["seconds"] for r in reports), strict=True)][1:]
    processor_s = [max(together) for together in zip(*(r["processor_s"] for r in reports), strict=True)][1:]
    median_s = statistics.median(seconds)
    report = {
        "bench": "comparisons",
        "operation": options.operation,
        "proven": options.proven,
        "elements": options.elements,
        "parties": options.parties,
        "colluding": t,
        "seconds": median_s,
        "all_seconds": seconds,
        "processor_s": statistics.median(processor_s),
        "comparisons_per_s": options.elements / median_s,
        "sent_bytes_per_comparison": max(r["sent_bytes"] for r in reports) / options.elements,
    }
    if options.peer:
        brought = [operand(dealer, options.elements) for dealer in (1, 2)]
        run = run_peer("mpyc_elementwise.py", brought, options.parties, options.operation)
        if not np.array_equal(run.result, OPERATIONS[options.operation].exact(*brought)):
            raise WrongResultError("MPyC has another answer than NumPy")
        report["mpyc"] = {
            "seconds": run.seconds,
            "processor_s": run.processor_s,
            "comparisons_per_s": options.elements / run.seconds,
            "sent_bytes_per_comparison": run.sent_bytes / options.elements,
            "peak_resident_bytes": run.peak_resident_bytes,
        }
        report["times_faster_than_mpyc"] = run.seconds / median_s
        report["times_less_processor_time_than_mpyc"] = run.processor_s / report["processor_s"]
    return report


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operation", choices=OPERATIONS, default="less")
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3, help="after a first one, which opens the streams")
    parser.add_argument("--proven", action="store_true", help="prove bits and products, as where members may deviate")
    parser.add_argument("--peer", choices=("mpyc",), help="run its `less` or `sort` beside, on the same integers")
    options = parser.parse_args(arguments)
    if options.peer and options.operation not in ("less", "sort"):
        parser.error(f"MPyC's {options.operation} is not run beside")
    if options.peer:
        try:
            ensure_mpyc()
        except PeerUnavailableError as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(UNAVAILABLE)
    sys.stdout.write(json.dumps({**measure(options), "machine": describe_machine()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
