from dataclasses import replace

import pytest
from masked_sums import PUBLIC_INPUT, OpenRound, make_config
from wire.v1 import aggregation_pb2 as pb

from mpc.errors import PeerViolationError
from mpc.secagg.member_tree import MemberTree
from mpc.secagg.messages import NeighbourList
from service.errors import InvalidRequestError, TooMuchError
from service.limits import CHUNK_BYTES
from transport.calls.chunks import chunks_of, gather_chunks
from transport.sum_codec import (
    Ended,
    Invitation,
    RefusedInvitationError,
    decode_from_member,
    decode_to_member,
    encode_from_member,
    encode_to_member,
    parse_to_member,
)


def there_and_back(message):
    return decode_to_member(parse_to_member(encode_to_member(message).SerializeToString()))


@pytest.fixture(scope="module")
def whole_round():
    held = OpenRound(make_config(surplus_levels=(3, 4, 5))).up_to("sign")
    held.unmasking = {m: held.members[m].unmask(held.signed) for m in held.members}
    return held


@pytest.mark.parametrize("stage", ["advertisements", "sealed", "masked", "signatures", "unmasking"])
def test_messages_of_members_survive_the_wire(whole_round, stage):
    for message in getattr(whole_round, stage).values():
        assert decode_from_member(encode_from_member(message).SerializeToString()) == message


def test_messages_to_members_survive_the_wire(whole_round):
    for message in (whole_round.member_list, whole_round.deliveries[2], whole_round.survivors, whole_round.signed):
        assert there_and_back(message) == message
    assert there_and_back(Ended("")) == Ended("")
    assert there_and_back(Ended("too few")) == Ended("too few")


def test_what_a_member_of_a_ring_is_shown_survives_the_wire(whole_round):
    ads = {m: ad for m, ad in whole_round.advertisements.items() if m != 4}
    tree = MemberTree(5, ads)
    near = (ads[1], ads[2])  # 4 is absent
    shown = NeighbourList(whole_round.config.round_id, tree.root, near, {m: tree.path(m) for m in (1, 2, 4)})
    assert there_and_back(shown) == shown


CONFIG = make_config()
INVITATION = Invitation(CONFIG.round_id, CONFIG.roster, PUBLIC_INPUT)


def test_an_invitation_says_who_is_asked_what_and_nothing_that_follows_from_it():
    assert there_and_back(INVITATION) == INVITATION
    fields = pb.Invitation.DESCRIPTOR.fields_by_name
    assert set(fields) == {"round_id", "roster", "public_input"}


def test_an_invitation_with_names_that_cannot_be_is_refused():
    wire = encode_to_member(INVITATION)
    wire.invitation.roster[0].name = "../walker"
    with pytest.raises(RefusedInvitationError, match=r"member name '\.\./walker'"):
        decode_to_member(wire)
    wire.invitation.round_id.session = "../session"
    with pytest.raises(InvalidRequestError, match="a job id must consist of"):
        decode_to_member(wire)


@pytest.mark.parametrize(
    "changes",
    [
        {"round_id": replace(CONFIG.round_id, attempt=1)},
        {"roster": CONFIG.roster[:-1]},
        {"roster": CONFIG.roster[::-1]},
        {"roster": (*CONFIG.roster, CONFIG.roster[0])},
    ],
    ids=["attempt", "fewer", "order", "twice"],
)
def test_a_round_of_others_than_the_invitation_lists_is_refused(changes):
    assert INVITATION.checked(CONFIG) is CONFIG
    with pytest.raises(PeerViolationError, match="does not match its question"):
        replace(INVITATION, **changes).checked(CONFIG)


@pytest.mark.parametrize("data", [b"", b"\xff\xff\xff", b"hello"])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(InvalidRequestError):
        decode_from_member(data)
    with pytest.raises(InvalidRequestError):
        decode_to_member(parse_to_member(data))


async def stream(chunks):
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize("n_bytes", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
async def test_chunks_are_limited_and_come_together_again(n_bytes):
    message = pb.FromMember(masked_input=bytes(n_bytes))
    chunks = list(chunks_of(message))
    assert all(len(chunk.data) <= CHUNK_BYTES for chunk in chunks)
    assert await gather_chunks(stream(chunks), 4 * CHUNK_BYTES) == message.SerializeToString()


async def test_a_message_beyond_its_limit_is_refused_while_it_comes():
    taken = 0

    async def endless():
        nonlocal taken
        while True:
            taken += 1
            yield pb.Chunk(data=bytes(1000))

    with pytest.raises(TooMuchError):
        await gather_chunks(endless(), 5000)
    assert taken == 6
