import asyncio

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import PeerLostError, PeerViolationError, TooFewPartiesError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol import reduction
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.exchange import MOST_WORDS_HERE, ShareExchange, agree_pairwise_secrets
from mpc.protocol.operations import core
from mpc.protocol.product_check import ProductCheck, n_coins
from mpc.protocol.reduction import reduce_degree

FIELD = ResidueField(3)
SECRET = np.array([[5, -7, 0], [1 << 40, -(1 << 40), 3]])


async def run(protocol, n_parties=3, t=1, n_owners=0, **options):
    names = local_names(n_parties, n_owners)
    network = LocalNetwork(names, deadline_s=0.5, **options)
    members = [m for m in names if m]

    async def one(session):
        secrets = {} if session.me == 0 else await agree_pairwise_secrets(session, members, n_parties)
        return await protocol(ShareExchange(session, FIELD, n_parties, t, secrets))

    return await network.run(dict.fromkeys(names, one)), network


def deal_and_open(dealer, degree, receivers):
    async def protocol(exchange):
        me, share = exchange.session.me, None
        if me == dealer:
            share = await exchange.deal("secret", 0, FIELD.encode(SECRET), degree)
        elif me != 0 and exchange.am_receiver:
            share = await exchange.take(dealer, "secret", 0, SECRET.shape, degree)
        opening = await exchange.open("out", share, SECRET.shape, degree, receivers)
        return None if opening is None else FIELD.decode(opening.words)

    return protocol


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2), (7, 2)])
@pytest.mark.parametrize("doubled", [1, 2])
@pytest.mark.parametrize("dealer_is_owner", [False, True])
async def test_what_anybody_deals_opens_to_the_receivers_and_to_nobody_else(n_parties, t, doubled, dealer_is_owner):
    dealer = n_parties + 1 if dealer_is_owner else 2
    results, _ = await run(deal_and_open(dealer, doubled * t, (0, 1)), n_parties, t, n_owners=1)
    for member, result in results.items():
        if member in (0, 1):
            assert np.array_equal(result, SECRET)
        else:
            assert result is None


@pytest.mark.parametrize(("n_parties", "t", "explicit"), [(3, 1, 1), (5, 2, 2), (7, 2, 4)])
async def test_only_n_minus_1_minus_t_shares_of_an_input_travel(n_parties, t, explicit):
    _, network = await run(deal_and_open(1, t, (0,)), n_parties, t)
    assert len([m for m in network.transcript if m.stage == "secret"]) == explicit


async def test_no_share_of_a_2t_sharing_travels_when_all_parties_are_needed():
    _, network = await run(deal_and_open(1, 2, (0,)))
    assert not [m for m in network.transcript if m.stage == "secret"]


async def test_the_sum_of_what_all_deal_opens_to_the_sum():
    async def protocol(exchange):
        if exchange.session.me == 0:
            share = None
        else:
            share = await exchange.deal_and_sum("noise", FIELD.encode(SECRET * exchange.session.me), 2)
        opening = await exchange.open("out", share, SECRET.shape, 2, (0,))
        return None if opening is None else FIELD.decode(opening.words)

    results, _ = await run(protocol)
    assert np.array_equal(results[0], SECRET * 6)


async def test_a_word_that_is_no_field_element_names_its_sender():
    def falsify(message):
        return (message.altered(message.array | np.uint64(1 << 63)),) if message.stage == "secret" else (message,)

    results, _ = await run(deal_and_open(1, 1, (0,)), fault=falsify)
    errors = [r for r in results.values() if isinstance(r, PeerViolationError)]
    assert errors
    assert {(e.member, e.stage) for e in errors} == {(1, "secret")}


async def test_two_jobs_with_the_same_input_send_different_shares():
    sent = []
    for seed in ("a", "b"):
        entropy_of = lambda member, seed=seed: InsecureTestEntropy(f"{seed} {member}")  # noqa: E731
        _, network = await run(deal_and_open(1, 1, (0,)), entropy_of=entropy_of)
        sent.append(next(m.array for m in network.transcript if m.stage == "secret"))
    assert not np.array_equal(*sent)


async def test_small_arithmetic_is_done_at_once_and_more_is_the_matter_of_the_session():
    class Threads:
        async def compute(self, work, *args):
            return "in a thread", work(*args)

    exchange = ShareExchange(Threads(), FIELD, 3, 1, {})
    done = [await exchange.compute(n, sum, (1, 2)) for n in (1, MOST_WORDS_HERE, MOST_WORDS_HERE + 1)]
    assert done == [3, 3, ("in a thread", 3)]


async def test_input_only_members_agree_on_secrets_with_compute_parties_only():
    async def protocol(exchange):
        return sorted(exchange.secrets)

    results, _ = await run(protocol, n_owners=2)
    assert results[1] == [2, 3, 4, 5]
    assert results[4] == results[5] == [1, 2, 3]


