"""Parties agree on the devices of a batch, or on nothing."""

import asyncio

import numpy as np
import pytest

from mpc.errors import PeerViolationError
from mpc.local.network import LocalNetwork
from mpc.protocol.greeting import DifferentTermsError
from mpc.protocol.session import COORDINATOR
from questions.shares_agreement import (
    COHORT_STAGE,
    OPENABLE_STAGE,
    CohortTooSmallError,
    ListDigest,
    ShownList,
    agree,
    check_cohort,
)

NAMES = {COORDINATOR: "hub", 1: "bank", 2: "clinic", 3: "shop"}
MEMBERS = (1, 2, 3)


def bits(text):
    return np.array([one == "1" for one in text], dtype=np.bool_)


def shown_to(*texts, digests=("a", "a", "a")):
    return [ShownList(digest.encode() * 32, bits(text)) for digest, text in zip(digests, texts, strict=True)]


async def all_agree(shown, bounds=(1, 100), closed=(None, None, None), **options):
    network = LocalNetwork(NAMES, deadline_s=1.0, **options)
    ways = (agree(network.session(me), MEMBERS, shown[me - 1], bounds, closed[me - 1]) for me in MEMBERS)
    return await asyncio.gather(*ways, return_exceptions=True)


async def test_the_cohort_is_what_all_can_open():
    found = await all_agree(shown_to("1111100001", "1111010001", "0111000001"))
    assert ["".join("01"[int(one)] for one in cohort) for cohort in found] == ["0111000001"] * 3


async def test_an_empty_list_is_too_small_and_fails_for_that():
    assert all(isinstance(one, CohortTooSmallError) for one in await all_agree(shown_to("", "", "")))


async def test_other_lists_end_the_batch_before_anything_is_said_of_them():
    sent = []

    def note(message):
        sent.append(message.stage)
        return (message,)

    found = await all_agree(shown_to("111", "111", "111", digests=("a", "a", "b")), fault=note)
    assert all(isinstance(one, PeerViolationError) for one in found)
    assert {one.member for one in found} == {COORDINATOR}
    assert "hub showed different answers of this batch to shop and" in str(found[2])
    assert OPENABLE_STAGE not in sent[:6]
    assert COHORT_STAGE not in sent


async def test_lists_of_other_lengths_end_it_too():
    found = await all_agree([ShownList(bytes(32), bits(text)) for text in ("111", "111", "1111")])
    assert all(isinstance(one, PeerViolationError) for one in found)


async def test_another_question_ends_it():
    found = await all_agree(shown_to("11", "11", "11"), terms_of=lambda member: b"a" if member == 1 else b"b")
    assert all(isinstance(one, DifferentTermsError) for one in found)


async def test_a_party_that_tells_two_others_different_things_is_found_out_by_both():
    def fault(message):
        if (message.sender, message.receiver, message.stage) == (3, 1, OPENABLE_STAGE):
            return (message.altered(np.packbits(bits("110"))),)
        return (message,)

    found = await all_agree(shown_to("111", "111", "111"), fault=fault)
    assert isinstance(found[0], PeerViolationError)
    assert isinstance(found[1], PeerViolationError)
    assert "another cohort" in str(found[0])


@pytest.mark.parametrize("who_closed", [(1,), (2,), (1, 2)])
async def test_once_an_honest_party_has_closed_nobody_closes_with_another_cohort(who_closed):
    """The third says in a later attempt that it cannot open an answer, to all alike."""
    closed = [bits("111") if me in who_closed else None for me in MEMBERS]
    digests = []

    def note(message):
        if message.stage == COHORT_STAGE:
            digests.append(message.sender)
        return (message,)

    found = await all_agree(shown_to("111", "111", "110"), closed=closed, fault=note)
    assert all(isinstance(one, Exception) for one in found)
    assert all("closed here with another cohort" in str(found[me - 1]) for me in who_closed)
    assert not set(digests) & set(who_closed)


async def test_who_has_closed_agrees_again_on_the_same_cohort():
    found = await all_agree(shown_to("111", "111", "110"), closed=[bits("110"), None, None])
    assert ["".join("01"[int(one)] for one in cohort) for cohort in found] == ["110"] * 3


async def test_bits_behind_the_last_answer_mean_nothing():
    def fault(message):
        return (message.altered(message.array | 1),) if message.stage == OPENABLE_STAGE else (message,)

    found = await all_agree(shown_to("111", "111", "111"), fault=fault)
    assert [cohort.tolist() for cohort in found] == [[True] * 3] * 3


@pytest.mark.parametrize(("bounds", "words"), [((4, 10), "only 3 devices"), ((1, 2), "at most 2 may be")])
async def test_a_cohort_outside_its_bounds_is_refused_by_every_party(bounds, words):
    found = await all_agree(shown_to("1110", "1111", "1111"), bounds)
    assert all(isinstance(one, CohortTooSmallError) and words in str(one) for one in found)


def test_both_ends_of_the_bounds_are_allowed():
    check_cohort(2, (2, 5))
    check_cohort(5, (2, 5))


def test_the_digest_of_a_list_holds_batch_names_answers_and_order():
    def of(batch, *answers):
        made = ListDigest(batch)
        for name, answer in answers:
            made.add(name, answer)
        return made.digest()

    one, two = ("ann", b"1" * 32), ("ben", b"2" * 32)
    found = [
        of(b"x", one, two),
        of(b"x", two, one),
        of(b"y", one, two),
        of(b"x", one),
        of(b"x", ("anb", b"1" * 32), two),
    ]
    assert len(set(found)) == len(found)
    assert of(b"x", one, two) == found[0]


def test_the_digest_of_a_cohort_holds_its_list():
    cohort = bits("101")
    assert len({ShownList(one * 32, cohort).cohort_digest(cohort) for one in (b"a", b"b")}) == 2
    shown = ShownList(bytes(32), cohort)
    assert len({shown.cohort_digest(bits(text)) for text in ("101", "100", "1010")}) == 3
