import numpy as np
import pytest
from moment_jobs import line_tables, plan_for, run, table_of

from analyses.job.job import JobError
from analyses.job.plan import OPENING_STAGE
from analyses.low_rank import protocol as low_rank
from mpc.errors import PeerViolationError
from mpc.protocol.session import COORDINATOR
from party.gate import GatedSession

SKETCH = {"rank": 2, "method": "sketch", "sketch_rows": 12}


def messages(network):
    return {m.sender: m.array.view(np.int64) for m in network.transcript if m.receiver == COORDINATOR}


def impulse_tables(n_rows=40):
    """Each party's column is at its upper bound in one row, the same for all, and 0 elsewhere: G X shows G."""
    impulse = np.zeros(n_rows)
    impulse[2] = 1.0
    return {p: table_of(p, {"x": (0, 1, impulse)}) for p in ("bank", "hospital", "telco")}


async def test_all_parties_multiply_with_the_same_matrix_and_add_noise_of_their_own():
    tables = impulse_tables()
    parameters = {**SKETCH, "gamma": 1 << 24}
    plan = plan_for(low_rank, tables, parameters, privacy={"epsilon": 1e6, "delta": 1e-6})
    _, network = await run(low_rank, plan, tables)
    sent = messages(network)
    assert len({int(m[0]) for m in sent.values()}) == 1
    one = plan.quantise(1, np.ones((1, 1)))[0][0, 0]
    columns = np.array([m[1:] for m in sent.values()]) / one
    assert np.array_equal(np.rint(columns[0]), np.rint(columns[1]))
    assert np.array_equal(np.rint(columns[0]), np.rint(columns[2]))
    assert 0 < np.abs(np.rint(columns[0])).max() <= 32
    noise = (columns - np.rint(columns)) * one
    assert 0.5 < noise.std() / np.sqrt(plan.mechanism.variance(int(sent[1][0]))) < 1.5
    assert not np.array_equal(noise[0], noise[1])


async def test_two_jobs_have_different_matrices():
    tables = impulse_tables()
    plan = plan_for(low_rank, tables, {**SKETCH, "gamma": 1 << 24}, privacy={"epsilon": 1e6, "delta": 1e-6})
    one = plan.quantise(1, np.ones((1, 1)))[0][0, 0]
    sketches = [np.rint(messages((await run(low_rank, plan, tables, seed))[1])[1][1:] / one) for seed in "ab"]
    assert not np.array_equal(*sketches)


async def test_what_the_coordinator_gets_is_one_message_per_owner_whose_size_and_column_norm_are_those_of_any_table():
    seen = []
    for n_rows in (100, 20_000):  # a block of the matrix has 16,384 columns
        tables = line_tables(n_rows)
        _, network = await run(low_rank, plan_for(low_rank, tables, {**SKETCH, "max_rows": 100_000}), tables)
        inbox = [m for m in network.transcript if m.receiver == COORDINATOR]
        seen.append(
            [(m.sender, m.stage, m.array.shape, int(m.array[0])) for m in sorted(inbox, key=lambda m: m.sender)]
        )
    assert seen[0] == seen[1]
    assert [(sender, stage) for sender, stage, *_ in seen[0]] == [(i, OPENING_STAGE) for i in (1, 2, 3)]


async def test_the_noise_follows_the_longest_column_of_all_that_max_rows_allows():
    tables = impulse_tables(3)
    few, many = (plan_for(low_rank, tables, {**SKETCH, "max_rows": n}) for n in (3, 100_000))
    longest = [messages((await run(low_rank, plan, tables))[1])[1][0] for plan in (few, many)]
    assert longest[0] < longest[1] <= 12 * 32**2


async def test_a_compute_party_without_columns_has_no_part_in_the_key():
    tables = line_tables(60)
    plan = plan_for(low_rank, tables, SKETCH, compute=["one", "two", "three"])
    results, network = await run(low_rank, plan, tables)
    assert np.array(results[COORDINATOR]["components"]).shape == (2, 4)
    keyed = {m.sender for m in network.transcript if m.stage.startswith("hash key sketch")}
    heard = {m.receiver for m in network.transcript if m.stage.startswith("hash key sketch")}
    assert keyed == heard == {4, 5, 6}


