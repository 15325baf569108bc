"""A service that kills itself by SIGKILL at an exact moment of a series of sums: which one, a file says.

A party does so before it answers a stage of a round, the coordinator before it announces a round, when all before are
opened. Nothing is torn down and nothing is told, as where somebody else sends the signal.
"""

import os
import signal
from pathlib import Path

from analyses.sums.sessions import session_series
from analyses.sums.sessions.session_link import SessionMember
from cli.main import app

DIES_AT = "TEST_DIES_AT"
"""Environment variable: the file with the name of the message that is never sent; empty for no such message."""

_answer, _announce = SessionMember.answer, session_series._CoordinatorLink.announce


def announcing(number):
    """The name of the coordinator's announcement of a round."""
    return f"{session_series.ANNOUNCEMENT_STAGE}: {number}"


def die_if_asked(name):
    if Path(os.environ[DIES_AT]).read_text() == name:
        os.kill(os.getpid(), signal.SIGKILL)


async def answer(self, stage, message):
    die_if_asked(self._name_of(stage, self._round_id))
    await _answer(self, stage, message)


async def announce(self, announcement):
    if announcement is not None:
        die_if_asked(announcing(announcement.number))
    await _announce(self, announcement)


def main() -> None:
    """Be the command, of a service that dies; a forked service calls this."""
    SessionMember.answer = answer
    session_series._CoordinatorLink.announce = announce
    app()


if __name__ == "__main__":
    main()
