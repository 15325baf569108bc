"""Histograms over devices in which `values` numbers of a member count in all: what counts, and how far one moves it."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyses.job.job import JobError
from analyses.sums.records import DeclaredRecord, Record, contribution, counts_within
from analyses.sums.row_vectors import VectorBound
from analyses.sums.secure_sum import SumParams
from dp.cost.views import VIEWS
from mpc.secagg.config import Topology

EDGES = (0.0, 1.0, 2.0, 3.0)


def histogram(**changes) -> SumParams:
    fields = {"analysis": "secure-histogram", "record": "hours", "largest": 1, "edges": EDGES}
    return SumParams.model_validate({**fields, **changes})


def counted(params, values) -> tuple[list[int], int]:
    found = contribution(params, DeclaredRecord(), Record(np.array(values, dtype=float)))
    return found.vector.astype(int).tolist(), found.n_left_out


@pytest.mark.parametrize(
    ("largest", "values", "record", "counts", "n_left_out"),
    [
        (1, 1, [0.5, 1.5], [1, 0, 0], 1),
        (1, 2, [0.5, 0.6, 1.5, 2.5], [1, 1, 0], 2),
        (2, 3, [2.5, 2.6, 2.7, 0.5, 1.5], [1, 0, 2], 2),
        (3, 3, [9.0, -1.0, 3.0, 0.0, 1.0], [1, 1, 1], 0),
        (1, 5, [], [0, 0, 0], 0),
    ],
)
def test_the_first_numbers_that_lie_in_a_bin_count(largest, values, record, counts, n_left_out):
    assert counted(histogram(largest=largest, values=values), record) == (counts, n_left_out)


@settings(deadline=None)
@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.9, 3.0, 3.1]), max_size=12))
def test_where_nothing_is_left_out_the_counts_are_those_of_numpy(values):
    counts, n_left_out = counts_within(np.array(values, dtype=float), EDGES, 12, 12)
    assert counts.tolist() == np.histogram(values, bins=np.array(EDGES))[0].tolist()
    assert n_left_out == 0


@pytest.mark.parametrize("n_bins", [1, 2, 3])
@pytest.mark.parametrize(("largest", "values"), [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (1, 3), (3, 4)])
def test_no_two_records_move_the_sum_further_than_the_noise_covers(n_bins, largest, values):
    """All pairs of all records of up to five numbers, through the real code: in both views, in both norms."""
    params = histogram(edges=tuple(map(float, range(n_bins + 1))), largest=largest, values=values)
    records = [r for n in range(6) for r in product(np.arange(n_bins) + 0.5, repeat=n)]
    vectors = np.unique(np.array([counted(params, record)[0] for record in records]), axis=0)
    assert vectors.max() <= largest
    assert vectors.sum(axis=1).max() <= values
    covered = params.sensitivities
    apart = vectors[:, None, :] - vectors[None, :, :]
    furthest = {"coordinator": vectors, "coalition": apart.reshape(-1, n_bins)}
    for view in VIEWS:
        squared, sizes = (furthest[view] ** 2).sum(axis=1).max(), np.abs(furthest[view]).sum(axis=1).max()
        assert squared <= covered[view].squared_l2
        assert sizes <= covered[view].l1
    assert (vectors**2).sum(axis=1).max() == covered["coordinator"].squared_l2  # the bound is attained
    assert covered["coalition"].squared_l2 <= 2 * values**2
    assert covered["coalition"].l1 <= 2 * values


def test_both_norms_are_attained_where_there_are_bins_enough():
    covered = histogram(edges=tuple(map(float, range(9))), largest=2, values=3).sensitivities["coalition"]
    assert (covered.squared_l2, covered.l1) == (10, 6)  # (2, 1, 0, ...) and (0, 0, 2, 1, 0, ...)


def test_one_value_in_256_bins_takes_noise_for_two_bins_and_not_for_all():
    """At epsilon 1 and delta 1e-6: variance 8 in the place of 21,024."""
    edges = tuple(map(float, range(257)))
    target = {"epsilon": 1.0, "delta": 1e-6}
    topology = Topology.complete(10, 0)
    variances = [
        histogram(edges=edges, privacy=target, **changes).noise(topology).variance(10)
        for changes in ({}, {"values": 1})
    ]
    assert variances[0] == 21024
    assert 7.8 < variances[1] < 8


def test_questions_without_values_are_written_and_read_as_before():
    old = histogram()
    assert '"values"' not in old.canonical_json()
    assert SumParams.from_json(old.canonical_json()) == old
    new = histogram(values=3)
    assert '"values":3' in new.canonical_json()
    assert SumParams.from_json(new.canonical_json()) == new
    assert old.sensitivities["coalition"].squared_l2 == 4 * 3


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"largest": 4, "values": 3}, "largest, values"),
        ({"values": 0}, "values"),
        ({"analysis": "secure-sum", "edges": (), "values": 3}, "only a histogram counts values"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(changes, text):
    fields = {"analysis": "secure-histogram", "record": "hours", "largest": 1, "edges": EDGES, **changes}
    with pytest.raises((JobError, ValueError), match=text):
        SumParams.model_validate(fields)


def test_a_record_that_cannot_be_used_is_zeros():
    found = contribution(histogram(values=2), DeclaredRecord(), Record(np.array([np.nan])))
    assert found.vector.tolist() == [0, 0, 0]
    assert found.not_used_because


def test_a_bound_of_counts_is_never_above_that_of_full_bins():
    assert VectorBound.of_counts(2, 3, 100).squared_norm == 2 * 9
    assert VectorBound.of_counts(2, 3, 100).sizes == 6
