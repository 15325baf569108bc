"""What a party's owner allows of batches."""

import os

import pytest
from batches import HUB, asked_batch

from party.batches.rules import BatchRefusedError, BatchRules

NOISY = {"epsilon": 1.0, "delta": 1e-6}
PEERS = frozenset({"clinic", "shop", "another"})


def check(rules=None, me="bank", peers=PEERS, coordinator=HUB.uri, **changes):
    fields = {"privacy": NOISY, "smallest_cohort": 10, "largest_cohort": 100, "largest": 1, **changes}
    (rules or BatchRules()).check(asked_batch(**fields), me, peers, coordinator)


def test_what_is_within_the_rules_is_accepted():
    check()
    check(BatchRules(may_miss=1), may_miss=1, colluding=1)
    check(BatchRules(exact_sums=True, smallest_cohort=2, largest_elements=3), smallest_cohort=2, privacy=None)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"coordinator": "spiffe://walkers/coordinator/another"}, "takes part in batches of"),
        ({"me": "another"}, "is not one of the parties"),
        ({"peers": frozenset({"shop"})}, "does not compute with clinic"),
        ({"smallest_cohort": 9}, "no sum of fewer than 10 devices"),
        ({"privacy": None}, "noisy sums only"),
        ({"may_miss": 1, "colluding": 1}, r"with all of their parties only \(set batches.may_miss = 1"),
        ({"rules": BatchRules(proofs=True)}, "proven vectors only"),
        ({"rules": BatchRules(largest_elements=2)}, "at most 2 elements"),
    ],
)
def test_what_is_not_is_refused_with_the_reason(options, reason):
    with pytest.raises(BatchRefusedError, match=reason):
        check(**options)


def test_a_party_checks_answers_on_all_its_processors_unless_its_owner_says_otherwise():
    assert BatchRules().n_threads == len(os.sched_getaffinity(0))
    assert BatchRules(threads=3).n_threads == 3
