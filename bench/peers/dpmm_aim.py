"""Runs AIM [AIM22] of the package dpmm on a table, in its own environment: called by `bench.utility.synthetic`.

    python dpmm_aim.py FOLDER EPSILON DELTA ROUNDS ITERATIONS

FOLDER holds `codes.npy`, the values of each column as numbers from 0. Writes `rows.npy`, as many synthetic rows.
ROUNDS 0 is AIM's default. Its workload are all pairs of columns; models are at most 2 MB.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from dpmm.models.aim import AIM
from dpmm.models.base.mbi import Dataset, Domain


def main():
    """Fit and sample."""
    folder, (epsilon, delta), (rounds, iterations) = (
        Path(sys.argv[1]),
        map(float, sys.argv[2:4]),
        map(int, sys.argv[4:6]),
    )
    codes = np.load(folder / "codes.npy")
    names = [f"c{at}" for at in range(codes.shape[1])]
    sizes = [int(one) + 1 for one in codes.max(0)]
    np.random.seed(0)  # noqa: NPY002 - the package draws noise by it
    mechanism = AIM(
        epsilon=epsilon,
        delta=delta,
        rounds=rounds or None,
        n_iters=iterations,
        max_model_size=2,
        prng=np.random.RandomState(0),
        domain=dict(zip(names, sizes, strict=True)),
        n_jobs=1,
    )
    _data, measured = mechanism._fit(Dataset(pd.DataFrame(codes, columns=names), Domain(names, sizes)))
    model = mechanism.engine.estimate(measured)
    np.save(folder / "rows.npy", model.synthetic_data(rows=len(codes)).df[names].to_numpy())


if __name__ == "__main__":
    main()
