"""Fits diffprivlib's logistic regression, in its own environment: called by `bench.utility.logistic_rivals`.

    python diffprivlib_logistic.py FOLDER EPSILON RUNS

FOLDER holds `rows.npz`: training rows of norm at most 1, labels, testing rows. Writes `scores.npy`: the log odds of the
testing rows, one row per run. The library's noise is for pure epsilon.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import LogisticRegression


def main():
    """Fit as often as asked for."""
    folder, epsilon, runs = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    rows = np.load(folder / "rows.npz")
    scores = []
    for seed in range(runs):
        model = LogisticRegression(epsilon=epsilon, data_norm=1.0, max_iter=500, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows["x"], rows["y"].astype(int))
        scores.append(model.decision_function(rows["testing"]))
    np.save(folder / "scores.npy", np.array(scores))


if __name__ == "__main__":
    main()
