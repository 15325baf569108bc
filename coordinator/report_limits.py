"""Limits on how much of a party's reports on one job the coordinator stores, and on how fast it reads them.

Everything that a party reports and that is stored counts: names of stages, progress, texts on waiting, reasons of
failures. Repetitions are not stored again. Reports beyond the limit are not stored, and the job continues. A party's
schema, which becomes part of the plan, has a limit of its own, MAX_SCHEMA_BYTES.
"""

MAX_REPORTS_BYTES = 64 << 10
"""Largest number of bytes that the store keeps of what one party reports about one job."""
NOTE_BYTES = 128
"""Bytes that are counted for each note beside its texts: more than the rest of its row takes."""
MAX_SCHEMA_BYTES = 4 << 20
"""Largest size of one party's schema, and of all schemas of a job together: parties receive them in one request."""
MAX_RESERVE_MESSAGES = 1000
"""A party that sends more messages than this before it reserves or refuses is treated as failed."""
EVENTS_PER_S = 1000.0
MAX_EVENTS_AT_ONCE = 5000
"""Events that a party sends faster than this are read later: flow control slows the party down."""


class Allowance:
    """The number of bytes that may still be stored of one party's reports on one job.

    Args:
        n_bytes: maximum size of all notes.
    """

    def __init__(self, n_bytes: int = MAX_REPORTS_BYTES) -> None:
        self._left_bytes = n_bytes
        self._noted: set[tuple[str, int, str]] = set()

    def admits(self, stage: str, percent: int, text: str) -> bool:
        """Return whether a note should be stored, and count it if so."""
        note = (stage, percent, text)
        n_bytes = len(stage.encode(errors="replace")) + len(text.encode(errors="replace")) + NOTE_BYTES
        if note in self._noted or n_bytes > self._left_bytes:
            return False
        self._noted.add(note)
        self._left_bytes -= n_bytes
        return True


class Pace:
    """Rate limit of a party's events: returns the pause before the next one is read.

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
