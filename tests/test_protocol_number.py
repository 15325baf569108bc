"""The number of the protocol changes with the wire: messages, calls, frames and the first words of members."""

import hashlib
import json
from pathlib import Path

import numpy as np
from google.protobuf import descriptor_pb2
from wire.v1 import aggregation_pb2, batch_pb2, coordinator_pb2, mailbox_pb2, party_pb2, questions_pb2

from analyses.job.plan import OPENING_STAGE
from analyses.rows.meeting import MATCHED
from analyses.sums.sessions.session_sum import IDENTITY_STAGE
from mpc.protocol import greeting
from mpc.protocol.exchange import CONFIRMATION_STAGE
from mpc.protocol.operations.rows import ROWS_STAGE
from party.gate import COMMIT_STAGE
from service import limits
from service.trust.protocol import FORMS, PROTOCOL
from transport.messages import first_arrays, frames

FILES = (aggregation_pb2, batch_pb2, coordinator_pb2, mailbox_pb2, party_pb2, questions_pb2)
VECTORS = Path(__file__).parent / "vectors"
ARRAYS = (np.arange(3, dtype=np.uint64), np.zeros((2, 0), np.uint8), np.arange(70_000, dtype=np.uint64))

STAGES = (greeting.GREETING_STAGE, CONFIRMATION_STAGE, COMMIT_STAGE, IDENTITY_STAGE, MATCHED, OPENING_STAGE, ROWS_STAGE)


def sample_frames():
    """Yield a stream of arrays as it goes over the wire: small ones, and one of several chunks."""
    opening = frames.envelope_frame("job-1", "stage", after_first=False)
    yield frames.small_array_frame(ARRAYS[0], 0, opening)
    for number, array in enumerate(ARRAYS):
        yield from frames.array_frames(array, number)
    yield first_arrays.first_array_frame("stage", ARRAYS[0])
    yield frames.end_frame()


def messages_of(file):
    """Return all that a generated module says of the wire: everything but where its source file lies."""
    found = descriptor_pb2.FileDescriptorProto.FromString(file.DESCRIPTOR.serialized_pb)
    found.ClearField("name")
    found.ClearField("dependency")
    return found.SerializeToString(deterministic=True).hex()


def forms():
    """Return everything that two members must have alike, so that they understand each other."""
    return {
        "messages": {Path(file.DESCRIPTOR.name).name: messages_of(file) for file in FILES},
        "frames": [hashlib.sha256(frames.message_of(frame)).hexdigest() for frame in sample_frames()],
        "sizes": {
            "arrays": (limits.ARRAY_CHUNK_BYTES, limits.CHUNK_BYTES, limits.MAX_MESSAGE_BYTES),
            "small": (frames.SMALL_FRAME_BYTES, frames.MAX_BUNDLED, first_arrays.MAX_FIRST_FRAME_BYTES),
        },
        "stages": STAGES,
        "binding": hashlib.sha256((VECTORS / "binding.json").read_bytes()).hexdigest(),
    }


def digest_of(found):
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def test_the_number_changes_with_the_wire():
    """Where this fails, the wire has changed: raise `PROTOCOL`, and give the new number its digest in `FORMS`."""
    assert FORMS[PROTOCOL] == digest_of(forms())


def test_numbers_are_never_used_twice():
    assert max(FORMS) == PROTOCOL
    assert len(set(FORMS.values())) == len(FORMS)


def test_a_change_of_a_message_or_of_a_frame_changes_the_digest(monkeypatch):
    found, before = forms(), digest_of(forms())
    found["messages"]["party.proto"] += "00"
    assert digest_of(found) != before
    monkeypatch.setattr(frames, "SMALL_FRAME_BYTES", frames.SMALL_FRAME_BYTES + 1)
    assert digest_of(forms()) != before
    monkeypatch.undo()
    monkeypatch.setattr(frames, "end_frame", lambda: frames.envelope_frame("job-1", "end"))
    assert digest_of(forms()) != before
    monkeypatch.undo()
    assert digest_of(forms()) == before
