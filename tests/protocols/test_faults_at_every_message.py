"""Every protocol with one fault at its messages: the right value opens, or somebody is named. Never a wrong value.

The quick tests take some of the messages, other ones for every fault. The slow ones have a fault at a third of the
messages of each stage, of large protocols at forty messages, other ones for every fault, and a party killed at all.
Here no party is left over; test_survival.py does the same where some are.
"""

import circuits
import pytest
from fault_injection import (
    MESSAGE_FAULTS,
    assert_right,
    assert_right_or_declared,
    in_turn,
    kill_sender,
    many,
    points_of,
    reorder_stream,
    run,
)
from noisy_release import noisy_release

from mpc.errors import PeerViolationError

PROTOCOLS = [
    circuits.key_agreement(3, 1),
    circuits.hash_key(3, 1),
    circuits.equality(3, 1),
    circuits.opened_input(3, 1),
    circuits.opened_product(3, 1),
    circuits.two_layers(3, 1),
    circuits.matrix_product(3, 1),
    circuits.gram(3, 1),
    circuits.dot(3, 1),
    circuits.polynomial(3, 1),
    circuits.several_products(3, 1),
    circuits.masked_opening(3, 1),
    circuits.two_layers(5, 2),
    circuits.masked_opening(5, 2),
    noisy_release(3, 1, n_owners=4),
    noisy_release(4, 1, n_owners=4),  # the noise travels
    noisy_release(5, 2, n_owners=2),  # the owners key the digests of their ids
]
WITH_STREAMS = PROTOCOLS[3:]
LARGE = ("gram among 3, t=1", "several products among 3, t=1", "two layers among 5, t=2", "masked opening among 5, t=2")
"""The slow tests have them at more of the messages; the others hold what they are made of."""


def named(protocols):
    return pytest.mark.parametrize("protocol", protocols, ids=lambda protocol: protocol.name)


def others(points, turn):
    """The points at which the quick test with this turn injects nothing."""
    quick = set(in_turn(points, turn))
    assert quick
    return [point for point in points if point not in quick]


def test_the_protocols_but_those_of_keys_and_equality_have_streams_of_several_messages():
    assert [p for p in PROTOCOLS if any(sequence for *_, sequence in points_of(p))] == WITH_STREAMS


@named(PROTOCOLS)
def test_without_a_fault_the_right_value_opens_at_once(protocol):
    clean = run(protocol)
    assert_right(protocol, clean)
    assert clean.seconds == 0  # nobody waited for a deadline


@named([p for p in PROTOCOLS if p.name not in LARGE and "owners among 5" not in p.name])
@pytest.mark.parametrize("fault", MESSAGE_FAULTS)
def test_a_fault_at_some_messages_leads_to_the_right_value_or_a_declared_error(protocol, fault):
    for point in in_turn(points_of(protocol), list(MESSAGE_FAULTS).index(fault)):
        assert_right_or_declared(protocol, run(protocol, MESSAGE_FAULTS[fault](point)))


@pytest.mark.slow
@named(PROTOCOLS)
@pytest.mark.parametrize("fault", MESSAGE_FAULTS)
def test_a_fault_at_many_messages_leads_to_the_right_value_or_a_declared_error(protocol, fault):
    for point in many(points_of(protocol), list(MESSAGE_FAULTS).index(fault)):
        assert_right_or_declared(protocol, run(protocol, MESSAGE_FAULTS[fault](point)))


@named(PROTOCOLS)
def test_a_party_killed_at_some_message_leads_to_the_right_value_or_a_declared_error(protocol):
    for point in in_turn(points_of(protocol), len(MESSAGE_FAULTS)):
        assert_right_or_declared(protocol, run(protocol, kill_sender(point)))


@pytest.mark.slow
@named(PROTOCOLS)
def test_a_party_killed_at_any_message_leads_to_the_right_value_or_a_declared_error(protocol):
    for point in others(points_of(protocol), len(MESSAGE_FAULTS)):
        assert_right_or_declared(protocol, run(protocol, kill_sender(point)))


@named([protocol for protocol in WITH_STREAMS if "among 5" not in protocol.name])
def test_messages_of_one_stream_in_another_order_are_never_taken_for_each_other(protocol):
    points = points_of(protocol)
    swapped = [p for p in points if (*p[:3], p[3] + 1) in points]
    assert swapped
    outcomes = []
    for point in swapped:
        sender, receiver, stage, sequence = point
        broken = run(protocol, reorder_stream(point))
        assert_right_or_declared(protocol, broken)
        noticed = broken.results[receiver]
        outcomes.append(type(noticed))
        if stage == "keys":  # the second one is only sent when the first has been answered: neither comes
            continue
        assert isinstance(noticed, PeerViolationError), (point, noticed)
        assert (noticed.member, noticed.stage) == (sender, stage)
        assert f"message {sequence + 1} of stage {stage} where {sequence} was due" in str(noticed)
    assert PeerViolationError in outcomes
