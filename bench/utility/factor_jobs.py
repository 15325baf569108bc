"""Matrix factorization: the error of whole jobs of both forms, and what they take, with the defaults of a job.

python -m bench.utility.factor_jobs                 three parties, MovieLens 100K where it lies here, else InstEval
python -m bench.utility.factor_jobs --data insteval --parties 10
python -m bench.utility.factor_jobs --seeds 1       one split

All members run in this process, with real masked sums (`analyses.run_locally`). The error is that of what each party
keeps, after stage 3, on a tenth of the ratings that is left out; the target is the coordinator's view at delta 1e-5.
*alone* is that of what each party would keep by the same choice of rank and ridge if it joined nobody, without noise.
"""

import argparse
import asyncio
import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job
from analyses.job.ratings import RatingRows, RatingsSchema, digest_of_items
from analyses.job.schema import BlockSchema, Table
from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.own_factors import chosen, of_nothing
from analyses.run_locally import local_network, run_plan
from bench.datasets import bundled
from bench.machine import describe_machine
from bench.utility.factors import DELTA, PRIOR, SETS, Data, load
from demo.rating_errors import predicted_by

Floats = NDArray[np.float64]

EPSILONS = (8.0, 2.0)
WAYS: dict[str, dict[str, Any]] = {
    "horizontal, statistics": {"rank": 0},
    "horizontal, sgd, once": {"form": "sgd"},
    "horizontal, sgd, party": {"form": "sgd", "noise": "party", "steps": 4, "local_steps": 5},
    "vertical, statistics": {"setting": "vertical", "rank": 0, "rounds": 1},
    "vertical, sgd, once": {"form": "sgd", "setting": "vertical"},
    "vertical, sgd, party": {"form": "sgd", "setting": "vertical", "noise": "party", "steps": 10, "local_steps": 5},
}
"""Parameters of jobs; what they leave out is a default."""


def run(name: str, parameters: dict[str, Any], epsilon: float, seed: int, n_parties: int = 3) -> dict[str, float]:
    """Return the errors of a job and of parties alone, processor seconds of all, and bytes of a party's masked vectors.

    Args:
        name: of the data set.
        parameters: of the job.
        epsilon: of all rounds.
        seed: of the split, and of whose each item is.
        n_parties: that share all users, or items, evenly.
    """
    parties = [f"party-{k}" for k in range(n_parties)]
    data, centre = load(name, seed), SETS[name][1]
    is_vertical = parameters.get("setting") == "vertical"
    by = np.random.default_rng(seed).permutation(data.train.n_columns) if is_vertical else np.arange(data.train.n_rows)
    tables = {party: _table(data, centre, by % n_parties == k, is_vertical, party) for k, party in enumerate(parties)}
    job = Job.model_validate(
        {
            "analysis": "matrix-factorization",
            "inputs": [{"party": party, "table": "ratings"} for party in parties],
            "privacy": {"epsilon": epsilon, "delta": DELTA, "view": "coordinator"},
            "parameters": parameters,
        }
    )
    plan = protocol.plan(job, [tables[party].schema for party in parties])
    begun_s = time.process_time()
    ended = asyncio.run(run_plan(plan, tables, local_network(plan)))
    seconds = time.process_time() - begun_s
    rounds = range(len(ended.result["rounds"]))
    users, items, values = data.test
    predicted, alone = np.zeros(len(values)), np.zeros(len(values))
    for k, party in enumerate(parties):
        mine = by % n_parties == k
        here = mine[items if is_vertical else users]
        own, kept = protocol.read_table(plan, tables[party]), ended.reports[party].kept
        asked = users[here], (np.cumsum(mine) - 1)[items[here]] if is_vertical else items[here]
        predicted[here] = kept["centre"] + predicted_by(kept, own.ratings, *asked) - centre
        middle = sum(plan.bounds) / 2
        about = replace(own.ratings, deviations=own.ratings.deviations + plan.centre - middle)
        bounds = plan.bounds[0] - middle, plan.bounds[1] - middle
        found = chosen(about, [], of_nothing(about, PRIOR), bounds).fitted.predict(*asked)
        alone[here] = found + middle - centre
    return {
        "mse": data.error(predicted),
        "alone": data.error(alone),
        "seconds": seconds,
        "bytes": sum(-(-plan.round_sum(t)[0].n_elements * plan.round_sum(t)[2].bits // 8) for t in rounds),
    }


def _table(data: Data, centre: float, mine: NDArray[np.bool_], is_vertical: bool, party: str) -> Table:
    """Return a party's ratings: of its items, renumbered, in the vertical setting, else of its users."""
    train = data.train
    of_mine = mine[train.columns if is_vertical else train.rows]
    items = (np.cumsum(mine) - 1)[train.columns] if is_vertical else train.columns
    rows = RatingRows(
        train.rows[of_mine],
        items[of_mine],
        train.deviations[of_mine] + centre,
        tuple(map(str, range(train.n_rows))),
    )
    n_items = int(mine.sum()) if is_vertical else train.n_columns
    users = train.n_rows if is_vertical else int(mine.sum())
    ratings = RatingsSchema(
        items=n_items,
        items_digest=digest_of_items(n_items),
        users=users,
        ratings_per_user=max(1, round(of_mine.sum() / users)),
        lower=data.bounds[0] + centre,
        upper=data.bounds[1] + centre,
    )
    schema = BlockSchema(party=party, ratings=ratings)
    return Table(schema, np.empty((len(rows.values), 0)), ratings=rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="splits, of which medians are shown")
    parser.add_argument("--only", choices=WAYS, action="append", help="may be given several times")
    parser.add_argument("--data", choices=SETS)
    parser.add_argument("--parties", type=int, default=3)
    options = parser.parse_args()
    name = options.data or ("movielens-100k" if bundled.is_available(SETS["movielens-100k"][0]) else "insteval")
    print(f"{name}, {options.parties} parties, {options.seeds} splits, {describe_machine()}")
    print("| job | epsilon | error | alone | processor seconds | kB per party |\n| --- | --- | --- | --- | --- | --- |")
    for way in options.only or WAYS:
        for epsilon in EPSILONS:
            found = [run(name, WAYS[way], epsilon, seed, options.parties) for seed in range(options.seeds)]
            mse, alone, seconds, n_bytes = (
                statistics.median(one[key] for one in found) for key in ("mse", "alone", "seconds", "bytes")
            )
            shown = f"| {way} | {epsilon:g} | {mse:.4f} | {alone:.4f} | {seconds:.1f} | {n_bytes / 1e3:.1f} |"
            print(shown, flush=True)


if __name__ == "__main__":
    main()
