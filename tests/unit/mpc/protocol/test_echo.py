import numpy as np
import pytest

from mpc.errors import InconsistentSharesError, PeerSilentError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.echo import compare

SENDER, RECEIVERS = 0, (1, 2, 3)


async def told(values_of, rounds=1, deadline_s=20.0, silent=()):
    """What each receiver makes of an array that the sender sends it, round by round."""
    network = LocalNetwork(local_names(3), deadline_s=deadline_s)

    async def sender(session):
        for number in range(rounds):
            for receiver in RECEIVERS:
                await session.send(receiver, "weights", values_of(receiver, number))

    async def receiver(session):
        arrays = []
        for _ in range(rounds):
            arrays.append(await session.receive(SENDER, "weights", (2,)))
            await compare(session, SENDER, "weights", arrays[-1], RECEIVERS)
        return arrays

    return await network.run({SENDER: sender, **{r: receiver for r in RECEIVERS if r not in silent}})


async def test_what_all_were_told_alike_is_returned_round_after_round():
    results = await told(lambda _, number: np.array([number, 7], dtype=np.uint64), rounds=3)
    for receiver in RECEIVERS:
        assert [array.tolist() for array in results[receiver]] == [[0, 7], [1, 7], [2, 7]]


@pytest.mark.parametrize("odd", RECEIVERS)
async def test_a_sender_that_tells_one_receiver_something_else_is_found_out_by_all(odd):
    """Nobody is named: a receiver that lies about what it got would have the sender blamed."""
    results = await told(lambda receiver, _: np.array([receiver == odd, 7], dtype=np.uint64))
    for receiver in RECEIVERS:
        assert isinstance(results[receiver], InconsistentSharesError)
        assert "coordinator sent different arrays" in str(results[receiver])
        assert "unless" in str(results[receiver])


async def test_nothing_is_returned_before_every_receiver_has_answered():
    same = np.array([1, 7], dtype=np.uint64)
    results = await told(lambda *_: same, deadline_s=0.5, silent=(3,))
    for receiver in (1, 2):
        assert isinstance(results[receiver], PeerSilentError)
        assert results[receiver].member == 3
