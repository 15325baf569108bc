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


async def test_no_seed_is_told_before_every_party_has_said_that_it_is_ready():
    _, network = await tossed()
    stages = [m.stage for m in network.transcript]
    ready_from = {m.sender for m in network.transcript[: stages.index(SEEDS)]}
    assert ready_from == set(PARTIES)
    results, network = await tossed(silent=(3,))
    assert all(isinstance(results[party], PeerSilentError) for party in (1, 2))
    assert SEEDS not in {m.stage for m in network.transcript}


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


@pytest.mark.parametrize("deceived", [1, 3])
async def test_two_commitments_of_one_party_are_found_before_the_coin_is_used(deceived):
    """Party 2 has two seeds and tells one receiver the other one: each of its messages fits the one before.

    Nobody is named: to each of the two receivers the other one might be lying.
    """
    other = bytes(32)

    def fault(message):
        if message.sender != 2 or message.receiver != deceived:
            return (message,)
        if message.stage == COMMITMENTS:
            coin = PublicCoin(network_of_the_run[0].session(2), 3, "test")
            return (message.altered(np.frombuffer(coin._commitment(0, 2, other), dtype=np.uint8)),)
        return (message.altered(np.frombuffer(other + message.array.tobytes()[32:], dtype=np.uint8)),)

    network_of_the_run = [LocalNetwork(local_names(3))]
    results, _ = await tossed(fault=fault)
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
