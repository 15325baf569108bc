"""One device and one batch: paid before it reads, kept before it sends, one vector for ever."""

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from batches import PARTIES, asked_batch, batch_device, batch_policy, kept, offered, opened_vector
from certificates import authority_in

from device.questions.batch import SitsBatchOutError
from device.questions.batch_policy import BatchOutOfPolicyError, PartyKeyError
from device.records import KeptRecord
from device.report import read_sum_report
from dp.cost.views import MEMBER_UNIT
from entropy import InsecureTestEntropy, SystemEntropy
from ledger.books import ChargeError
from ledger.budget import Budget
from mpc.secagg.secret.keys import RoundKey
from service.errors import ServiceError
from service.identity import Role
from transport.batch_codec import decode_answer

NOISY = {"epsilon": 1.0, "delta": 1e-6}


def charge(device, asked):
    device.budget.charge_answer(device.charge_of(asked.digest), asked.question.analysis, device.cost_of(asked))


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def issue(tmp_path):
    return authority_in(tmp_path, "walkers")


@pytest.fixture
def keys():
    return [RoundKey(SystemEntropy().read(32)) for _ in PARTIES]


@pytest.fixture
def ann(stack, tmp_path, issue):
    def start(**changes):
        return batch_device(stack, tmp_path / "ann", issue(Role.DEVICE, "ann"), **changes)

    return start


def test_all_parties_together_open_the_vector_and_the_owner_has_a_report(ann, issue, keys, tmp_path):
    asked = asked_batch(privacy=NOISY)
    device = ann(records={"steps": kept(1.9, -2000.0, 3.0)})
    body = device.answer_once(asked, offered(asked, issue, keys).keys)
    assert opened_vector(asked, keys, body) == [1, -1000, 3]
    report = read_sum_report(tmp_path / "ann", f"batch-{asked.digest[:16].hex()}")
    assert report["clipped_fraction"] == pytest.approx(1 / 3)
    assert report["budget"]["spent_epsilon"] > 0


@pytest.mark.parametrize(
    "record",
    [
        KeptRecord(kept(1.0).declared, lambda: 1 / 0),
        kept(1.0, 2.0),
        kept(np.nan, 1.0, 2.0),
    ],
    ids=["reading fails", "another length", "not a number"],
)
def test_a_record_that_cannot_be_used_counts_as_zeros_and_the_answer_has_the_same_size(ann, issue, keys, record):
    asked = asked_batch()
    device = ann(records={"steps": record})
    body = device.answer_once(asked, offered(asked, issue, keys).keys)
    assert opened_vector(asked, keys, body) == [0, 0, 0]
    good = asked_batch(session="01" * 16)
    other = replace(device, records={"steps": kept(1.0, 2.0, 3.0)}).answer_once(good, offered(good, issue, keys).keys)
    sizes = [[len(one) for one in decode_answer(found).vector.sealed] for found in (body, other)]
    assert sizes[0] == sizes[1]


def test_a_batch_is_charged_once_and_answered_by_the_same_bytes(ann, issue, keys):
    asked = asked_batch(privacy=NOISY)
    device, batch = ann(), offered(asked, issue, keys)
    body = device.answer_once(asked, batch.keys)
    spent = device.budget.standing()["spent_epsilon"]
    assert 0 < spent <= 1
    other_record = replace(device, records={"steps": kept(7.0, 7.0, 7.0)})
    assert other_record.answer_once(asked, batch.keys) == body
    assert device.budget.standing()["spent_epsilon"] == spent
    device.store.empty(asked.digest)
    assert other_record.answer_once(asked, batch.keys) == b""  # sent before; it is never made again


def test_the_record_is_read_after_the_charge_and_nothing_is_kept_before_it(ann, issue, keys):
    asked, seen = asked_batch(privacy=NOISY), []

    def read():
        seen.append(
            (device.budget.answer_state(device.charge_of(asked.digest)).value, device.store.find(asked.digest).body)
        )
        return kept(1.0, 2.0, 3.0).read()

    device = ann(records={"steps": KeptRecord(kept(1.0).declared, read)})
    device.answer_once(asked, offered(asked, issue, keys).keys)
    assert seen == [("committed", None)]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"policy": batch_policy(colluding=3)}, BatchOutOfPolicyError),
        ({"policy": batch_policy(largest_epsilon=0.5)}, BatchOutOfPolicyError),
        ({"budget": Budget(MEMBER_UNIT, "2026", 0.5, 1e-6)}, ChargeError),
        ({"budget": Budget(MEMBER_UNIT, "2026", 50.0, 1e-9)}, ChargeError),
        ({"budget": None}, ChargeError),
        ({"records": {}}, ValueError),
    ],
    ids=["policy", "one batch too dear", "budget too small", "delta too large", "no budget", "no such record"],
)
def test_a_batch_that_the_owner_rules_out_reads_no_record_and_costs_nothing(ann, issue, keys, changes, error):
    asked = asked_batch(privacy=NOISY)

    def read():
        pytest.fail("the record was read")

    device = ann(**{"records": {"steps": KeptRecord(kept(1.0).declared, read)}, **changes})
    with pytest.raises(error):
        device.answer_once(asked, offered(asked, issue, keys).keys)
    standing = device.budget.standing()
    assert standing is None or standing["spent_epsilon"] == 0


def test_nothing_is_charged_where_a_key_is_not_its_partys(ann, issue, keys):
    asked = asked_batch(privacy=NOISY)
    device, batch = ann(), offered(asked, issue, keys)
    with pytest.raises(PartyKeyError):
        device.answer_once(asked, batch.keys[::-1])
    assert device.budget.standing()["spent_epsilon"] == 0
    assert device.store.find(asked.digest) is None


def test_a_stop_after_the_payment_leads_to_one_answer(ann, issue, keys):
    asked = asked_batch(privacy=NOISY)
    device = ann()
    device.store.begin(asked.digest)
    charge(device, asked)
    assert opened_vector(asked, keys, device.answer_once(asked, offered(asked, issue, keys).keys)) == [1, 2, 3]


@pytest.mark.parametrize("privacy", [NOISY, None])
def test_a_stop_between_beginning_and_payment_or_of_an_exact_one_sits_the_batch_out(ann, issue, keys, privacy):
    asked = asked_batch(privacy=privacy)
    device = ann()
    device.store.begin(asked.digest)
    if privacy is None:
        charge(device, asked)
    with pytest.raises(SitsBatchOutError, match="stopped before"):
        device.answer_once(asked, offered(asked, issue, keys).keys)


@pytest.mark.parametrize("privacy", [NOISY, None])
def test_a_store_that_was_lost_gives_no_second_vector(ann, issue, keys, privacy):
    asked = asked_batch(privacy=privacy)
    device = ann()
    charge(device, asked)
    with pytest.raises(ChargeError if privacy is None else SitsBatchOutError):
        device.answer_once(asked, offered(asked, issue, keys).keys)
    found = device.store.find(asked.digest)
    assert found is None or found.body is None


def test_a_store_that_cannot_be_written_lets_nothing_out(ann, issue, keys, monkeypatch):
    asked = asked_batch()
    device = ann()

    def fails(digest, body):
        raise ServiceError("the disk is full")

    monkeypatch.setattr(device.store, "keep", fails)
    with pytest.raises(ServiceError, match="full"):
        device.answer_once(asked, offered(asked, issue, keys).keys)


def test_a_device_with_reproducible_randomness_does_not_start(ann):
    with pytest.raises(ValueError, match="secure randomness"):
        ann(entropy=InsecureTestEntropy("seed"))
