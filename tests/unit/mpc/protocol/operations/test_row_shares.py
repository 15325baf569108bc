"""Shares of rows on their way: in fields of 1 and 4 primes they take fewer words, and are shares all the same."""

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from mpc.arithmetic.compact import CompactForm
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import LocalFaultError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.computation import Computation
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.operations.row_shares import RowShares

SHAPE = (5, 2)
VALUES = np.arange(-4, 6).reshape(SHAPE)


def run(field, protocol, n_parties=3, t=1, n_owners=0):
    network = LocalNetwork(local_names(n_parties, n_owners))
    members = range(1, n_parties + n_owners + 1)

    async def member(session):
        secrets = await agree_pairwise_secrets(session, members, n_parties)
        return await protocol(RowShares(ShareExchange(session, field, n_parties, t, secrets), "rows"), session)

    return run_in_virtual_time(network.run(dict.fromkeys(members, member))), network


@pytest.mark.parametrize("n_primes", range(1, 7))
@pytest.mark.parametrize(("n_parties", "t", "dealer"), [(3, 1, 1), (3, 1, 3), (5, 2, 2), (4, 1, 5)])
def test_any_t_plus_1_shares_make_the_rows_in_every_field(n_primes, n_parties, t, dealer):
    field = ResidueField(n_primes)

    async def protocol(rows, session):
        if session.me == dealer:
            return await rows.deal(4, lambda: field.encode(VALUES))
        return (await rows.take({dealer: SHAPE}, 4))[dealer] if session.me <= n_parties else None

    shares, _ = run(field, protocol, n_parties, t, n_owners=max(0, dealer - n_parties))
    scheme = ShamirScheme(field, n_parties, t)
    for first in range(1, n_parties - t + 1):
        some = {party: shares[party] for party in range(first, first + t + 1)}
        assert (field.decode(scheme.recombine(some)) == VALUES).all()
    assert dealer <= n_parties or shares[dealer] is None


def test_what_travels_is_a_third_of_a_word_less_than_two():
    field, form = ResidueField(4), CompactForm(ResidueField(4))

    async def protocol(rows, session):
        if session.me == 1:
            return await rows.deal(0, lambda: field.encode(VALUES))
        if session.me == 3:  # 2 derives its share
            return await session.receive(1, "rows", (form.n_words(10),))
        return None

    shares, _ = run(field, protocol)
    form.check(shares[3], 10)
    assert shares[3].nbytes == 8 * (10 + 4)
    both = {1: shares[1], 3: form.expanded(shares[3], SHAPE)}
    assert (field.decode(ShamirScheme(field, 3, 1).recombine(both)) == VALUES).all()


@pytest.mark.parametrize("word", [0, 9, 10, 13])
def test_words_that_are_no_elements_are_the_dealers_fault(word):
    field, form = ResidueField(4), CompactForm(ResidueField(4))

    async def protocol(rows, session):
        if session.me == 1:
            sent = form.compacted(field.zeros(SHAPE))
            sent[word] = np.uint64((1 << 21) - 1)
            await session.send(3, "rows", sent)
        elif session.me == 3:
            with pytest.raises(PeerViolationError, match="party-1 sent a value outside the field in stage rows"):
                await rows.take({1: SHAPE}, 0)

    run(field, protocol)


def test_blocks_are_derived_from_streams_of_their_own_and_unknown_dealers_are_refused():
    field = ResidueField(4)

    async def protocol(rows, session):
        if session.me == 2:
            with pytest.raises(LocalFaultError, match="deals no shares"):
                await rows.take({9: SHAPE}, 0)
            return [(await rows.take({1: SHAPE}, block))[1] for block in (0, 1)]
        return None

    shares, _ = run(field, protocol)
    assert (shares[2][0] != shares[2][1]).all(axis=(1, 2)).any()


def test_the_rows_of_a_computation_travel_so():
    field, table = ResidueField(4), np.random.default_rng(1).integers(-9, 9, (10, 3))
    network = LocalNetwork(local_names(3))

    async def member(session):
        async with await Computation.start(session, field, 3, 1, name="c") as c:
            held = await c.hold_rows({1: 3}, 10, table.__getitem__ if session.me == 1 else None, height=4)
            return held.share

    shares = run_in_virtual_time(network.run(dict.fromkeys((1, 2, 3), member)))
    assert (field.decode(ShamirScheme(field, 3, 1).recombine({2: shares[2], 3: shares[3]})) == table).all()
    sent = [message.array.nbytes for message in network.transcript if message.stage == "c/table"]
    assert sent == [8 * (12 + 4), 8 * (12 + 4), 8 * (6 + 2)]
