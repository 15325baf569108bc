"""The distribution by a masked sum: its noise, its error beside that of responses, and who may drop out."""

from fractions import Fraction

import numpy as np
import pytest

from analyses.distribution.estimates.metrics import wasserstein
from analyses.distribution.estimates.wave_estimate import estimate_ems
from analyses.distribution.estimates.wave_operator import WaveOperator
from analyses.distribution.masked import MaskedTree, estimate_tree, rows_error
from analyses.distribution.plan import plan
from analyses.distribution.protocol import ANALYSIS
from analyses.distribution.reference import reference
from analyses.job.job import Job, JobError, PrivacyTarget
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.registry import survival_of
from analyses.run_locally import local_network
from analyses.sums.round import levels_of
from analyses.sums.tree_counts import TreeCounts
from dp.cost.composition import composed_epsilon
from dp.cost.views import ROW_UNIT, VIEWS
from dp.draw.skellam import sample_skellam
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy
from mpc.errors import ProtocolError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import Topology
from results.registry import lines_of

PARTIES = ("a", "b", "c", "d")
COLUMN = (ColumnSchema(name="wage", lower=0.0, upper=1.0),)
EPSILON = 1.0


def job_of(epsilon=EPSILON, **parameters):
    return Job.model_validate(
        {
            "analysis": "distribution",
            "inputs": [{"party": name, "table": "people"} for name in PARTIES],
            "privacy": {"epsilon": epsilon, "delta": 1e-6},
            "parameters": {"buckets": 64, "method": "masked", **parameters},
        }
    )


def tables_of(n_rows=2000, most=3000):
    rng = np.random.default_rng(7)
    return {
        name: Table(BlockSchema(party=name, columns=COLUMN, rows=(1, most)), rng.beta(5, 2, (n_rows, 1)))
        for name in PARTIES
    }


def planned(tables, **parameters):
    return plan(job_of(**parameters), [tables[name].schema for name in PARTIES])


@pytest.mark.parametrize("n_buckets", [2, 4, 5, 37, 64, 100, 256])
def test_one_row_moves_as_many_numbers_as_there_are_levels_and_another_row_at_most_twice_as_many(n_buckets):
    counts = TreeCounts(n_buckets, 10)
    vectors = [counts.counted(np.array([bucket])) for bucket in range(n_buckets)]
    n_levels = len(counts.sizes)
    assert {(int(v @ v), int(np.abs(v).sum())) for v in vectors} == {(n_levels, n_levels)}
    moved = [v - vectors[0] for v in vectors]
    assert max(int(v @ v) for v in moved) == max(int(np.abs(v).sum()) for v in moved)
    replaced, added = (counts.sensitivities(ROW_UNIT)[view] for view in ("coalition", "coordinator"))
    assert (replaced.squared_l2, replaced.l1) == (2 * n_levels, 2 * n_levels)
    assert (added.squared_l2, added.l1) == (n_levels, n_levels)
    assert max(int(v @ v) for v in moved) == 2 * n_levels


