import numpy as np
import pytest
from job_builders import make_table

from analyses.rows.alignment import check_same_rows
from mpc.arithmetic.field import ResidueField
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets


async def check(ids, n_parties=3):
    """Member to its number of rows or its error; `ids` are the owners' row ids by member number."""
    owners = sorted(ids)
    network = LocalNetwork(local_names(n_parties, max(0, max(owners) - n_parties)), deadline_s=0.5)
    members = [m for m in network.names if m]

    async def one(session):
        secrets = await agree_pairwise_secrets(session, members, n_parties)
        exchange = ShareExchange(session, ResidueField(3), n_parties, 1, secrets)
        rows = ids.get(session.me)
        table = None if rows is None else make_table(session.names[session.me], np.zeros((len(rows), 2)), ids=rows)
        return await check_same_rows(exchange, members, owners, table)

    return await network.run(dict.fromkeys(members, one)), network


def stages_of(network):
    return {message.stage.split("/")[0] for message in network.transcript}


SAME = ("a", "b", "c")


@pytest.mark.parametrize("owners", [(1, 2, 3), (1, 2), (2, 4), (4, 5), (4, 5, 6)])
async def test_equal_ids_pass_wherever_their_owners_are(owners):
    results, _ = await check(dict.fromkeys(owners, SAME))
    assert set(results.values()) == {3}


@pytest.mark.parametrize("owners", [(1, 2, 3), (1, 2), (2, 4), (4, 5)])
@pytest.mark.parametrize("other", [("a", "c", "b"), ("a", "b", "d")])
async def test_another_order_or_another_id_is_found_and_its_owner_named(owners, other):
    results, _ = await check({**dict.fromkeys(owners, SAME), owners[-1]: other})
    for result in results.values():
        assert isinstance(result, UnequalValuesError)
        assert result.member == owners[-1]
        last, first = (local_names(3, 3)[n] for n in (owners[-1], owners[0]))
        assert str(result) == f"the tables of {last} and {first} do not hold the same rows in the same order"


@pytest.mark.parametrize(("owners", "is_keyed"), [((1, 2, 3), False), ((1, 2), True), ((4, 5), True), ((4,), False)])
async def test_digests_are_keyed_exactly_where_a_compute_party_has_no_table(owners, is_keyed):
    _, network = await check(dict.fromkeys(owners, SAME))
    assert ("hash key same rows" in stages_of(network)) is is_keyed


async def test_the_key_is_agreed_among_the_owners_alone():
    _, network = await check(dict.fromkeys((1, 4, 5), SAME))
    assert {m.receiver for m in network.transcript if m.stage.startswith("hash key")} == {1, 4, 5}


async def test_the_coordinator_hears_nothing_of_the_check():
    _, network = await check(dict.fromkeys((1, 4), SAME))
    assert not any(message.receiver == 0 for message in network.transcript)
