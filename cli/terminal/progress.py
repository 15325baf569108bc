"""Shows a job's events on standard error: one bar per party on a terminal, plain lines elsewhere."""

import sys
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cli.terminal.output import say
from transport.calls.coordinator_client import EventView


class EventPrinter(Protocol):
    """Shows events as they come; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def show(self, event: EventView) -> None:
        """Show one event."""


def event_printer() -> EventPrinter:
    """Return the printer that fits where standard error goes."""
    return BarPrinter() if sys.stderr.isatty() else LinePrinter()


class LinePrinter:
    """One line per event."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def show(self, event: EventView) -> None:
        """Print the event."""
        say(event.as_text())


class BarPrinter:
    """One bar per party with its present stage; steps of the job as lines above."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.fields[member]}", markup=False),
            BarColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, event: EventView) -> None:
        """Move the member's bar, or print a step."""
        if event.text or not event.member:
            self._progress.console.print(event.as_text(), markup=False, highlight=False)
            return
        if event.member not in self._tasks:
            self._tasks[event.member] = self._progress.add_task("", total=100, member=event.member)
        self._progress.update(self._tasks[event.member], completed=event.percent, description=event.stage)
