"""Clusters rows by diffprivlib's k-means, in its own environment: called by `bench.analyses.clustering_figures.ends`.

    python diffprivlib_kmeans.py FOLDER EPSILON K RUNS

FOLDER holds `rows.npy`, scaled to [-1, 1]. Writes `centres.npy`, shape (runs, k, columns). The noise is for pure
epsilon.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import KMeans


def main():
    """Cluster as often as asked for."""
    folder, epsilon, k, runs = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    rows, centres = np.load(folder / "rows.npy"), []
    for seed in range(runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = KMeans(k, epsilon=epsilon, bounds=(-1, 1), random_state=seed).fit(rows)
        centres.append(model.cluster_centers_)
    np.save(folder / "centres.npy", np.array(centres))


if __name__ == "__main__":
    main()
