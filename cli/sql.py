"""`moiety sql`: the job that a SELECT over tables of several owners becomes."""

import asyncio
import json
from typing import Annotated

import typer

from analyst.connection import ClientConfig
from cli.tables import tables_of_all
from cli.terminal.options import DEFAULT_CLIENT, Client, OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_toml


def sql(
    statement: Annotated[str, typer.Argument(metavar="SELECT", help="Over tables of owners, joined by USING (id).")],
    epsilon: Annotated[float, typer.Option(help="Epsilon of the job.")],
    delta: Annotated[float, typer.Option(help="Delta of the job.")] = 1e-6,
    client: Client = DEFAULT_CLIENT,
    matching: Annotated[
        str | None, typer.Option(help="How rows are matched: revealed or secret; else tables are in the same order.")
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the job that a SELECT becomes, as a file for `moiety job submit`; nothing is asked.

    Offered are avg, sum and count(*) of joined rows; count(*), avg, sum, median and quantile by up to three columns;
    HAVING count(*) >= n; corr. What is none of that is refused by its name.
    """
    with exit_codes():
        from analyst.catalogue import Catalogue
        from analyst.sql import SqlError, job_of_sql, with_computing

        catalogue = Catalogue.of(asyncio.run(tables_of_all(ClientConfig.load(client))))
        try:
            meant = job_of_sql(statement, catalogue, epsilon=epsilon, delta=delta, matching=matching)
        except SqlError as error:
            fail(str(error), ExitCode.USAGE, code=error.code)
        meant = with_computing(meant, list(catalogue.parties))
        if output is Format.JSON:
            job = json.loads(meant.job.canonical_json())
            print_json({"job": job, "question": meant.question or None, "given": dict(meant.given)})
        else:
            print_toml("\n".join(meant.lines()))
