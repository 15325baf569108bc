import numpy as np
from clustering_jobs import mixture, split

from analyses.clustering.weighted_clustering import loss
from analyses.job.job import PrivacyTarget
from bench.baselines.clusters import central_clustering
from bench.datasets.clustering_tables import letter, mixed_gaussian
from entropy import InsecureTestEntropy


def test_a_curator_finds_the_clusters_and_less_well_with_less_budget():
    rows, labels = mixture(4000)
    tables = split(rows, 3)
    middles = np.array([rows[labels == label].mean(axis=0) for label in range(4)])

    def lost(epsilon):
        target = PrivacyTarget(epsilon=epsilon, delta=1e-5, view="coordinator")
        found = [central_clustering(tables, 4, 2, target, InsecureTestEntropy(str(seed))) for seed in range(3)]
        return np.mean([loss(rows, centres) for centres in found])

    assert loss(rows, middles) < lost(4.0) < 1.2 * loss(rows, middles) < lost(0.1)


def test_tables_of_the_benchmark_share_all_columns_among_the_owners():
    for table in (mixed_gaussian(500), letter()):
        for n_owners in (2, 4):
            shared = table.split(n_owners)
            names = [c.name for t in shared for c in t.schema.columns]
            assert sorted(names) == sorted(table.bounds)
            pooled = np.hstack([t.values for t in shared])
            where = [names.index(name) for name in table.bounds]
            np.testing.assert_array_equal(pooled[:, where], table.rows)
            lower = np.array([low for low, _ in table.bounds.values()])
            upper = np.array([high for _, high in table.bounds.values()])
            assert ((table.rows >= lower) & (table.rows <= upper)).all()
