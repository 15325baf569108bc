import numpy as np
import pytest

from mpc.arithmetic.field import ResidueField
from mpc.errors import InconsistentSharesError
from mpc.local.network import LocalNetwork, local_names
from mpc.proofs.proven_equality import check_equal_proven
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets


async def compare(values, n_parties=3, t=1, **options):
    """Run the test with `values[member]`; members without a value only compute."""
    network = LocalNetwork(local_names(n_parties, max(0, max(values) - n_parties)), deadline_s=5.0, **options)
    members = [member for member in network.names if member]

    async def one(session):
        secrets = await agree_pairwise_secrets(session, members, n_parties)
        exchange = ShareExchange(session, ResidueField(4), n_parties, t, secrets)
        await check_equal_proven(exchange, members, sorted(values), "row ids", values.get(session.me))
        return "equal"

    return await network.run(dict.fromkeys(members, one)), network


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (4, 1), (5, 2)])
async def test_equal_values_pass_for_every_member(n_parties, t):
    results, _ = await compare(dict.fromkeys(range(1, n_parties + 1), b"same"), n_parties, t)
    assert set(results.values()) == {"equal"}


@pytest.mark.parametrize("odd", [2, 3])
async def test_the_member_that_differs_from_the_first_is_named_to_all(odd):
    results, _ = await compare({1: b"same", 2: b"same", 3: b"same", odd: b"other"})
    for result in results.values():
        assert isinstance(result, UnequalValuesError)
        assert result.member == odd
        assert str(result) == f"party-{odd} and party-1 differ in their row ids"


async def test_input_only_members_are_compared_and_hear_the_verdict():
    results, _ = await compare({4: b"same", 5: b"other"})
    assert {type(result) for result in results.values()} == {UnequalValuesError}
    assert {result.member for result in results.values()} == {5}


async def test_a_single_value_needs_no_comparison():
    results, network = await compare({2: b"alone"})
    assert set(results.values()) == {"equal"}
    assert not any("row ids" in message.stage for message in network.transcript)


@pytest.mark.parametrize("stage", ["products", "opening 0"])
async def test_a_wrong_share_ends_it_at_honest_members(stage):
    def fault(message):
        if message.sender != 3 or message.stage != f"row ids/{stage}":
            return (message,)
        return (message.altered(message.array ^ np.uint64(1)),)

    results, _ = await compare({1: b"same", 2: b"same", 3: b"same"}, fault=fault)
    for member in (1, 2):
        assert isinstance(results[member], InconsistentSharesError), results[member]
