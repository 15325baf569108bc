"""A coordinator that proposes rounds which are too large to be looked at: devices refuse them by their size alone.

Over real services; the invitation is altered on its way out of the coordinator, as a deviating one would.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest
from sum_federation import answer_of, exact_sum, sum_federation
from wire.v1 import aggregation_pb2 as pb

from mpc.secagg import config as config_module
from service.errors import TooMuchError
from transport import aggregation
from transport.aggregation import RoundStep, longest_message_bytes
from transport.sum_codec import Invitation, RefusedInvitationError


def long_roster(invitation: pb.Invitation) -> None:
    """Members for whom a search for a ring would take minutes."""
    invitation.roster.extend(pb.RosterMember(name=f"stranger-{i}", identity_public=bytes(32)) for i in range(1995))


def late_attempt(invitation: pb.Invitation) -> None:
    invitation.round_id.attempt = 1 << 16


@pytest.fixture
def altered(monkeypatch):
    """Functions that alter the invitations to rounds, one per round; and the sizes of rings that were looked at."""
    alterations, of_round, n_counted = [], {}, []
    encode, shares = aggregation.encode_to_member, config_module.required_shares

    def encode_altered(message):
        wire = encode(message)
        if isinstance(message, Invitation):
            alter = of_round.setdefault(message.round_id, alterations.pop(0) if alterations else None)
            if alter is not None:
                alter(wire.invitation)
        return wire

    def counted(n_members, *arguments):
        n_counted.append(n_members)
        if n_members > 1000:
            raise AssertionError("a ring of more members than are known was looked at")
        return shares(n_members, *arguments)

    monkeypatch.setattr(aggregation, "encode_to_member", encode_altered)
    monkeypatch.setattr(config_module, "required_shares", counted)
    return alterations, n_counted


@asynccontextmanager
async def asked(federation):
    """A question that waits for its members."""
    asking = asyncio.create_task(federation.ask())
    try:
        yield asking
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (long_roster, "the roster has 2000 members; 6 are known here"),
        (late_attempt, "this is attempt 65536; at most 8 here"),
    ],
)
async def test_an_invitation_beyond_a_members_policy_is_refused_by_its_size_alone(tmp_path, altered, alter, words):
    alterations, n_counted = altered
    alterations.append(alter)
    async with sum_federation(tmp_path) as federation, asked(federation):
        device = await federation.device("walker-1")
        with pytest.raises(RefusedInvitationError, match=words):
            await device.client.fetch(RoundStep.INVITATION)
    assert n_counted == []


async def test_devices_that_refuse_an_invitation_by_its_size_take_part_in_the_next_round(tmp_path, altered):
    """While the first round still waits for its members; each member hears of each round once."""
    alterations, n_counted = altered
    alterations.append(long_roster)
    async with sum_federation(tmp_path) as federation, asked(federation) as asking:
        device = await federation.device("walker-1")
        with pytest.raises(RefusedInvitationError):
            await device.client.fetch(RoundStep.INVITATION)
        await federation.start_all(without=("walker-1",))
        federation.start(device)
        happening, _ = await federation.ask()
        assert answer_of(happening)["sum_in_units"] == exact_sum(federation, federation.names)
        assert not asking.done()
    assert n_counted == []


async def test_an_invitation_of_more_bytes_than_any_accepted_round_has_is_not_read_to_its_end(tmp_path, altered):
    alterations, _ = altered
    async with sum_federation(tmp_path) as federation:
        most_bytes = longest_message_bytes(federation.policy, RoundStep.INVITATION)
        assert most_bytes < 10 << 20
        alterations.append(lambda invitation: setattr(invitation, "public_input", bytes(most_bytes + 1)))
        async with asked(federation):
            device = await federation.device("walker-1")
            with pytest.raises(TooMuchError, match="longer than its round needs"):
                await device.client.fetch(RoundStep.INVITATION)
