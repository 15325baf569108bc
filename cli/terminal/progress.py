"""Shows a job's events on standard error: one line that is overwritten on a terminal, changes of state elsewhere.

Why a job failed or was cancelled is left to what is printed after its end, which says it with its code.
"""

import asyncio
import sys
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cli.terminal.output import say
from transport.calls.coordinator_client import EventView

SHORT_S = 2.0
"""A job that ends sooner is one line."""


class EventPrinter(Protocol):
    """Shows events as they come; a context manager, entered where an event loop runs."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def show(self, event: EventView) -> None:
        """Show one event."""


def event_printer() -> EventPrinter:
    """Return the printer that fits where standard error goes."""
    return OneLinePrinter() if sys.stderr.isatty() else StatePrinter()


class StatePrinter:
    """One line for each change of the job's state and each notice; the last one alone where the job was short."""

    def __init__(self) -> None:
        self._held: list[EventView] = []
        self._is_long = False
        self._state = ""
        self._begin_s: float | None = None

    def __enter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(SHORT_S, self._tell)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if error is None and not self._is_long:
            self._held = self._held[-1:]
        self._tell()

    def show(self, event: EventView) -> None:
        """Print the event if it is a change of state or a notice, now or when the job turns out to be long."""
        event = _without_reason(event)
        self._begin_s = event.at_s if self._begin_s is None else self._begin_s
        is_notice = _is_notice(event)
        if is_notice or event.state != self._state:
            self._held.append(event)
            self._state = event.state
        if self._is_long or is_notice or event.at_s - self._begin_s >= SHORT_S:
            self._tell()

    def _tell(self) -> None:
        self._is_long = True
        for event in self._held:
            say(event.as_text())
        self._held = []


class OneLinePrinter:
    """A bar with the state, the stage and the party that is behind; notices stand above, the last state stays."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[member]}", markup=False),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("", total=100, member="")
        self._percent: dict[str, dict[str, int]] = {}
        self._last: EventView | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()
        if self._last is not None:
            say(self._last.as_text())

    def show(self, event: EventView) -> None:
        """Move the bar, or print a notice."""
        event = _without_reason(event)
        if _is_notice(event):
            self._progress.console.print(event.as_text(), markup=False, highlight=False, soft_wrap=True)
            return
        if not event.member:
            self._last = event
            self._progress.update(self._task, description=event.state, completed=0, member="")
            return
        by_member = self._percent.setdefault(event.stage, {})
        by_member[event.member] = event.percent
        behind = min(by_member, key=by_member.__getitem__)
        self._progress.update(
            self._task, description=f"{event.state} {event.stage}", completed=by_member[behind], member=behind
        )


def _without_reason(event: EventView) -> EventView:
    return replace(event, member="", text="") if event.state in ("FAILED", "CANCELLED") else event


def _is_notice(event: EventView) -> bool:
    """Return whether it tells something of a member that is no progress within a stage."""
    return bool(event.member and event.text)
