"""What an analyst hears of a question survives the wire."""

import pytest

from transport.happenings import (
    PIECE_CHARACTERS,
    Counted,
    Failed,
    Opened,
    Refused,
    Result,
    Retried,
    StageReport,
    events_of,
    happening_of,
)


@pytest.mark.parametrize(
    "happening",
    [
        Opened(bytes(range(16))),
        Counted(7),
        Refused((("policy", 1), ("budget", 300))),
        StageReport("unmask", 1.5, 4, ("ann", "ben")),
        StageReport("advertise keys", 1.5, 4, ("ann",), (("policy", 1), ("budget", 300))),
        Result('{"sum": [1]}'),
        Failed("too few members"),
        Retried("2 members answered"),
    ],
)
def test_what_an_analyst_hears_survives_the_wire(happening):
    (event,) = events_of(happening)
    assert happening_of(event) == happening


def test_a_long_result_comes_in_pieces_that_fit_a_message():
    text = "7" * (2 * PIECE_CHARACTERS + 1)
    pieces = [happening_of(event).result_json for event in events_of(Result(text))]
    assert [len(piece) for piece in pieces] == [PIECE_CHARACTERS, PIECE_CHARACTERS, 1]
    assert "".join(pieces) == text
