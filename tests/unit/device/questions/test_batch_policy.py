"""Which batches a device answers, and whose keys it seals for."""

from dataclasses import replace

import pytest
from batches import PARTIES, asked_batch, batch_policy
from certificates import authority_in

from device.questions.batch_policy import BatchOutOfPolicyError, PartyKeyError, check_keys
from entropy import SystemEntropy
from mpc.secagg.secret.keys import RoundKey
from service.identity import Role
from service.trust.statements import StatementCheck, sign
from transport.batch_codec import PartyKey

WITHOUT_ONE = {"may_miss": 1, "colluding": 1, "privacy": {"epsilon": 1.0, "delta": 1e-6}, "largest": 1}


def test_a_batch_within_the_policy_is_answered():
    batch_policy().check(asked_batch())
    batch_policy().check(asked_batch(parties=("bank", "shop"), colluding=1))
    batch_policy(proofs=True).check(asked_batch(proofs=True))
    batch_policy(may_miss=1).check(asked_batch(**WITHOUT_ONE))
    batch_policy(may_miss=1).check(asked_batch())


@pytest.mark.parametrize(
    ("policy", "changes", "reason"),
    [
        ({"coordinator": "spiffe://walkers/coordinator/another"}, {}, "not this device's coordinator"),
        ({"parties": frozenset({"bank", "clinic"})}, {}, "shop: not among the parties"),
        ({"colluding": 2}, {"colluding": 1}, "withstands 1 colluding parties; at least 2"),
        ({"smallest_cohort": 3}, {}, "may be opened for 2 devices; at least 3"),
        ({"largest_elements": 2}, {}, "at most 2 here"),
        ({"proofs": True}, {}, "devices prove nothing in this batch"),
        ({}, WITHOUT_ONE, r"opens without 1 of its parties; at most 0 .* \(policy.parties.may_miss\)"),
        ({"exact_sums": False}, {}, "an exact sum is asked for"),
    ],
)
def test_a_batch_below_the_floor_is_refused_by_its_question(policy, changes, reason):
    with pytest.raises(BatchOutOfPolicyError, match=reason):
        batch_policy(**policy).check(asked_batch(**changes))


def test_a_batch_that_costs_too_much_is_refused():
    batch_policy(largest_epsilon=1.0).check_epsilon(1.0, 1e-6)
    batch_policy().check_epsilon(50.0, 1e-6)
    with pytest.raises(BatchOutOfPolicyError, match=r"epsilon is 1.1 .* at most 1 here"):
        batch_policy(largest_epsilon=1.0).check_epsilon(1.1, 1e-6)


@pytest.fixture
def issue(tmp_path):
    return authority_in(tmp_path, "walkers")


def signed_keys(asked, issue, role=Role.PARTY, names=PARTIES):
    keys = []
    for party, name in zip(PARTIES, names, strict=True):
        public = RoundKey(SystemEntropy().read(32)).public_bytes
        keys.append(PartyKey(public, sign(issue(role, name), asked.key_statement(party, public))))
    return keys


def test_keys_that_their_parties_vouch_for_are_taken_in_order(issue):
    asked, check = asked_batch(), StatementCheck(issue(Role.DEVICE, "ann"))
    keys = signed_keys(asked, issue)
    check_keys(asked, keys, check)


def test_nothing_is_sealed_for_keys_of_others(issue, tmp_path):
    """Keys of the coordinator, of another party, of another batch or place, of an authority of somebody's own."""
    asked, check = asked_batch(), StatementCheck(issue(Role.DEVICE, "ann"))
    honest = signed_keys(asked, issue)
    own = RoundKey(SystemEntropy().read(32)).public_bytes
    (tmp_path / "rogue").mkdir()
    rogue = authority_in(tmp_path / "rogue", "walkers")
    low_order = PartyKey(bytes(32), sign(issue(Role.PARTY, "bank"), asked.key_statement("bank", bytes(32))))
    cases = {
        "the coordinator's": signed_keys(asked, issue, Role.COORDINATOR),
        "another party's": signed_keys(asked, issue, names=("bank", "bank", "shop")),
        "of a stranger": signed_keys(asked, issue, names=("stranger", "clinic", "shop")),
        "of another authority": signed_keys(asked, rogue),
        "of another batch": signed_keys(asked_batch(session="01" * 16), issue),
        "in the place of another": [honest[1], honest[0], honest[2]],
        "exchanged": [replace(honest[0], public=own), *honest[1:]],
        "too few": honest[:2],
        "none": [],
        "of low order": [low_order, *honest[1:]],
    }
    for keys in cases.values():
        with pytest.raises(PartyKeyError):
            check_keys(asked, keys, check)
