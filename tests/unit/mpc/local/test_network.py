import asyncio

import numpy as np
import pytest

from mpc.errors import LocalFaultError, PeerSilentError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names

WORDS = np.arange(3, dtype=np.uint64)


async def test_a_cancelled_receiver_takes_no_message_from_the_next_one():
    network = LocalNetwork(local_names(2), deadline_s=5)
    cancelled = asyncio.create_task(network.session(1).receive(2, "s", WORDS.shape))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    await network.session(2).send(1, "s", WORDS)
    np.testing.assert_array_equal(await network.session(1).receive(2, "s", WORDS.shape), WORDS)


@pytest.mark.parametrize("other", [1, 3, -1])
async def test_only_other_members_can_be_sent_to_and_received_from(other):
    session = LocalNetwork(local_names(2), deadline_s=5).session(1)
    with pytest.raises(LocalFaultError, match="is not one that member 1"):
        await session.send(other, "s", WORDS)
    with pytest.raises(LocalFaultError, match="is not one that member 1"):
        await session.receive(other, "s", WORDS.shape)


async def test_messages_of_one_stream_are_taken_in_the_order_in_which_they_were_sent():
    network = LocalNetwork(local_names(2), deadline_s=5)
    held = []

    def swap_the_first_two(message):
        if not held:
            held.append(message)
            return ()
        return (message, *held) if message.sequence == 1 else (message,)

    network.fault = swap_the_first_two
    sender, receiver = network.session(2), network.session(1)
    for _ in range(2):
        await sender.send(1, "s", WORDS)
    with pytest.raises(PeerViolationError, match="party-2 sent message 1 of stage s where 0 was due") as caught:
        await receiver.receive(2, "s", WORDS.shape)
    assert (caught.value.member, caught.value.stage) == (2, "s")


async def test_a_repeated_message_is_not_the_next_one():
    network = LocalNetwork(local_names(2), deadline_s=5)
    network.fault = lambda message: (message, message)
    await network.session(2).send(1, "s", WORDS)
    receiver = network.session(1)
    await receiver.receive(2, "s", WORDS.shape)
    with pytest.raises(PeerViolationError, match="message 0 of stage s where 1 was due"):
        await receiver.receive(2, "s", WORDS.shape)


async def test_a_dropped_message_is_waited_for_until_the_deadline():
    network = LocalNetwork(local_names(2), deadline_s=0.01)
    network.fault = lambda message: ()
    await network.session(2).send(1, "s", WORDS)
    with pytest.raises(PeerSilentError, match="party-2 sent nothing"):
        await network.session(1).receive(2, "s", WORDS.shape)
