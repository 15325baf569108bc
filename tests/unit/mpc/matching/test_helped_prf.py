"""A function evaluated through a helper: the leader gets it at one id in each bin only, whatever it asks."""

import numpy as np
import pytest
from secret_matches import ids_of

from mpc.errors import LocalFaultError
from mpc.local.network import LocalNetwork, local_names
from mpc.matching import helped_prf
from mpc.matching.helped_prf import evaluate_by_helper, evaluate_own, help_evaluate
from mpc.protocol.exchange import agree_pairwise_secrets

LEADER, OWNER, HELPER = 1, 2, 3
N_BINS = 20
IDS = ids_of(range(4))
BIN_OF = np.array([3, 17, 0, 9])


async def evaluated(*, altered=lambda blinded: blinded):
    """What the leader gets, shape (N_BINS, 16), and the owner's function at each of the leader's ids in each bin."""

    def fault(message):
        is_question = message.stage.startswith(helped_prf.STAGE) and message.sender == LEADER
        return (message.altered(altered(message.array.copy())),) if is_question else (message,)

    network = LocalNetwork(local_names(3, 0), fault=fault)

    async def leader(session):
        secrets = await agree_pairwise_secrets(session, (1, 2, 3), 3)
        return await evaluate_by_helper(
            session, secrets, owner=OWNER, helper=HELPER, ids=IDS, bin_of=BIN_OF, n_bins=N_BINS
        )

    async def owner(session):
        secrets = await agree_pairwise_secrets(session, (1, 2, 3), 3)
        everywhere = np.tile(np.arange(N_BINS), (len(IDS), 1))
        return evaluate_own(secrets, me=OWNER, leader=LEADER, helper=HELPER, ids=IDS, candidates=everywhere)

    async def helper(session):
        secrets = await agree_pairwise_secrets(session, (1, 2, 3), 3)
        await help_evaluate(session, secrets, leader=LEADER, owner=OWNER, n_bins=N_BINS)

    ends = await network.run({LEADER: leader, OWNER: owner, HELPER: helper})
    return ends[LEADER], ends[OWNER], network


def places_of(known, values):
    """For each of the leader's ids, the bins at which a value is the owner's function there."""
    given = {row.tobytes() for row in values}
    return [[b for b in range(N_BINS) if known[i, b].tobytes() in given] for i in range(len(IDS))]


async def test_the_leader_gets_the_owners_function_at_each_id_in_its_own_bin_and_in_no_other():
    got, known, _ = await evaluated()
    assert places_of(known, got) == [[b] for b in BIN_OF]
    for number, place in enumerate(BIN_OF):
        assert np.array_equal(got[place], known[number, place])
    assert len(np.unique(got, axis=0)) == N_BINS


async def test_a_leader_that_asks_for_two_ids_of_one_bin_gets_one_of_them():
    """Whatever stands in the place of a bin, the helper answers for that bin."""

    def twice(blinded):
        blinded[5] = blinded[17]  # the second id, blinded for bin 17, once more in the place of bin 5
        return blinded

    got, known, _ = await evaluated(altered=twice)
    assert places_of(known, got) == [[b] for b in BIN_OF]
    assert not np.array_equal(got[5], got[17])


async def test_what_the_helper_sees_and_says_is_all_that_is_sent():
    _, _, network = await evaluated()
    stages = {(m.sender, m.receiver, m.array.shape) for m in network.transcript if m.stage.startswith("matching")}
    assert stages == {(LEADER, HELPER, (N_BINS, 16)), (HELPER, LEADER, (N_BINS, 16))}


def test_members_without_a_secret_in_common_are_refused():
    with pytest.raises(LocalFaultError, match="no secret in common"):
        evaluate_own({}, me=2, leader=1, helper=3, ids=IDS, candidates=BIN_OF[:, None])
