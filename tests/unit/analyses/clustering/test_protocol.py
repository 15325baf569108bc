import json

import numpy as np
import pytest
from clustering_jobs import clustering_job, mixture, network_of, plan_for, run, run_parties, split
from sklearn.metrics import v_measure_score

from analyses.clustering import protocol as clustering
from analyses.clustering.estimators.membership import MembershipGrid
from analyses.clustering.estimators.mpc import MpcEstimator
from analyses.clustering.local_clustering import WIDTH
from analyses.clustering.plan import least_local_clusters, local_clusters
from analyses.clustering.weighted_clustering import Choices, loss, nearest
from analyses.job.job import JobError
from analyses.job.schema import ColumnSchema, Table
from bench.datasets.bundled import read
from dp.cost.accounting import CalibrationError
from dp.cost.composition import composed_epsilon
from dp.cost.events.record import event_from, record_of
from dp.cost.views import VIEWS
from entropy import InsecureTestEntropy
from mpc.errors import PeerError
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.session import COORDINATOR

ROWS, LABELS = mixture(4000)


@pytest.mark.parametrize(("n_owners", "n_helpers"), [(2, 3), (3, 0), (4, 0)])
async def test_clusters_are_nearly_as_good_as_those_of_the_same_grid_without_privacy(n_owners, n_helpers):
    tables = split(ROWS, n_owners)
    plan = plan_for(clustering_job(tables, n_helpers=n_helpers), tables)
    results, _ = await run(plan, tables)
    centres = np.array(results[COORDINATOR]["centres"])
    exact = clustering.reference(tables, plan, Choices(InsecureTestEntropy("reference")))
    assert loss(ROWS, centres) < 1.2 * loss(ROWS, exact.centres)
    assert v_measure_score(LABELS, nearest(ROWS, centres)[0]) > 0.95
    assert sum(results[COORDINATOR]["weights"]) == pytest.approx(len(ROWS), rel=0.2)


