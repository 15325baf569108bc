"""Fits scikit-surprise's SVD, in its own environment: called by `bench.utility.factor_peers`.

    python surprise_factors.py FOLDER

FOLDER holds `split.npz`: training users, items and values, those of a validation part of it, and of the test part, and
the bounds. Every setting of the grid is fitted without the validation part; the best one again with it. Prints JSON.
"""

import itertools
import json
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from surprise import SVD, Trainset

GRID = tuple(itertools.product((20, 100), (0.08, 0.12, 0.16, 0.24), (30, 60)))
"""Factors, regularisation, epochs; the learning rate is 0.01."""


def trainset(users, items, values, bounds):
    """Return the library's form of ratings, without its files."""
    by_user, by_item = defaultdict(list), defaultdict(list)
    for user, item, value in zip(users.tolist(), items.tolist(), values.tolist(), strict=True):
        by_user[user].append((item, value))
        by_item[item].append((user, value))
    n_users, n_items = max(by_user) + 1, max(by_item) + 1
    names = {k: k for k in range(n_users)}, {k: k for k in range(n_items)}
    return Trainset(by_user, by_item, n_users, n_items, len(values), tuple(bounds), *names)


def error(setting, train, test, bounds):
    """Return the mean squared error of a setting."""
    n_factors, regularisation, n_epochs = setting
    model = SVD(n_factors=n_factors, n_epochs=n_epochs, lr_all=0.01, reg_all=regularisation, random_state=0)
    model.fit(trainset(*train, bounds))
    users, items, values = test
    pairs = zip(users.tolist(), items.tolist(), strict=True)
    predicted = np.array([model.predict(user, item).est for user, item in pairs])
    return float(np.mean((np.clip(predicted, *bounds) - values) ** 2))


def main():
    """Choose a setting, fit it, and print what it reaches."""
    split = np.load(Path(sys.argv[1]) / "split.npz")
    part = {
        name: tuple(split[f"{name}_{x}"] for x in ("users", "items", "values")) for name in ("fit", "check", "test")
    }
    bounds = split["bounds"]
    grid = [tuple(json.loads(sys.argv[2]))] if len(sys.argv) > 2 else GRID
    found = {one: error(one, part["fit"], part["check"], bounds) for one in grid} if len(grid) > 1 else {grid[0]: 0.0}
    best = min(found, key=found.get)
    whole = tuple(np.concatenate(pair) for pair in zip(part["fit"], part["check"], strict=True))
    started_s = time.process_time()
    result = error(best, whole, part["test"], bounds)
    print(json.dumps({"setting": best, "mse": result, "processor_s": time.process_time() - started_s}))


main()
