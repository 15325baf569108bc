"""Revealed matching among separate processes: processor time beside that of its exponentiations, bytes, memory.

    python -m bench.protocols.matching --ids 100000 --parties 3

With `--strict` by exponentiations for each id, as strict jobs and those of few ids do; else as any job of so many ids.
N processes that join each other with `transport.messages.mesh`, mutual TLS on loopback, each an owner of so many ids,
half of which all have. Each measures what one exponentiation costs it, before and after, while the others do the same.
`processor_s` is what all processes spend in the match, `processor_s_of_an_owner` the most of one. Bytes are what the
sessions count, and must be what `sent_bytes` says; memory counts each process from its start, and `match_bytes` what
the match added. Every party checks its rows. Where the match takes exponentiations for each id, `exponentiations_s` is
their number, all parties together, times what one costs, and `exponentiations_in_match_s` what they took in the match.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from bench.machine import describe_machine
from bench.members import WrongResultError, run_members
from mpc.matching.revealed import by_transfers, sent_bytes


def n_exponentiations(n_ids: int, n_parties: int) -> int:
    """Return the number of exponentiations of a match of equal sizes, all parties together."""
    return n_ids * (n_parties + 2 * (n_parties - 1))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the parties, and add up what they measured."""
    strict = ["--strict"] if options.strict else []
    reports = run_members("bench.protocols.matching_member", options.parties, ["--ids", options.ids, *strict])
    owners = range(1, options.parties + 1)
    sizes = dict.fromkeys(owners, options.ids)
    sent = {number: report["sent_bytes"] for number, report in enumerate(reports, start=1)}
    formula = sent_bytes(owners, sizes, strict=options.strict)
    if sent != formula:
        raise WrongResultError(f"the parties sent {sent} bytes, the formula says {formula}")

    def total(name: str) -> float:
        return float(sum(report[name] for report in reports))

    report = {
        "bench": "matching",
        "ids": options.ids,
        "parties": options.parties,
        "matched": reports[0]["matched"],
        "seconds": max(report["seconds"] for report in reports),
        "processor_s": total("processor_s"),
        "processor_s_of_an_owner": max(report["processor_s"] for report in reports),
        "exponentiation_us": total("exponentiation_us") / len(reports),
        "sent_bytes": sent,
        "peak_resident_bytes": max(report["peak_resident_bytes"] for report in reports),
        "match_bytes": max(report["match_bytes"] for report in reports),
    }
    if not by_transfers(owners, sizes, strict=options.strict):
        n = n_exponentiations(options.ids, options.parties)
        report |= {
            "exponentiations": n,
            "exponentiations_s": n * report["exponentiation_us"] / 1e6,
            "exponentiations_in_match_s": total("exponentiations_in_match_s"),
            "hashes_to_the_group_s": options.ids * total("hash_us") / 1e6,
            "ratio": total("processor_s") / (n * report["exponentiation_us"] / 1e6),
        }
    return report


def as_text(report: dict[str, Any]) -> str:
    """Return the lines that people read."""
    sent = max(report["sent_bytes"].values()) / report["ids"]
    resident, added = report["peak_resident_bytes"] / 1e6, report["match_bytes"] / 1e6
    lines = [
        f"{report['ids']:,} ids of each of {report['parties']} parties, {report['matched']:,} matched:",
        f"  {report['processor_s']:.1f} s of processors, {report['processor_s_of_an_owner']:.1f} s of one party",
        f"  {report['seconds']:.1f} s by the clock; one exponentiation takes {report['exponentiation_us']:.1f} us",
        f"  {sent:.1f} bytes per id by the party that sends most, as the formula says",
        f"  {resident:.0f} MB resident at most, {added:.0f} MB of them by the match",
    ]
    if "ratio" in report:
        lines.append(f"  {report['ratio']:.3f} times its {report['exponentiations']:,} exponentiations")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=100_000, help="of each party")
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--strict", action="store_true", help="by exponentiations for each id")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    report = {**measure(options), "machine": describe_machine()}
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