async def test_the_grid_keeps_what_single_memberships_lose():
    """Two columns at two parties, clusters on the diagonal: the off-diagonal cells must be empty."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, 2, 3000)
    rows = np.where(which, 0.6, -0.6)[:, None] + rng.normal(0, 0.05, (3000, 2))
    tables = split(rows, 2)
    plan = plan_for(clustering_job(tables, n_helpers=3, k=2, k_local=2), tables)
    results, _ = await run(plan, tables)
    centres = np.array(results[COORDINATOR]["centres"])
    np.testing.assert_allclose(centres[centres[:, 0].argsort()], [[-0.6, -0.6], [0.6, 0.6]], atol=0.02)


@pytest.mark.parametrize("changes", [{"p": 1}, {"p": 4}, {"local_method": "lloyd", "k_local": 6, "epsilon": 6.0}])
async def test_medians_higher_powers_and_noisy_lloyd_run_too(changes):
    tables = split(ROWS, 3)
    plan = plan_for(clustering_job(tables, **changes), tables)
    results, _ = await run(plan, tables)
    p, centres = plan.params.p, np.array(results[COORDINATOR]["centres"])
    spread = loss(ROWS, ROWS.mean(axis=0, keepdims=True), p)
    assert loss(ROWS, centres, p) < (0.4 if p == 1 else 0.15) * spread


async def test_the_result_is_json_in_units_of_the_columns_and_reports_both_views():
    tables = split(ROWS, 3)
    plan = plan_for(clustering_job(tables), tables)
    results, _ = await run(plan, tables)
    result = json.loads(json.dumps(results[COORDINATOR], allow_nan=False))
    assert np.array(result["centres"]).shape == (4, 6)
    assert np.array(result["local_centres"]["owner-2"]).shape == (plan.k_local, 2)
    views = result["privacy"]["views"]
    assert 0 < views["coordinator"]["epsilon"] < views["coalition"]["epsilon"] <= 2.0


def test_centres_of_the_widest_columns_are_finite_and_within_their_bounds():
    tables = split(ROWS, 3)
    wide = ColumnSchema(name="x0", lower=-8e307, upper=8e307)
    schema = tables[0].schema.model_copy(update={"columns": (wide, *tables[0].schema.columns[1:])})
    plan = plan_for(clustering_job(tables), [Table(schema, tables[0].values, tables[0].ids_digest), *tables[1:]])
    found = clustering.in_column_units(np.array([[1.0] * 6, [-1.0] * 6]), plan)
    assert found[:, 0].tolist() == [8e307, -8e307]


async def test_equal_entropy_gives_the_same_result_and_a_party_learns_how_many_values_were_clipped():
    rows = ROWS.copy()
    rows[:7, 3] = 5.0
    tables = split(rows, 3)
    plan = plan_for(clustering_job(tables), tables)
    (first, _), (again, _), (other, _) = [await run(plan, tables, seed) for seed in ("a", "a", "b")]
    assert first[COORDINATOR] == again[COORDINATOR] != other[COORDINATOR]
    assert first[2].clipped_values == {"x2": 0, "x3": 7}


async def test_on_real_letters_clusters_are_nearly_as_good_as_without_privacy():
    rows = read("letter").drop("letter").to_numpy()[:4000] / 7.5 - 1  # attributes are 0..15, as published
    tables = split(rows, 2)
    job = clustering_job(tables, n_helpers=3, k=5, k_local=5, epsilon=4.0, view="coordinator")
    plan = plan_for(job, tables)
    results, _ = await run(plan, tables)
    exact = clustering.reference(tables, plan, Choices(InsecureTestEntropy("reference")))
    assert loss(rows, np.array(results[COORDINATOR]["centres"])) < 1.15 * loss(rows, exact.centres)


# -- cost ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_centres_and_counts_cost_the_target_together_and_hardly_less(view, share):
    tables = split(ROWS, 3)
    plan = plan_for(clustering_job(tables, epsilon=1.0, view=view, counting_share=share), tables)
    events = plan.privacy_events(view)
    assert len(events) == 3 + 1
    assert 0.99 < composed_epsilon(events, 1e-5).epsilon <= 1.0
    assert composed_epsilon(plan.counting.events(view), 1e-5).epsilon <= share
    assert [event_from(record_of(event)) for event in events] == list(events)


async def test_centres_leave_only_as_lattice_points_to_the_coordinator():
    tables = split(ROWS, 3)
    plan = plan_for(clustering_job(tables), tables)
    _, network = await run(plan, tables)
    sent = [m for m in network.transcript if m.stage == clustering.CENTRES_STAGE]
    assert [(m.sender, m.receiver) for m in sent] == [(1, COORDINATOR), (2, COORDINATOR), (3, COORDINATOR)]
    assert all(m.array.dtype == np.uint64 and m.array.max() <= WIDTH for m in sent)


# -- k' ------------------------------------------------------------------------------------------------------------

PUBLISHED = {
    (2, 20_000): (4, 5, 5, 6, 6),
    (2, 60_000): (5, 6, 6, 7, 7),
    (2, 100_000): (6, 6, 7, 7, 7),
    (4, 20_000): (4, 4, 5, 5, 5),
    (4, 60_000): (4, 5, 6, 6, 6),
    (4, 100_000): (5, 6, 6, 7, 7),
}
"""Automatically chosen k' for epsilon 0.5, 1, 2, 3, 4 in the dissertation's table 5.1."""


class PrintedSketch(MpcEstimator):
    """The deviation of two parties' counts as theorem 6 states it for sketches with M = 4096, rho = 1."""

    epsilon: float

    def count_deviation(self, n_rows):
        k, s = self.grid.k_local, len(self.grid.owners)
        epsilon_2 = 0.98 * self.epsilon / (2 * s)
        return (n_rows - n_rows / k**2) / 64 + 4 * 2 * (k - 1) * np.sqrt(np.log(n_rows)) / epsilon_2