def test_more_colluding_parties_than_products_allow_are_refused_with_the_number_needed():
    session = LocalNetwork(local_names(4)).session(1)
    with pytest.raises(TooFewPartiesError, match="needs 5 compute parties, not 4"):
        ShareExchange(session, FIELD, 4, 2, {})


def opened_by_the_coordinator(prepare, *, degree=2, n_parties=5):
    """Let parties open shares dealt beforehand; return what the coordinator got, and when in virtual time."""
    scheme = ShamirScheme(FIELD, n_parties, degree)
    derived = {r: FIELD.random(KeyStream(bytes([r]) * 32), SECRET.shape) for r in scheme.derived_receivers(1)}
    shares = derived | scheme.deal(1, FIELD.encode(SECRET), derived)
    network = LocalNetwork(local_names(n_parties), deadline_s=10.0)
    prepare(network, shares)

    async def member(session):
        share = shares.get(session.me)
        opening = await ShareExchange(session, FIELD, n_parties, 1, {}).open("out", share, SECRET.shape, degree, (0,))
        return opening, asyncio.get_running_loop().time()

    results = run_in_virtual_time(network.run(dict.fromkeys(set(network.names) - set(network.lost), member)))
    return results[0]


def test_an_opening_fails_as_soon_as_too_few_can_still_answer():
    network = LocalNetwork(local_names(4), deadline_s=10.0)

    async def coordinator(session):
        opening = ShareExchange(session, FIELD, 4, 1, {}).open("out", None, SECRET.shape, 2, (0,))
        network.kill(3)
        asyncio.get_running_loop().call_later(1.0, network.kill, 4)  # 1 and 2 are silent, 3 is gone: two may still come
        with pytest.raises(PeerLostError, match=r"party-[34] has dropped out"):
            await opening
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(network.run({0: coordinator}))[0] == pytest.approx(1.0)


def test_surplus_shares_that_come_late_still_find_the_party_that_lied():
    def lie_first_and_delay_two(network, shares):
        shares[1] = FIELD.add(shares[1], shares[2])
        network.fault = lambda message: (message.delayed(9.5 if message.sender in (4, 5) else 0.0),)

    opening, at_s = opened_by_the_coordinator(lie_first_and_delay_two)
    assert np.array_equal(FIELD.decode(opening.words), SECRET)
    assert opening.wrong == (1,)
    assert at_s == pytest.approx(9.5)


def test_a_silent_party_costs_an_opening_one_deadline():
    def silence_one(network, shares):
        network.fault = lambda message: () if message.sender == 2 else (message,)

    opening, at_s = opened_by_the_coordinator(silence_one)
    assert np.array_equal(FIELD.decode(opening.words), SECRET)
    assert opening.wrong == ()
    assert at_s == pytest.approx(10.0)


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 1)])
async def test_a_segment_of_a_reduction_takes_three_ways_to_a_thread(n_parties, t, monkeypatch):
    """Make and deal, take from all dealers, combine and check: each costs as much as arithmetic on thousands."""
    size, n_segments = MOST_WORDS_HERE + 1, 4
    monkeypatch.setattr(reduction, "SEGMENT", size)
    monkeypatch.setattr(core, "SEGMENT", size)
    ways = []

    async def protocol(exchange):
        session = exchange.session
        if session.me == 0:
            return
        compute = session.compute

        async def counted(*work):
            ways.append(session.me)
            return await compute(*work)

        monkeypatch.setattr(session, "compute", counted)
        n_elements = n_segments * size - n_coins(n_parties, 2 * t, size)
        x = FIELD.zeros((n_elements,))
        await reduce_degree(
            exchange,
            agreement := DealerAgreement(exchange, "c"),
            ProductCheck(exchange, agreement),
            0,
            lambda segment: x[:, segment],
            n_elements,
            2 * t,
        )

    await run(protocol, n_parties, t)
    assert [ways.count(party) for party in range(1, n_parties + 1)] == [3 * n_segments] * n_parties


async def test_arrays_of_several_dealers_are_taken_together_and_the_first_failure_is_named():
    def protocol_of(takes):
        async def protocol(exchange):
            me = exchange.session.me
            if me == 0:
                return None
            if me == 2:
                await exchange.session.send(1, "x", np.full((1, 2), (1 << 64) - 1, dtype=np.uint64))
            elif me == 3:
                await exchange.deal("x", 0, FIELD.encode(np.array([7, 8])), 1)
            else:
                return await takes(exchange)
            return None

        return protocol

    shapes = {2: (2,), 3: (2,)}

    async def each(exchange):
        return await exchange.take_each(shapes, "x", 0, 1)

    results, _ = await run(protocol_of(each))
    assert isinstance(results[1][2], PeerViolationError)
    assert results[1][3].shape == (1, 2)

    async def all_of_them(exchange):
        with pytest.raises(PeerViolationError, match="party-2 sent a value outside the field in stage x"):
            await exchange.take_all(shapes, "x", 0, 1)

    await run(protocol_of(all_of_them))
