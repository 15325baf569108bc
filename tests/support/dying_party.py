"""A party's process that kills itself by SIGKILL before it answers a stage of a round: which one, a file says.

Nothing is torn down and nothing is told, as where somebody else sends the signal, and the moment is exact.
"""

import os
import signal
from pathlib import Path

from analyses.sums.session_link import SessionMember
from cli.main import app

DIES_AT = "TEST_DIES_AT"
"""Environment variable: the file with the name of the message that is never sent; empty for no such message."""

_answer = SessionMember.answer


def die_if_asked(name):
    if Path(os.environ[DIES_AT]).read_text() == name:
        os.kill(os.getpid(), signal.SIGKILL)


async def answer(self, stage, message):
    die_if_asked(self._name_of(stage, self._round_id))
    await _answer(self, stage, message)


def main() -> None:
    """Be the command, with a party that dies; a forked service calls this."""
    SessionMember.answer = answer
    app()


if __name__ == "__main__":
    main()
