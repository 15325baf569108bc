"""`moiety questions`, `moiety coordinator questions`, `moiety party batches`: what is open to devices, and its end."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.configuration.party_config import Config, read_config
from cli.terminal.options import DEFAULT_CLIENT, Client, OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_text, say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coordinator.config import CoordinatorConfig
    from transport.questions import OpenQuestion

CallOff = Annotated[
    str | None,
    typer.Option("--call-off", metavar="ID", help="End this one without a result: devices are not asked any more."),
]
Connection = AbstractAsyncContextManager[tuple[str, Any]]


def questions(client: Client = DEFAULT_CLIENT, call_off: CallOff = None, output: OutputFormat = Format.TEXT) -> None:
    """List your questions to devices that are open, or call one off."""
    with exit_codes():
        from analyst.connection import ClientConfig, open_coordinator

        _list_or_call_off(open_coordinator(ClientConfig.load(client)), call_off, output)


def questions_of_all(
    config: Annotated[Path, typer.Option(help="The coordinator's configuration, coordinator.toml.")],
    call_off: CallOff = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List the open questions of all analysts to devices, or call one off. The coordinator must be running."""
    with exit_codes():
        from coordinator.config import CoordinatorConfig

        _list_or_call_off(_own_coordinator(CoordinatorConfig.load(config, {})), call_off, output)


def batches(
    config: Config,
    free: Annotated[
        str | None,
        typer.Option("--free", metavar="ID", help="Destroy the key of this one: it can never be opened."),
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List the batches that take up places here, or free the place of one. The service may be running."""
    with exit_codes():
        from analyses.job.job import JobError
        from party.batches.store import BatchStore, OpenPlace
        from questions.question import ID_BYTES
        from questions.shares import AskedBatch

        path = read_config(config).data_dir / "batches.sqlite"
        if not path.exists():
            fail(f"{path}: there is no such file: this party has taken part in no batch", ExitCode.NOT_FOUND)
        store = BatchStore(path)

        def described(place: OpenPlace) -> dict[str, Any]:
            found = {"batch": place.digest[:ID_BYTES].hex(), "analyst": place.analyst, "record": "", "until_s": 0.0}
            try:
                question = AskedBatch.from_json(place.question).question
            except JobError:  # of an earlier version, or there is none
                question = None
            if question is not None:
                found |= {"record": question.sum.record, "until_s": question.until.timestamp()}
            return found | {"is_kept": place.is_kept, "forgotten_at_s": place.forget_at_s}

        try:
            places = {place.digest[:ID_BYTES].hex(): place for place in store.open_places()}
            if free is not None:
                if free not in places or not store.call_off(places[free].digest):
                    fail(f"no batch {free!r} takes up a place here", ExitCode.NOT_FOUND)
                say(f"batch {free} takes up no place any more, and can never be opened")
                return
        finally:
            store.close()
        found = [described(place) for place in places.values()]
        if output is Format.JSON:
            print_json(found)
            return
        for one in found:
            state = "kept" if one["is_kept"] else "held until all parties agree"
            text = f"batch {one['batch']}  {one['record']}  of {one['analyst'] or 'an analyst that is not named'}"
            print_text(f"{text}  {state}, forgotten {_day(one['forgotten_at_s'])}")
        if not found:
            say("no batch takes up a place")


def add_to_party(app: typer.Typer) -> None:
    """Add the command to `moiety party`."""
    app.command()(batches)


def add_to_coordinator(app: typer.Typer) -> None:
    """Add the command to `moiety coordinator`."""
    app.command("questions")(questions_of_all)


@asynccontextmanager
async def _own_coordinator(config: "CoordinatorConfig") -> "AsyncIterator[tuple[str, Any]]":
    """Yield a name and a channel to the coordinator of this configuration, which is called with its own certificate."""
    from coordinator.startup import own_credentials
    from service.reach.addresses import dialled
    from transport.calls.channel import check_certificate, open_channel

    credentials, address = replace(own_credentials(config), proxy=None), dialled(config.listen)
    async with open_channel(address, credentials.identity, credentials) as channel:
        await check_certificate(channel)
        yield f"{config.name} ({address})", channel


def _list_or_call_off(connection: Connection, call_off: str | None, output: Format) -> None:
    from transport import question_client

    async def ask(use: Callable[[str, Any], Awaitable[Any]]) -> Any:
        async with connection as (name, channel):
            return await use(name, channel)

    if call_off is None:
        _show(asyncio.run(ask(question_client.list_open)), output)
        return
    try:
        question_id = bytes.fromhex(call_off)
    except ValueError:
        fail(f"{call_off!r} is no identifier of a question: 32 hexadecimal digits", ExitCode.USAGE)
    asyncio.run(ask(lambda name, channel: question_client.call_off(name, channel, question_id)))
    say(f"{call_off} is called off")


def _show(found: "list[OpenQuestion]", output: Format) -> None:
    if output is Format.JSON:
        print_json([{**vars(one), "question_id": one.question_id.hex()} for one in found])
        return
    for one in found:
        end = f"until {_day(one.until_s)}" if one.until_s else "until its sums are opened"
        text = f"{one.kind} {one.question_id.hex()}  {one.record}  of {one.analyst}"
        print_text(f"{text}  {end}, {one.n_answers} answers")
    if not found:
        say("no question is open")


def _day(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_s))
