"""Receipts at the coordinator: what is put into a result, and that nobody's silence keeps it from its analyst."""

import asyncio
import json
from dataclasses import dataclass, field

import pytest

from coordinator.evidence import Evidence
from coordinator.proposal import RosterParty
from coordinator.receipts import MAX_RECEIPT_BYTES, with_receipts
from service.errors import UnreachableError
from service.identity import Identity, Role
from service.trust.receipts import digest_of_result
from service.trust.statements import Signed

RESULT = {"count": 1.5, "analysis": "joint-count"}
SIGNED = Signed(b"certificate", b"signature")


@dataclass
class Client:
    """A party that answers with a text, an error, or not at all."""

    answer: object
    asked: list = field(default_factory=list)

    async def receipt(self, job_id, result_digest, *, timeout_s):
        self.asked.append((job_id, result_digest, timeout_s))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.Event().wait()
        return self.answer, SIGNED


def party(name, answer):
    found = RosterParty(Identity("acme", Role.PARTY, name), "127.0.0.1:1", None)
    found.__dict__["client"] = Client(answer)
    return found


def evidence_of(*parties):
    return Evidence(tuple(one.identity.name for one in parties), 0.0)


async def test_receipts_stand_in_the_result_in_the_order_of_the_parties():
    parties = [party("bank", '{"a":1}'), party("shop", '{"b":2}')]
    text = await with_receipts("job-1", RESULT, parties, evidence_of(*parties))
    found = json.loads(text)
    assert [one["receipt"] for one in found.pop("receipts")] == [{"a": 1}, {"b": 2}]
    assert found == RESULT
    assert parties[0].client.asked[0][:2] == ("job-1", digest_of_result(RESULT))
    assert digest_of_result(json.loads(text)) == digest_of_result(RESULT)


@pytest.mark.parametrize(
    "answer",
    [
        UnreachableError("it is gone"),
        "",
        "[1]",
        '{"a": 1}',
        '{"b":1,"a":1}',
        '{"a":NaN}',
        '{"a":"\\u202e"}',
        '{"a":"' + "x" * MAX_RECEIPT_BYTES + '"}',
        "[" * 5000,
    ],
)
async def test_what_is_no_receipt_is_left_out(answer):
    parties = [party("bank", answer), party("shop", '{"b":2}')]
    found = json.loads(await with_receipts("job-1", RESULT, parties, evidence_of(*parties)))
    assert [one["receipt"] for one in found["receipts"]] == [{"b": 2}]


async def test_a_party_that_has_dropped_out_is_not_asked():
    parties = [party("bank", None), party("shop", '{"b":2}')]
    evidence = evidence_of(*parties)
    evidence.broke("bank", "its connection")
    found = json.loads(await with_receipts("job-1", RESULT, parties, evidence))
    assert len(found["receipts"]) == 1
    assert parties[0].client.asked == []


async def test_a_job_that_is_stopped_meanwhile_keeps_its_result():
    parties = [party("bank", None)]
    asking = asyncio.create_task(with_receipts("job-1", RESULT, parties, evidence_of(*parties)))
    await asyncio.sleep(0)
    asking.cancel()
    assert json.loads(await asking) == RESULT