def test_the_levels_of_a_vector_add_up_and_come_back():
    counts = TreeCounts(37, 1000)
    inputs = np.random.default_rng(1).integers(0, 37, 500)
    levels = counts.split(counts.counted(inputs))
    assert [len(level) for level in levels] == list(counts.sizes) == [3, 10, 37]
    assert [int(level.sum()) for level in levels] == [500, 500, 500]
    assert levels[1].tolist() == [int(np.count_nonzero(inputs // 4 == node)) for node in range(10)]


def test_exact_counts_are_estimated_exactly_and_no_rows_give_a_uniform_distribution():
    counts = TreeCounts(37, 1000)
    inputs = np.random.default_rng(1).integers(0, 37, 500)
    for way in (None, "norm-sub", "admm"):
        probabilities, total, has_converged = estimate_tree(counts, counts.counted(inputs), way)
        assert has_converged is (True if way == "admm" else None)
        assert total == pytest.approx(500)
        assert probabilities == pytest.approx(np.bincount(inputs, minlength=37) / 500)
    probabilities, total, _ = estimate_tree(counts, -counts.counted(inputs))
    assert total == 0
    assert probabilities == pytest.approx(np.full(37, 1 / 37))


def test_the_error_is_a_twentieth_of_that_of_a_square_wave_at_the_same_epsilon():
    """Mean W1 over runs on Beta(5, 2), 60,000 rows, 64 buckets, epsilon 1."""
    n_buckets, n_rows, n_runs = 64, 60_000, 4
    counts = TreeCounts(n_buckets, n_rows)
    tree = MaskedTree.calibrate(counts, Topology.complete(3, 1), 1, PrivacyTarget(epsilon=EPSILON, delta=1e-6))
    wave = Wave.square(n_buckets, Odds.of_epsilon(EPSILON), has_empty=True)
    operator, errors = WaveOperator(wave, n_buckets), {"masked": 0.0, "wave": 0.0}
    for seed in range(n_runs):
        values = (np.random.default_rng(seed).beta(5, 2, n_rows) * n_buckets).astype(np.int64)
        truth = np.bincount(values, minlength=n_buckets) / n_rows
        entropy = InsecureTestEntropy(f"run {seed}")
        noisy = counts.counted(values) + sample_skellam(entropy, Fraction(tree.mu), counts.n_entries)
        found = estimate_tree(counts, noisy)[0]
        errors["masked"] += wasserstein(found, truth) / n_runs
        responses = np.bincount(wave.respond(values, entropy), minlength=wave.n_outputs).astype(float)
        errors["wave"] += wasserstein(estimate_ems(operator, responses).probabilities, truth) / n_runs
    assert errors["wave"] < 0.02
    assert 20 * errors["masked"] < errors["wave"], errors


async def run_of(found, tables, *, killed=None):
    """Run a job in which one party is killed before its masked input, if any is."""

    def entropy_of(member):
        return InsecureTestEntropy(f"dropping {member}")

    network = local_network(found, entropy_of=entropy_of)

    async def party(session, plan, table):
        def progress(stage, done, total):
            if session.me == killed and stage == "masked input":
                network.kill(killed)
                raise ProtocolError("killed")

        session.progress = progress
        return await ANALYSIS.party(session, plan, table)

    async def take_part(session):
        return await party(session, found, tables[PARTIES[session.me - 1]])

    async def coordinate(session):
        try:
            return await ANALYSIS.coordinator(session, found)
        finally:
            network.kill(COORDINATOR)  # as a service, which ends the job

    return (await network.run({COORDINATOR: coordinate, **dict.fromkeys((1, 2, 3, 4), take_part)}))[COORDINATOR]


@pytest.mark.parametrize("killed", [None, 3])
async def test_a_party_that_drops_out_is_missed_and_the_noise_is_the_intended_one(killed):
    tables = tables_of()
    found = planned(tables)
    result = await run_of(found, tables, killed=killed)
    left = [name for number, name in enumerate(PARTIES, start=1) if number != killed]
    assert result["survivors"] == left
    assert set(result["vanished"]) == set(PARTIES) - set(left)
    truth = reference([tables[name] for name in left], found)
    assert result["rows"] == pytest.approx(2000 * len(left), abs=100)
    assert wasserstein(np.array(result["probabilities"]), truth) < 0.003
    assert result["mean"] == pytest.approx(np.concatenate([tables[name].values for name in left]).mean(), abs=0.01)
    assert result["gain_of_a_response"] is None
    assert any("without bound" in line for line in lines_of("distribution", result))


def test_the_noise_is_the_same_whoever_drops_out_and_one_of_four_may():
    found = planned(tables_of(20, 30))
    assert levels_of(found.tree.topology) == (3, 4)
    assert found.tree.variance(4) == found.tree.variance(3) == 2 * Fraction(found.mu)
    assert survival_of(found.job).openings[0].may_drop_out == 1
    wave = found.job.model_copy(update={"parameters": {"method": "wave"}})
    assert survival_of(wave).openings[0].may_drop_out == 0


def test_both_views_meet_the_target_with_as_few_survivors_as_may_be():
    found = planned(tables_of(20, 30))
    for view in VIEWS:
        assert composed_epsilon(found.privacy_events(view), 1e-6).epsilon <= EPSILON
    assert found.privacy_report()["views"]["coalition"]["epsilon"] > 0.9 * EPSILON
    assert found.privacy_unit == "row of one party's table"


@pytest.mark.parametrize(("changes", "text"), [({"epsilon": 1e-30}, "privacy"), ({"fine": 128}, "parameters.fine")])
def test_a_masked_sum_that_cannot_be_made_is_refused_by_name(changes, text):
    with pytest.raises(JobError, match=text):
        planned(tables_of(20, 30), **changes)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 6.0, 8.0, 16.0])
def test_where_less_than_98_percent_of_epsilon_is_spent_the_result_says_why(epsilon):
    made = planned(tables_of(10), epsilon=epsilon)
    result = {"method": "masked", "rows": 0.0, "mean": 0.0, "quantiles": [], "queries": [], "survivors": []}
    result |= {"intervals": None, "has_converged": None, "gain_of_a_response": None}
    lines = lines_of("distribution", result | {"privacy": made.report_of_result()})
    spent = max(composed_epsilon(made.privacy_events(view), 1e-6).epsilon for view in VIEWS) / epsilon
    says_so = any("less epsilon may be spent than was asked for" in line for line in lines)
    assert says_so if spent < 0.98 else epsilon > 1 or not says_so


@pytest.mark.parametrize("n_buckets", [3, 10, 64])
def test_the_number_of_rows_is_off_by_its_stated_error(n_buckets):
    counts, variance = TreeCounts(n_buckets, 1000), 400.0
    noise = np.random.default_rng(5).normal(scale=20.0, size=(2000, counts.n_entries))
    exact = counts.counted(np.arange(900) % n_buckets)
    off = np.std([estimate_tree(counts, exact + one)[1] for one in noise])
    assert off == pytest.approx(rows_error(counts, variance), rel=0.06)


def test_rows_that_noise_may_have_made_up_are_said_to_be_none_perhaps():
    made = planned(tables_of(10))
    result = {"method": "masked", "rows": 300.0, "n_rows_standard_error": 400.0, "mean": 0.0, "quantiles": []}
    result |= {"queries": [], "intervals": None, "has_converged": None, "gain_of_a_response": None}
    (first, *_) = lines_of("distribution", result | {"privacy": made.report_of_result()})
    assert first == "masked: rows about 300 +- 784, which may be none at all; mean 0"
