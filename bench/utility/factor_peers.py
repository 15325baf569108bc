"""Matrix factorization without privacy: our least squares beside scikit-surprise's SVD, both tuned alike.

python -m bench.utility.factor_peers    needs a package index the first time; the library gets an environment of its own

Splits are those of `bench.utility.factors`. A ninth of the training part is left out to choose each program's settings
from a grid, on the first seed; then each is fitted to the whole training part of every seed.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analyses.matrix_factorization.ratings import Ratings
from bench.baselines.factors import central_non_private
from bench.datasets import bundled
from bench.peers.environment import PROGRAMS, ensure_environment, run_to_its_end
from bench.utility.factors import SETS, Data, load

REQUIREMENTS = ("scikit-surprise==1.1.4", "numpy==1.26.4")
GRID = tuple(itertools.product((4, 8, 20), (10.0, 13.0, 16.0, 20.0, 26.0)))
"""Rank and ridge."""
SEEDS = 3
TIMEOUT_S = 900.0

Part = tuple[Any, Any, Any]


def parts_of(data: Data, seed: int) -> dict[str, Part]:
    """Return users, items and deviations: to fit, to check settings on, and to test."""
    train = data.train
    check = np.random.default_rng(1000 + seed).random(train.n_ratings) < 1 / 9

    def chosen(kept: Any) -> Part:
        return train.rows[kept], train.columns[kept], train.deviations[kept]

    return {"fit": chosen(~check), "check": chosen(check), "test": data.test}


def our_error(data: Data, setting: Sequence[float], fit: Part, test: Part) -> float:
    """Return the mean squared error of our alternating least squares."""
    rank, ridge = int(setting[0]), setting[1]
    ratings = Ratings.of(*fit, data.train.n_rows, data.train.n_columns)
    fitted = central_non_private(ratings, rank, np.random.default_rng(0), ridge=ridge)
    predicted = np.clip(fitted.predict(test[0], test[1]), *data.bounds)
    return float(np.mean((predicted - test[2]) ** 2))


def ours(sets: Sequence[Data]) -> tuple[Sequence[float], list[float]]:
    """Return our setting, and the errors of all seeds."""
    first = parts_of(sets[0], 0)
    best = min(GRID, key=lambda one: our_error(sets[0], one, first["fit"], first["check"]))
    errors = []
    for data in sets:
        whole = (data.train.rows, data.train.columns, data.train.deviations)
        errors.append(our_error(data, best, whole, data.test))
    return best, errors


def theirs(sets: Sequence[Data]) -> tuple[Sequence[float], list[float]]:
    """Return the library's setting, and the errors of all seeds."""
    python = ensure_environment("surprise", REQUIREMENTS) / "bin" / "python"
    setting: Sequence[float] | None = None
    errors = []
    for seed, data in enumerate(sets):
        with tempfile.TemporaryDirectory(prefix="moiety-surprise-") as name:
            arrays = {
                f"{part}_{what}": values
                for part, triple in parts_of(data, seed).items()
                for what, values in zip(("users", "items", "values"), triple, strict=True)
            }
            np.savez(Path(name) / "split.npz", bounds=np.array(data.bounds), **arrays)
            chosen = [] if setting is None else [json.dumps(setting)]
            command = [str(python), str(PROGRAMS / "surprise_factors.py"), name, *chosen]
            found = json.loads(run_to_its_end(command, TIMEOUT_S).splitlines()[-1])
        setting = found["setting"]
        errors.append(found["mse"])
    assert setting is not None
    return setting, errors


def compare(name: str, n_seeds: int = SEEDS) -> dict[str, Any]:
    """Return both programs' settings and medians on one data set."""
    sets = [load(name, seed) for seed in range(n_seeds)]
    our_setting, our_errors = ours(sets)
    their_setting, their_errors = theirs(sets)
    mine, other = statistics.median(our_errors), statistics.median(their_errors)
    return {
        "data": name,
        "ours": {"rank_and_ridge": our_setting, "mse": mine},
        "surprise": {"factors_regularisation_epochs": their_setting, "mse": other},
        "ours_over_surprise": mine / other - 1,
    }


def main() -> None:
    """Compare on all data sets that lie here, and print JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.utility.factor_peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    rows = []
    for name, (file, _, _) in SETS.items():
        if bundled.is_available(file):
            rows.append(compare(name, options.seeds))
            sys.stderr.write(json.dumps(rows[-1]) + "\n")
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
