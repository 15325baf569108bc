"""Matrix factorization: what rounds take at ten million ratings, what a party sends, how long recommendations take.

python -m bench.utility.factor_speed                    three parties, 1e7 ratings of 69,878 users about 10,677 items
python -m bench.utility.factor_speed --ratings 100000   fewer

All members run one after another in this process, with real masked sums; `--steps` names what is measured. Processor
seconds stand beside wall time: where a machine is shared, only they can be compared. "Kernel" is what a member computes
from its ratings in a round, "masking" what a masked sum of that length takes beside it: noise, masks, messages, and the
removal of noise in excess, for one member and its part of the coordinator's work.
"""

import argparse
import asyncio
import json
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyses.job.job import Job
from analyses.job.ratings import RatingRows, RatingsSchema, digest_of_items
from analyses.job.schema import BlockSchema, Table
from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.horizontal import member_vector
from analyses.matrix_factorization.job_plan import FactorJobPlan
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.protocol import read_table
from analyses.matrix_factorization.serving.recommend import recommend
from analyses.run_locally import local_network, run_plan
from analyses.sums.round import ring_for
from bench.machine import describe_machine
from mpc.protocol.session import COORDINATOR
from mpc.secagg.vector.bit_packing import packed_bytes

N_USERS, N_ITEMS, N_RATINGS, N_PARTIES = 69_878, 10_677, 10_000_000, 3
BOUNDS = (0.5, 5.0)
SCHEDULES = {"offsets": {"rank": 0}, "p = 8, T = 5": {"rank": 8, "rounds": 5}}
STEPS = ("kernel", "job", "recommend")


@dataclass(frozen=True)
class Took:
    """What something took.

    Attributes:
        seconds: wall time.
        processor_s: of this process.
    """

    seconds: float
    processor_s: float


def timed(run: Callable[[], Any]) -> tuple[Any, Took]:
    """Return what `run` returns, and what it took."""
    started, started_processor = time.perf_counter(), time.process_time()
    found = run()
    return found, Took(time.perf_counter() - started, time.process_time() - started_processor)


