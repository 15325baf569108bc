import numpy as np
import pytest

from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.equality import UnequalValuesError, check_equal
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets

FIELD = ResidueField(3)


async def compare(values, n_parties=3, t=1, **options):
    """Run the test with `values[member]`; members without a value only compute."""
    names = local_names(n_parties, max(0, max(values) - n_parties))
    network = LocalNetwork(names, deadline_s=1.0, **options)
    members = [m for m in names if m]

    async def one(session):
        secrets = await agree_pairwise_secrets(session, members, n_parties)
        exchange = ShareExchange(session, FIELD, n_parties, t, secrets)
        await check_equal(exchange, members, sorted(values), "row ids", values.get(session.me))
        return "equal"

    return await network.run(dict.fromkeys(members, one)), network


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (4, 1), (5, 2), (7, 3)])
async def test_equal_values_pass_for_every_member(n_parties, t):
    results, _ = await compare(dict.fromkeys(range(1, n_parties + 1), b"same"), n_parties, t)
    assert set(results.values()) == {"equal"}


@pytest.mark.parametrize("odd", [2, 3])
async def test_the_member_that_differs_from_the_first_is_named_to_all(odd):
    values = {1: b"same", 2: b"same", 3: b"same", odd: b"other"}
    results, _ = await compare(values)
    for result in results.values():
        assert isinstance(result, UnequalValuesError)
        assert result.member == odd
        assert str(result) == f"party-{odd} and party-1 differ in their row ids"


async def test_input_only_members_are_compared_and_hear_the_verdict():
    results, _ = await compare({4: b"same", 5: b"other"})
    assert {type(r) for r in results.values()} == {UnequalValuesError}
    assert {r.member for r in results.values()} == {5}


async def test_a_single_value_needs_no_comparison():
    results, network = await compare({2: b"alone"})
    assert set(results.values()) == {"equal"}
    assert not any("row ids" in m.stage for m in network.transcript)


async def test_the_values_themselves_are_never_sent_and_what_is_opened_changes_with_the_randomness():
    opened = []
    for seed in ("a", "b"):
        entropy_of = lambda member, seed=seed: InsecureTestEntropy(f"{seed} {member}")  # noqa: E731
        _, network = await compare({1: b"same", 2: b"other", 3: b"same"}, entropy_of=entropy_of)
        opened.append([m.array for m in network.transcript if m.stage == "row ids/verdict"])
        assert not any(b"same" in m.array.tobytes() or b"other" in m.array.tobytes() for m in network.transcript)
    assert not any(np.array_equal(a, b) for a, b in zip(*opened, strict=True))


async def test_the_coordinator_sees_nothing():
    _, network = await compare({1: b"same", 2: b"other", 3: b"same"})
    assert not any(m.receiver == 0 for m in network.transcript)