def test_the_rule_gives_the_published_numbers_but_for_one():
    agree = 0
    for (n_owners, n_rows), expected in PUBLISHED.items():
        for epsilon, k_expected in zip((0.5, 1, 2, 3, 4), expected, strict=True):

            def sketch(k_local, n_owners=n_owners, epsilon=epsilon):
                members = tuple(range(1, n_owners + 1))
                grid = MembershipGrid(
                    owners=members, members=members, n_parties=3, colluding=1, k_local=k_local, max_rows=10**6
                )
                return PrintedSketch(grid=grid, cells="pairs", party_mu=2, epsilon=epsilon)

            agree += local_clusters(2, n_owners, n_rows, sketch).grid.k_local == k_expected
    assert agree >= 29


@pytest.mark.parametrize(("k", "n_owners", "least"), [(1, 2, 2), (4, 2, 2), (5, 2, 3), (16, 4, 2), (17, 4, 3)])
def test_the_grid_has_at_least_k_cells(k, n_owners, least):
    assert least_local_clusters(k, n_owners) == least


def test_less_noise_allows_more_local_clusters():
    tables = split(ROWS, 4)
    joint = {"counting_options": {"cells": "joint"}}
    chosen = [plan_for(clustering_job(tables, epsilon=e, **joint), tables).k_local for e in (0.5, 2.0, 8.0)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1]


# -- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"k": 5001, "k_local": 1000}, "5001"),
        (
            {"max_rows": 3999},
            (
                "max_rows: 3999 is smaller than 4000, the largest number of rows that table 'people' of party "
                "'owner-1' declares"
            ),
        ),
        (
            {"k": 401},
            (
                "k: 401 clusters are more than 400, the smallest number of rows that table 'people' of party "
                "'owner-1' declares"
            ),
        ),
        ({"k": 30, "k_local": 3}, r"30 clusters are more than the k_local\^3 = 27 cells"),
        ({"k_local": 50, "counting_options": {"cells": "joint"}}, "at most 65536 cells of their grid"),
        ({"k_local": 148}, "3 owners may have at most 65536 counts of pairs"),
        ({"counting": "magic"}, "there is no membership estimator 'magic'; available: .*mpc"),
        ({"counting_options": {"depth": 3}}, "counting_options: .* no option 'depth'"),
        ({"counting_share": 1.0}, "counting_share"),
        ({"p": 5}, "p: "),
        *(
            (
                {"p": p, "local_method": "lloyd"},
                f"local_method: 'lloyd' minimises squared distances and needs p = 2; use 'tree' with p = {p}",
            )
            for p in (1, 3)
        ),
        ({"expected_rows": 6000}, "expected_rows: must not be larger than max_rows"),
        ({"epsilon": 0.001}, "privacy.epsilon: .* infeasible: the error of .* is"),
        ({"max_rows": 1 << 101}, "max_rows"),
        ({"wishes": 1}, "wishes"),
    ],
)
def test_a_job_that_cannot_be_met_is_refused_by_its_plan(changes, says):
    tables = split(ROWS, 3)
    with pytest.raises(JobError, match=says):
        plan_for(clustering_job(tables, **changes), tables)


def test_one_owner_is_no_vertical_clustering():
    tables = split(ROWS, 1)
    with pytest.raises(JobError, match="at least two parties"):
        plan_for(clustering_job(tables, n_helpers=3), tables)


async def test_tables_of_different_rows_stop_before_anything_is_sent_to_the_coordinator():
    tables = split(ROWS, 3)
    tables[1] = split(ROWS[:-1], 3)[1]
    plan = plan_for(clustering_job(tables), tables)
    network = network_of(plan)
    results = await run_parties(plan, tables, network)
    assert any(isinstance(result, UnequalValuesError) for result in results.values())
    assert not [message for message in network.transcript if message.receiver == COORDINATOR]


