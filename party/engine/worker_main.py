"""The process of a worker on its party's host: takes orders on its standard input and answers on its standard output.

    python -m party.engine.worker_main

Each message is its length, 4 bytes, and JSON. The process ends with its input, however its party ends.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from threadpoolctl import threadpool_limits

from party.engine.order import ShardOrder, WorkerSettings
from party.engine.worker import Worker
from service.errors import ServiceError
from service.logs import configure_logs
from service.memory import limit_heaps, release_compiler

LENGTH_BYTES = 4


def framed(message: Mapping[str, Any]) -> bytes:
    """Return a message with its length before it."""
    text = json.dumps(message, separators=(",", ":")).encode()
    return len(text).to_bytes(LENGTH_BYTES, "big") + text


async def read_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message; None at the end."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        message: dict[str, Any] = json.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return message


class _Desk:
    """Takes the party's orders one after the other, and works on several at once."""

    def __init__(self, worker: Worker, answers: int) -> None:
        self._worker = worker
        self._answers = answers
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, message: Mapping[str, Any]) -> None:
        what, number = message["do"], message["number"]
        if what == "prepare":
            try:
                address = self._worker.prepare(ShardOrder.model_validate(message["order"]))
            except (ServiceError, ValidationError) as error:
                self.say({"number": number, "refused": type(error).__name__})
            else:
                self.say({"number": number, "address": address})
        elif what == "abandon":
            await self._worker.abandon(message["session"])
            self.say({"number": number})
        else:
            task = asyncio.create_task(self._work(number, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, number: int, message: Mapping[str, Any]) -> None:
        addresses = {int(member): address for member, address in message["addresses"].items()}
        answer = await self._worker.work(message["session"], addresses)
        self.say({"number": number, "answer": answer.model_dump(mode="json")})

    def say(self, message: Mapping[str, Any]) -> None:
        data = memoryview(framed(message))
        while data:
            data = data[os.write(self._answers, data) :]


async def serve(answers: int) -> None:
    """Be a worker until the party closes our input."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", buffering=0))
    first = await read_message(reader)
    if first is None:
        return
    settings = WorkerSettings.model_validate(first)
    with threadpool_limits(settings.blas_threads):
        try:
            worker = await Worker.start(settings)
        except ServiceError as error:
            with contextlib.suppress(OSError):
                os.write(answers, framed({"refused": str(error)}))
            return
        desk = _Desk(worker, answers)
        desk.say({"address": worker.address})
        while (message := await read_message(reader)) is not None:
            await desk.take(message)
        await worker.stop()


def main() -> None:
    """Run; what libraries print goes to the log, and not among the answers."""
    limit_heaps()
    configure_logs("json")
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal and a service manager signal the party's whole group
        signal.signal(number, signal.SIG_IGN)
    answers = os.dup(1)
    os.dup2(2, 1)
    release_compiler()
    try:
        asyncio.run(serve(answers))
    except BrokenPipeError:
        sys.exit(0)  # the party has ended


if __name__ == "__main__":
    main()
