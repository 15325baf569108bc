"""Matrix factorization at the size of MovieLens 10M: errors, time and memory where the true rank is known.

    python -m bench.scale.factor_scale                                   made-up ratings, as many as MovieLens 10M has
    python -m bench.scale.factor_scale --ratings 1000000 --users 7000    fewer
    python -m bench.scale.factor_scale --file ml-10M100K/ratings.dat     MovieLens 10M, for who has it
    python -m bench.scale.factor_scale --file ml-25m/ratings.csv         MovieLens 25M, likewise

A made-up rating is 3.5 + a_i + b_j + <u_i, v_j> + e, rounded to half a star within 0.5 to 5. The deviations of a, b,
the product and e are .4, .5, .45 and .75, and the product has the rank `--rank`. The `floor` is the error of who knows
all but e. A tenth is left out. Users rate more or less, lognormally, 20 or more; items are as popular as in a
catalogue.

All members are in one process, without masks: their sums and the noise of the plan are exact (`bench.utility.factors`).
Each method runs in a process of its own, which has all ratings, so its memory is that of everybody at once. A method
whose forecast of memory or time is above `--most-gib` or `--most-s` is refused before it starts.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from analyses.matrix_factorization.horizontal import Estimates, run
from analyses.matrix_factorization.ratings import Ratings
from bench.machine import describe_machine, peak_resident_bytes
from bench.utility import factors
from bench.utility.factors import PRIOR, Data

N_USERS, N_ITEMS, N_RATINGS, RANK = 69_878, 10_677, 10_000_054, 8
CENTRE, BOUNDS, LEAST = 3.5, (0.5, 5.0), 20
DEVIATIONS = {"user": 0.4, "item": 0.5, "product": 0.45, "rest": 0.75}
EPSILONS = (None, 8.0, 1.0)

Triple = tuple[Any, Any, Any]
"""Users, items and ratings, one of each for every rating."""


@dataclass(frozen=True)
class Size:
    """What a forecast is made of: numbers of users, items and ratings."""

    users: int
    items: int
    ratings: int


def made_up(size: Size, rank: int, seed: int = 1) -> tuple[Triple, Any]:
    """Return ratings, and what their means are."""
    rng = np.random.default_rng(seed)
    popularity = rng.exponential(size=size.items) ** 2 + 0.01
    bounds = np.cumsum(popularity / popularity.sum())
    shares = rng.lognormal(sigma=1.0, size=size.users)
    spare = max(0, size.ratings - LEAST * size.users)
    counts = (1.15 * (LEAST + spare * shares / shares.sum())).astype(np.int64) + 1
    drawn = np.repeat(np.arange(size.users), np.minimum(counts, size.items // 2))
    items = np.minimum(np.searchsorted(bounds, rng.random(len(drawn))), size.items - 1)
    pairs = np.unique(drawn * size.items + items)
    pairs = np.sort(rng.choice(pairs, min(size.ratings, len(pairs)), replace=False))
    rows, columns = pairs // size.items, pairs % size.items
    product = np.zeros(len(pairs))
    for _ in range(rank):
        product += rng.normal(size=size.users)[rows] * rng.normal(size=size.items)[columns]
    means = CENTRE + product * (DEVIATIONS["product"] / rank**0.5)
    means += (
        rng.normal(0, DEVIATIONS["user"], size.users)[rows] + rng.normal(0, DEVIATIONS["item"], size.items)[columns]
    )
    values = means + rng.normal(0, DEVIATIONS["rest"], len(means))
    return (rows, columns, np.clip(np.round(values * 2) / 2, *BOUNDS)), means


def read_movielens(path: Path) -> Triple:
    """Return the ratings of `ratings.dat` (1M, 10M: between double colons) or `ratings.csv` (20M, 25M: with a head)."""
    if path.suffix == ".dat":  # a separator has one byte: every second column is empty
        frame = pl.read_csv(path, separator=":", has_header=False).select(pl.nth(0, 2, 4))
    else:
        frame = pl.read_csv(path).select(pl.nth(0, 1, 2))
    users, items, values = (frame.to_series(i).to_numpy() for i in range(3))
    numbers = [np.unique(names, return_inverse=True)[1] for names in (users, items)]
    return numbers[0], numbers[1], values.astype(np.float64)


def split(triple: Triple, means: Any = None) -> tuple[Data, dict[str, Any]]:
    """Return the data of the methods, and what is known of them."""
    rows, columns, values = triple
    test = np.random.default_rng(0).random(len(values)) < 0.1
    n_users, n_items = int(rows.max()) + 1, int(columns.max()) + 1
    train = Ratings.of(rows[~test], columns[~test], values[~test] - CENTRE, n_users, n_items)
    left_out = (rows[test], columns[test], values[test] - CENTRE)
    bounds = (float(values.min()) - CENTRE, float(values.max()) - CENTRE)
    data = Data("made up" if means is not None else "file", train, left_out, len(values) // n_users, bounds, None)
    known = {"users": n_users, "items": n_items, "ratings": len(values)}
    constant = float(train.deviations.mean())
    known["one_constant_for_all"] = data.error(np.full(int(test.sum()), constant))
    if means is not None:
        known["floor"] = data.error(means[test] - CENTRE)
    return data, known


def horizontal(data: Data, epsilon: float | None, rank: int) -> float:
    """Return the error of the form `statistics` in the horizontal setting, users solved at their owners."""
    shape = {"rank": rank, "n_rounds": 5} if rank else {}
    plan, noisy = factors.horizontal(data, epsilon, 0, 3, **shape)
    return data.error(factors.predicted(data, run(plan, Estimates(PRIOR), noisy).model))


def vertical(data: Data, epsilon: float | None, rank: int, *, own: bool) -> float:
    """Return the error of the form `statistics` in the vertical setting, three owners."""
    shape = {"rank": rank, "n_rounds": 5} if rank else {}
    return factors.vertical(own=own, **shape)(data, epsilon, 0, 3)


def methods(rank: int) -> dict[str, tuple[Callable[[Data, float | None], float], int]]:
    """Return each method with its rank."""
    found: dict[str, tuple[Callable[[Data, float | None], float], int]] = {}
    for p in (0, rank):
        found[f"horizontal, rank {p}"] = partial(horizontal, rank=p), p
        found[f"vertical, rank {p}, released"] = partial(vertical, rank=p, own=False), p
    return found


def forecast(size: Size, rank: int) -> dict[str, float]:
    """Return what one method takes at most: by runs at ten million ratings, and in proportion to its arrays.

    Ratings are held by user and by item, with what is left out; each user and item has a few (1 + p) x (1 + p) systems.
    """
    systems = 8.0 * (size.users + size.items) * (1 + rank) ** 2
    sweeps = len(EPSILONS) * (5 if rank else 1)
    return {
        "gib": (110.0 * size.ratings + 4 * systems) / 2**30,
        "seconds": 2.5e-7 * size.ratings * sweeps * (1 + rank / 3),
    }


def measured(options: argparse.Namespace, method: str) -> dict[str, Any]:
    """Return the errors of a method at every epsilon, with time and memory."""
    if options.file is None:
        data, known = split(*made_up(Size(options.users, options.items, options.ratings), options.rank))
    else:
        data, known = split(read_movielens(options.file))
    run_one, _ = methods(options.rank)[method]
    found: dict[str, Any] = {"method": method, "delta": factors.DELTA, **known, "errors": {}}
    begun_s, begun_processor_s = time.perf_counter(), time.process_time()
    for epsilon in EPSILONS:
        found["errors"]["no noise" if epsilon is None else f"{epsilon:g}"] = run_one(data, epsilon)
    found["seconds"], found["processor_s"] = time.perf_counter() - begun_s, time.process_time() - begun_processor_s
    return {**found, "peak_gib": peak_resident_bytes("self") / 2**30}


def main() -> None:
    """Measure and print the report as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ratings", type=int, default=N_RATINGS)
    parser.add_argument("--users", type=int, default=N_USERS)
    parser.add_argument("--items", type=int, default=N_ITEMS)
    parser.add_argument("--rank", type=int, default=RANK, help="of made-up ratings, and of what is fitted")
    parser.add_argument("--file", type=Path, help="ratings.dat or ratings.csv of MovieLens")
    parser.add_argument("--most-gib", type=float, default=8.0)
    parser.add_argument("--most-s", type=float, default=1200.0)
    options = parser.parse_args()
    size = Size(options.users, options.items, options.ratings)
    if options.file is not None:
        users, items, values = read_movielens(options.file)
        size = Size(int(users.max()) + 1, int(items.max()) + 1, len(values))
    rows: list[dict[str, Any]] = []
    for method, (_, rank) in methods(options.rank).items():
        expected = forecast(size, rank)
        if expected["gib"] > options.most_gib or expected["seconds"] > options.most_s:
            rows.append({"method": method, "forecast": expected, "refused": "it would not end within the limits"})
            continue
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append({**pool.apply(measured, (options, method)), "forecast": expected})
    print(json.dumps({"bench": "factor_scale", "rows": rows, "machine": describe_machine()}, indent=1))


if __name__ == "__main__":
    main()
