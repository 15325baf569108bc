"""The whole conversation of one masked sum, as text: who says what to whom at which stage, and how long it is.

Nothing secret is in it: kinds and sizes only, which do not depend on values. After a change that is meant, write it
anew by `MOIETY_WRITE_TRANSCRIPTS=1 pytest tests/transcripts`, and review the difference.
"""

import os
from pathlib import Path

import pytest
from masked_sums import OpenRound, make_config

from mpc.secagg.errors import TooFewMembersError
from transport.sum_codec import Ended, encode_from_member, encode_to_member

FOLDER = Path(__file__).parent
STAGES = {
    "advertise": ("advertisements", "member_list"),
    "share": ("sealed", "deliveries"),
    "mask": ("masked", "survivors"),
    "sign": ("signatures", "signed"),
    "unmask": ("unmasking", None),
}
"""What members send at each stage, and what they are sent when it is over."""


def transcript_of(gone_at: dict[str, tuple[int, ...]], **changes) -> str:
    """Run a round of five members from which some drop out at a stage."""
    held, lines, dropped_out = OpenRound(make_config(**changes)), [], ()
    for stage, (sent, due) in STAGES.items():
        dropped_out += gone_at.get(stage, ())
        lines.append(f"{stage}: waits for {sorted(held.coordinator.waiting_for())}")
        try:
            end = getattr(held, stage)(dropped_out=dropped_out)
        except TooFewMembersError as error:
            lines += said(getattr(held, sent))
            lines.append(f"  coordinator ends the round: {error}")
            length = encode_to_member(Ended(str(error))).ByteSize()
            lines.append(f"  coordinator -> all: Ended, {length} bytes")
            break
        lines += said(getattr(held, sent))
        if due is None:
            lines.append(f"  the sum of {list(end.survivors)} is open")
            continue
        message = getattr(held, due)
        messages = message if isinstance(message, dict) else {"all": message}
        for to, one in messages.items():
            lines.append(f"  coordinator -> {to}: {type(one).__name__}, {encode_to_member(one).ByteSize()} bytes")
    return "\n".join(lines) + "\n"


def said(messages: dict) -> list[str]:
    return [
        f"  {member} -> coordinator: {type(message).__name__}, {encode_from_member(message).ByteSize()} bytes"
        for member, message in messages.items()
    ]


SESSIONS = {
    "all stay": ({}, {}),
    "one drops_out before its shares, one before its vector": (
        {"share": (2,), "mask": (4,)},
        {},
    ),
    "too few send their vectors": ({"mask": (1, 2, 3)}, {}),
    "surplus of noise": ({"mask": (5,)}, {"surplus_levels": (3, 4, 5)}),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_the_conversation_is_as_written(name):
    gone_at, changes = SESSIONS[name]
    path, found = FOLDER / f"{name.replace(' ', '_').replace(',', '')}.txt", transcript_of(gone_at, **changes)
    if os.environ.get("MOIETY_WRITE_TRANSCRIPTS"):
        path.write_text(found)
    assert found == path.read_text()
