import json

import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_schema, make_table

from analyses.job.job import JobError
from analyses.pca import protocol as pca
from analyses.rows import joint_computation
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from mpc.errors import PeerError, PeerLostError
from mpc.local.network import LocalNetwork
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.session import COORDINATOR
from results.registry import lines_of


def stretched_tables(n_rows=400):
    """Six columns of three parties that vary mostly along two directions, which lie across the parties."""
    rng = np.random.default_rng(17)
    far, less = rng.uniform(-1, 1, (2, n_rows, 1))
    directions = np.array([[0.9, 0.5, -0.6, 0.3, 0.1, 0.4], [-0.3, 0.5, 0.2, 0.45, -0.2, 0.0]])
    values = 0.6 + far * directions[0] + less * directions[1] + rng.uniform(-0.1, 0.1, (n_rows, 6))
    return {p: make_table(p, block) for p, block in zip(PARTIES, np.split(values, [2, 5], axis=1), strict=True)}


def plan_for(tables, **changes):
    job = make_job(**changes)
    return pca.ANALYSIS.plan(job, [tables[m].schema if m in tables else make_schema(m, 0, False) for m in job.members])


async def run(plan, tables, **network_options):
    network = local_network(plan, **{"entropy_of": lambda m: InsecureTestEntropy(f"member {m}"), **network_options})
    return (await run_plan(plan, tables, network)).ends, network


def integer_gram(plan, tables):
    x = np.hstack([plan.quantiser_of(o).quantise(tables[plan.job.members[o - 1]].values)[0] for o in plan.owners])
    return x.T @ x


def opened_noise(plan, tables, result):
    """The difference between what was opened and the integer Gram matrix, in integer units, upper triangle."""
    values, vectors = np.array(result["eigenvalues"]), np.array(result["components"])
    assert len(vectors) == len(values), "needs all components"
    opened = (vectors.T * values) @ vectors * (plan.params.gamma / plan.row_norm) ** 2
    return (opened - integer_gram(plan, tables))[np.triu_indices(len(values))]


ALL_COMPONENTS = {"components": 6, "center": False, "gamma": 1024, "max_rows": 1000}
"""With which the opened matrix can be had back from the result: nothing is subtracted from it."""


async def test_the_coordinator_opens_the_integer_gram_matrix_plus_noise_within_its_tail_bound(tables):
    plan = plan_for(tables, parameters=ALL_COMPONENTS, privacy={"epsilon": 4.0, "delta": 1e-5})
    results, _ = await run(plan, tables)
    noise = opened_noise(plan, tables, results[COORDINATOR])
    rounded = np.rint(noise)
    assert np.abs(noise - rounded).max() < 1e-3  # the sums are integers: nothing but noise was added
    assert 0 < np.abs(rounded).max() <= plan.mechanism.noise_tail_bound(-40)


@pytest.mark.parametrize(
    "asked", [{}, {"center": False}, {"scale": True}, {"origin": "middle"}, {"origin": "middle", "scale": True}]
)
async def test_with_a_generous_epsilon_the_components_are_those_of_the_reference(asked):
    tables, parameters = stretched_tables(), {"components": 2, "gamma": 1 << 16, "max_rows": 1000, **asked}
    plan = plan_for(tables, parameters=parameters, privacy={"epsilon": 1e5, "delta": 1e-5})
    result = (await run(plan, tables))[0][COORDINATOR]
    values, components = pca.leading_components(pca.reference([tables[p] for p in PARTIES], plan), 2)
    assert np.abs(np.array(result["components"]) - components).max() < 0.03
    assert result["eigenvalues"][:2] == pytest.approx(values[:2], rel=0.02)
    assert result["n_above_noise"] >= 2