async def test_a_centre_outside_the_bounds_is_held_against_its_sender():
    tables = split(ROWS, 3)
    plan = plan_for(clustering_job(tables), tables)

    def outside(message):
        if message.stage == clustering.CENTRES_STAGE and message.sender == 2:
            return (message.altered(message.array + np.uint64(WIDTH + 1)),)
        return (message,)

    results, _ = await run(plan, tables, fault=outside)
    assert isinstance(results[COORDINATOR], PeerError)
    assert "owner-2 sent a centre outside the public bounds" in str(results[COORDINATOR])


async def test_equal_rows_leave_empty_clusters_of_weight_zero():
    tables = split(np.full((2000, 4), 0.25), 2)
    plan = plan_for(clustering_job(tables, n_helpers=3, k=3, k_local=3), tables)
    results, _ = await run(plan, tables)
    result = results[COORDINATOR]
    best = int(np.argmax(result["weights"]))
    assert result["weights"][best] > 0.9 * sum(result["weights"])
    np.testing.assert_allclose(result["centres"][best], 0.25, atol=0.1)


def test_the_rule_asks_for_few_grids_and_for_the_coarsest_only_where_no_other_will_do():
    asked = []

    class Counted(PrintedSketch):
        def count_deviation(self, n_rows):
            asked.append(self.grid.k_local)
            return super().count_deviation(n_rows)

    def calibrated(k_local):
        if k_local > 11:
            raise CalibrationError("so many cells need too much noise")
        return Counted(grid=grid_of(k_local), cells="pairs", party_mu=1, epsilon=100.0)

    assert local_clusters(2, 2, 100_000, calibrated).grid.k_local == 8
    assert len(asked) <= 4


def grid_of(k_local):
    return MembershipGrid(owners=(1, 2), members=(1, 2, 3), n_parties=3, colluding=1, k_local=k_local, max_rows=10**6)


def chosen(n_owners, n_rows, by_pairs):
    """The k' of the rule where counts are off by 7 rows."""

    def calibrated(tried):
        members = tuple(range(1, n_owners + 1))
        grid = MembershipGrid(
            owners=members, members=members, n_parties=n_owners, colluding=1, k_local=tried, max_rows=10**6
        )
        return MpcEstimator(grid=grid, cells="pairs", party_mu=6272 // n_owners)

    return local_clusters(2, n_owners, n_rows, calibrated, by_pairs).grid.k_local


@pytest.mark.parametrize(("n_owners", "k_local"), [(2, 16), (4, 8), (6, 4), (7, 4), (8, 4), (10, 3), (11, 2), (16, 2)])
def test_a_grid_that_is_held_has_4096_cells_and_65536_up_to_four_local_clusters(n_owners, k_local):
    assert chosen(n_owners, 10**6, by_pairs=False) == k_local


@pytest.mark.parametrize(
    ("n_owners", "n_rows", "k_local"),
    [(2, 10**6, 16), (4, 10**6, 8), (5, 10**6, 6), (16, 10**6, 6), (40, 10**6, 6), (16, 720, 5), (16, 680, 4)],
)
def test_counts_of_pairs_leave_k_local_of_many_owners_to_the_noise(n_owners, n_rows, k_local):
    """From five owners on: an even share of a pair is four deviations of 7 rows."""
    assert chosen(n_owners, n_rows, by_pairs=True) == k_local


async def test_six_owners_whose_grid_is_too_large_to_be_fitted_find_the_clusters():
    rows, labels = mixture(1000)
    tables = split(rows, 6)
    plan = plan_for(clustering_job(tables, epsilon=8.0, view="coordinator", max_rows=1000), tables)
    assert plan.counting.is_by_classes
    (results, _) = await run(plan, tables)
    result = results[COORDINATOR]
    assert v_measure_score(labels, nearest(rows, np.array(result["centres"]))[0]) > 0.9
    assert result["distinguishable"]
    assert sum(result["weights"]) == pytest.approx(len(rows), rel=0.1)
