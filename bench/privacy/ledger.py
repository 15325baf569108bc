"""The privacy ledger: jobs reserved and committed per second with full durability, and accounting of many events.

    python -m bench.privacy.ledger
    python -m bench.privacy.ledger --threads 1,8,32 --jobs 4000 --folder /where/the/ledger/lies
    python -m bench.privacy.ledger --format json

A job is one `reserve` and one `commit`, each on disk when it returns: the transaction of the database and after it the
counter. With one thread that is four waits for the disk per job; threads share them. What one wait costs here is
measured beside it, as it depends on the disk alone. The accounting composes 10,000 releases of five kinds, each with
another cost, in Renyi divergences of both views, from their records to epsilon, once with nothing cached.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import attr

from bench.machine import describe_machine
from dp.cost.accounting import Adjacency
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import PrivacyEvent
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.events.record import record_of
from dp.cost.events.skellam import SkellamDpEvent
from dp.cost.job_cost import JobCost
from dp.cost.views import ADJACENCY, UNIT, VIEWS
from dp.mechanism.gram import NoisyGram
from ledger.budget import Budget
from ledger.entry import Reserved
from ledger.ledger import Ledger, open_ledger
from ledger.spending import Spending, spending_of

N_EVENTS = 10_000
TABLE = "people"


def wait_for_disk_s(folder: Path, repeats: int = 100) -> float:
    """Return the median time of one small write and fdatasync."""
    times = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(repeats):
            started_s = time.perf_counter()
            file.write(b"x" * 64)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started_s)
    return sorted(times)[repeats // 2]


def jobs_per_second(folder: Path, n_threads: int, n_jobs: int) -> float:
    """Reserve and commit so many jobs from so many threads, on a fresh ledger."""
    folder.mkdir()
    ledger = open_ledger("bench", path=folder / "ledger", url=None, counter=folder / "counter", holder="bench")
    ledger.set_budget(TABLE, Budget(UNIT, "bench", 1e6, 1e-6), "measurement")
    release = NoisyGram(50, 4096**2, 3, 1, 10**20)
    cost = JobCost.of(release.events, UNIT, 1)

    def work(thread: int) -> None:
        for i in range(n_jobs // n_threads):
            job_id = f"job-{thread}-{i}"
            ledger.reserve(job_id, dataset=TABLE, analyst="ada", analysis="pca", consent="policy", cost=cost)
            ledger.commit(job_id)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(n_threads)]
    started_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed_s = time.perf_counter() - started_s
    _check(ledger, n_jobs // n_threads * n_threads)
    ledger.close()
    return n_jobs // n_threads * n_threads / elapsed_s


def _check(ledger: Ledger, n_jobs: int) -> None:
    balance = ledger.balance(TABLE)
    if ledger.verify().sequence != 2 * n_jobs + 1 or balance is None or balance.n_committed != n_jobs:
        raise SystemExit("the ledger does not hold what was written")


def accounting_s() -> tuple[float, float]:
    """Return the processor time from 10,000 distinct records to one epsilon, and that epsilon."""
    events: list[PrivacyEvent] = []
    for i in range(N_EVENTS // 5):
        mu = 10**8 + i
        costs = (Fraction(1, mu), Fraction(1, mu**2), Fraction(1, mu), Fraction(1, mu**2))
        events += [
            NoisyGram(2 + i % 50, 4096**2, 3, 1, 10**17 + 2 * i).events("coalition")[0],
            SkellamDpEvent(*costs, Adjacency.REPLACE_ONE),  # sums of integers: scalar releases
            DiscreteGaussianDpEvent(Fraction(1, mu), Adjacency.REPLACE_ONE),
            DiscreteLaplaceDpEvent(1, Fraction(mu), Adjacency.REPLACE_ONE),
            RandomizedResponseDpEvent(4, Fraction(mu + 1, 4 * mu)),
        ]
    jobs = [
        Reserved(
            str(number), TABLE, "ada", "pca", "bench", "policy", UNIT,
            {view: (record_of(attr.evolve(event, adjacency=ADJACENCY[view])),) for view in VIEWS}, 1,
        )
        for number, event in enumerate(events)
    ]  # fmt: skip
    started_s = time.process_time()
    total = Spending()
    for job in jobs:
        total += spending_of(job)
    epsilon = total.epsilon(1e-6)
    return time.process_time() - started_s, epsilon


def measure(folder: Path, threads: Sequence[int], n_jobs: int) -> dict[str, Any]:
    """Return all numbers as JSON data."""
    rates = {str(n): jobs_per_second(folder / f"threads-{n}", n, n_jobs) for n in threads}
    seconds, epsilon = accounting_s()
    return {
        "machine": describe_machine(),
        "wait_for_disk_ms": 1000 * wait_for_disk_s(folder),
        "jobs": n_jobs,
        "jobs_per_second_by_threads": rates,
        "accounting": {"events": N_EVENTS, "seconds": seconds, "epsilon": epsilon},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,16,64", help="numbers of threads, with commas")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured; default: the temporary folder")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        report = measure(Path(folder), [int(n) for n in options.threads.split(",")], options.jobs)
    if options.format == "json":
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
        return
    sys.stdout.write(f"one wait for the disk: {report['wait_for_disk_ms']:.2f} ms\n")
    for n_threads, rate in report["jobs_per_second_by_threads"].items():
        sys.stdout.write(f"reserve + commit, {n_threads:>3} threads: {rate:8.0f} jobs per second\n")
    accounting = report["accounting"]
    sys.stdout.write(
        f"accounting of {accounting['events']} distinct events: {accounting['seconds']:.2f} s of one processor\n"
    )


if __name__ == "__main__":
    main()