async def test_mean_variance_and_coordinates_are_what_people_mean_by_them():
    """As NumPy has them, of all columns together, divided by the widths of their public bounds."""
    tables = stretched_tables()
    plan = plan_for(
        tables,
        parameters={"components": 2, "gamma": 1 << 16, "max_rows": 1000},
        privacy={"epsilon": 1e5, "delta": 1e-5},
    )
    result = (await run(plan, tables))[0][COORDINATOR]
    values = np.hstack([tables[p].values for p in PARTIES])
    covariance = np.cov(values.T / 4, bias=True)
    assert result["mean"] == pytest.approx(values.mean(axis=0), abs=0.01)
    assert result["n_rows"] == pytest.approx(400, abs=2)
    assert result["scale"] == [4.0] * 6
    variances = np.linalg.eigvalsh(covariance)[::-1]
    assert result["explained_variance"] == pytest.approx(variances[:2], rel=0.02)
    assert result["explained_variance_ratio"] == pytest.approx(variances[:2] / variances.sum(), rel=0.02)
    coordinates = (values - result["mean"]) / result["scale"] @ np.array(result["components"]).T
    assert coordinates.mean(axis=0) == pytest.approx([0, 0], abs=0.01)
    assert coordinates.var(axis=0) == pytest.approx(variances[:2], rel=0.02)


async def test_without_a_centre_there_is_no_mean_and_no_variance_but_shares_of_the_sum_of_squares():
    tables = stretched_tables()
    parameters = {"components": 2, "center": False, "gamma": 1 << 16, "max_rows": 1000}
    plan = plan_for(tables, parameters=parameters, privacy={"epsilon": 1e5, "delta": 1e-5})
    assert plan.constant == 0
    result = (await run(plan, tables))[0][COORDINATOR]
    unknown = [result[name] for name in ("mean", "n_rows", "explained_variance", "explained_variance_interval")]
    assert unknown == [None] * 4
    rows = (np.hstack([tables[p].values for p in PARTIES]) + 1) / 4
    squares = np.linalg.eigvalsh(rows.T @ rows)[::-1]
    assert result["explained_variance_ratio"] == pytest.approx(squares[:2] / squares.sum(), rel=0.01)
    coordinates = (4 * rows - 1 - result["origin"]) / result["scale"] @ np.array(result["components"]).T
    assert (coordinates**2).sum(axis=0) == pytest.approx(squares[:2], rel=0.01)


async def test_a_column_that_hardly_varies_is_named_and_left_out_where_columns_are_scaled():
    tables = stretched_tables()
    values = tables["hospital"].values.copy()
    values[:, 1] = 1.0
    tables["hospital"] = make_table("hospital", values)
    parameters = {"components": 2, "scale": True, "gamma": 1 << 16, "max_rows": 1000}
    plan = plan_for(tables, parameters=parameters, privacy={"epsilon": 1e5, "delta": 1e-5})
    result = (await run(plan, tables))[0][COORDINATOR]
    assert result["left_out"] == ["hospital.x1"]
    assert np.array(result["components"])[:, 3] == pytest.approx([0.0, 0.0])
    assert result["explained_variance_interval"] is None  # not known, as the divisors are noisy, too
    assert "left out, as they vary too little to be scaled: hospital.x1" in "\n".join(lines_of("pca", result))


async def test_components_that_noise_alone_would_show_are_said_to_be_noise():
    tables = stretched_tables()
    parameters = {"components": 6, "gamma": 1 << 16, "max_rows": 1000}
    plan = plan_for(tables, parameters=parameters, privacy={"epsilon": 4.0, "delta": 1e-5})
    result = (await run(plan, tables))[0][COORDINATOR]
    assert result["n_above_noise"] == sum(value > result["noise_edge"] for value in result["eigenvalues"]) < 6
    assert all(ends is None for ends in result["explained_variance_interval"][result["n_above_noise"] :])
    assert "to 6 are not distinguishable from noise" in "\n".join(lines_of("pca", result))


def test_scaling_without_centring_is_refused(tables):
    parameters = {"components": 2, "max_rows": 1000, "scale": True, "center": False}
    with pytest.raises(JobError, match=r"parameters\..*needs center = true"):
        plan_for(tables, parameters=parameters)


def test_the_constant_column_is_an_eighth_of_the_squared_norm_and_all_of_it_is_charged(tables):
    plan = plan_for(tables, parameters={"components": 2, "gamma": 1 << 16, "max_rows": 1000})
    others = sum(plan.squared_norm_bounds)
    assert plan.constant**2 == pytest.approx(others / 8, rel=1e-4)
    assert plan.mechanism.squared_norm_bound == others + plan.constant**2
    assert plan.mechanism.n_columns == 7


