"""Sums of all ratings so far, released after each of several periods: does noise that is correlated over periods pay?

    python -m bench.privacy.continual

Release t of a strategy C is a sum of what the periods brought, with the integer weights C[t, s], plus noise of its own;
all releases together cost the stated epsilon, by the cost events of a job (`SumNoise`, coordinator's view). What is
wanted after each period is the sum of all periods so far, made as well as can be of what has been released by then.

| strategy | releases |
| --- | --- |
| `warm start` | each period alone, once: what a job costs that starts from the result of the one before |
| `tree` | the nodes of a binary tree over the periods that are planned; prefixes of the fewest nodes |
| `tree, all nodes` | the same; prefixes by least squares of all nodes that are complete |
| `square root` | the square root of the matrix of prefixes, in 64ths (Fichtenberger et al., ICML 2023) |

`deviation` is that of the noise of the wanted sum over that of the warm start, the root of the mean square over the
periods, and after the last one. In `one period` a unit has ratings in one period only, as a rating in the vertical
setting; in `every period` a user has some in each, and its bound holds for each of them.

`offset_error` is the expected root mean square error of the offset of an item that is rated as often as the others,
for sizes of real tables: its prior, the chance of ratings and the noise together (`posterior`), over the periods.
"""

import argparse
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.unit_vectors import VectorRule, n_offset_entries, sensitivity
from analyses.sums.noise import SumNoise, survivor_levels
from bench.machine import describe_machine
from dp.cost.calibrate import least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.views import VIEWS
from dp.mechanism.skellam_parameters import SKELLAM_LADDER

Integers = NDArray[np.int64]

PERIODS = (2, 4, 8, 12, 16, 26, 52)
EPSILON, DELTA, SCALE = 4.0, 1e-6, 64
SIZES = {"InstEval": (2972, 1128, 25), "MovieLens 100K": (943, 1682, 100), "MovieLens 10M": (69_878, 10_677, 140)}
"""Users, items, ratings of a user: of all periods together."""
WARM = "warm start"


def tree(n: int) -> Integers:
    """Return the nodes of a binary tree that lie within n periods, in the order in which they are complete."""
    nodes = []
    for t in range(1, n + 1):
        width = 1
        while t % width == 0:
            row = np.zeros(n, dtype=np.int64)
            row[t - width : t] = 1
            nodes.append(row)
            width *= 2
    return np.array(nodes)


def square_root(n: int) -> Integers:
    """Return the Toeplitz matrix whose square is that of prefixes, in whole 64ths."""
    first = np.cumprod([1.0, *[(2 * k - 1) / (2 * k) for k in range(1, n)]])
    return np.array([[round(SCALE * first[t - s]) if s <= t else 0 for s in range(n)] for t in range(n)])


def strategies(n: int) -> dict[str, Integers]:
    """Return each strategy's weights, shape (releases, periods)."""
    return {WARM: np.eye(n, dtype=np.int64), "tree": tree(n), "tree, all nodes": tree(n), "square root": square_root(n)}


def variances(name: str, weights: Integers) -> NDArray[np.float64]:
    """Return that of the wanted sum after each period, in variances of one release's noise."""
    n = weights.shape[1]
    if name == "tree":
        return np.array([bin(t).count("1") for t in range(1, n + 1)], dtype=np.float64)
    found = []
    for t in range(1, n + 1):
        known = weights[~weights[:, t:].any(axis=1)][:, :t].astype(np.float64)
        found.append(np.ones(t) @ np.linalg.solve(known.T @ known, np.ones(t)))
    return np.array(found)


def moved(weights: Integers, *, every: bool) -> Integers:
    """Return how many times its own bound a unit moves each release, where it costs most."""
    if every:
        return weights.sum(axis=1)
    return np.asarray(weights[:, np.argmax((weights**2).sum(axis=0))])


def least_mu(times: Integers, epsilon: float, rule: VectorRule, n_items: int) -> int:
    """Return the least parameter of the noise of each release: of an offset round that a unit moves so many times."""
    moves = 2 * n_items
    squared = rule.offset_bound

    def spends(mu: int) -> float:
        one = SumNoise(
            mu=mu,
            length=n_offset_entries(n_items),
            levels=survivor_levels(3, 3),
            n_corrupt=0,
            sensitivities={view: sensitivity(squared, moves, view, "user") for view in VIEWS},
        )
        events = []
        for c in times[times > 0].tolist():
            bounds = {view: sensitivity(squared * c * c, moves, view, "user") for view in VIEWS}
            events += replace(one, sensitivities=bounds).events("coordinator")
        return composed_epsilon(events, DELTA, near=epsilon).epsilon

    return least_noise(spends, SKELLAM_LADDER, epsilon=epsilon, delta=DELTA)


def offset_error(variance: NDArray[np.float64], periods: int, size: tuple[int, int, int], prior: Prior) -> float:
    """Return the expected error of an offset, over the periods.

    Args:
        variance: of the noise of a weighted sum after each period.
        periods: planned.
        size: users, items, ratings of a user, of all periods.
        prior: of offsets and ratings.
    """
    n_users, n_items, per_user = size
    count = n_users * math.sqrt(per_user) / n_items * np.arange(1, periods + 1) / periods
    of_chance = count * prior.residual_variance / math.sqrt(per_user)
    return float(np.sqrt(np.mean(1 / (1 / prior.offset_variance + count**2 / (variance + of_chance)))))


def measured(epsilon: float) -> list[dict[str, Any]]:
    """Return what each strategy comes to, for each number of periods."""
    rule, prior, rows = VectorRule(mean_ridge=10.0), Prior(), []
    for n in PERIODS:
        of: dict[str, dict[str, Any]] = {}
        for every in (False, True):
            where = "every period" if every else "one period"
            absolute = {}
            for name, weights in strategies(n).items():
                mu = least_mu(moved(weights, every=every), epsilon, rule, SIZES["InstEval"][1])
                absolute[name] = variances(name, weights) * 2 * mu / rule.units**2
            for name, found in absolute.items():
                row = of.setdefault(name, {"periods": n, "strategy": name})
                base = absolute[WARM]
                row[where] = {
                    "deviation": float(np.sqrt(found.mean() / base.mean())),
                    "deviation_after_the_last": float(np.sqrt(found[-1] / base[-1])),
                }
                if not every:
                    row["offset_error"] = {what: offset_error(found, n, size, prior) for what, size in SIZES.items()}
        rows += of.values()
    return rows


def main() -> None:
    """Measure and print the report as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=EPSILON, help="of all releases that a unit is in")
    options = parser.parse_args()
    report = {"bench": "continual", "epsilon": options.epsilon, "delta": DELTA, "rows": measured(options.epsilon)}
    print(json.dumps({**report, "machine": describe_machine()}, indent=1))


if __name__ == "__main__":
    main()
