"""How much a party may have the coordinator write down about one job, and how fast it may talk.

Everything that a party says of a job and that is stored counts: names of stages, progress, texts of waiting, reasons of
failures. A repetition is not stored again. What goes beyond the limit is not stored; the job goes on. A party's schema,
which becomes part of the plan, has a limit of its own, MAX_SCHEMA_BYTES.
"""

MAX_SAID_BYTES = 64 << 10
"""Of one party about one job, in the store."""
NOTE_BYTES = 128
"""Each note counts as this much more than its texts: more than the rest of its row."""
MAX_SCHEMA_BYTES = 4 << 20
"""Of one party's schema, and of all schemas of a job together: parties are sent them in one request."""
MAX_RESERVE_MESSAGES = 1000
"""A party that sends more before it reserves or refuses is given up."""
EVENTS_PER_S = 1000.0
MAX_EVENTS_AT_ONCE = 5000
"""What a party tells of its run faster than that is read later: the network holds it up."""


class Allowance:
    """What one party may still have written down about one job.

    Args:
        n_bytes: of all notes.
    """

    def __init__(self, n_bytes: int = MAX_SAID_BYTES) -> None:
        self._left_bytes = n_bytes
        self._noted: set[tuple[str, int, str]] = set()

    def admits(self, stage: str, percent: int, text: str) -> bool:
        """Say whether a note is to be written; if so, it is counted."""
        note = (stage, percent, text)
        n_bytes = len(stage.encode(errors="replace")) + len(text.encode(errors="replace")) + NOTE_BYTES
        if note in self._noted or n_bytes > self._left_bytes:
            return False
        self._noted.add(note)
        self._left_bytes -= n_bytes
        return True


class Pace:
    """Says how long to wait before the next event of a party is read.

    Args:
        now_s: the time.
    """

    def __init__(self, now_s: float) -> None:
        self._at_s = now_s
        self._left = float(MAX_EVENTS_AT_ONCE)

    def pause_s(self, now_s: float) -> float:
        """Count an event at a time; return the pause after it in seconds, 0 while the party is not too fast."""
        self._left = min(MAX_EVENTS_AT_ONCE, self._left + (now_s - self._at_s) * EVENTS_PER_S) - 1
        self._at_s = now_s
        return max(0.0, -self._left / EVENTS_PER_S)
