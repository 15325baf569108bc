"""How the parties of a batch judge proofs: all alike, under one coin, and without a word more of honest vectors."""

import asyncio
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from batches import PARTIES, AnsweredBatch

from entropy import KeyStream, SystemEntropy
from mpc.errors import InconsistentSharesError, PeerViolationError
from mpc.local.network import LocalNetwork
from mpc.prime.kernels import PRIME
from mpc.protocol.session import COORDINATOR
from mpc.secagg.secret.party_shares import SealedVector, SealingTerms, answer_digest, seal, split, split_proof
from mpc.vector_proofs.prover import challenge_of, first_part, second_part
from mpc.vector_proofs.verifier import Verifier, integers_of
from party.batches.verdicts import OPENED_STAGE, REJECTED_STAGE, SEEDS_STAGE, Judge, seed_of
from questions.shares_agreement import agree
from service.identity import Role
from service.trust.statements import sign
from transport.batch_codec import BatchAnswer, part_of

NAMES = {COORDINATOR: "hub", **dict(enumerate(PARTIES, start=1))}
SEEDS = [bytes([party]) * 32 for party in range(3)]


@pytest.fixture
def answered(tmp_path):
    with ExitStack() as stack:
        yield lambda **changes: AnsweredBatch(tmp_path, stack, **{"largest": 100, "proofs": True, **changes})


class Parties:
    """Three parties that have the same list, and what they come to.

    Args:
        rejected: what each rejected when it closed the batch in an earlier attempt.
        coins: coin that each noted in an earlier attempt.
        seeds: of each.
    """

    def __init__(self, batch, rejected=(None, None, None), coins=(None, None, None), seeds=SEEDS):
        self.batch, self._rejected, self._coins, self._seeds = batch, rejected, list(coins), seeds
        self.collections = [batch.collection(party) for party in PARTIES]
        for party, collection in zip(PARTIES, self.collections, strict=True):
            collection.take(batch.parts(party))
        self.judges = []

    async def agree(self, **options):
        network = LocalNetwork(NAMES, deadline_s=1.0, **options)
        found = await asyncio.gather(
            *(self._agree(me, network.session(me)) for me in (1, 2, 3)), return_exceptions=True
        )
        return [one if isinstance(one, Exception) else one.tolist() for one in found]

    async def _agree(self, me, session):
        collection, shown = self.collections[me - 1], self.collections[me - 1].shown()
        judge = Judge(self.batch.asked, session, self._rejected[me - 1])
        self.judges.append(judge)

        async def blocks(wanted):
            parts = [one for one, is_wanted in zip(self.batch.parts(PARTIES[me - 1]), wanted, strict=True) if is_wanted]
            for start in range(0, len(parts), 2):
                yield parts[start : start + 2]

        async def coin(found):
            self._coins[me - 1] = self._coins[me - 1] or found
            return self._coins[me - 1]

        if self._rejected[me - 1] is not None:
            closed = shown.openable & ~self._rejected[me - 1]
            return await agree(session, (1, 2, 3), shown, (1, 9), closed, judge.tell)
        seed = self._seeds[me - 1]
        return await agree(
            session, (1, 2, 3), shown, (1, 9), judge=lambda bits: judge.judge(bits, collection, blocks, coin, seed)
        )

    def total(self, n):
        question = self.batch.asked.question
        total = question.group.zeros(question.n_elements)
        for place, collection in enumerate(self.collections):
            share = integers_of(question.claim, collection.sum.total, n, is_first=place == 0)
            question.group.accumulate(total, share)
        return question.group.decode(total).tolist()


async def test_what_keeps_its_bounds_is_added_up(answered):
    parties = Parties(answered(n_devices=2))
    assert await parties.agree() == [[True, True]] * 3
    assert parties.total(2) == [11, 22, 33]


async def test_who_lies_is_rejected_by_all_and_the_sum_of_the_others_is_exact(answered):
    parties = Parties(answered(liars={"d2": (0, 0, 1 << 30)}))
    assert await parties.agree() == [[True, True, False]] * 3
    assert parties.total(2) == [11, 22, 33]
    assert [judge.rejected.tolist() for judge in parties.judges] == [[False, False, True]] * 3


async def test_a_vector_that_is_too_long_is_rejected_though_each_entry_keeps_its_bound(answered):
    parties = Parties(answered(liars={"d1": (80, 80, 0)}, largest_norm=100, n_devices=2))
    assert await parties.agree() == [[True, False]] * 3
    assert parties.total(1) == [1, 2, 3]


@pytest.mark.parametrize(
    ("fields", "last_of_honest", "lie"),
    [
        ({"analysis": "secure-mean", "largest_weight": 10}, 1, (0, 0, 0, 11)),
        ({"analysis": "secure-mean", "largest_weight": 10}, 1, (0, 1001, 0, 10)),
        ({"analysis": "secure-histogram", "largest": 2, "values": 3, "length": 1, "edges": (0, 2, 4)}, 2, (2, 2)),
        ({"analysis": "secure-histogram", "largest": 2, "length": 1, "edges": (0, 2, 4)}, 2, (0, -1)),
    ],
)
async def test_lies_in_means_and_histograms_are_rejected_too(answered, fields, last_of_honest, lie):
    parties = Parties(answered(liars={"d1": lie}, n_devices=2, **fields))
    assert await parties.agree() == [[True, False]] * 3
    assert parties.total(1)[-1] == last_of_honest


def signed_again(batch, name, sealed, public):
    """An answer with other boxes, which its device has signed."""
    terms = SealingTerms(batch.asked.digest, name, PARTIES)
    answer = BatchAnswer(SealedVector(public, sealed), None)
    digests = part_of(name, answer, 0, len(PARTIES)).seal_digests
    return replace(answer, signed=sign(batch.issue(Role.DEVICE, name), answer_digest(terms, public, digests)))


