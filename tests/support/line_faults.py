"""An error at each line that runs below a function: what a value could ever raise there, whatever it is."""

import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

PROJECT = Path(__file__).parent.parent.parent
ROOMS = tuple(f"{PROJECT / room}/" for room in ("analyses", "device", "dp", "mpc", "party"))

Line = tuple[str, int]
"""File and number."""


def called_by(guard: Callable[..., Any]) -> Callable[[FrameType], bool]:
    """Say of a frame whether it is what a guard calls in its `try`, whatever else it calls."""
    lines, first = inspect.getsourcelines(guard)
    called_at = first + next(i for i, line in enumerate(lines) if line.strip() == "try:") + 1

    def begins(frame: FrameType) -> bool:
        caller = frame.f_back
        return caller is not None and caller.f_code is guard.__code__ and caller.f_lineno == called_at

    return begins


class InjectedError(Exception):
    """Raised at a line; nothing in the project knows it."""


class LineFaults:
    """Lines that run below frames that `begins` tells, in all threads that begin meanwhile.

    Args:
        begins: says of a frame whether what it runs, itself included, is what faults are injected into.
    """

    def __init__(self, begins: Callable[[FrameType], bool]) -> None:
        self._begins = begins
        self._seen: dict[Line, None] = {}
        self._target: Line | None = None

    def lines_of(self, run: Callable[[], Any]) -> list[Line]:
        """Run, and return the lines in their order, each once."""
        self._seen, self._target = {}, None
        self._traced(run)
        return list(self._seen)

    def run_with_error(self, run: Callable[[], Any], at: Line) -> Any:
        """Run with an error at a line, the first time that it is reached in a thread."""
        self._target = at
        return self._traced(run)

    def _traced(self, run: Callable[[], Any]) -> Any:
        before = sys.gettrace()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            return run()
        finally:
            sys.settrace(before)
            threading.settrace(before)  # type: ignore[arg-type]

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(ROOMS):
            return None
        above: FrameType | None = frame
        while above is not None:
            if self._begins(above):
                return self._line
            above = above.f_back
        return None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            line = frame.f_code.co_filename, frame.f_lineno
            self._seen[line] = None
            if line == self._target:
                raise InjectedError  # which switches tracing off
        return self._line