@pytest.mark.parametrize("gamma", [16, 1024, 1 << 16])
async def test_every_size_of_field_gives_the_same_answer(tables, gamma):
    parameters = ALL_COMPONENTS | {"gamma": gamma}
    plan = plan_for(tables, parameters=parameters, privacy={"epsilon": 2000.0, "delta": 1e-5})
    results, _ = await run(plan, tables)
    noise = opened_noise(plan, tables, results[COORDINATOR])
    assert np.abs(noise).max() <= plan.mechanism.noise_tail_bound(-40) + 1


async def test_the_result_is_json_and_its_report_states_both_views(tables):
    plan = plan_for(tables)
    results, _ = await run(plan, tables)
    views = json.loads(json.dumps(results[COORDINATOR]))["privacy"]["views"]
    assert views["coalition"]["epsilon"] <= 4.0
    assert 0 < views["coordinator"]["epsilon"] < views["coalition"]["epsilon"]


async def test_the_target_is_met_by_the_view_that_the_job_names(tables):
    plan = plan_for(tables, privacy={"epsilon": 1.0, "delta": 1e-5, "view": "coordinator"})
    assert 0.99 < plan.mechanism.epsilon("coordinator", 1e-5).epsilon <= 1.0
    assert plan.mechanism.epsilon("coalition", 1e-5).epsilon > 1.0


async def test_the_coordinator_receives_one_message_per_party_whose_size_does_not_depend_on_the_rows(tables):
    sizes = []
    for rows in (50, 20):
        cut = {p: make_table(p, t.values[:rows]) for p, t in tables.items()}
        _, network = await run(plan_for(cut), cut)
        inbox = [m for m in network.transcript if m.receiver == COORDINATOR]
        sizes.append(sorted((m.sender, m.stage, m.array.shape) for m in inbox))
    assert sizes[0] == sizes[1]
    assert [s[0] for s in sizes[0]] == [1, 2, 3]


async def test_parties_learn_their_own_counts_of_clipped_values(tables):
    values = tables["bank"].values.copy()
    values[0, 1] = 99.0
    tables = {**tables, "bank": make_table("bank", values)}
    results, _ = await run(plan_for(tables), tables)
    assert results[1].clipped_values == {"x0": 0, "x1": 1}
    assert results[2].clipped_values == {"x0": 0, "x1": 0, "x2": 0}


async def test_several_blocks_of_rows_are_multiplied_like_one(tables, monkeypatch):
    monkeypatch.setattr(joint_computation, "ROWS_PER_BLOCK", 7)
    plan = plan_for(tables, parameters=ALL_COMPONENTS, privacy={"epsilon": 2000.0, "delta": 1e-5})
    results, _ = await run(plan, tables)
    noise = opened_noise(plan, tables, results[COORDINATOR])
    assert np.abs(noise).max() <= plan.mechanism.noise_tail_bound(-40) + 1


async def test_owners_may_be_other_members_than_the_compute_parties(tables):
    plan = plan_for(tables, compute=["one", "two", "three"], parameters=ALL_COMPONENTS)
    results, network = await run(plan, tables)
    noise = opened_noise(plan, tables, results[COORDINATOR])
    assert np.abs(noise).max() <= plan.mechanism.noise_tail_bound(-40) + 1
    assert not any(m.receiver > 3 and m.stage == "table" for m in network.transcript)


async def test_five_parties_tolerate_two_colluding_ones(tables):
    parties = ("a", "b", "c", "d", "e")
    tables = {p: make_table(p, tables["bank"].values) for p in parties}
    plan = plan_for(tables, inputs=[{"party": p, "table": "people"} for p in parties])
    assert plan.job.t == 2
    results, _ = await run(plan, tables)
    assert results[COORDINATOR]["analysis"] == "pca"


async def test_tables_with_different_numbers_of_rows_are_refused_by_name_and_nothing_is_opened(tables):
    tables = {**tables, "hospital": make_table("hospital", tables["hospital"].values[:-1])}
    results, network = await run(plan_for(tables), tables, deadline_s=0.3)
    for number in (1, 2, 3):
        assert isinstance(results[number], UnequalValuesError)
        assert "hospital" in str(results[number])
        assert "49" not in str(results[number])
    assert isinstance(results[COORDINATOR], PeerLostError)
    assert not any(m.stage in ("table", "opening") for m in network.transcript)


