import numpy as np
import pytest
from wire.v1.mailbox_pb2 import ArrayHeader, Bundle, Envelope, Frame

from mpc.protocol.session import MAX_ARRAY_BYTES
from transport.messages.frames import (
    ARRAY_CHUNK_BYTES,
    FIRST_ARRAYS,
    SMALL_FRAME_BYTES,
    Announcement,
    Chunk,
    FrameError,
    StreamDecoder,
    Unbundled,
    array_frames,
    check_envelope,
    end_frame,
    envelope_frame,
    message_of,
    part_of,
    read_frame,
    small_array_frame,
)

UINT8, UINT64 = 1, 2


def header(shape=(2,), *, sequence=0, element_type=UINT64, n_bytes=None) -> Frame:
    n_bytes = int(np.prod(shape, dtype=object)) * 8 if n_bytes is None else n_bytes
    return Frame(header=ArrayHeader(sequence=sequence, element_type=element_type, shape=shape, n_bytes=n_bytes))


def chunk(n_bytes: int) -> Frame:
    return Frame(chunk=bytes(n_bytes))


def decode(frames):
    """Feed frames to a decoder, accepting every announcement; return the arrays."""
    decoder, arrays = StreamDecoder(), []
    for frame in frames:
        step = decoder.feed(frame)
        if isinstance(step, Announcement):
            step = decoder.accept()
        if step is not None:
            arrays.append(step)
    assert decoder.has_ended
    return arrays


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.uint64).reshape(3, 4),
        np.arange(12, dtype=np.uint64).reshape(3, 4).T,
        np.arange(12, dtype=np.uint64)[::-3],
        np.arange(12, dtype=">u8"),
        np.array(2**64 - 1, dtype=np.uint64),
        np.zeros((0, 5), dtype=np.uint64),
        np.arange(256, dtype=np.uint8),
        np.arange(ARRAY_CHUNK_BYTES // 8, dtype=np.uint64),
        np.arange(ARRAY_CHUNK_BYTES // 8 + 1, dtype=np.uint64),
        np.arange(3 * ARRAY_CHUNK_BYTES + 5, dtype=np.uint32).astype(np.uint8),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_an_array_comes_back_as_it_was(array):
    (decoded,) = decode([*array_frames(array, 0), end_frame()])
    assert decoded.dtype == array.dtype.newbyteorder("=")
    assert decoded.shape == array.shape
    assert np.array_equal(decoded, array)
    assert decoded.flags.writeable


def test_no_chunk_is_longer_than_a_megabyte():
    frames = list(array_frames(np.zeros(ARRAY_CHUNK_BYTES // 8 * 2 + 1, dtype=np.uint64), 0))
    assert [len(frame.chunk) for frame in frames[1:]] == [ARRAY_CHUNK_BYTES, ARRAY_CHUNK_BYTES, 8]
    assert max(len(message_of(frame)) for frame in frames) < 4 << 20


def test_a_frame_keeps_its_bytes_when_the_array_is_overwritten():
    array = np.arange(4, dtype=np.uint64)
    frames = list(array_frames(array, 0))
    array[:] = 9
    assert np.array_equal(decode([*frames, end_frame()])[0], [0, 1, 2, 3])


def test_arrays_follow_each_other_in_one_stream():
    arrays = [np.full(i, i, dtype=np.uint64) for i in range(4)]
    frames = [frame for i, array in enumerate(arrays) for frame in array_frames(array, i)]
    assert [a.tolist() for a in decode([*frames, end_frame()])] == [a.tolist() for a in arrays]


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros(3, dtype=np.int64), np.array(["a"])])
def test_only_two_element_types_are_sent(array):
    with pytest.raises(ValueError, match="uint8 or uint64"):
        next(array_frames(array, 0))


def test_an_array_beyond_the_limit_is_not_sent():
    giant = np.broadcast_to(np.uint64(0), (MAX_ARRAY_BYTES // 8 + 1,))
    with pytest.raises(ValueError, match="too large for one message"):
        next(array_frames(giant, 0))


@pytest.mark.parametrize("length", [1, 127, 128, 16_383, 16_384, ARRAY_CHUNK_BYTES])
def test_a_chunk_is_on_the_wire_as_protobuf_would_write_it(length):
    content = np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8)
    message = message_of(Chunk.of(content.data))
    assert message == Frame(chunk=content.tobytes()).SerializeToString()
    read = read_frame(message)
    assert isinstance(read, Chunk)
    assert bytes(read.chunk) == content.tobytes()
    assert message_of(read) == message


def test_a_message_with_more_than_a_chunk_is_read_by_protobuf():
    longer = Frame(chunk=b"abc").SerializeToString() + Frame(chunk=b"de").SerializeToString()
    read = read_frame(longer)
    assert isinstance(read, Frame)
    assert read.chunk == b"de"
    with pytest.raises(FrameError, match="cannot be decoded"):
        read_frame(Frame(chunk=b"abc").SerializeToString()[:-1])


async def unbundled(*messages):
    """Return the frames of messages as a service gets them."""

    async def come():
        for message in messages:
            yield read_frame(message)

    return [frame async for frame in Unbundled(come())]


@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (200,)])
async def test_a_small_array_travels_in_one_message(shape):
    array = np.arange(np.prod(shape, dtype=int), dtype=np.uint64).reshape(shape)
    whole = small_array_frame(array, 0, envelope_frame("job", "stage"))
    assert whole is not None
    first, *frames = await unbundled(message_of(whole), message_of(end_frame()))
    assert check_envelope(first) == Envelope(job_id="job", stage="stage")
    (decoded,) = decode(frames)
    assert decoded.shape == shape
    assert np.array_equal(decoded, array)


async def test_small_arrays_of_an_open_stream_take_one_message_each():
    arrays = [np.full(3, i, dtype=np.uint64) for i in range(3)]
    bundles = [small_array_frame(array, i) for i, array in enumerate(arrays)]
    frames = await unbundled(*map(message_of, bundles), message_of(end_frame()))
    assert [part_of(frame) for frame in frames] == ["header", "chunk"] * 3 + ["end"]
    assert [a.tolist() for a in decode(frames)] == [a.tolist() for a in arrays]


@pytest.mark.parametrize("n_words", range(200, 260, 7))
def test_no_bundle_is_longer_than_small_frames_may_be(n_words):
    opens = envelope_frame("job", "s" * 100)
    whole = small_array_frame(np.zeros(n_words, dtype=np.uint64), 0, opens)
    assert whole is None or len(message_of(whole)) <= SMALL_FRAME_BYTES
    assert (whole is None) == (8 * n_words + 100 > SMALL_FRAME_BYTES - 40)


@pytest.mark.parametrize(
    "frames",
    [[], [end_frame()] * 17, [Frame(bundle=Bundle(frames=[end_frame()]))]],
    ids=["empty", "too many", "nested"],
)
def test_a_bundle_holds_some_frames_that_are_no_bundles(frames):
    with pytest.raises(FrameError, match="a bundle is empty, holds another one, or holds too many frames"):
        read_frame(message_of(Frame(bundle=Bundle(frames=frames))))


BROKEN = {
    "chunk without header": ([chunk(8)], "without a header"),
    "chunk after the array": ([header(), chunk(16), chunk(8)], "without a header"),
    "longer than its header announced": ([header(), chunk(17)], "longer than its header announced"),
    "overrun by the second chunk": ([header(), chunk(8), chunk(16)], "longer than its header announced"),
    "cut short by a header": ([header(), chunk(8), header(sequence=1)], "cut short by the header"),
    "cut short by the end": ([header(), chunk(8), end_frame()], "cut short by the end"),
    "empty chunk": ([header(), chunk(0)], "empty or longer"),
    "chunk above the limit": ([header((1 << 18,)), chunk(ARRAY_CHUNK_BYTES + 1)], "empty or longer"),
    "repeated array": ([header(), chunk(16), header()], "repeated"),
    "lost array": ([header(sequence=1)], "missing, or came out of order"),
    "no element type": ([header(element_type=0)], "element type 0 is unknown"),
    "unknown element type": ([header(element_type=77)], "element type 77 is unknown"),
    "length below the shape": (
        [header((3,), n_bytes=16)],
        ("a header announces a number of bytes that does not match its shape and element type"),
    ),
    "length above the shape": (
        [header((3,), n_bytes=32)],
        ("a header announces a number of bytes that does not match its shape and element type"),
    ),
    "length of another type": (
        [header((3,), element_type=UINT8, n_bytes=24)],
        ("a header announces a number of bytes that does not match its shape and element type"),
    ),
    "larger than the limit": ([header((MAX_ARRAY_BYTES // 8 + 1,))], "larger than"),
    "product overflows 64 bits": ([header((1 << 33, 1 << 33), n_bytes=0)], "larger than"),
    "huge empty shape": ([header((0, 1 << 62), n_bytes=0)], "larger than"),
    "too many dimensions": ([header((1,) * 9)], "dimensions"),
    "second envelope": ([envelope_frame("job", "stage")], "second envelope"),
    "frame without content": ([Frame()], "without content"),
    "header after the end": ([end_frame(), header()], "after the end"),
}


@pytest.mark.parametrize(("frames", "what"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_stream_is_refused(frames, what):
    with pytest.raises(FrameError, match=what):
        decode([*frames, end_frame()])


@pytest.mark.parametrize("frames", [frames for frames, _ in BROKEN.values()], ids=BROKEN.keys())
def test_no_refusal_tells_a_length_a_shape_or_a_count(frames):
    with pytest.raises(FrameError) as caught:
        decode([*frames, end_frame()])
    numbers = "".join(c if c.isdigit() else " " for c in str(caught.value)).split()
    assert set(numbers) <= {str(ARRAY_CHUNK_BYTES), str(MAX_ARRAY_BYTES), "8", "0", "77"}


def test_nothing_is_reserved_before_the_announcement_is_accepted():
    decoder = StreamDecoder()
    announced = decoder.feed(header((MAX_ARRAY_BYTES // 8,)))
    assert announced == Announcement(np.dtype("<u8"), (MAX_ARRAY_BYTES // 8,), MAX_ARRAY_BYTES)
    with pytest.raises(RuntimeError, match="accept comes before"):
        decoder.feed(chunk(8))


def test_a_continued_stream_goes_on_with_its_numbers():
    decoder = StreamDecoder(next_sequence=3)
    assert isinstance(decoder.feed(header(sequence=3)), Announcement)
    with pytest.raises(FrameError, match="repeated"):
        StreamDecoder(next_sequence=3).feed(header(sequence=0))


def test_the_envelope_names_job_and_stage():
    assert check_envelope(envelope_frame("job-1", "deal 2")) == Envelope(job_id="job-1", stage="deal 2")


def test_an_envelope_without_a_stage_opens_the_stream_of_first_arrays():
    assert check_envelope(envelope_frame("job-1", FIRST_ARRAYS)).stage == ""


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (header(), "not with header"),
        (Frame(), "not with an empty frame"),
        (end_frame(), "not with end"),
        (Frame(envelope=Envelope(stage="s")), "the job id in the envelope"),
        (envelope_frame("j", "s" * 201), "the stage in the envelope"),
        (envelope_frame("j", "a\nb"), "the stage in the envelope"),
    ],
)
def test_a_bad_envelope_is_refused(frame, what):
    with pytest.raises(FrameError, match=what):
        check_envelope(frame)
