import asyncio

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import LocalFaultError, PeerLostError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.computation import Computation
from mpc.protocol.operations.rows import INPUT_STAGE, MULTIPLY_STAGE

FIELD = ResidueField(3)
RNG = np.random.default_rng(3)


def run_members(program, n_parties=3, n_owners=0, **options):
    """Run a program of (computation, member number) at all parties; return the network and what each came to."""
    network = LocalNetwork(local_names(n_parties, n_owners), **options)

    async def member(session):
        async with await Computation.start(session, FIELD, n_parties, 1, name="rows") as c:
            return await program(c, session.me)

    members = range(1, n_parties + n_owners + 1)
    return network, run_in_virtual_time(network.run(dict.fromkeys(members, member)))


def opened(shares):
    return FIELD.decode(ShamirScheme(FIELD, 3, 1).recombine(shares))


def tables_of(n_rows):
    return {2: RNG.integers(-9, 9, (n_rows, 2)), 1: RNG.integers(-9, 9, (n_rows, 3))}


def mine_of(tables, me):
    return tables[me].__getitem__ if me in tables else None


@pytest.mark.parametrize("n_rows", [0, 1, 6, 7, 20])
def test_any_two_shares_of_held_rows_make_the_joint_table(n_rows):
    tables = tables_of(n_rows)
    widths = {owner: table.shape[1] for owner, table in tables.items()}

    async def program(c, me):
        held = await c.hold_rows(widths, n_rows, mine_of(tables, me), height=7)
        return held.share

    _, shares = run_members(program)
    assert shares[3].shape == (1, n_rows, 5)
    for pair in ((1, 2), (2, 3), (1, 3)):
        assert (opened({party: shares[party] for party in pair}) == np.hstack([tables[2], tables[1]])).all()


def test_an_owner_that_holds_no_shares_deals_and_gets_nothing():
    tables = {4: np.array([[5], [-6]]), 1: np.array([[1], [2]])}

    async def program(c, me):
        return (await c.hold_rows({4: 1, 1: 1}, 2, mine_of(tables, me), height=1)).share

    _, shares = run_members(program, n_owners=1)
    assert shares[4] is None
    assert opened({party: shares[party] for party in (1, 2)}).tolist() == [[5, 1], [-6, 2]]


def test_rows_travel_ahead_but_no_more_than_the_blocks_that_may_wait():
    tables, n_rows = tables_of(40), 40
    dealt = dict.fromkeys(tables, 0)
    furthest = 0

    async def program(c, me):
        nonlocal furthest

        def mine(rows):
            dealt[me] = rows.stop
            return tables[me][rows]

        async for blocks in c.rows({2: 2, 1: 3}, n_rows, mine if me in tables else None, height=4):
            await asyncio.sleep(1.0)  # as long as a block is worked on
            assert [block.shape for block in blocks] == [(4, 2), (4, 3)]
            if me == 1:
                done = furthest = furthest + 4
                assert dealt[1] <= done + 5 * 4

    run_members(program)
    assert furthest == n_rows


@pytest.mark.parametrize(("n_parties", "tells_input"), [(3, False), (4, True)])
def test_with_the_last_row_an_owner_commits_where_it_may_drop_out_and_only_there(n_parties, tells_input):
    tables = tables_of(5)

    async def program(c, me):
        async for _ in c.rows({2: 2, 1: 3}, 5, mine_of(tables, me), height=2):
            pass

    network, _ = run_members(program, n_parties)
    told = {me: [stage for who, stage, _, _ in network.progress_log if who == me] for me in range(1, n_parties + 1)}
    multiplied = [] if tells_input else [MULTIPLY_STAGE] * 3
    for me, stages in told.items():
        assert stages.count(INPUT_STAGE) == (tells_input and me in tables)
        assert [stage for stage in stages if stage != INPUT_STAGE] == [*multiplied, MULTIPLY_STAGE]


def test_rows_in_step_are_inputs_between_which_products_are_reduced():
    tables = {1: RNG.integers(-9, 9, 10), 2: RNG.integers(-9, 9, 10)}

    async def program(c, me):
        total = c.public(0)
        async for x in c.rows_in_step({1: (), 2: ()}, 10, mine_of(tables, me), height=3, bound=9):
            total = total + (await c.multiply(x[1], x[2])).sum()
        return (total - 0 * total).share

    _, shares = run_members(program)
    assert int(opened({1: shares[1], 2: shares[2]})) == int(tables[1] @ tables[2])


def test_a_failure_of_my_own_rows_is_raised_as_it_is_and_ends_what_was_begun():
    tables = tables_of(20)

    async def program(c, me):
        def broken(rows):
            if rows.start >= 8:
                raise LocalFaultError("my table is gone")
            return tables[me][rows]

        mine = broken if me == 1 else mine_of(tables, me)
        async for _ in c.rows({2: 2, 1: 3}, 20, mine, height=4):
            pass

    async def run():
        network = LocalNetwork(local_names(3), deadline_s=1.0)

        async def member(session):
            try:
                async with await Computation.start(session, FIELD, 3, 1, name="rows") as c:
                    return await program(c, session.me)
            except LocalFaultError as error:
                network.kill(session.me)
                return error

        ends = await network.run(dict.fromkeys((1, 2, 3), member))
        await asyncio.sleep(0)
        return ends, asyncio.all_tasks() - {asyncio.current_task()}

    ends, left = run_in_virtual_time(run())
    assert str(ends[1]) == "my table is gone"
    assert isinstance(ends[3], PeerLostError)  # 2 derives its shares of these rows from a key
    assert left == set()


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 4])
def test_whatever_is_begun_ahead_is_needed_and_done_by_the_last_row(n_blocks):
    tables = tables_of(2 * n_blocks)

    async def program(c, me):
        begun, ahead = [], c.ahead
        c.ahead = lambda work: begun.append(ahead(work)) or begun[-1]
        async for _ in c.rows({2: 2, 1: 3}, 2 * n_blocks, mine_of(tables, me), height=2):
            pass
        return [task.done() and task.exception() is None for task in begun]

    _, found = run_members(program)
    assert found == {1: [True] * (1 + n_blocks), 2: [True] * (1 + n_blocks), 3: [True] * n_blocks}
