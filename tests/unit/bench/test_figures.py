"""The figures of clustering, primitives and pictures: what is measured of small tables, and what is said of them."""

import numpy as np
import pytest

from analyses.clustering.weighted_clustering import loss
from bench.analyses import clustering_figures, primitives_figures
from bench.analyses.clustering_figures import ends
from bench.analyses.table import Row
from bench.baselines.dplsf import dplsf
from bench.datasets.clustering_tables import mixed_gaussian
from bench.pca_figures.picture import FIELDS, PER_FIELD, area_of, exact_counts, jobs, parts_of_scores
from demo.data_sets.kdd import write_kdd_parties


def test_owners_get_as_many_columns_as_a_split_says():
    names = [[c.name for c in t.schema.columns] for t in mixed_gaussian(10).split(2, (3, 5))]
    assert names == [["x0", "x2", "x4"], ["x1", "x3", "x5", "x6", "x7"]]
    assert [len(t.schema.columns) for t in mixed_gaussian(10).split(3)] == [3, 3, 2]


def test_trees_of_hyperplanes_find_clusters_where_epsilon_is_large_and_not_where_it_is_small():
    rows = np.vstack([np.full((2000, 2), (0.5, 0.5)), np.full((2000, 2), (-0.5, 0.5)), np.full((2000, 2), (0.5, -0.5))])
    lost = [loss(rows, dplsf(rows, 3, 2, epsilon=e, delta=1e-6, rng=np.random.default_rng(0))) for e in (20.0, 0.01)]
    assert lost[0] < 0.01 < 0.1 < lost[1]


def test_parts_of_scores_add_up_to_the_scores_and_stay_within_public_bounds(tmp_path):
    data = write_kdd_parties(tmp_path, rows=200)
    low, high = np.vstack([list(t.usual_bounds.values()) for t in data.tables.values()]).T
    scaled = (np.clip(data.pooled, low, high) - low) / (high - low)
    components = np.linalg.svd(scaled - scaled.mean(axis=0), full_matrices=False)[2][:2]
    scores = (scaled - scaled.mean(axis=0)) @ components.T
    mean = low + scaled.mean(axis=0) * (high - low)
    released = {"components": components, "mean": mean, "explained_variance": scores.var(axis=0)}
    found = parts_of_scores(data, released)
    for values, bounds in found.values():
        assert (values >= bounds[0]).all()
        assert (values <= bounds[1]).all()
    total = np.sum([values for values, _ in found.values()], axis=0)
    assert np.abs(total - FIELDS * PER_FIELD / 2 - scores / scores.std(axis=0) * 32).max() <= 2
    marks = data.on_request["monitor"][:, 0]
    counts = exact_counts(found, marks)
    assert counts.shape == (2, FIELDS, FIELDS)
    shown = ((total >= 0) & (total < FIELDS * PER_FIELD)).all(axis=1)
    assert 150 < counts.sum() == shown.sum()
    assert counts[0].sum() == (shown & (marks == 1)).sum()


def test_rows_beyond_the_last_field_are_not_shown():
    at = np.array([[0.0, 159.0], [159.0, 160.0], [160.0, 0.0], [-1.0, 5.0]])
    counts = exact_counts({"one": (at - 1, at), "other": (np.ones((4, 2)), at)}, np.array([1.0, 1.0, 0.0, 0.0]))
    assert (counts.sum(), counts[0, 0, 9]) == (1, 1)


def test_the_area_of_counts_is_that_of_their_ranks():
    counts = np.zeros((2, FIELDS, FIELDS))
    counts[0, 8, :], counts[1, 1, :] = 5, 7
    assert area_of(counts) == 1
    assert area_of(np.ones((2, FIELDS, FIELDS))) == pytest.approx(0.5)
    counts[0, 4, 4] = -50  # noise
    assert area_of(counts) == 1


def test_both_jobs_of_a_picture_share_epsilon_and_the_second_asks_for_parts_of_scores():
    first, second = jobs(0.5)
    assert [(j.privacy.epsilon, j.privacy.view) for j in (first, second)] == [(0.25, "coordinator")] * 2
    assert {i.table for i in second.inputs} == {"scores"}
    assert sum("column(monitor.mark)" in line for line in second.parameters["program"]) == 1


def test_a_factor_above_its_bound_refutes_the_theorem_and_an_exponent_below_does_not():
    def said(factor, exponent):
        most, of_epsilon = {"claimed at most": 1.0}, primitives_figures.MOMENT_OF_EPSILON
        rows = [
            Row(primitives_figures.CLUSTERING, "a", None, primitives_figures.GRID, factor, others=most),
            Row(primitives_figures.MOMENTS, "a", None, of_epsilon, exponent),
        ]
        return [v.holds for v in primitives_figures.verdicts(rows) if v.holds is not None]

    assert said(0.9, 2.0) == [True, True]
    assert said(1.1, 6.0) == [False, False]


def test_claims_about_clustering_follow_the_rows():
    def row(dataset, private, mpc, **others):
        return Row(ends.UNEVEN, dataset, 1.0, ends.LOSS, private=private, mpc=mpc, others=others)

    rows = [row("a, 4:4", 0.5, 0.4, independent=0.6, ldp=0.7), row("a, 2:6", 0.7, 0.41, independent=0.6, ldp=0.9)]
    held = {v.claim.split(": ")[1]: v.holds for v in clustering_figures.verdicts(rows) if v.holds is not None}
    assert held == {
        "whatever the split 2PEst loses less than both rivals": False,
        "uneven splits change the loss of 2PEst by a tenth at most": False,
        "uneven splits change the loss of our `mpc` by a tenth at most": True,
    }
