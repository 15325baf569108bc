"""Matrix factorization: test errors of the form `statistics` in all settings, beside the figures of its specification.

python -m bench.utility.factors            five seeds, all of epsilon 8, 4, 2, 1 and no noise
python -m bench.utility.factors --quick    one seed, epsilon 8 and 1
python -m bench.utility.factors --out F    writes the JSON report to F as well

Error: mean squared error on a tenth of the ratings, left out at random; predictions are clipped to the bounds.
delta is 1e-5, epsilon that of the coordinator's view. Noise is exact Skellam noise of the plan's parameter. MovieLens
100K, and a part of 25M, are measured where `MOIETY_DATA` names a folder that holds them (`bench/data/TERMS.md`).
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from analyses.matrix_factorization.horizontal import (
    Estimates,
    NoisySum,
    item_rows,
    member_vector,
    own_choice,
    run,
    solve_users,
)
from analyses.matrix_factorization.in_process import LocalMembers, add_user_vectors
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.plan import FactorParams, FactorPlan, Members, plan_factors
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.unit_vectors import VectorRule
from analyses.matrix_factorization.vertical import Owner, VerticalPrior
from analyses.matrix_factorization.vertical import run as run_vertical
from bench.baselines.factors import central_non_private
from bench.datasets import bundled
from dp.cost.views import View
from dp.draw.skellam import sample_skellam
from entropy import InsecureTestEntropy

DELTA = 1e-5
EPSILONS = (None, 8, 4, 2, 1)
QUICK_EPSILONS = (None, 8, 1)
SEEDS = 5
RULE = VectorRule(mean_ridge=10.0)
PRIOR = Prior()

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Data:
    """One data set, split.

    Attributes:
        name: of the set.
        train: by user, deviations from the centre.
        test: users, items and deviations of what is left out.
        ratings_per_user: k, as a job would declare it.
        bounds: of a deviation.
        features: public item features, or None.
    """

    name: str
    train: Ratings
    test: tuple[Any, Any, Floats]
    ratings_per_user: int
    bounds: tuple[float, float]
    features: Floats | None

    def error(self, predicted: Floats) -> float:
        """Return the mean squared error on the test part."""
        return float(np.mean((np.clip(predicted, *self.bounds) - self.test[2]) ** 2))


SETS = {
    "insteval": ("insteval", 3.0, 25),
    "movielens-100k": ("movielens_100k/ratings", 3.5, 100),
    "movielens-25m, part": ("movielens_25m_first757/ratings", 3.5, 120),
}
"""Name to file, public centre and declared ratings per user."""

PUBLISHED: dict[tuple[str, str], tuple[float | None, ...]] = {
    ("movielens-100k", "horizontal offsets"): (0.921, 0.947, 0.968, 0.997, 1.033),
    ("movielens-100k", "horizontal offsets, coalition's view"): (None, 0.974, 1.004, 1.040, 1.077),
    ("movielens-100k", "horizontal offsets, public genres"): (0.893, 0.919, 0.940, 0.967, 0.998),
    ("movielens-100k", "horizontal stage 3, 10 parties"): (0.919, 0.937, 0.947, 0.959, 0.970),
    ("movielens-100k", "horizontal stage 3, 40 parties"): (0.921, 0.945, 0.962, 0.985, 1.009),
    ("movielens-100k", "local, a fifth drops out"): (None, 0.954, 0.977, 1.006, 1.042),
    ("movielens-100k", "vertical, released"): (0.901, 0.905, 0.912, 0.928, 0.960),
    ("movielens-100k", "vertical stage 3, 10 parties"): (0.907, 0.908, 0.910, 0.913, 0.919),
    ("insteval", "horizontal offsets"): (1.441, 1.467, 1.488, 1.521, 1.568),
    ("insteval", "horizontal stage 3, 10 parties"): (None, 1.462, 1.476, 1.495, 1.515),
    ("insteval", "vertical stage 3, 10 parties"): (None, 1.441, 1.445, 1.455, 1.467),
    ("movielens-25m, part", "horizontal offsets"): (0.764, 0.808, 0.826, 0.844, 0.861),
    ("movielens-25m, part", "horizontal stage 3, 10 parties"): (None, 0.799, 0.810, 0.820, 0.828),
    ("movielens-25m, part", "vertical stage 3, 10 parties"): (None, 0.764, 0.765, 0.767, 0.774),
    ("movielens-100k", "factors p = 4, T = 5"): (None, 0.973, None, None, None),
}
"""Of the specification, for `EPSILONS`."""


def load(name: str, seed: int) -> Data:
    """Return a data set, a tenth left out at random by `seed`."""
    file, centre, per_user = SETS[name]
    frame = bundled.read(file)
    _, users = np.unique(frame["user"].to_numpy(), return_inverse=True)
    places, items = np.unique(frame["item"].to_numpy(), return_inverse=True)
    values = frame["rating"].to_numpy().astype(np.float64) - centre
    test = np.random.default_rng(seed).random(len(values)) < 0.1
    train = Ratings.of(users[~test], items[~test], values[~test], int(users.max()) + 1, len(places))
    features = genres(places) if name == "movielens-100k" else None
    bounds = (float(values.min()), float(values.max()))
    return Data(name, train, (users[test], items[test], values[test]), per_user, bounds, features)


def genres(places: Any) -> Floats:
    """Return the genres of MovieLens' items, each item's of norm 1, less their mean."""
    frame = bundled.read("movielens_100k/items")
    table = pl.DataFrame({"item": places}).join(frame, on="item", how="left")
    columns = table.select(table.columns[3:]).to_numpy().astype(np.float64)
    scaled = columns / np.sqrt(np.maximum(1.0, columns.sum(axis=1)))[:, None]
    return np.asarray(scaled - scaled.mean(axis=0))


# -- the settings --------------------------------------------------------------------------------------------------


def plan_of(
    data: Data, epsilon: float | None, members: Members, view: View = "coordinator", **changes: Any
) -> FactorPlan:
    """Return a plan for the epsilon of a view; without epsilon one with next to no noise."""
    start: dict[str, Any] = {"setting": "horizontal", "n_users": data.train.n_rows, "n_items": data.train.n_columns}
    params = FactorParams(**{**start, "ratings_per_user": data.ratings_per_user, "rank": 0, "rule": RULE, **changes})
    plan = plan_factors(params, members, epsilon=epsilon or 8.0, delta=DELTA, view=view)
    if epsilon is None:
        plan = replace(plan, releases=tuple(replace(release, mu=1) for release in plan.releases))
    return plan


def predicted(data: Data, model: FactorModel, features: Floats | None = None) -> Floats:
    """Return the predictions of users who are solved locally."""
    users, items, _ = data.test
    solved = solve_users(model, data.train, PRIOR, features)
    return np.asarray(model.offsets[items] + (solved[users] * item_rows(model, features)[items]).sum(axis=1))


def horizontal(
    data: Data, epsilon: float | None, seed: int, n_parties: int = 10, n_corrupt: int = 0, **changes: Any
) -> tuple[FactorPlan, NoisySum]:
    """Return a plan and its sums: all parties' ratings together, and the noise of all of them, drawn at once."""
    plan = plan_of(data, epsilon, Members(n_parties, n_corrupt, n_parties), **changes)
    entropy = InsecureTestEntropy(f"{seed}")

    def noisy(t: int, model: FactorModel | None) -> Any:
        release = plan.releases[t]
        return member_vector(plan, t, model, data.train, PRIOR) + sample_skellam(entropy, release.mu, release.length)

    return plan, noisy


