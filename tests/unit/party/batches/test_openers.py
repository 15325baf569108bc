"""The masks between parties that open a batch: they cancel for one opening of one cohort, and for no other."""

import asyncio

import pytest

from entropy import SystemEntropy
from mpc.errors import PeerViolationError
from mpc.local.network import LocalNetwork
from mpc.protocol.session import COORDINATOR
from mpc.secagg.secret.keys import RoundKey
from mpc.secagg.secret.mask import apply_masks
from mpc.secagg.vector.prime_group import PrimeGroup
from party.batches.openers import exchange_batch_keys, masks_of

BATCH, COHORT = bytes(32), bytes([1]) * 32
NAMES = {COORDINATOR: "hub", 1: "bank", 3: "shop", 4: "tailor"}
OPENERS = (1, 3, 4)
GROUP = PrimeGroup()


@pytest.fixture(scope="module")
def keys():
    return {one: RoundKey(SystemEntropy().read(32)) for one in OPENERS}


def masked(keys, me, openers=OPENERS, cohort=COHORT, batch=BATCH):
    """The masks of a party on a share of zeros."""
    publics = {other: keys[other].public_bytes for other in openers if other != me}
    share = GROUP.zeros(2)
    apply_masks(GROUP, share, masks_of(me, keys[me], publics, batch, openers, cohort))
    return share


def added(*shares):
    total = GROUP.zeros(2)
    for share in shares:
        GROUP.accumulate(total, share)
    return GROUP.decode(total).tolist()


def test_the_masks_of_all_that_open_cancel_and_those_of_fewer_do_not(keys):
    assert added(*(masked(keys, me) for me in OPENERS)) == [0, 0]
    for left_out in OPENERS:
        assert 0 not in added(*(masked(keys, me) for me in OPENERS if me != left_out))


@pytest.mark.parametrize("other", [{"cohort": bytes(32)}, {"batch": COHORT}])
def test_masks_of_another_cohort_or_batch_do_not_cancel(keys, other):
    assert 0 not in added(masked(keys, 1, **other), masked(keys, 3), masked(keys, 4))


def test_masks_among_other_openers_do_not_cancel(keys):
    assert added(masked(keys, 1, (1, 3)), masked(keys, 3, (1, 3))) == [0, 0]
    assert 0 not in added(masked(keys, 1, (1, 3)), masked(keys, 3), masked(keys, 4))


async def test_parties_tell_their_keys_to_those_they_open_with(keys):
    network = LocalNetwork(NAMES, deadline_s=1.0)
    found = await asyncio.gather(
        *(exchange_batch_keys(network.session(me), OPENERS, keys[me].public_bytes) for me in OPENERS)
    )
    assert found[0] == {3: keys[3].public_bytes, 4: keys[4].public_bytes}


async def test_a_key_of_low_order_is_refused(keys):
    network = LocalNetwork(NAMES, deadline_s=1.0)
    publics = {1: keys[1].public_bytes, 3: bytes(32), 4: keys[4].public_bytes}
    told = [exchange_batch_keys(network.session(me), OPENERS, publics[me]) for me in OPENERS]
    found = await asyncio.gather(*told, return_exceptions=True)
    for one in (found[0], found[2]):
        assert isinstance(one, PeerViolationError)
        assert "shop has no usable key" in str(one)
