import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from labelled_tables import PARTIES, labelled_tables, logistic_job

from analyses.job.plan import OPENING_STAGE
from analyses.job.schema import BlockSchema
from analyses.logistic_regression import gradient_plan
from analyses.logistic_regression import protocol as logistic_regression
from analyses.logistic_regression.gradient_steps import zero_of
from analyses.run_locally import local_network, run_plan
from dp.mechanism.bounded_sampling import BoundedPoisson
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import InconsistentSharesError, PeerViolationError
from mpc.local.network import LocalNetwork, LocalSession, local_names
from mpc.protocol.computation import Computation
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.session import COORDINATOR
from party.tables.kept_values import kept_words

GENEROUS = {"epsilon": 5000.0, "delta": 1e-5}
ALMOST_NONE = {"epsilon": 1e6, "delta": 1e-5}  # noise so small that a wrong term of the polynomial stands out
COARSE = {"gamma": 64, "weight_gamma": 16, "weight_norm": 3.0}


def plan_for(tables, job):
    return logistic_regression.plan(
        job, [tables[m].schema if m in tables else BlockSchema(party=m) for m in job.members]
    )


async def run(plan, tables, coordinator=logistic_regression.coordinator, **options):
    network = local_network(plan, **{"entropy_of": lambda m: InsecureTestEntropy(f"member {m}"), **options})
    analysis = replace(logistic_regression.ANALYSIS, coordinator=coordinator)
    return (await run_plan(plan, tables, network, analysis=analysis)).ends, network


@pytest.fixture
def batches(monkeypatch):
    """What each compute party drew, in the order in which they began."""
    drawn = []
    draw = BoundedPoisson.samples

    def recorded(self, stream, n_units):
        mine = []
        drawn.append(mine)
        for sample in draw(self, stream, n_units):
            mine.append(sample)
            yield sample

    monkeypatch.setattr(BoundedPoisson, "samples", recorded)
    return drawn


def noise_of(plan, tables, network, batches):
    """What was opened minus the exact sums at the weights that were sent, in integers: shape (steps, n, sums)."""
    gradient, field = plan.gradient, ResidueField(plan.n_primes)
    blocks, labels = [], None
    for owner in plan.owners:
        table = tables[plan.job.members[owner - 1]]
        names = [c.name for c in table.schema.columns]
        columns = [names.index(c.name) for c in plan.features_of(owner).columns]
        blocks.append(plan.quantiser_of(owner).quantise(table.values[:, columns])[0])
        if "left" in names:
            labels = table.values[:, names.index("left")].astype(int).astype(object)
    x = np.hstack(blocks).astype(object)
    if plan.params.intercept:
        x = np.hstack([x, np.full((len(x), 1), plan.constant, dtype=object)])
    sent = [m.array.view(np.int64) for m in network.transcript if (m.stage, m.receiver) == ("weights", 1)]
    weights = [np.zeros(x.shape[1], dtype=object), *(w.astype(object) for w in sent)]
    scheme, noise = ShamirScheme(field, plan.n_parties, 2 * plan.job.t), []
    for step in range(plan.params.iterations):
        opened = [m for m in network.transcript if (m.stage, m.sequence) == (OPENING_STAGE, step)]
        noisy = field.decode(scheme.recombine({m.sender: m.array for m in opened})).astype(object)
        rows, y = x[batches[step]], labels[batches[step]]
        v = rows @ weights[step]
        exact = np.stack([rows.T @ factor for factor in gradient.factors(v, y, v**3)], axis=1)
        noise.append(noisy - exact)
    return np.array(noise)


CHOICES = [
    {},
    {"release": "three-sums"},
    {"intercept": False, "most_participations": 2},
    {"sampling_rate": 1.0},
    {"order": 3, **COARSE},
]


