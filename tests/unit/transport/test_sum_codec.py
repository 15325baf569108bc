import pytest
from masked_sums import PUBLIC_INPUT, OpenRound, make_config
from wire.v1 import aggregation_pb2 as pb

from mpc.secagg.config import Topology
from mpc.secagg.vector.encoding import Rounding, VectorEncoding
from mpc.secagg.vector.group import ResidueGroup, RingGroup
from service.errors import InvalidRequestError, TooMuchError
from service.limits import CHUNK_BYTES
from transport.calls.chunks import chunks_of, gather_chunks
from transport.sum_codec import (
    Ended,
    Invitation,
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


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"group": ResidueGroup(3)},
        {"topology": Topology.complete(5, 1), "noise_bound": 1234, "surplus_levels": (4, 5), "group": RingGroup(48)},
        {
            "encoding": VectorEncoding(9, 0.1, 1000, Rounding.STOCHASTIC, 0.3, "label", 7),
            "group": RingGroup(64),
        },
    ],
)
def test_an_invitation_has_the_same_digest_on_the_other_side(changes):
    invitation = Invitation(make_config(**changes), PUBLIC_INPUT)
    read = there_and_back(invitation)
    assert read == invitation
    assert read.config.digest == invitation.config.digest


def test_an_invitation_to_what_cannot_be_a_round_is_refused():
    wire = encode_to_member(Invitation(make_config(), b""))
    for change in (
        lambda w: setattr(w.invitation.topology, "n_required", 1),
        lambda w: setattr(w.invitation.encoding, "rounding", "upwards"),
        lambda w: setattr(w.invitation, "ring_bits", 99),
        lambda w: setattr(w.invitation, "noise_bound", "many"),
        lambda w: setattr(w.invitation.encoding, "clip", float("nan")),
        lambda w: w.invitation.roster.pop(),
    ):
        bad = pb.ToMember()
        bad.CopyFrom(wire)
        change(bad)
        with pytest.raises(InvalidRequestError, match="cannot be a round"):
            decode_to_member(bad)


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