async def test_ids_that_differ_or_come_in_another_order_are_refused_by_name_before_any_share_of_data(tables):
    ids = [str(i) for i in range(50)]
    ids[3], ids[4] = ids[4], ids[3]
    tables = {**tables, "telco": make_table("telco", tables["telco"].values, ids)}
    results, network = await run(plan_for(tables), tables, deadline_s=0.3)
    for number in (1, 2, 3):
        assert isinstance(results[number], UnequalValuesError)
        assert str(results[number]) == "the tables of telco and bank do not hold the same rows in the same order"
    assert not any(m.stage in ("table", "opening") for m in network.transcript)


async def test_a_silent_party_is_named_by_all_others(tables):
    plan = plan_for(tables)
    names = {0: "coordinator", 1: "bank", 2: "hospital", 3: "telco"}
    network = LocalNetwork(names, deadline_s=0.2)
    work = {i: lambda s, p=p: pca.party(s, plan, tables[p]) for i, p in ((1, "bank"), (2, "hospital"))}
    results = await network.run(work)
    for result in results.values():
        assert isinstance(result, PeerError)
        assert result.member == 3


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"components": 2, "gamma": 1, "max_rows": 100}, "parameters.gamma"),
        ({"components": 2, "gamma": 1 << 31, "max_rows": 100}, "parameters.gamma"),
        ({"components": 0, "gamma": 64, "max_rows": 100}, "parameters.components"),
        (
            {"components": 7, "gamma": 64, "max_rows": 100},
            ("parameters.components: 7 components are more than the 6 columns of the table"),
        ),
        ({"components": 2, "gamma": 64, "max_rows": 0}, "parameters.max_rows"),
        (
            {"components": 2, "gamma": 64, "max_rows": 49},
            ("parameters.max_rows: 49 is smaller than 50, the largest number of rows that"),
        ),
        ({"components": 2, "gamma": 2, "max_rows": 100}, "every value of telco would be rounded to zero"),
        (
            {"components": 2, "gamma": 64, "max_rows": 100, "norm_bounds": {"bank": 1.0}},
            ("norm_bounds: they can only be given together with row_norm"),
        ),
        (
            {"components": 2, "max_rows": 100, "row_norm": 2.0, "norm_bounds": {"bank": 1.0}},
            ("must have one entry for each of the parties"),
        ),
        (
            {"components": 2, "max_rows": 100, "row_norm": 2.0, "norm_bounds": dict.fromkeys(PARTIES, 1.5)},
            "larger than the square of row_norm",
        ),
        ({"components": 2, "max_rows": 100, "row_norm": -1.0}, "parameters.row_norm"),
        ({"components": 2, "max_rows": 1 << 60, "row_norm": 1e-310}, "parameters.row_norm: 1e-310 is too small"),
        ({"components": 2, "max_rows": 100, "row_norm": 1e200}, "parameters.row_norm: 1e\\+200 is too large"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(tables, parameters, words):
    with pytest.raises(JobError, match=words):
        plan_for(tables, parameters=parameters)


def test_a_field_bound_that_cannot_be_met_is_refused(tables):
    parameters = {"components": 2, "gamma": 1 << 20, "max_rows": 1 << 99}
    with pytest.raises(JobError, match=r"parameters.max_rows, parameters.gamma: .*the largest field has 126"):
        plan_for(tables, parameters=parameters)


def test_an_epsilon_that_no_noise_on_offer_can_give_is_refused(tables):
    with pytest.raises(JobError, match="privacy: "):
        plan_for(tables, privacy={"epsilon": 1e-30, "delta": 1e-5})


def test_an_epsilon_too_small_for_any_answer_is_refused_before_anything_is_spent(tables):
    with pytest.raises(JobError, match=r"privacy.epsilon: .*no answer could be seen"):
        plan_for(tables, privacy={"epsilon": 1e-3, "delta": 1e-5})


def test_every_member_computes_the_same_plan_digest(tables):
    first, second = plan_for(tables), plan_for(tables)
    assert first.digest() == second.digest()
    assert first.digest() != plan_for(tables, privacy={"epsilon": 3.9, "delta": 1e-5}).digest()


def test_the_default_norm_bounds_use_up_gamma_squared_and_no_more(tables):
    plan = plan_for(tables)
    assert 1024**2 - 3 <= sum(plan.squared_norm_bounds) <= 1024**2
