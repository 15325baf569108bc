"""Random programs on shares against Python's integers and fractions, N = 3 to 9, every t.

    python -m bench.circuits.random_programs --programs 5000
    python -m bench.circuits.random_programs --programs 200 --over grpc

In one process, or as N processes that join each other over mutual TLS. A program that comes to anything else than it
should ends the run, named by its number, which `--first` takes.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.circuits.random_programs_member import FIELD, ROSTERS, counts_of, roster_of, run
from bench.machine import describe_machine
from bench.members import WrongResultError, run_members
from entropy import SystemEntropy
from mpc.errors import ProtocolError
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program
from mpc.protocol.computation import Computation

DEADLINE_S = 3600.0
"""Seconds for which a member waits for another: nine of them on a busy machine are slow."""


def run_here(seed: int) -> None:
    """Run one program, all members in this process.

    Raises:
        WrongResultError, ProtocolError: see `run`.
    """
    n_parties, t = roster_of(seed)

    async def program(c: Computation, mine: object) -> None:
        await run(c, seed)

    network = LocalNetwork(local_names(n_parties), deadline_s=DEADLINE_S, entropy_of=lambda _: SystemEntropy())
    ends = asyncio.run(run_program(network, program, {}, field=FIELD, n_parties=n_parties, t=t))
    for error in ends.values():
        if isinstance(error, ProtocolError):
            error.add_note(f"program {seed}")
            raise error


def run_over_grpc(first: int, last: int) -> None:
    """Run programs as processes, one mesh for each number of parties.

    Raises:
        WrongResultError: a party failed; it has said why.
    """
    expected = Counter(roster_of(seed)[0] for seed in range(first, last))
    for n_parties, n_programs in sorted(expected.items()):
        arguments = ["--first", first, "--last", last]
        reports = run_members("bench.circuits.random_programs_member", n_parties, arguments, timeout_s=DEADLINE_S)
        if any(report["programs"] != n_programs for report in reports):
            raise WrongResultError(f"{n_parties} parties ran other programs than {n_programs}")


def measure(first: int, n_programs: int, over: str) -> dict[str, Any]:
    """Run programs and return what they were."""
    started_s, worked_s, seeds = time.perf_counter(), time.process_time(), range(first, first + n_programs)
    if over == "grpc":
        run_over_grpc(first, first + n_programs)
    else:
        for seed in seeds:
            run_here(seed)
    rosters = Counter(map(roster_of, seeds))
    return {
        "bench": "random-programs",
        "over": over,
        "first": first,
        "programs": n_programs,
        "agree": n_programs,
        "by_roster": {f"N = {n}, t = {t}": rosters[n, t] for n, t in ROSTERS},
        "by_operation": counts_of(seeds),
        "seconds": time.perf_counter() - started_s,
        "processor_s": time.process_time() - worked_s,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--over", choices=("process", "grpc"), default="process")
    options = parser.parse_args(arguments)
    report = measure(options.first, options.programs, options.over)
    sys.stdout.write(json.dumps({**report, "machine": describe_machine()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
