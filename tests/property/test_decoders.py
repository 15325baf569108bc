"""Whatever bytes arrive: the decoders of the wire raise their own error, or return what may be used."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from masked_sums import PUBLIC_INPUT, OpenRound, make_config
from virtual_time import run_in_virtual_time
from wire.v1.mailbox_pb2 import ArrayHeader, Frame

from service.errors import InvalidRequestError
from transport.messages.first_arrays import first_array_frame, read_first_array
from transport.messages.frames import (
    MAX_NAME_CHARACTERS,
    SMALL_FRAME_BYTES,
    Announcement,
    FrameError,
    StreamDecoder,
    Unbundled,
    array_frames,
    check_envelope,
    check_header,
    end_frame,
    envelope_frame,
    message_of,
    read_frame,
    small_array_frame,
)
from transport.sum_codec import (
    Invitation,
    decode_from_member,
    decode_to_member,
    encode_from_member,
    encode_to_member,
    parse_to_member,
)

VALID_FRAMES = [
    message_of(frame)
    for frame in (
        envelope_frame("job", "stage"),
        *array_frames(np.arange(20, dtype=np.uint64), 0),
        end_frame(),
        small_array_frame(np.arange(20, dtype=np.uint64), 0, envelope_frame("job", "stage")),
        first_array_frame("stage", np.arange(20, dtype=np.uint64)),
    )
]


@st.composite
def mutated(draw, originals):
    """Bytes of a valid message with some changed, cut off, repeated or put in."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(0, 6))):
        place = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 3)):
            case 0 if place < len(data):
                data[place] = draw(st.integers(0, 255))
            case 1:
                del data[place : place + draw(st.integers(1, 8))]
            case 2:
                data[place:place] = draw(st.binary(max_size=8))
            case 3:
                data[place:place] = data[place : place + draw(st.integers(1, 16))]
    return bytes(data)


any_frame = st.one_of(st.binary(max_size=200), mutated(VALID_FRAMES))


@settings(deadline=None, max_examples=200)
@given(st.lists(any_frame, max_size=6))
def test_frames_raise_their_own_error_only(messages):
    async def come():
        for message in messages:
            yield read_frame(message)

    async def feed():
        decoder = StreamDecoder()
        async for frame in Unbundled(come()):
            if isinstance(decoder.feed(frame), Announcement):
                decoder.accept()

    with contextlib.suppress(FrameError):
        run_in_virtual_time(feed())


@settings(deadline=None, max_examples=200)
@given(any_frame)
def test_envelopes_raise_their_own_error_only(message):
    try:
        envelope = check_envelope(read_frame(message))
    except FrameError:
        return
    assert envelope.job_id.isprintable()
    assert envelope.stage.isprintable()


@settings(deadline=None, max_examples=200)
@given(any_frame)
def test_first_arrays_raise_their_own_error_only(message):
    try:
        stage, array = read_first_array(read_frame(message))
    except FrameError:
        return
    assert 0 < len(stage) <= MAX_NAME_CHARACTERS
    assert array.nbytes <= SMALL_FRAME_BYTES


sizes = st.one_of(st.integers(0, 20), st.sampled_from([0, 1 << 20, 1 << 30, (1 << 30) + 1, 1 << 63, (1 << 64) - 1]))


@settings(deadline=None, max_examples=200)
@given(st.lists(sizes, max_size=10), st.integers(-5, 5), st.booleans())
def test_an_array_that_is_announced_can_be_made(shape, element_type, is_consistent):
    n_bytes = int(np.prod([float(n) for n in shape])) * (8 if element_type == 2 else 1) if is_consistent else 0
    header = ArrayHeader(element_type=element_type, shape=shape, n_bytes=min(n_bytes, (1 << 64) - 1))
    try:
        announced = check_header(ArrayHeader.FromString(header.SerializeToString()), 0)
    except FrameError:
        return
    assert np.empty(announced.shape, announced.dtype).nbytes == announced.n_bytes


@pytest.fixture(scope="module")
def messages_of_a_round():
    config = make_config(surplus_levels=(3, 4, 5))
    held = OpenRound(config).up_to("sign")
    unmasking = held.members[1].unmask(held.signed)
    from_members = [held.advertisements[1], held.sealed[1], held.masked[1], held.signatures[1], unmasking]
    to_members = [
        Invitation(config.round_id, config.roster, PUBLIC_INPUT),
        held.member_list,
        held.deliveries[2],
        held.survivors,
        held.signed,
    ]
    return (
        [encode_from_member(message).SerializeToString() for message in from_members],
        [encode_to_member(message).SerializeToString() for message in to_members],
    )


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_messages_of_members_of_sums_raise_their_own_error_only(messages_of_a_round, data):
    message = data.draw(st.one_of(st.binary(max_size=200), mutated(messages_of_a_round[0])))
    try:
        decode_from_member(message)
    except InvalidRequestError:
        return


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_messages_to_members_of_sums_raise_their_own_error_only(messages_of_a_round, data):
    message = data.draw(st.one_of(st.binary(max_size=200), mutated(messages_of_a_round[1])))
    try:
        decode_to_member(parse_to_member(message))
    except InvalidRequestError:
        return


def test_a_frame_of_another_kind_that_begins_like_a_chunk_is_measured_too():
    small_chunk = Frame(chunk=b"x").SerializeToString()
    long_header = Frame(header=ArrayHeader(shape=[1] * 10_000)).SerializeToString()
    with pytest.raises(FrameError, match="a frame is longer than frames of its kind may be"):
        read_frame(small_chunk + long_header)