@pytest.mark.parametrize("what", ["shares of two vectors", "zeros", "no elements", "no box"])
async def test_malformed_proofs_are_rejected_or_left_out_and_stop_nobody(answered, what):
    batch = answered(n_devices=2)
    question, publics = batch.asked.question, [key.public_bytes for key in batch.keys.values()]
    group, claim, n_second = question.group, question.claim, question.shared_elements[1]
    first = first_part(claim, np.array([10, 20, 30]), KeyStream(bytes(32)))
    shares = list(split(group, first, 3, SystemEntropy()))

    def prove(challenge):
        """What an honest device would answer, where it is not the answer that is malformed."""
        answer = second_part(claim, first, challenge_of(claim, KeyStream(challenge)))
        honest = split_proof(group, answer, shares[:-1])
        lies = {"zeros": (bytes(8 * n_second),), "no elements": (b"\xff" * 8 * n_second,)}
        return lies.get(what, honest)

    sent = [SystemEntropy().read(32), *shares[1:]] if what == "shares of two vectors" else shares
    vector = seal(SealingTerms(batch.asked.digest, "d1", PARTIES), sent, publics, SystemEntropy(), prove)
    sealed = (*vector.sealed[:3], bytes(len(vector.sealed[3]))) if what == "no box" else vector.sealed
    batch.answers["d1"] = signed_again(batch, "d1", sealed, vector.ephemeral_public)
    parties = Parties(batch)
    assert await parties.agree() == [[True, False]] * 3
    assert parties.total(1) == [1, 2, 3]
    is_rejected = what not in ("no box", "no elements")
    assert all(judge.rejected.tolist() == [False, is_rejected] for judge in parties.judges)


@pytest.mark.parametrize("receivers", [(1,), (1, 2)])
async def test_a_party_that_lies_about_what_it_opens_ends_the_batch(answered, receivers):
    def fault(message):
        if (message.sender, message.stage) == (3, OPENED_STAGE) and message.receiver in receivers:
            return (message.altered((message.array + np.uint64(1)) % np.uint64(PRIME)),)
        return (message,)

    found = await Parties(answered(n_devices=2)).agree(fault=fault)
    assert all(isinstance(one, PeerViolationError) for one in found)
    assert "another cohort" in str(found[2])


async def test_a_party_that_goes_by_its_lie_leaves_a_device_out_for_all(answered, monkeypatch):
    honest, calls = Verifier.share_of, []

    def share_of(self, first, second, challenge):
        """The first answer's share is altered at the first party that opens it, before it is sent or used."""
        calls.append(1)
        found = honest(self, first, second, challenge)
        if len(calls) == 1:
            found[0] = (int(found[0]) + 1) % PRIME
        return found

    monkeypatch.setattr(Verifier, "share_of", share_of)
    parties = Parties(answered(n_devices=2))
    assert await parties.agree() == [[False, True]] * 3
    assert parties.total(1) == [10, 20, 30]


async def test_what_is_no_element_is_noticed_and_its_sender_is_named(answered):
    def fault(message):
        if (message.sender, message.stage) == (3, OPENED_STAGE):
            return (message.altered(np.full_like(message.array, PRIME)),)
        return (message,)

    found = await Parties(answered(n_devices=1)).agree(fault=fault)
    for one in found[:2]:
        assert isinstance(one, PeerViolationError)
        assert (one.member, "no element" in str(one)) == (3, True)


async def test_who_tells_others_different_things_about_rejections_is_noticed_at_once(answered):
    """Before a coin is tossed: else some would wait for seeds and the others for cohorts, and blame each other."""
    sent = []

    def fault(message):
        sent.append(message.stage)
        if (message.sender, message.receiver, message.stage) == (3, 1, REJECTED_STAGE):
            return (message.altered(message.array | np.uint8(0x80)),)  # says that it has closed
        return (message,)

    found = await Parties(answered(n_devices=2)).agree(fault=fault)
    assert all(isinstance(one, InconsistentSharesError) for one in found)
    assert not {SEEDS_STAGE, OPENED_STAGE} & set(sent)


async def test_nothing_is_opened_under_a_second_coin(answered):
    """A second point would tell of vectors: who noted a coin in an earlier attempt opens under that one only."""
    batch, sent = answered(n_devices=1), []
    first = Parties(batch)
    await first.agree()

    def note(message):
        sent.append((message.sender, message.stage))
        return (message,)

    again = Parties(batch, coins=first._coins, seeds=[*SEEDS[:2], bytes(32)])
    found = await again.agree(fault=note)
    assert all("another coin" in str(one) for one in found)
    assert (1, SEEDS_STAGE) in sent
    assert not [stage for _, stage in sent if stage == OPENED_STAGE]
    assert await Parties(batch, coins=first._coins).agree() == [[True]] * 3


async def test_what_was_rejected_by_who_has_closed_stands_and_nothing_is_opened_again(answered):
    batch, sent = answered(liars={"d0": (0, 0, 1 << 30)}), []

    def note(message):
        sent.append(message.stage)
        return (message,)

    rejected = np.array([True, False, False])
    parties = Parties(batch, rejected=(rejected, None, None))
    assert await parties.agree(fault=note) == [[False, True, True]] * 3
    assert REJECTED_STAGE in sent
    assert not {SEEDS_STAGE, OPENED_STAGE} & set(sent)


def test_seeds_follow_from_key_and_list():
    assert seed_of(bytes(32), b"list") == seed_of(bytes(32), b"list") != seed_of(bytes(32), b"other")
    assert seed_of(bytes(32), b"list") != seed_of(bytes([1]) * 32, b"list")
