import asyncio
import hashlib

import numpy as np
import pytest

from entropy import InsecureTestEntropy
from mpc.errors import InconsistentSharesError, PeerSilentError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.proofs.coin import PublicCoin

PARTIES = (1, 2, 3)
COMMITMENTS, SEEDS = "test/coin commitments", "test/coin seeds"


async def tossed(n_tosses=1, fault=None, n_owners=0, seed="coin", silent=()):
    """What each member reads from its coins."""
    options = {"fault": fault} if fault else {}
    network = LocalNetwork(
        local_names(3, n_owners), deadline_s=5, entropy_of=lambda m: InsecureTestEntropy(f"{seed} {m}"), **options
    )
    listeners = [m for m in network.names if m > 3]

    async def member(session):
        coin = PublicCoin(session, 3, "test", listeners)
        return [(await coin.toss()).read(32) for _ in range(n_tosses)]

    members = [m for m in (*PARTIES, *listeners) if m not in silent]
    return await network.run(dict.fromkeys(members, member)), network


async def test_all_parties_and_listeners_have_the_same_coin_and_each_toss_is_another_one():
    coins, _ = await tossed(n_tosses=3, n_owners=2)
    assert len({tuple(coin) for coin in coins.values()}) == 1
    assert len(set(coins[5])) == 3


async def test_one_party_with_another_seed_makes_another_coin():
    coins, _ = await tossed()
    others = set()
    for party in PARTIES:
        network = LocalNetwork(
            local_names(3), entropy_of=lambda m, p=party: InsecureTestEntropy(f"{'new' if m == p else 'coin'} {m}")
        )

        async def member(session):
            return (await PublicCoin(session, 3, "test").toss()).read(32)

        found = await network.run(dict.fromkeys(PARTIES, member))
        others.add(found[1])
    assert len(others | {coins[1][0]}) == 4


async def test_no_seed_is_told_before_all_have_committed_to_theirs():
    """And each message commits its sender to the seed of its next one."""
    _, network = await tossed(n_tosses=3)
    told = [m for m in network.transcript if m.receiver == 1 + m.sender % 3]
    stages = [m.stage for m in told]
    assert {m.sender for m in told[: stages.index(SEEDS)]} == set(PARTIES)
    results, silent = await tossed(silent=(3,))
    assert all(isinstance(results[party], PeerSilentError) for party in (1, 2))
    assert SEEDS not in {m.stage for m in silent.transcript}
    for party in PARTIES:
        coin = PublicCoin(network.session(party), 3, "test")
        commitment = next(m for m in told if m.sender == party).array.tobytes()
        for number, seed in enumerate(m.array.tobytes() for m in told if (m.sender, m.stage) == (party, SEEDS)):
            assert commitment == coin._commitment(number, party, seed[:32])
            commitment = seed[32:64]


async def test_a_coin_is_unknown_until_the_last_party_is_ready():
    """Two parties have told their seeds; the third one's has not left it, and is fixed."""
    network = LocalNetwork(local_names(3), deadline_s=5)
    is_ready = asyncio.Event()

    async def member(session):
        coin = PublicCoin(session, 3, "test")
        await coin.toss()
        if session.me == 3:
            await is_ready.wait()
        return (await coin.toss()).read(32)

    def told():
        return [m.sender for m in network.transcript if m.stage == SEEDS and m.receiver == 1 + m.sender % 3]

    running = asyncio.create_task(network.run(dict.fromkeys(PARTIES, member)))
    for _ in range(100):
        await asyncio.sleep(0)
    assert sorted(told()) == [1, 1, 2, 2, 3]
    assert not running.done()
    is_ready.set()
    assert len(set((await running).values())) == 1


async def test_a_seed_that_was_not_committed_to_is_a_violation_that_names_the_party():
    def fault(message):
        if message.stage != SEEDS or message.sender != 2:
            return (message,)
        array = message.array.copy()
        array[0] ^= 1
        return (message.altered(array),)

    results, _ = await tossed(fault=fault, n_owners=1)
    for member in (1, 3, 4):
        assert isinstance(results[member], PeerViolationError)
        assert results[member].member == 2
        assert "another seed" in str(results[member])


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("deceived", [1, 3])
async def test_two_commitments_of_one_party_are_found_before_the_coin_is_used(deceived, number):
    """Party 2 has two seeds and tells one receiver the other one: each of its messages fits the one before.

    Nobody is named: to each of the two receivers the other one might be lying.
    """
    other = bytes(32)

    def fault(message):
        if message.sender != 2 or message.receiver != deceived:
            return (message,)
        told, at = message.array.tobytes(), message.sequence + (message.stage == SEEDS)
        if at == number:
            commitment = PublicCoin(network_of_the_run[0].session(2), 3, "test")._commitment(number, 2, other)
            told = told[:32] + commitment + told[64:] if number else commitment
        elif message.stage == SEEDS and message.sequence == number:
            told = other + told[32:]
        return (message.altered(np.frombuffer(told, dtype=np.uint8)),)

    network_of_the_run = [LocalNetwork(local_names(3))]
    results, _ = await tossed(n_tosses=number + 1, fault=fault)
    for party in (1, 3):
        assert isinstance(results[party], InconsistentSharesError)
        assert "does not have the commitments" in str(results[party])


async def test_a_commitment_of_another_party_cannot_be_passed_off_as_ones_own():
    network = LocalNetwork(local_names(3))
    coin = PublicCoin(network.session(1), 3, "test")
    seed = hashlib.sha256(b"seed").digest()
    assert len({coin._commitment(number, party, seed) for number in range(2) for party in PARTIES}) == 6


@pytest.mark.parametrize("stage", [COMMITMENTS, SEEDS])
@pytest.mark.parametrize("array", [np.zeros(31, np.uint8), np.zeros(32, np.uint64)], ids=["short", "wide"])
async def test_a_malformed_message_is_a_violation_that_names_its_sender(stage, array):
    def fault(message):
        return (message.altered(array) if message.stage == stage and message.sender == 3 else message,)

    results, _ = await tossed(fault=fault)
    assert all(isinstance(results[p], PeerViolationError) and results[p].member == 3 for p in (1, 2))