def offsets(data: Data, epsilon: float | None, seed: int) -> float:
    plan, noisy = horizontal(data, epsilon, seed)
    return data.error(predicted(data, run(plan, Estimates(PRIOR), noisy).model))


def offsets_against_a_coalition(data: Data, epsilon: float | None, seed: int) -> float:
    plan, noisy = horizontal(data, epsilon, seed, n_corrupt=1, view="coalition")
    return data.error(predicted(data, run(plan, Estimates(PRIOR), noisy).model))


def offsets_with_genres(data: Data, epsilon: float | None, seed: int) -> float:
    plan, noisy = horizontal(data, epsilon, seed)
    found = run(plan, Estimates(PRIOR, data.features), noisy)
    return data.error(predicted(data, found.model, data.features))


def factors(data: Data, epsilon: float | None, seed: int) -> float:
    plan, noisy = horizontal(data, epsilon, seed, rank=4, n_rounds=5)
    return data.error(predicted(data, run(plan, Estimates(PRIOR), noisy).model))


def stage_3(n_parties: int) -> Callable[[Data, float | None, int], float]:
    def measured(data: Data, epsilon: float | None, seed: int) -> float:
        plan, noisy = horizontal(data, epsilon, seed, n_parties)
        found = run(plan, Estimates(PRIOR), noisy)
        users, items, _ = data.test
        result = np.zeros(len(users))
        for k, part in enumerate(data.train.split_rows(n_parties)):
            model, _ = own_choice(plan, found, part, PRIOR, data.bounds)
            here = users % n_parties == k
            solved = solve_users(model, part, PRIOR)[users[here] // n_parties]
            result[here] = model.offsets[items[here]] + (solved * item_rows(model)[items[here]]).sum(axis=1)
        return data.error(result)

    return measured


def local(data: Data, epsilon: float | None, seed: int) -> float:
    n = data.train.n_rows
    plan = plan_of(data, epsilon, Members(n, 0, int(0.7 * n)), setting="local")
    devices = [data.train.of_rows(np.array([i])) for i in range(n)]
    dropped_out = np.flatnonzero(np.random.default_rng(seed + 1).random(n) < 0.2).tolist()
    members = LocalMembers(plan, devices, PRIOR, InsecureTestEntropy(f"{seed}"), absent={0: dropped_out}, together=True)
    return data.error(predicted(data, run(plan, Estimates(PRIOR), members).model))


def vertical(*, own: bool, **changes: Any) -> Callable[..., float]:
    changes = {"setting": "vertical", "unit": "rating", "n_rounds": 1, **changes}

    def measured(data: Data, epsilon: float | None, seed: int, n_parties: int = 10) -> float:
        plan = plan_of(data, epsilon, Members(n_parties, 0, n_parties), **changes)
        entropy, prior, train = InsecureTestEntropy(f"{seed}"), VerticalPrior(PRIOR), data.train
        owners = []
        for k in range(n_parties):
            mine = train.columns % n_parties == k
            n_items = len(range(k, train.n_columns, n_parties))
            part = Ratings.of(
                train.rows[mine], train.columns[mine] // n_parties, train.deviations[mine], train.n_rows, n_items
            )
            owners.append(Owner(plan, part, prior, entropy))
        found = run_vertical(plan, owners, prior, add_user_vectors(plan, entropy))
        users, items, _ = data.test
        result = np.zeros(len(users))
        for k, (owner, model) in enumerate(zip(owners, found.items, strict=True)):
            here = items % n_parties == k
            j, i = items[here] // n_parties, users[here]
            if own:
                result[here] = owner.own_choice(found.opened, data.bounds).fitted.predict(i, j)
            else:
                u = found.users
                result[here] = model.offsets[j] + u.offsets[i] + (model.vectors[j] * u.vectors[i]).sum(axis=1)
        return data.error(result)

    return measured


def non_private(data: Data, epsilon: float | None, seed: int) -> float:
    users, items, _ = data.test
    fitted = central_non_private(data.train, 8, np.random.default_rng(seed), ridge=10.0)
    return data.error(fitted.predict(users, items))


METHODS: dict[str, Callable[[Data, float | None, int], float]] = {
    "horizontal offsets": offsets,
    "horizontal offsets, coalition's view": offsets_against_a_coalition,
    "horizontal offsets, public genres": offsets_with_genres,
    "horizontal stage 3, 10 parties": stage_3(10),
    "horizontal stage 3, 40 parties": stage_3(40),
    "local, a fifth drops out": local,
    "factors p = 4, T = 5": factors,
    "vertical, released": vertical(own=False),
    "vertical stage 3, 10 parties": vertical(own=True),
}


def measure(names: tuple[str, ...], epsilons: tuple[float | None, ...], n_seeds: int) -> Iterator[dict[str, Any]]:
    """Yield one row per data set, method and epsilon: the median over the seeds, and the specification's figure."""
    for name in names:
        sets = [load(name, seed) for seed in range(n_seeds)]
        central = float(np.median([non_private(data, None, seed) for seed, data in enumerate(sets)]))
        yield {"data": name, "method": "central, non-private, p = 8", "epsilon": None, "mse": central}
        for method, run_one in METHODS.items():
            if "genres" in method and sets[0].features is None:
                continue
            for epsilon in epsilons:
                found = float(np.median([run_one(data, epsilon, seed) for seed, data in enumerate(sets)]))
                row = {"data": name, "method": method, "epsilon": epsilon, "mse": found}
                figure = PUBLISHED.get((name, method), (None,) * len(EPSILONS))[EPSILONS.index(epsilon)]
                if figure is not None:
                    row |= {"specified": figure, "over_specified": found / figure - 1}
                yield row


def main() -> None:
    """Measure, print one line per figure, and write the report."""
    parser = argparse.ArgumentParser(prog="python -m bench.utility.factors", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=sorted(SETS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = tuple(name for name, (file, _, _) in SETS.items() if bundled.is_available(file))
    names = tuple(name for name in names if options.only in (None, name))
    rows = []
    for row in measure(names, QUICK_EPSILONS if options.quick else EPSILONS, 1 if options.quick else SEEDS):
        rows.append(row)
        print(json.dumps(row), file=sys.stderr)
    report = {"delta": DELTA, "view": "coordinator", "seeds": 1 if options.quick else SEEDS, "rows": rows}
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    else:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
