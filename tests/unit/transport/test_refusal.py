from mpc.transcript import RoundId
from transport.refusal import Declined, WhyRefused, counted, in_words, refusals_of, why_of
from transport.sum_codec import decode_from_member, encode_from_member


def test_a_member_that_declines_says_one_word():
    declined = Declined(RoundId("session", 3, 1), 7, WhyRefused.BUDGET)
    wire = encode_from_member(declined)
    assert decode_from_member(wire.SerializeToString()) == declined
    wire.declined = "a long story about a record"
    assert decode_from_member(wire.SerializeToString()).why is WhyRefused.TROUBLE


def test_reasons_are_counted_and_said_in_one_order_whatever_came_first():
    counts = counted([WhyRefused.BUDGET, WhyRefused.POLICY, WhyRefused.BUDGET])
    assert counts == (("policy", 1), ("budget", 2))
    assert in_words(counts) == "3 refused: policy 1, budget 2"
    assert in_words(()) == ""


def test_counts_of_the_wire_hold_reasons_only():
    assert refusals_of({"budget": 2, "no reason": 5, "policy": 0}) == (("budget", 2),)
    assert why_of("policy") is WhyRefused.POLICY
