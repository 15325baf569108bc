"""Who says what to whom in a match of rows, as text: stages, parcels and bytes, which follow from declared sizes.

After a change that is meant, write it anew by `MOIETY_WRITE_TRANSCRIPTS=1 pytest tests/transcripts`, and review the
difference.
"""

import os
from pathlib import Path
from unittest import mock

import pytest
from matchings import match, network_of

from mpc.matching import parcels

FOLDER = Path(__file__).parent
MATCHES = {
    "matching of three owners": ({1: "abcde", 2: "xca", 3: "uvwac"}, {1: 5, 2: 3, 3: 7}),
    "matching of two owners": ({1: "ab", 2: ""}, {1: 2, 2: 4}),
}


def transcript_of(rows, sizes) -> str:
    """One line for each sender, receiver and stage, in the order of their first messages; two rows in a parcel."""
    network = network_of(max(rows))
    with mock.patch.object(parcels, "PARCEL_ROWS", 2):
        match(rows, sizes, network=network)
    said: dict[tuple[int, int, str], list[int]] = {}
    for message in network.transcript:
        said.setdefault((message.sender, message.receiver, message.stage), []).append(message.array.nbytes)
    lines = [f"declared sizes: {sizes}"]
    for (sender, receiver, stage), n_bytes in said.items():
        lines.append(f"{sender} -> {receiver}: {stage}, {len(n_bytes)} messages, {sum(n_bytes)} bytes")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", MATCHES)
def test_the_conversation_of_a_match_is_as_written(name):
    path, found = FOLDER / f"{name.replace(' ', '_')}.txt", transcript_of(*MATCHES[name])
    if os.environ.get("MOIETY_WRITE_TRANSCRIPTS"):
        path.write_text(found)
    assert found == path.read_text()
