"""Finds principal components by diffprivlib, in its own environment: called by `bench.analyses.rivals`.

    python diffprivlib_pca.py FOLDER EPSILON COMPONENTS RUNS

FOLDER holds `rows.npz`: rows, their bounds and the bound of their norm. Writes `components.npy`, shape (runs,
components, columns). The library's noise is for pure epsilon; the number of rows is public to it.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import PCA


def main():
    """Fit as often as asked for."""
    folder, epsilon, n_components, runs = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    given = np.load(folder / "rows.npz")
    found = []
    for seed in range(runs):
        model = PCA(
            n_components,
            epsilon=epsilon,
            bounds=(given["lower"], given["upper"]),
            data_norm=float(given["norm"]),
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(given["rows"])
        found.append(model.components_)
    np.save(folder / "components.npy", np.array(found))


main()
