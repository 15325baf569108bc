"""A coordinator's store that is killed while it takes responses."""

import asyncio
import os
import signal
from pathlib import Path

from ledger_children import at_every_step
from stores import surveys_in

from coordinator.questions.intake import Intake
from coordinator.stores.surveys import Given

N_DEVICES = 3


def take_and_die_at(step: int, folder: Path) -> None:
    """Take a response of each device; who hears `Taken` is a line of a file. Die at the given step."""
    steps = iter(range(10**9))

    def maybe_die() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    async def take_all(intake: Intake) -> None:
        async def one(i: int) -> None:
            await intake.take(Given(1, f"d{i}", i))
            maybe_die()
            with (folder / "taken").open("a") as taken:
                taken.write(f"d{i}\n")

        for i in range(N_DEVICES):
            await one(i)

    store = surveys_in(folder / "surveys.sqlite")
    if not store.unended():
        store.add(bytes(16), "ada", "{}")
    store.close()
    at_every_step(maybe_die)
    store = surveys_in(folder / "surveys.sqlite")
    asyncio.run(take_all(Intake(store, lambda given: maybe_die())))
    store.close()
