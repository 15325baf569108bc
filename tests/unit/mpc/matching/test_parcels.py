import asyncio
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from matchings import network_of, secrets_of

from mpc.errors import LocalFaultError, PeerSilentError, PeerViolationError
from mpc.matching import parcels as module
from mpc.matching.parcels import ParcelLine, list_bytes, parcels
from mpc.protocol.concurrency import run_together

ROWS = np.arange(35, dtype=np.uint8).reshape(7, 5)


def line(network, me, sender, receiver, *, stage="list", job_id=""):
    session = network.session(me)
    peer = receiver if me == sender else sender
    return ParcelLine(session, secrets_of(session, (1, 2, 3), job_id)[peer], sender, receiver, stage)


async def received(receiver, n_rows=7, **options):
    return [(place, rows) async for place, rows in receiver.receive_all(n_rows, 5, **options)]


@pytest.fixture
def _small_parcels():
    with mock.patch.object(module, "PARCEL_ROWS", 3):
        yield


@pytest.mark.usefixtures("_small_parcels")
async def test_a_list_arrives_as_it_was_sent_and_takes_the_bytes_that_are_stated():
    network = network_of(3)
    await line(network, 1, 1, 2).send_all(ROWS)
    got = await received(line(network, 2, 1, 2))
    assert [place for place, _ in got] == parcels(7) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert np.array_equal(np.concatenate([rows for _, rows in got]), ROWS)
    assert network.sent_bytes[1] == list_bytes(7, 5) == 35 + 3 * 32


async def test_a_list_without_rows_takes_nothing():
    network = network_of(3)
    await line(network, 1, 1, 2).send_all(ROWS[:0])
    assert await received(line(network, 2, 1, 2), 0) == []
    assert network.sent_bytes[1] == list_bytes(0, 5) == 0


@pytest.mark.parametrize(
    "wrong", [{"stage": "other list"}, {"job_id": "other job"}], ids=["of another stage", "of another job"]
)
async def test_a_parcel_that_belongs_elsewhere_is_refused_and_its_sender_named(wrong):
    network = network_of(3, fault=lambda network: lambda message: (replace(message, stage="list"),))
    await line(network, 1, 1, 2, **wrong).send_all(ROWS)
    with pytest.raises(PeerViolationError, match=r"party-1 .* does not belong to this job") as refused:
        await received(line(network, 2, 1, 2))
    assert refused.value.member == 1


@pytest.mark.usefixtures("_small_parcels")
async def test_parcels_in_another_order_are_refused():
    network = network_of(3)
    sender = line(network, 1, 1, 2)
    sender._number = 1
    await sender.send(ROWS[:3])
    with pytest.raises(PeerViolationError):
        await received(line(network, 2, 1, 2))


@pytest.mark.parametrize("place", [0, 36])
async def test_an_altered_parcel_is_refused(place):
    def fault(network):
        def change(message):
            altered = message.array.copy()
            altered[place] ^= 1
            return (message.altered(altered),)

        return change

    network = network_of(3, fault=fault)
    await line(network, 1, 1, 2).send_all(ROWS)
    with pytest.raises(PeerViolationError):
        await received(line(network, 2, 1, 2))


async def test_a_parcel_of_another_length_is_refused():
    network = network_of(3)
    await line(network, 1, 1, 2).send_all(ROWS[1:])
    with pytest.raises(PeerViolationError):
        await received(line(network, 2, 1, 2))


async def test_a_list_is_sent_once():
    session = network_of(3).session(1)
    secret = secrets_of(session, (1, 2))[2]
    ParcelLine(session, secret, 1, 2, "list")
    ParcelLine(session, secret, 2, 1, "list")
    ParcelLine(session, secret, 1, 2, "other list")
    with pytest.raises(LocalFaultError):
        ParcelLine(session, secret, 1, 2, "list")


@pytest.mark.parametrize("patience", [1, 2])
async def test_patience_counts_deadlines(patience):
    network = network_of(3)
    receiver = line(network, 2, 1, 2)

    async def late():
        sender = line(network, 1, 1, 2)
        await asyncio.sleep(1.5 * network.deadline_s)
        await sender.send_all(ROWS)

    if patience == 1:
        with pytest.raises(PeerSilentError):
            await run_together(late(), received(receiver))
    else:
        await run_together(late(), received(receiver, patience=patience))