@pytest.mark.parametrize("choice", [{"sampling_rate": 1.0}, {"sampling_rate": 0.5}, {"order": 3, **COARSE}])
async def test_batches_in_parts_and_shares_in_files_open_the_same(choice, monkeypatch, tmp_path):
    tables = labelled_tables(40)
    plan = plan_for(tables, logistic_job({"iterations": 3, **choice}, privacy=GENEROUS))

    async def opened():
        ends, network = await run(plan, tables)
        shares = [m.array for m in network.transcript if m.stage == OPENING_STAGE and m.receiver == COORDINATOR]
        return ends[COORDINATOR]["weights"], shares

    weights, shares = await opened()
    monkeypatch.setattr(gradient_plan, "MAX_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(LocalSession, "kept_words", lambda self, shape: kept_words(shape, 0, tmp_path))
    again, others = await opened()
    assert again == weights
    assert len(shares) == len(others) > 0
    assert all(np.array_equal(one, other) for one, other in zip(shares, others, strict=True))


@pytest.mark.parametrize("parameters", CHOICES, ids=str)
async def test_each_step_opens_the_exact_sums_of_a_batch_at_the_weights_sent_plus_everybodys_noise(parameters, batches):
    tables = labelled_tables()
    plan = plan_for(tables, logistic_job({"iterations": 8, "learning_rate": 0.5, **parameters}, privacy=ALMOST_NONE))
    results, network = await run(plan, tables)
    assert all(map(np.array_equal, batches[0], batches[1]))
    noise = noise_of(plan, tables, network, batches[0])
    assert np.abs(noise).max() <= plan.mechanism.noise_tail_bound(-40)
    assert np.abs(noise).max() > 0
    assert results[COORDINATOR]["iterations"] == 8


@pytest.mark.parametrize("most", [1, 3])
async def test_no_record_enters_more_batches_than_the_plan_says(most, batches):
    tables = labelled_tables()
    plan = plan_for(tables, logistic_job({"iterations": 8, "most_participations": most}))
    await run(plan, tables)
    counts = np.bincount(np.concatenate(batches[0]), minlength=60)
    assert counts.max() == most


@pytest.mark.parametrize("label_at", [0, 1])
@pytest.mark.parametrize("parameters", [{}, {"optimiser": "sgd", "learning_rate": 4.0}], ids=str)
async def test_with_a_generous_epsilon_the_weights_are_those_of_the_reference(parameters, label_at):
    tables = labelled_tables(400, label_at=label_at)
    given = {"iterations": 30, "sampling_rate": 1.0, "max_rows": 400, **parameters}
    plan = plan_for(tables, logistic_job(given, privacy=GENEROUS))
    results, _ = await run(plan, tables)
    weights, intercept = logistic_regression.reference([tables[p] for p in PARTIES], plan)
    found = results[COORDINATOR]
    assert found["columns"] == ["bank.x0", "bank.x1", "hospital.x0", "hospital.x1", "hospital.x2", "telco.x0"]
    assert found["weights"] == pytest.approx(weights, abs=0.05)
    assert found["intercept"] == pytest.approx(intercept, abs=0.05)


async def test_the_weights_are_in_the_columns_own_units_and_predict_the_label():
    tables = labelled_tables(400)
    given = {"iterations": 60, "max_rows": 400, "weight_norm": 8.0, "learning_rate": 0.3}
    plan = plan_for(tables, logistic_job(given, privacy={"epsilon": 100.0, "delta": 1e-5}))
    results, _ = await run(plan, tables)
    rows = np.hstack([tables["bank"].values, tables["hospital"].values, tables["telco"].values[:, 1:]])
    scores = rows @ np.array(results[COORDINATOR]["weights"]) + results[COORDINATOR]["intercept"]
    assert ((scores > 0) == tables["telco"].values[:, 0]).mean() > 0.85


async def test_log_odds_of_values_in_their_own_units_are_those_of_scaled_rows():
    tables = labelled_tables()
    plan = plan_for(tables, logistic_job())
    weights = np.random.default_rng(2).normal(size=plan.gradient.n_columns)
    x, y = logistic_regression.scaled_rows([tables[p] for p in PARTIES], plan)
    assert (y == tables["telco"].values[:, 0]).all()
    per_unit, intercept = logistic_regression.in_own_units(plan, weights)
    rows = np.hstack([tables["bank"].values, tables["hospital"].values, tables["telco"].values[:, 1:]])
    assert rows @ per_unit + intercept == pytest.approx(x @ weights, abs=1e-9)  # by default no row is shortened


async def test_a_batch_may_be_empty():
    for order in (1, 3):
        tables = labelled_tables(3)
        plan = plan_for(tables, logistic_job({"sampling_rate": 0.01, "order": order, **COARSE}, privacy=GENEROUS))
        results, _ = await run(plan, tables)
        assert len(results[COORDINATOR]["weights"]) == 6


async def test_the_result_is_json_and_its_report_states_both_views():
    tables = labelled_tables()
    results, _ = await run(plan_for(tables, logistic_job()), tables)
    found = json.loads(json.dumps(results[COORDINATOR]))
    assert found["label"] == "telco.left"
    assert found["privacy"]["views"]["coalition"]["epsilon"] <= 50.0
    assert 0 < found["privacy"]["views"]["coordinator"]["epsilon"] < found["privacy"]["views"]["coalition"]["epsilon"]


async def test_what_the_coordinator_receives_does_not_depend_on_the_rows_or_the_batches():
    shapes = []
    for n_rows in (60, 20):
        tables = labelled_tables(n_rows)
        _, network = await run(plan_for(tables, logistic_job()), tables)
        shapes.append([(m.sender, m.stage, m.array.shape) for m in network.transcript if m.receiver == COORDINATOR])
    assert sorted(shapes[0]) == sorted(shapes[1])
    assert {stage for _, stage, _ in shapes[0]} == {OPENING_STAGE}


async def test_parties_learn_their_own_counts_of_clipped_values_and_rows():
    tables = labelled_tables()
    values = tables["bank"].values.copy()
    values[0, 1] = 99.0
    tables["bank"] = replace(tables["bank"], values=values)
    given = {"row_norm": 2.0, "norm_bounds": {"bank": 0.1, "hospital": 1.7, "telco": 0.1}}
    results, _ = await run(plan_for(tables, logistic_job(given)), tables)
    assert results[1].clipped_values == {"x0": 0, "x1": 1}
    assert results[1].clipped_rows > 50 > 20 > results[2].clipped_rows
    assert results[3].clipped_values == {"x0": 0}


async def test_owners_may_be_other_members_than_the_compute_parties(batches):
    tables = labelled_tables()
    plan = plan_for(tables, logistic_job(compute=["one", "two", "three"]))
    _, network = await run(plan, tables)
    noise = noise_of(plan, tables, network, batches[0])
    assert np.abs(noise).max() <= plan.mechanism.noise_tail_bound(-40)
    assert not any(m.receiver > 3 and m.stage in ("table", "weights") for m in network.transcript)


@pytest.mark.parametrize("order", [1, 3])
async def test_five_parties_tolerate_two_colluding_ones_or_one(order, batches):
    tables = labelled_tables()
    for colluding in (2, 1):  # with one, shares are left over, and noise travels
        batches.clear()
        job = logistic_job({"order": order, **COARSE}, compute=[*PARTIES, "four", "five"], colluding=colluding)
        plan = plan_for(tables, job)
        results, network = await run(plan, tables)
        assert results[COORDINATOR]["wrong_shares_from"] == []
        noise = noise_of(plan, tables, network, batches[0])
        assert np.abs(noise).max() <= plan.mechanism.noise_tail_bound(-40)


async def test_where_there_is_a_surplus_a_party_that_cubes_wrong_shares_is_named_and_its_step_is_not_opened(
    monkeypatch,
):
    multiply = Computation.multiply

    async def wrong_at_party_two(self, x, y):
        return await multiply(self, x + 1 if self.me == 2 else x, y)

    monkeypatch.setattr(Computation, "multiply", wrong_at_party_two)
    tables = labelled_tables()
    job = logistic_job({"order": 3, **COARSE}, compute=[*PARTIES, "four", "five"], colluding=1)
    results, network = await run(plan_for(tables, job), tables, deadline_s=2.0)
    for number in (1, 3, 4, 5):
        assert isinstance(results[number], PeerViolationError)
        assert results[number].member == 2
    opened = [m.sender for m in network.transcript if m.stage == OPENING_STAGE and m.sender != 2]
    assert sorted(opened) == [1, 3, 4, 5]  # the first step alone: its weights are 0, and wrong shares times 0 are right


@pytest.mark.parametrize(("bad", "becomes"), [(0.5, 0.0), (2.0, 1.0), (-1.0, 0.0), (0.51, 1.0), (1e300, 1.0)])
async def test_labels_that_are_not_0_or_1_become_the_nearer_one_and_only_their_owner_hears_of_it(bad, becomes):
    tables, seen = labelled_tables(), []
    for label in (becomes, bad):
        values = tables["telco"].values.copy()
        values[7, 0] = label
        tables["telco"] = replace(tables["telco"], values=values)
        plan = plan_for(tables, logistic_job({"iterations": 2, "sampling_rate": 1}))
        results, _ = await run(plan, tables)
        weights, intercept = logistic_regression.reference([tables[p] for p in PARTIES], plan)
        seen.append((results[COORDINATOR], weights.tolist(), intercept))
    assert seen[0] == seen[1]  # the entropy is the same
    assert [results[n].mapped_values for n in (1, 2, 3)] == [{}, {}, {"left": 1}]


async def test_tables_with_different_numbers_of_rows_are_refused_by_name_and_nothing_is_shared():
    tables = labelled_tables()
    tables["hospital"] = labelled_tables(59)["hospital"]
    results, network = await run(plan_for(tables, logistic_job()), tables, deadline_s=0.5)
    assert all(isinstance(results[number], UnequalValuesError) for number in (1, 2, 3))
    assert not any(m.stage in ("table", OPENING_STAGE) for m in network.transcript)


def sending(weights_of):
    """A coordinator that opens one gradient and then sends what it likes."""

    async def coordinator(session, plan):
        for party in (1, 2, 3):
            await session.receive(party, OPENING_STAGE, (1, plan.gradient.n_columns, 1))
        for party in (1, 2, 3):
            await session.send(party, "weights", weights_of(party, plan).view(np.uint64))

    return coordinator


@pytest.mark.parametrize("huge", [4 * 1024 + 1, 2**62, -(2**63)])
async def test_weights_outside_the_ball_are_refused_by_all_parties_and_nothing_more_is_opened(huge):
    tables = labelled_tables()

    def weights_of(party, plan):
        return np.array([huge] + [0] * (plan.gradient.n_columns - 1), dtype=np.int64)

    results, network = await run(plan_for(tables, logistic_job()), tables, sending(weights_of))
    for number in (1, 2, 3):
        assert isinstance(results[number], PeerViolationError)
        assert "weights of a larger norm than the plan allows" in str(results[number])
        assert results[number].member == COORDINATOR
    assert sum(m.stage == OPENING_STAGE for m in network.transcript) == 3


@pytest.mark.parametrize("order", [1, 3])
async def test_a_coordinator_that_tells_parties_different_weights_learns_nothing_and_is_found_out(order):
    """Where products are opened at once, what was opened is a random element; else it is found out before."""
    tables, parameters = labelled_tables(), {"order": order, **(COARSE if order == 3 else {})}
    plan = plan_for(tables, logistic_job(parameters))

    def weights_of(party, plan):
        return np.full(plan.gradient.n_columns, party == 2, dtype=np.int64)

    results, network = await run(plan, tables, sending(weights_of))
    for number in (1, 2, 3):
        assert isinstance(results[number], InconsistentSharesError)
    shares = [
        {m.sender: m.array for m in network.transcript if (m.stage, m.sequence) == (OPENING_STAGE, at)} for at in (0, 1)
    ]
    assert [len(one) for one in shares] == [3, 3 if order == 1 else 0]


async def test_different_weights_before_the_last_step_are_found_out_though_nothing_is_opened_after_it():
    """Two steps: the second one's echo is waited for by all, or a job would end well that opened a random element."""
    tables = labelled_tables()

    def weights_of(party, plan):
        return np.full(plan.gradient.n_columns, party == 2, dtype=np.int64)

    results, _ = await run(plan_for(tables, logistic_job({"iterations": 2})), tables, sending(weights_of))
    assert {type(results[number]) for number in (1, 2, 3)} == {InconsistentSharesError}


@pytest.mark.parametrize(("compute", "is_bound"), [(PARTIES, True), ((*PARTIES, "one"), False)], ids=["3", "4"])
def test_weights_are_bound_only_where_no_share_of_an_opening_is_to_spare(compute, is_bound):
    """Three of four parties open where one may collude: one that was told other weights would be corrected, unseen."""
    job = logistic_job({"iterations": 3}, compute=compute, colluding=1)
    assert plan_for(labelled_tables(), job).binds_weights is is_bound


@pytest.mark.parametrize("told", [(1, 1, 1), (1, 2, 1), (1, 2, 3)], ids=str)
async def test_masks_of_weights_cancel_only_where_all_parties_were_told_the_same(told):
    plan, field = plan_for(labelled_tables(), logistic_job()), ResidueField(2)

    async def mask(session):
        exchange = ShareExchange(session, field, 3, 1, await agree_pairwise_secrets(session, (1, 2, 3), 3))
        computation = SimpleNamespace(exchange=exchange)
        weights = np.full(plan.gradient.n_columns, told[session.me - 1])
        again = [(await zero_of(computation, plan, weights, step, (50, 1))).share for step in (1, 2)]
        assert not (again[0] == again[1]).any()  # another step, another mask
        return again[0]

    shares = await LocalNetwork(local_names(3)).run(dict.fromkeys((1, 2, 3), mask))
    values = field.decode(ShamirScheme(field, 3, 2).recombine(shares))
    if len(set(told)) == 1:
        assert (values == 0).all()
    else:
        assert np.abs(values.astype(float)).mean() == pytest.approx(field.order / 4, rel=0.3)


async def test_the_noise_opened_is_that_of_all_three_parties(batches):
    tables = labelled_tables(20)
    plan = plan_for(tables, logistic_job({"iterations": 120}))
    _, network = await run(plan, tables)
    noise = noise_of(plan, tables, network, batches[0]).astype(float)
    # 840 draws: the standard deviation of their mean square is 5 %; two parties' noise would be 33 % short.
    assert np.mean(noise**2) == pytest.approx(2 * 3 * plan.party_mu, rel=0.15)


async def test_the_polynomials_of_what_is_opened_are_random_up_to_the_degree_of_a_product():
    # In an empty batch the product's polynomial is 0, so the noise's is all there is. Shares on a line would mean that
    # the square term of other batches is not hidden.
    tables = labelled_tables(2)
    plan = plan_for(tables, logistic_job({"sampling_rate": 0.001, "iterations": 3}, privacy=GENEROUS))
    _, network = await run(plan, tables)
    field = ResidueField(plan.n_primes)
    line = ShamirScheme(field, 3, 1)
    for step in range(3):
        shares = {m.sender: m.array for m in network.transcript if (m.stage, m.sequence) == (OPENING_STAGE, step)}
        at_zero = [line.recombine({party: shares[party] for party in pair}) for pair in ((1, 2), (2, 3))]
        assert (at_zero[0] != at_zero[1]).all()
        for share in shares.values():
            assert np.median(np.abs(field.decode(share).astype(float))) > field.half_order / 8
