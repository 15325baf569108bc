"""What a party takes of a coordinator's list of answers, and what it leaves out."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from batches import PARTIES, AnsweredBatch
from deadlines import GENEROUS_S

from entropy import InsecureTestEntropy
from mpc.errors import PeerViolationError
from mpc.secagg.secret.party_shares import SealingTerms, answer_digest, seal
from party.batches import collecting
from party.batches.collecting import Collection, places_of
from service.errors import UnauthenticatedError
from service.identity import Role
from service.trust.statements import Signed, StatementCheck, sign
from transport.batch_codec import BatchAnswer, part_of


@pytest.fixture
def batch(tmp_path):
    with ExitStack() as stack:
        yield AnsweredBatch(tmp_path, stack)


def total_of(batch, collections):
    group, length = batch.asked.question.group, batch.asked.question.n_elements
    total = group.zeros(length)
    for collection in collections:
        group.accumulate(total, collection.sum.total)
    return group.decode(total).tolist()


def test_all_parties_see_the_same_list_and_their_sums_add_up(batch):
    collections = [batch.collection(party) for party in PARTIES]
    for party, collection in zip(PARTIES, collections, strict=True):
        collection.take(batch.parts(party)[:1])
        collection.take(batch.parts(party)[1:])
    assert len({collection.shown().digest for collection in collections}) == 1
    assert [collection.shown().openable.tolist() for collection in collections] == [[True] * 3] * 3
    assert total_of(batch, collections) == [111, 222, 333]


def test_what_others_cannot_open_is_taken_away_again(batch):
    collections = [batch.collection(party) for party in PARTIES]
    for party, collection in zip(PARTIES, collections, strict=True):
        collection.take(batch.parts(party))
        collection.take_away(batch.parts(party)[1:2], [1])
    assert total_of(batch, collections) == [101, 202, 303]


@pytest.mark.parametrize("party", ["bank", "shop"])
def test_only_the_same_answers_are_taken_away(batch, party):
    collection = batch.collection(party)
    parts = batch.parts(party)
    collection.take(parts)
    spoiled = replace(parts[1], sealed=bytes(len(parts[1].sealed)))
    for again, places in (([parts[0]], [1]), ([spoiled], [1]), ([], [1]), (parts[:2], [1])):
        with pytest.raises(PeerViolationError, match="does not show again"):
            collection.take_away(again, places)


def altered(batch, party):
    part = batch.parts(party)[1]
    stranger = batch.issue(Role.DEVICE, "d9")
    other = batch.parts(party)[0]
    return {
        "sealed bytes": replace(part, sealed=bytes(len(part.sealed))),
        "another's share": replace(part, sealed=other.sealed),
        "a short share": replace(part, sealed=part.sealed[:-1]),
        "a hash of another share": replace(part, seal_digests=(bytes(32), *part.seal_digests[1:])),
        "too few hashes": replace(part, seal_digests=part.seal_digests[:2]),
        "another key": replace(part, ephemeral_public=other.ephemeral_public),
        "no key": replace(part, ephemeral_public=b""),
        "another's answer": replace(other, device="d1"),
        "signed by another": replace(part, signed=sign(stranger, b"anything")),
        "not signed": replace(part, signed=Signed(part.signed.certificate, b"")),
    }


@pytest.mark.parametrize("what", range(10))
def test_what_is_not_the_devices_own_or_does_not_open_is_left_out(batch, what):
    part = list(altered(batch, "bank").values())[what]
    collection = batch.collection("bank")
    parts = batch.parts("bank")
    collection.take([parts[0], part, parts[2]])
    assert collection.shown().openable.tolist() == [True, False, True]
    clean = batch.collection("bank")
    clean.take([parts[0], parts[2]])
    assert collection.sum.total.tolist() == clean.sum.total.tolist()


def test_a_share_that_opens_and_is_not_the_one_that_was_signed_is_left_out(batch):
    """A device that colludes may seal two shares for a party with one key; its signature is of one of them."""
    credentials = batch.issue(Role.DEVICE, "d1")
    terms = SealingTerms(batch.asked.digest, "d1", PARTIES)
    publics = [key.public_bytes for key in batch.keys.values()]
    shares = [bytes([1]) * 32, bytes(32), bytes(batch.asked.question.group.wire_bytes(3))]
    signed_one, other = (
        seal(terms, [first, *shares[1:]], publics, InsecureTestEntropy("the same key"))
        for first in (shares[0], bytes([2]) * 32)
    )
    digests = [hashlib.sha256(one).digest() for one in signed_one.sealed]
    signed = sign(credentials, answer_digest(terms, signed_one.ephemeral_public, digests))
    part = part_of("d1", BatchAnswer(signed_one, signed), 0, len(PARTIES))
    for sealed, opens in ((signed_one.sealed[0], True), (other.sealed[0], False)):
        collection = batch.collection("bank")
        collection.take([replace(part, sealed=sealed)])
        assert collection.shown().openable.tolist() == [opens]


def test_an_answer_to_another_batch_is_left_out(batch, tmp_path):
    (tmp_path / "other").mkdir()
    with ExitStack() as stack:
        other = AnsweredBatch(tmp_path / "other", stack, session="01" * 16)
        other.keys, other.check = batch.keys, other.check
        collection = Collection(batch.asked, "bank", other.keys["bank"], other.check)
        collection.take(other.parts("bank"))
    assert collection.shown().openable.tolist() == [False] * 3


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ((0, 0), "twice, or devices out of order"),
        ((1, 0), "twice, or devices out of order"),
        ((0, 1, 1), "twice, or devices out of order"),
    ],
)
def test_a_device_twice_or_out_of_order_ends_it(batch, order, words):
    with pytest.raises(PeerViolationError, match=words):
        batch.collection("bank").take([batch.parts("bank")[place] for place in order])


def test_more_answers_than_there_may_be_end_it(batch):
    part = batch.parts("bank")[0]
    many = [replace(part, device=f"e{number}") for number in range(5)]
    with pytest.raises(PeerViolationError, match="more answers than the batch may have"):
        batch.collection("bank").take(many)


def test_a_second_attempt_goes_on_with_the_first_list_alone(batch):
    """Also where a certificate has expired or was revoked since: others may have closed with it."""
    first = batch.collection("bank")
    parts = batch.parts("bank")
    spoiled = replace(parts[1], sealed=bytes(len(parts[1].sealed)))
    first.take([parts[0], spoiled, parts[2]])

    class Expired(StatementCheck):
        def signer(self, signed, statement, role):
            raise UnauthenticatedError("it is not valid now")

    batch.check = Expired(batch.check.credentials)
    assert not batch_openable(batch.collection("bank"), parts)
    again = batch.collection("bank", before=first.shown())
    again.take([parts[0], spoiled, parts[2]])
    assert again.shown().digest == first.shown().digest
    assert again.sum.total.tolist() == first.sum.total.tolist()
    for others in (parts[:2], [*parts, replace(parts[0], device="e0")], [parts[0], parts[2]], []):
        other = batch.collection("bank", before=first.shown())
        other.take(others)
        with pytest.raises(PeerViolationError, match="than it has shown before"):
            other.shown()


@pytest.mark.parametrize("revoked", [0, 1, 2])
@pytest.mark.parametrize("party", ["bank", "clinic"])
def test_what_could_not_be_opened_at_first_is_told_by_the_place_of_the_answer_again(batch, party, revoked):
    """Not by the place of the party, which is another number."""
    parts = batch.parts(party)

    class Revoked(StatementCheck):
        def signer(self, signed, statement, role):
            found = super().signer(signed, statement, role)
            if found.name == parts[revoked].device:
                raise UnauthenticatedError("it is revoked")
            return found

    batch.check = Revoked(batch.check.credentials)
    first = batch.collection(party)
    first.take(parts)
    assert first.shown().openable.tolist() == [place != revoked for place in range(3)]
    again = batch.collection(party, before=first.shown())
    again.take(parts)
    assert again.shown().openable.tolist() == first.shown().openable.tolist()
    assert again.sum.total.tolist() == first.sum.total.tolist()


class Meeting(StatementCheck):
    """Goes on with a signature only when another thread is at one, too."""

    def signer(self, signed, statement, role):
        meeting.wait(GENEROUS_S)
        return super().signer(signed, statement, role)


meeting = threading.Barrier(2)


def test_answers_are_checked_in_several_threads_at_once(batch, monkeypatch):
    """Alone a thread would wait for the other until the test fails."""
    monkeypatch.setattr(collecting, "SLICE", 1)
    batch.check = Meeting(batch.check.credentials)
    parts = [*batch.parts("bank"), replace(batch.parts("bank")[0], device="e0")]
    with ThreadPoolExecutor(2) as pool:
        collection = batch.collection("bank", pool=pool)
        collection.take(parts)
    assert collection.shown().openable.tolist() == [True, True, True, False]


def test_threads_take_in_what_one_takes_in_and_in_its_order(tmp_path, monkeypatch):
    monkeypatch.setattr(collecting, "SLICE", 2)
    with ExitStack() as stack:
        batch = AnsweredBatch(tmp_path, stack, n_devices=7, largest=10**7, largest_cohort=8)
        pool = stack.enter_context(ThreadPoolExecutor(3))
        for party in PARTIES:
            parts = batch.parts(party)
            parts[4] = replace(parts[4], sealed=bytes(len(parts[4].sealed)))
            alone, together = batch.collection(party), batch.collection(party, pool=pool)
            alone.take(parts)
            together.take(parts[:3])
            together.take(parts[3:])
            for one in (alone, together):
                one.take_away(parts[5:], [5, 6])
            assert (
                together.shown().openable.tolist()
                == alone.shown().openable.tolist()
                == [True] * 4 + [False, True, True]
            )
            assert together.shown().digest == alone.shown().digest
            assert together.sum.total.tolist() == alone.sum.total.tolist()


def batch_openable(collection, parts):
    collection.take(parts)
    return collection.shown().openable.any()


def test_places_are_those_that_are_set():
    assert places_of(np.array([True, False, True])) == [0, 2]
