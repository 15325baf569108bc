"""No answer that the coordinator has not looked at is counted: without a share for a party it keeps a batch closed."""

import datetime

import pytest
from batches import asked_batch
from certificates import authority_in
from stores import batches_in

from coordinator.questions.batches import Batches
from entropy import SystemEntropy
from mpc.secagg.secret.party_shares import SealedVector
from service.errors import InvalidRequestError, WrongStateError
from service.identity import Identity, PeerCertificate, Role
from service.trust.statements import Signed
from transport.batch_codec import BatchAnswer, encode_answer

ANN = PeerCertificate(
    Identity("walkers", Role.DEVICE, "ann"),
    1,
    datetime.datetime.max.replace(tzinfo=datetime.UTC),
    bytes(32),
    datetime.datetime.min.replace(tzinfo=datetime.UTC),
)
NO_SHARES = encode_answer(BatchAnswer(SealedVector(bytes(32), ()), Signed(b"", b"")))


@pytest.fixture
def store(tmp_path):
    found = batches_in(tmp_path / "batches.sqlite")
    yield found
    found.close()


@pytest.fixture
def batches(store, tmp_path):
    hub = authority_in(tmp_path, "walkers")(Role.COORDINATOR, "hub")
    return Batches(store, lambda: hub, SystemEntropy(), None, None, tuple)


async def test_an_answer_to_a_batch_that_devices_are_not_asked_yet_is_looked_at_all_the_same(batches, store):
    """Its parties know its identifier before they have all agreed, and may tell a device."""
    asked = asked_batch()
    stored = store.add(asked.question_id, "ada", asked.canonical_json(), b"", 5)
    with pytest.raises(InvalidRequestError, match="no answer to the question"):
        await batches.answer(ANN, asked.question_id, NO_SHARES)
    assert store.names(stored.number) == []
    store.close_question(stored.number)
    with pytest.raises(WrongStateError, match="the batch is closed"):
        await batches.answer(ANN, asked.question_id, NO_SHARES)
