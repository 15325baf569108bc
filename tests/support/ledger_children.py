"""What children do to a ledger before they are killed, or kill themselves."""

import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledgers import ledger_in, reserve

from ledger.books import BudgetExhaustedError
from ledger.chain import EntryChain

COST = 0.0005

REPORT = bytes(4096)
"""What a child writes at every step: a pipe holds 64 KiB, so a child is at most 16 steps ahead of its reader."""


def open_results(folder: Path, first: int, count: int) -> None:
    """Take jobs from reservation to opening until the budget is spent."""
    ledger = ledger_in(folder)
    ledger.release_leftovers("the service was stopped before anything was opened")
    with (folder / "opened").open("a") as opened:
        for i in range(first, first + count):
            try:
                reserve(ledger, f"job-{i}", COST)
            except BudgetExhaustedError:
                return
            ledger.commit(f"job-{i}")
            opened.write(f"job-{i}\n")
            opened.flush()
            os.fsync(opened.fileno())


def at_every_step(act: Callable[[], None]) -> None:
    """From now on, act before and after everything of this process that reaches the disk, and within SQLite's work."""

    def acting(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any) -> Any:
            act()
            result = function(*args)
            act()
            return result

        return wrapped

    def act_and_go_on(*ignored: Any) -> None:
        act()

    connect = sqlite3.connect

    def connect_and_act(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.set_progress_handler(act_and_go_on, 8)  # every eighth instruction of SQLite's machine
        connection.set_trace_callback(act_and_go_on)
        return connection

    for name in ("pwrite", "fdatasync", "fsync"):
        setattr(os, name, acting(getattr(os, name)))
    sqlite3.connect = connect_and_act
    EntryChain._write = acting(EntryChain._write)


def die_at(step: int, folder: Path) -> None:
    """Run one job and die at the given step."""
    steps = iter(range(10**9))

    def maybe_die() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    at_every_step(maybe_die)
    open_results(folder, 0, 1)


def open_and_report(folder: Path, first: int, count: int, steps: Any) -> None:
    """Open results, and write a report into a pipe at every step."""
    fileno = steps.fileno()
    at_every_step(lambda: os.write(fileno, REPORT))
    open_results(folder, first, count)


def spend_all(folder: Path, name: str, barrier: Any) -> None:
    """Spend the budget together with another process."""
    ledger = ledger_in(folder, holder=name)
    for i in range(60):
        if i < 2:
            barrier.wait(300)  # neither has all of it before the other begins
        try:
            reserve(ledger, f"{name}-{i}", 0.004)
            ledger.commit(f"{name}-{i}")
        except BudgetExhaustedError:
            break