def tables_of(n_ratings: int, n_users: int = N_USERS, n_items: int = N_ITEMS) -> dict[str, Table]:
    """Return three parties' ratings, each of a third of the users; items are as popular as in a catalogue."""
    rng = np.random.default_rng(1)
    popularity = rng.exponential(size=n_items) ** 2 + 0.01
    bounds = np.cumsum(popularity / popularity.sum())
    ratings_per_user = max(1, n_ratings // n_users)
    found = {}
    for party in range(N_PARTIES):
        own_users = len(range(party, n_users, N_PARTIES))
        n_own = own_users * ratings_per_user
        # Drawn a tenth too many, of which repeated pairs are dropped.
        users = np.repeat(np.arange(own_users), -(-ratings_per_user * 11 // 10))
        items = np.minimum(np.searchsorted(bounds, rng.random(len(users))), n_items - 1)
        key = np.unique(users * n_items + items)
        key = np.sort(rng.choice(key, size=min(n_own, len(key)), replace=False))
        values = rng.integers(1, 11, len(key)) / 2
        names = tuple(f"{user:06d}" for user in range(own_users))
        rows = RatingRows((key // n_items).astype(np.int64), (key % n_items).astype(np.int64), values, names)
        declared = RatingsSchema(
            items=n_items,
            items_digest=digest_of_items(n_items),
            users=own_users,
            ratings_per_user=ratings_per_user,
            lower=BOUNDS[0],
            upper=BOUNDS[1],
        )
        name = f"party-{party + 1}"
        schema = BlockSchema(party=name, ratings=declared)
        found[name] = Table(schema, np.empty((len(rows.values), 0)), ratings=rows)
    return found


def plan_of(tables: dict[str, Table], parameters: dict[str, Any]) -> FactorJobPlan:
    """Return the plan of a job with all of these parties."""
    job = Job.model_validate(
        {
            "analysis": protocol.NAME,
            "inputs": [{"party": name, "table": "ratings"} for name in tables],
            "privacy": {"epsilon": 4.0, "delta": 1e-6},
            "parameters": {"setting": "horizontal", **parameters},
        }
    )
    return protocol.plan(job, [table.schema for table in tables.values()])


def kernels(tables: dict[str, Table], repeats: int) -> dict[str, Any]:
    """Return what one party computes in a round, scaled to a million ratings; medians."""
    plan = plan_of(tables, SCHEDULES["p = 8, T = 5"])
    table = next(iter(tables.values()))
    own, read = timed(lambda: read_table(plan, table))
    rng = np.random.default_rng(2)
    n_items = len(rng.random(plan.factors.params.n_items))
    model = FactorModel.nearest(0.3 * rng.normal(size=n_items), 0.2 * rng.normal(size=(n_items, 8)), 1 << 12)
    million = own.ratings.n_ratings / 1e6
    found: dict[str, Any] = {"ratings_of_a_party": own.ratings.n_ratings, "reading_processor_s": read.processor_s}
    for what, t in (("offsets", 0), ("p = 8", 1)):
        times = [
            timed(lambda t=t: member_vector(plan.factors, t, model if t else None, own.ratings, Prior()))[1]
            for _ in range(repeats + 1)
        ][1:]
        found[what] = {
            "processor_s_per_million": statistics.median(took.processor_s for took in times) / million,
            "seconds_per_million": statistics.median(took.seconds for took in times) / million,
        }
    return found


def job(tables: dict[str, Table], parameters: dict[str, Any]) -> dict[str, Any]:
    """Return what a whole job takes, all members in this process, and what a party sends to the coordinator."""
    plan = plan_of(tables, parameters)
    network = local_network(plan)
    network.transcript = _Forgetful()
    run, took = timed(lambda: asyncio.run(run_plan(plan, tables, network, analysis=protocol.ANALYSIS)))
    if run.failures:
        raise run.failures[0]
    sent = max(size for number, size in network.sent_bytes.items() if number != COORDINATOR)
    return {
        "seconds": took.seconds,
        "processor_s": took.processor_s,
        "processor_s_per_party": took.processor_s / N_PARTIES,
        "sent_bytes_of_a_party": sent,
        "rounds": plan.n_sums,
        "masked_vector_bytes": [masked_bytes(plan, number) for number in range(plan.n_sums)],
        "peak_resident_bytes_of_all_members": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def masked_bytes(plan: FactorJobPlan, number: int) -> int:
    """Return the bytes of a party's masked vector in a round: as many bits per number as the round's ring has."""
    noise = plan.sum_noises[number].noise
    return packed_bytes(noise.length, ring_for(plan.n_parties, plan.encoding(number), noise).bits)


def recommendations(n_items: int = 10_000, rank: int = 8, repeats: int = 50) -> dict[str, float]:
    """Return the median time of one user's ten best of so many items, the user's own solve included."""
    rng = np.random.default_rng(3)
    model = FactorModel.nearest(0.3 * rng.normal(size=n_items), 0.2 * rng.normal(size=(n_items, rank)), 1 << 12)
    rated = rng.choice(n_items, 140, replace=False)
    values = rng.integers(1, 11, 140) / 2

    def once() -> object:
        return recommend(model, rated, values, top=10, centre=2.75, bounds=BOUNDS, prior=Prior())

    times = [timed(once)[1] for _ in range(repeats)]
    return {
        "milliseconds": 1e3 * statistics.median(took.seconds for took in times),
        "processor_milliseconds": 1e3 * statistics.median(took.processor_s for took in times),
    }


class _Forgetful(list[Any]):
    """A transcript that keeps nothing."""

    def append(self, message: object) -> None:
        del message


def main() -> None:
    """Measure and print the report as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.utility.factor_speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ratings", type=int, default=N_RATINGS)
    parser.add_argument("--users", type=int, default=N_USERS)
    parser.add_argument("--items", type=int, default=N_ITEMS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": describe_machine(), "ratings": options.ratings}
    if {"kernel", "job"} & set(options.steps):
        tables = tables_of(options.ratings, options.users, options.items)
        if "kernel" in options.steps:
            report["kernel"] = kernels(tables, options.repeats)
        if "job" in options.steps:
            report["jobs"] = {name: job(tables, parameters) for name, parameters in SCHEDULES.items()}
    if "recommend" in options.steps:
        report["recommendations"] = recommendations()
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
