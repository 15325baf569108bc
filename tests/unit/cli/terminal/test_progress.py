"""Progress of a job: one line for a short one, states in a pipe, one line that is overwritten on a terminal."""

import asyncio
import re
from io import StringIO

import pytest
from rich.console import Console
from virtual_time import run_in_virtual_time

from cli.terminal import progress
from cli.terminal.progress import OneLinePrinter, StatePrinter
from transport.calls.coordinator_client import EventView


def events(*ends_s):
    """A job whose states begin at these seconds, with a party's progress behind each."""
    states = ("SUBMITTED", "PROPOSED", "RUNNING", "OPENING", "DONE")
    for state, at_s in zip(states, ends_s, strict=True):
        yield EventView(at_s, state, "", "", 0, "what is asked" if state == "SUBMITTED" else "")
        for member, percent in (("bank", 75), ("telco", 25)):
            yield EventView(at_s, state, "multiply", member, percent, "")


NOTICE = EventView(0.3, "PROPOSED", "approval", "bank", 0, "waits for its owner")


def shown(printer, given, *, error=None):
    async def show():
        with printer:
            for event in given:
                printer.show(event)
            if error:
                raise error

    run_in_virtual_time(show())


def test_a_short_job_is_one_line_in_a_pipe(capsys):
    shown(StatePrinter(), events(0.0, 0.1, 0.2, 0.3, 1.9))
    assert capsys.readouterr().err == "00:00:01 UTC DONE\n"


def test_a_long_job_has_a_line_for_each_state_and_none_for_progress(capsys):
    shown(StatePrinter(), events(0.0, 0.1, 0.2, 2.3, 2.9))
    states = re.findall(r"UTC (.*)", capsys.readouterr().err)
    assert states == ["SUBMITTED: what is asked", "PROPOSED", "RUNNING", "OPENING", "DONE"]


def test_a_notice_is_told_at_once_with_what_was_before_it(capsys):
    shown(StatePrinter(), [*list(events(0.0, 0.1, 0.2, 0.3, 0.4))[:4], NOTICE])
    assert re.findall(r"UTC (.*)", capsys.readouterr().err) == [
        "SUBMITTED: what is asked",
        "PROPOSED",
        "PROPOSED: waits for its owner",
    ]


def test_what_was_held_is_told_when_time_passes_or_watching_ends_by_an_error(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SHORT_S", 0.0)

    async def wait():
        with StatePrinter() as printer:
            monkeypatch.setattr(progress, "SHORT_S", 1e9)
            printer.show(next(events(0.0, 0.1, 0.2, 0.3, 0.4)))
            await asyncio.sleep(1)
            assert capsys.readouterr().err.endswith("SUBMITTED: what is asked\n")

    run_in_virtual_time(wait())
    with pytest.raises(KeyboardInterrupt):
        shown(StatePrinter(), list(events(0.0, 0.1, 0.2, 0.3, 0.4))[:4], error=KeyboardInterrupt())
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize("printer", [StatePrinter, OneLinePrinter])
@pytest.mark.parametrize("culprit", ["", "bank"])
def test_why_a_job_failed_is_left_to_what_is_printed_after_its_end(capsys, printer, culprit):
    shown(printer(), [EventView(9.0, "FAILED", "reading", culprit, 0, "party bank refused: no such table")])
    assert re.findall(r"UTC (.*)", capsys.readouterr().err) == ["FAILED"]


def test_a_terminal_keeps_the_notices_and_the_last_state(capsys, monkeypatch):
    terminal = Console(file=StringIO(), force_terminal=True, width=60)
    monkeypatch.setattr(progress, "Console", lambda stderr: terminal)
    shown(OneLinePrinter(), [*list(events(0.0, 0.1, 0.2, 0.3, 4.0))[:5], NOTICE, *events(0.0, 0.1, 0.2, 0.3, 4.0)])
    drawn = terminal.file.getvalue()
    assert "PROPOSED: waits for its owner" in drawn
    assert drawn.count("\n") <= 4
    assert capsys.readouterr().err == "00:00:04 UTC DONE\n"