async def test_the_local_report_counts_clipped_values_and_stays_at_the_party():
    tables = line_tables(100)
    tables["telco"].values[3, 0] = 1000.0
    results, _ = await run(low_rank, plan_for(low_rank, tables, SKETCH), tables)
    assert results[3].clipped_values == {"b": 1}
    assert results[1].n_rows == 100
    assert "clipped" not in str(results[COORDINATOR])


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (0, 1, "hospital and bank drew different sketch matrices"),
        (0, 0, "hospital sent a column norm that is impossible for a sketch matrix"),
        (0, 1 << 40, "hospital sent a column norm"),
        (1, 1 << 61, "hospital sent a sketch with values out of range"),
        (1, -1 << 63, "hospital sent a sketch with values out of range"),
    ],
)
async def test_a_message_that_cannot_be_a_sketch_is_refused_by_the_senders_name(where, value, words):
    def falsify(message):
        if (message.sender, message.receiver) != (2, COORDINATOR):
            return (message,)
        array = message.array.copy()
        array.view(np.int64)[where] = value
        return (message.altered(array),)

    tables = line_tables(60)
    results, _ = await run(low_rank, plan_for(low_rank, tables, SKETCH), tables, fault=falsify)
    assert isinstance(results[COORDINATOR], PeerViolationError)
    assert results[COORDINATOR].member == 2
    assert words in str(results[COORDINATOR])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"rank": 2, "sketch_rows": 12}, "sketch_rows: can only be given with method 'sketch"),
        ({"rank": 2, "sketch_entries": "signs"}, "sketch_entries: can only be given with method 'sketch"),
        ({**SKETCH, "sketch_entries": "cauchy"}, "parameters.sketch_entries"),
        ({**SKETCH, "sketch_rows": 5000}, "parameters.sketch_rows"),
        ({**SKETCH, "max_rows": 1 << 40}, "parameters.max_rows, parameters.sketch_rows: .* would take too long"),
        ({**SKETCH, "gamma": 1 << 30, "max_rows": 1 << 30}, "exceed 62 bits"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(parameters, words):
    with pytest.raises(JobError, match=words):
        plan_for(low_rank, line_tables(10), parameters)


def test_a_sketch_of_one_partys_columns_is_refused():
    tables = {"hospital": line_tables(10)["hospital"]}
    with pytest.raises(
        JobError,
        match="inputs: a sketch needs at least two parties with columns, because they agree on its random matrix",
    ):
        plan_for(low_rank, tables, {**SKETCH, "rank": 1}, compute=["one", "two", "three"])


@pytest.mark.parametrize("compute", [(), ("one", "two", "three")])
async def test_no_sketch_leaves_its_owner_before_the_owner_has_committed_its_cost(compute):
    tables = line_tables(60)
    plan = plan_for(low_rank, tables, SKETCH, compute=compute)
    happened = []

    def note_opening(message):
        if message.stage == OPENING_STAGE:
            happened.append(("sent", message.sender))
        return (message,)

    class Gated:
        __name__ = low_rank.__name__
        coordinator = staticmethod(low_rank.coordinator)

        @staticmethod
        async def party(session, plan, table):
            gated = GatedSession.of_plan(session, plan, commit=lambda: happened.append(("committed", session.me)))
            report = await low_rank.party(gated, plan, table)
            await gated.open()
            return report

    results, _ = await run(Gated, plan, tables, fault=note_opening)
    assert len(results[COORDINATOR]["components"]) == 2
    for owner in plan.owners:
        assert happened.index(("committed", owner)) < happened.index(("sent", owner))
    if not compute:  # owners who compute wait for all others too
        assert [what for what, _ in happened] == ["committed"] * 3 + ["sent"] * 3
