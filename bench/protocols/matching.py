"""Revealed matching among separate processes: processor time beside that of its exponentiations, bytes, memory.

    python -m bench.protocols.matching --ids 100000 --parties 3

N processes that join each other with `transport.messages.mesh`, mutual TLS on loopback, each an owner of so many ids,
half of which all have. Each measures what one exponentiation costs it, before and after, while the others do the same;
`exponentiations_s` is that times their number in the protocol, all parties together. `exponentiations_in_match_s` is
what they took in the match itself, among other threads. `processor_s` is what all processes spend in the match. Bytes
are what the sessions count, and must be what `sent_bytes` says; memory counts each process from its start, and
`match_bytes` what the match added. Every party checks its rows.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from bench.machine import describe_machine
from bench.members import WrongResultError, run_members
from mpc.matching.revealed import sent_bytes


def n_exponentiations(n_ids: int, n_parties: int) -> int:
    """Return the number of exponentiations of a match of equal sizes, all parties together."""
    return n_ids * (n_parties + 2 * (n_parties - 1))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the parties, and add up what they measured."""
    reports = run_members("bench.protocols.matching_member", options.parties, ["--ids", options.ids])
    owners = range(1, options.parties + 1)
    sizes = dict.fromkeys(owners, options.ids)
    sent = {number: report["sent_bytes"] for number, report in enumerate(reports, start=1)}
    if sent != sent_bytes(owners, sizes):
        raise WrongResultError(f"the parties sent {sent} bytes, the formula says {sent_bytes(owners, sizes)}")

    def total(name: str) -> float:
        return float(sum(report[name] for report in reports))

    exponentiation_us = total("exponentiation_us") / len(reports)
    hash_us = total("hash_us") / len(reports)
    n = n_exponentiations(options.ids, options.parties)
    return {
        "bench": "matching",
        "ids": options.ids,
        "parties": options.parties,
        "matched": reports[0]["matched"],
        "seconds": max(report["seconds"] for report in reports),
        "processor_s": total("processor_s"),
        "exponentiations": n,
        "exponentiation_us": exponentiation_us,
        "exponentiations_s": n * exponentiation_us / 1e6,
        "exponentiations_in_match_s": total("exponentiations_in_match_s"),
        "hashes_to_the_group_s": options.ids * options.parties * hash_us / 1e6,
        "ratio": total("processor_s") / (n * exponentiation_us / 1e6),
        "sent_bytes": sent,
        "peak_resident_bytes": max(report["peak_resident_bytes"] for report in reports),
        "match_bytes": max(report["match_bytes"] for report in reports),
    }


def as_text(report: dict[str, Any]) -> str:
    """Return the lines that people read."""
    sent = max(report["sent_bytes"].values()) / report["ids"]
    cost = f"{report['exponentiations']:,} exponentiations of {report['exponentiation_us']:.1f} us"
    resident, added = report["peak_resident_bytes"] / 1e6, report["match_bytes"] / 1e6
    lines = [
        f"{report['ids']:,} ids of each of {report['parties']} parties, {report['matched']:,} matched:",
        f"  {report['processor_s']:.1f} s of processors, {report['ratio']:.3f} times its {cost}",
        f"  {report['seconds']:.1f} s by the clock",
        f"  {sent:.1f} bytes per id by the party that sends most, as the formula says",
        f"  {resident:.0f} MB resident at most, {added:.0f} MB of them by the match",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=100_000, help="of each party")
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    report = {**measure(options), "machine": describe_machine()}
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
