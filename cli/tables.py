"""`moiety tables`: what an analyst can ask about."""

import asyncio
from typing import Annotated

import typer

from analyst.connection import ClientConfig, connect
from cli.terminal.options import DEFAULT_CLIENT, Client, OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_result
from transport.calls.coordinator_client import PartyTables


def tables(
    client: Client = DEFAULT_CLIENT,
    party: Annotated[str | None, typer.Option(help="Of this party only.")] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List the tables that you may use: columns, bounds, rows, and which analyses their owners admit.

    Nothing here depends on a row of any table: owners have declared it. What remains of a privacy budget is shown where
    the owner permits it.
    """
    with exit_codes():
        said = asyncio.run(tables_of_all(ClientConfig.load(client)))
        if party is not None and party not in said:
            fail(f"--party: there is no party {party!r}; the roster has {', '.join(said)}", ExitCode.USAGE)
        from analyst.catalogue import Catalogue

        found = Catalogue.of({name: tables for name, tables in said.items() if party in (None, name)})
        print_result(output, found.to_dict(), found.lines())
        if found.problems:
            raise typer.Exit(ExitCode.FAILED)


async def tables_of_all(config: ClientConfig) -> dict[str, PartyTables]:
    """Return what each party lists, as the coordinator tells it."""
    async with connect(config) as coordinator:
        return await coordinator.tables()
