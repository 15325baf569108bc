"""A noisy Gram matrix by the services, from the job's acceptance to its result, alone or beside MPyC.

    python -m bench.jobs.gram --rows 10000 --columns 100 --parties 3 --peer mpyc
    python -m bench.jobs.gram --kdd
    python -m bench.jobs.gram --kdd --moments

Ours: a coordinator and N parties as separate processes, mutual TLS on loopback, one BLAS thread each, a PCA job
submitted as an analyst submits it. The time runs from the answer to the submission until the result has arrived:
proposal, planning, agreement on keys, check of the rows, quantisation, sharing, multiplication, noise, opening,
eigenvectors. The first job is a warm-up, reported as `first_job_s`; it alone reads the tables, which parties remember.

Processor seconds are those of a whole job at a service, parsing of messages, TLS and housekeeping included, in the
mean over the jobs after the first.

MPyC: N processes, TCP on loopback without TLS, the same integers, t = (N - 1) // 2; the time runs from the inputs until
X^T X, without noise, is known to all. The two take turns, so that both meet the same load of the machine. Bytes and
memory are those of the party that sends or keeps most.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from analyses.job.job import Job, JobInput, PrivacyTarget
from analyses.pca.protocol import PcaPlan, plan
from analyses.rows.joint_computation import ROWS_PER_BLOCK
from bench.datasets.order import trusted_order
from bench.datasets.tables import Tables, kdd_tables, synthetic_tables
from bench.jobs.cell_floor import floor_ns
from bench.jobs.federation import JobRun, running_federation
from bench.machine import describe_machine
from bench.peers.environment import UNAVAILABLE, PeerUnavailableError
from bench.peers.mpyc_environment import PeerRun, ensure_mpyc, run_peer
from demo.local_deployment import largest_delta
from mpc.arithmetic.compact import CompactForm, has_compact_form
from mpc.arithmetic.field import ResidueField

GAMMA = 4096
DELTA = 1e-6
MAX_NOISE_UNITS = 4.0
"""The spectral norm of the noise is near 2 units, with deviations of order n^(-2/3): see `check_result`."""


class WrongResultError(RuntimeError):
    """A result that the noise does not explain."""


@dataclass(frozen=True)
class Blocks:
    """What is measured: files, the plan of their job, and the integers that the parties share.

    Attributes:
        tables: per party.
        plan: as all participants compute it.
        integers: per party, shape (rows, its columns).
    """

    tables: Tables
    plan: PcaPlan
    integers: list[NDArray[np.int64]]

    @classmethod
    def of(cls, tables: Tables, *, epsilon: float) -> "Blocks":
        """Plan a PCA with default bounds; the public bound of the rows is the next power of two."""
        rows = tables[0][1].n_rows
        job = Job(
            analysis="pca",
            inputs=tuple(JobInput(party=table.schema.party, table=file.name) for file, table in tables),
            **trusted_order(table.schema for _, table in tables),
            deadline_s=120.0,
            anyway=True,  # what is measured is time: of few rows nothing may be seen in the noise
            privacy=PrivacyTarget(epsilon=epsilon, delta=min(DELTA, largest_delta(rows))),
            parameters={
                "components": min(5, sum(table.values.shape[1] for _, table in tables)),
                "center": False,
                "gamma": GAMMA,
                "max_rows": 1 << (rows - 1).bit_length(),
            },
        )
        planned = plan(job, [table.schema for _, table in tables])
        owners = zip(planned.owners, tables, strict=True)
        integers = [planned.quantiser_of(owner).quantise(table.values)[0] for owner, (_, table) in owners]
        return cls(tables, planned, integers)

    def exact_gram(self) -> NDArray[np.int64]:
        """Return X^T X of the integers, in plain NumPy; float64 holds it exactly."""
        rows = np.hstack(self.integers).astype(np.float64)
        return (rows.T @ rows).astype(np.int64)


def check_result(result: dict[str, Any], blocks: Blocks, exact_gram: NDArray[np.int64]) -> float:
    """Compare the released eigenvalues with those of the exact matrix; return the largest difference.

    By Weyl's inequality no eigenvalue moves by more than the spectral norm of the noise, a symmetric matrix with
    independent entries of deviation s off the diagonal and sqrt(2) s on it: 2 s sqrt(n) in the limit of large n. The
    difference is returned in units of s sqrt(n).

    Raises:
        WrongResultError: it is more than 4 units.
    """
    planned = blocks.plan
    scale = (planned.row_norm / planned.params.gamma) ** 2
    exact = np.linalg.eigvalsh(exact_gram.astype(np.float64))[::-1] * scale
    off_diagonal_deviation = np.sqrt(planned.mechanism.unknown_mu("coordinator")) * scale
    unit = off_diagonal_deviation * np.sqrt(len(exact))
    error = float(np.abs(np.array(result["eigenvalues"]) - exact).max() / unit)
    if error > MAX_NOISE_UNITS:
        raise WrongResultError(f"an eigenvalue is {error:.1f} s sqrt(n) from that of the exact matrix")
    return error


def expected_bytes(blocks: Blocks) -> dict[str, int]:
    """Return what each compute party sends by the formula of the design, in bytes.

    N - t words per element of its columns, one less because it holds a share itself (with 1 or 4 primes these are
    elements in compact form); per entry of the triangle one element of the opening and N - 1 - 2t of noise.
    """
    planned = blocks.plan
    n, t = planned.n_parties, planned.job.t
    n_columns = len(planned.column_names)
    field = ResidueField(planned.n_primes)
    triangle = n_columns * (n_columns + 1) // 2 * (n - 2 * t)

    def row_words(integers: NDArray[np.int64]) -> int:
        if not has_compact_form(field):
            return field.n_words * integers.size
        in_block = (integers[at : at + ROWS_PER_BLOCK].size for at in range(0, len(integers), ROWS_PER_BLOCK))
        return sum(map(CompactForm(field).n_words, in_block))

    return {
        planned.schemas[owner - 1].party: 8 * (row_words(integers) * (n - t - 1) + triangle * field.n_words)
        for owner, integers in zip(planned.owners, blocks.integers, strict=True)
        if owner <= n
    }


def floor_s(blocks: Blocks, repeats: int) -> float:
    """Return the least processor seconds of a compute party, see `bench.jobs.cell_floor`."""
    n_columns = len(blocks.plan.column_names)
    n_cells = len(blocks.integers[0]) * n_columns
    with threadpool_limits(1):
        return 1e-9 * n_cells * sum(floor_ns(n_columns, blocks.plan.n_primes, repeats).values())


def numpy_s(blocks: Blocks, repeats: int) -> float:
    """Return the median seconds of the same product of float64 numbers in one process, one thread: NumPy alone."""
    rows = np.hstack(blocks.integers).astype(np.float64)
    taken = []
    with threadpool_limits(1):
        for _ in range(repeats):
            started_s = time.perf_counter()
            rows.T @ rows
            taken.append(time.perf_counter() - started_s)
    return statistics.median(taken)


async def beside_moments(blocks: Blocks, repeats: int) -> dict[str, Any]:
    """Return processor and other seconds of the PCA and of a release of second moments of the same tables, in turns."""
    pca = blocks.plan.job
    kept = {"gamma": GAMMA, "max_rows": pca.parameters["max_rows"]}
    jobs = {"pca": pca, "second-moments": pca.model_copy(update={"analysis": "second-moments", "parameters": kept})}
    seconds, used_s = ({name: list[float]() for name in jobs} for _ in range(2))
    async with running_federation({table.schema.party: [file] for file, table in blocks.tables}) as federation:
        for turn in range(repeats + 1):
            for name, job in jobs.items():
                before_s = sum(federation.processor_s().values())
                run = await federation.run(job)
                if turn:  # the first jobs read the tables
                    seconds[name].append(run.seconds)
                    used_s[name].append(sum(federation.processor_s().values()) - before_s)
    medians = {name: statistics.median(found) for name, found in used_s.items()}
    times = medians["second-moments"] / medians["pca"]
    return {"seconds": seconds, "processor_s": used_s, "times_the_processor_of_pca": times}


async def measure(blocks: Blocks, *, repeats: int, peer_repeats: int) -> dict[str, Any]:
    """Run a warm-up job, then `repeats` jobs, the first `peer_repeats` of them each followed by a run of MPyC."""
    exact_gram = blocks.exact_gram()
    files = {table.schema.party: [file] for file, table in blocks.tables}
    ours: list[JobRun] = []
    theirs: list[PeerRun] = []
    async with running_federation(files) as federation:
        first = await federation.run(blocks.plan.job)
        used_before_s, threads_before_s = federation.processor_s(), federation.threads_s()
        for number in range(repeats):
            ours.append(await federation.run(blocks.plan.job))
            if number < peer_repeats:
                theirs.append(await asyncio.to_thread(run_peer, "mpyc_gram.py", blocks.integers, len(blocks.integers)))
        used_s = {name: (s - used_before_s[name]) / repeats for name, s in federation.processor_s().items()}
        threads_used_s = federation.threads_s()
        peak_resident = federation.peak_resident_bytes()
    error = max(check_result(run.result, blocks, exact_gram) for run in (first, *ours))
    seconds = [run.seconds for run in ours]
    report: dict[str, Any] = {
        "seconds": statistics.median(seconds),
        "all_seconds": seconds,
        "first_job_s": first.seconds,
        "processor_s": {
            "party": statistics.mean(used_s[name] for name in files),
            "coordinator": used_s["coordinator"],
            "all": sum(used_s.values()),
        },
        "threads_s": {
            kind: statistics.mean(threads_used_s[name][kind] - threads_before_s[name][kind] for name in files) / repeats
            for kind in threads_used_s["coordinator"]
        },
        "floor_s": floor_s(blocks, repeats),
        "numpy_s": numpy_s(blocks, repeats),
        "sent_bytes": max(max(run.sent_bytes.values()) for run in ours),
        "wire_bytes": max(max(run.wire_bytes.values()) for run in ours),
        "sent_to_formula": max(
            run.sent_bytes[name] / expected for run in ours for name, expected in expected_bytes(blocks).items()
        ),
        "wire_to_formula": max(
            run.wire_bytes[name] / expected for run in ours for name, expected in expected_bytes(blocks).items()
        ),
        "peak_resident_bytes": max(peak_resident[name] for name in files),
        "coordinator_peak_resident_bytes": peak_resident["coordinator"],
        "n_primes": blocks.plan.n_primes,
        "largest_eigenvalue_error_in_noise_units": error,
    }
    if theirs:
        if not all(np.array_equal(run.result, exact_gram) for run in theirs):
            raise WrongResultError("MPyC computed another matrix than NumPy")
        peer_seconds = [run.seconds for run in theirs]
        report["mpyc"] = {
            "seconds": statistics.median(peer_seconds),
            "all_seconds": peer_seconds,
            "sent_bytes": max(run.sent_bytes for run in theirs),
            "peak_resident_bytes": max(run.peak_resident_bytes for run in theirs),
        }
        report["times_faster_than_mpyc"] = report["mpyc"]["seconds"] / report["seconds"]
    return report


def as_text(report: dict[str, Any]) -> str:
    """Return the lines that people read."""
    used = report["processor_s"]
    lines = [
        f"{report['rows']} x {report['columns']}, {report['parties']} parties, median of {len(report['all_seconds'])}:",
        _line("ours", report) + f"; first job {report['first_job_s']:.2f} s",
        f"  processor time: {1e3 * used['party']:.0f} ms of a party, {1e3 * used['all']:.0f} ms of all services",
    ]
    if "mpyc" in report:
        lines.append(_line("MPyC", report["mpyc"]) + f"; {report['times_faster_than_mpyc']:.1f} times our time")
    return "\n".join(lines)


def _line(who: str, report: dict[str, Any]) -> str:
    sent, resident = report["sent_bytes"] / 1e6, report["peak_resident_bytes"] / 1e6
    return (
        f"  {who}: {report['seconds']:.3f} s, {sent:.2f} MB payload sent by a party, {resident:.0f} MB resident at most"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--kdd", action="store_true", help="the KDD table, 145,586 x 118, at its three parties")
    parser.add_argument("--peer", choices=("mpyc",), help="run it beside, on the same integers")
    parser.add_argument(
        "--moments", action="store_true", help="a release of second moments beside the PCA; prints JSON"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-repeats", type=int, default=1, help="at most as many as ours")
    parser.add_argument("--epsilon", type=float, default=1.0, help="of the job; it does not change the time")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    if options.peer:
        try:
            ensure_mpyc()
        except PeerUnavailableError as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(UNAVAILABLE)
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as name:
        folder = Path(name)
        if options.kdd:
            tables = kdd_tables(folder)
        else:
            tables = synthetic_tables(folder, rows=options.rows, columns=options.columns, parties=options.parties)
        blocks = Blocks.of(tables, epsilon=options.epsilon)
        if options.moments:
            found = asyncio.run(beside_moments(blocks, options.repeats))
            sys.stdout.write(json.dumps({**found, "machine": describe_machine()}, indent=2) + "\n")
            return
        peer_repeats = min(options.peer_repeats, options.repeats) if options.peer else 0
        measured = asyncio.run(measure(blocks, repeats=options.repeats, peer_repeats=peer_repeats))
    report = {
        "bench": "gram",
        "table": "kdd" if options.kdd else "synthetic",
        "rows": tables[0][1].n_rows,
        "columns": len(blocks.plan.column_names),
        "parties": len(tables),
        **measured,
        "machine": describe_machine(),
    }
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
