"""Element-wise products of secret arrays among separate processes, alone or beside MPyC.

    python -m bench.protocols.products --elements 1000000 --parties 3 --peer mpyc

Ours: N processes that join each other with `transport.messages.mesh`, mutual TLS on loopback, one BLAS thread each.
Parties 1 and 2 share an array each; the clock runs while all multiply and reduce to degree t, and every party checks
the opened result afterwards. MPyC, after ours: N processes, TCP on loopback without TLS, the same integers modulo 2^61
- 1, t = (N - 1) // 2. Seconds are the slowest party's, bytes and memory those of the party that sends or keeps most;
bytes count what the product alone sends, of ours both the payload and what leaves the sockets (`bench.wire`); memory
counts the whole process from its start.
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
from bench.peers.mpyc_environment import PeerRun, ensure_mpyc, run_peer
from bench.protocols.products_member import operand


def run_ours(n_elements: int, n_primes: int, n_parties: int, t: int, repeats: int) -> dict[str, Any]:
    """Run the parties, return what they measured: the slowest, the largest."""
    arguments = ["--elements", n_elements, "--primes", n_primes, "--colluding", t, "--repeats", repeats]
    reports = run_members("bench.protocols.products_member", n_parties, arguments)
    return {
        "all_seconds": [max(together) for together in zip(*(r["seconds"] for r in reports), strict=True)],
        "sent_bytes": max(r["sent_bytes"] for r in reports),
        "wire_bytes": max(r["wire_bytes"] for r in reports),
        "peak_resident_bytes": {
            when: max(r["peak_resident_bytes"][when] for r in reports) for when in ("imports", "inputs", "products")
        },
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run ours, and MPyC after it as often as asked."""
    t = (options.parties - 1) // 2
    ours = run_ours(options.elements, options.primes, options.parties, t, 1 + options.repeats)
    first_s, *seconds = ours["all_seconds"]
    median_s = statistics.median(seconds)
    report = {
        "bench": "products",
        "elements": options.elements,
        "parties": options.parties,
        "colluding": t,
        "primes": options.primes,
        "seconds": median_s,
        "all_seconds": seconds,
        "first_s": first_s,
        "products_per_s": options.elements / median_s,
        "sent_bytes_per_product": ours["sent_bytes"] / options.elements,
        "wire_bytes_per_product": ours["wire_bytes"] / options.elements,
        "peak_resident_bytes": ours["peak_resident_bytes"]["products"],
        "resident_bytes_after_imports": ours["peak_resident_bytes"]["imports"],
        "resident_bytes_after_inputs": ours["peak_resident_bytes"]["inputs"],
    }
    if options.peer:
        factors = [operand(dealer, options.elements) for dealer in (1, 2)]
        runs: list[PeerRun] = []
        for _ in range(options.peer_repeats):
            runs.append(run_peer("mpyc_elementwise.py", factors, options.parties, "multiply"))
            if not np.array_equal(_signed(runs[-1].result), factors[0] * factors[1]):
                raise WrongResultError("MPyC computed another product than NumPy")
        peer_s = statistics.median(run.seconds for run in runs)
        report["mpyc"] = {
            "seconds": peer_s,
            "all_seconds": [run.seconds for run in runs],
            "products_per_s": options.elements / peer_s,
            "sent_bytes_per_product": max(run.sent_bytes for run in runs) / options.elements,
            "peak_resident_bytes": max(run.peak_resident_bytes for run in runs),
        }
        report["times_faster_than_mpyc"] = peer_s / median_s
    return report


def _signed(values: np.ndarray) -> np.ndarray:
    """Return elements of MPyC's field, which counts from 0, as signed integers."""
    return np.where(values > (1 << 60), values - ((1 << 61) - 1), values)


def as_text(report: dict[str, Any]) -> str:
    """Return the lines that people read."""
    head = f"{report['elements']:,} products, {report['parties']} parties, t = {report['colluding']}"
    imports = f"({report['resident_bytes_after_imports'] / 1e6:.0f} MB after imports)"
    lines = [
        f"{head}, median of {len(report['all_seconds'])}:",
        f"{_line('ours', report)} {imports}; first {report['first_s']:.3f} s",
    ]
    if "mpyc" in report:
        lines.append(_line("MPyC", report["mpyc"]) + f"; {report['times_faster_than_mpyc']:.0f} times our time")
    return "\n".join(lines)


def _line(who: str, report: dict[str, Any]) -> str:
    speed, resident = report["products_per_s"] / 1e6, report["peak_resident_bytes"] / 1e6
    sent = f"{report['sent_bytes_per_product']:.2f} bytes per product"
    if "wire_bytes_per_product" in report:
        sent += f" ({report['wire_bytes_per_product']:.2f} on the wire)"
    return (
        f"  {who}: {report['seconds']:.3f} s, {speed:.3g} million per second, {sent}, "
        f"{resident:.0f} MB resident at most"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--primes", type=int, default=3, help="1 to 6: 21 bits each")
    parser.add_argument("--repeats", type=int, default=7, help="after a first one, which opens the streams")
    parser.add_argument("--peer", choices=("mpyc",), help="run it beside, on the same integers")
    parser.add_argument("--peer-repeats", type=int, default=1)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    if options.peer:
        try:
            ensure_mpyc()
        except PeerUnavailableError as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(UNAVAILABLE)
    report = {**measure(options), "machine": describe_machine()}
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
