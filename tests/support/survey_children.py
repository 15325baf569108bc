"""A device that answers one question and kills itself on the way."""

import os
import signal
from pathlib import Path

from ledger_children import at_every_step
from surveys import asked, survey_device

from device.survey import SitsOutError, SurveyDevice


def answer_and_send(folder: Path) -> None:
    """Answer the question as a device that has just started; what it sends is a line of a file."""
    with survey_device(folder) as device:
        try:
            body = device.respond(asked())
        except SitsOutError:
            return
        with (folder / "sent").open("a") as sent:
            sent.write(body.hex() + "\n")
            sent.flush()
            os.fsync(sent.fileno())


def answer_and_die_at(step: int, folder: Path) -> None:
    """The same, killed at a step: before or after something reaches the disk, within SQLite's work, or at the draw."""
    steps = iter(range(10**9))

    def maybe_die() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    at_every_step(maybe_die)
    report = SurveyDevice._report

    def reported(*args):  # between the draw and its keeping
        maybe_die()
        report(*args)
        maybe_die()

    SurveyDevice._report = reported
    answer_and_send(folder)
