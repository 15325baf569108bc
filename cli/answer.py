"""`moiety answer`: ask released second moments, without a job and without further cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal.options import DEFAULT_CLIENT, Client, OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_result

if TYPE_CHECKING:
    from results.generic.result import Result

Names = Annotated[
    list[str] | None,
    typer.Option("--columns", help="Columns, `party.column`; all where none is named; regress: terms."),
]


def answer(
    release: Annotated[
        str, typer.Argument(metavar="JOB|FILE", help="Job of `second-moments` or counts, or a file of it.")
    ],
    question: Annotated[str, typer.Argument(help="One of those that `moiety job show JOB` lists, such as means.")],
    client: Client = DEFAULT_CLIENT,
    columns: Names = None,
    label: Annotated[str | None, typer.Option(help="Regressions: column that is to be explained.")] = None,
    offset: Annotated[str | None, typer.Option(help="Rates: column with the logarithm of the exposure.")] = None,
    normal: Annotated[
        bool, typer.Option("--normal", help="Rates and odds: numbers are near normal; for intervals by them.")
    ] = False,
    ridge: Annotated[float | None, typer.Option(help="regress: penalty on squared coefficients.")] = None,
    weight: Annotated[str | None, typer.Option(help="regress: column with the weight of each row.")] = None,
    k: Annotated[int | None, typer.Option(help="components, factors, canonical-correlation: how many.")] = None,
    others: Annotated[
        list[str] | None, typer.Option("--others", help="canonical-correlation: columns of the other side.")
    ] = None,
    scale: Annotated[bool, typer.Option("--scale", help="components: divide columns by their deviations.")] = False,
    down: Annotated[str | None, typer.Option(help="crosstab: categories from above to below.")] = None,
    across: Annotated[str | None, typer.Option(help="crosstab: categories from left to right.")] = None,
    value: Annotated[str | None, typer.Option(help="group-means, contrasts, anova, quantiles: the number.")] = None,
    time: Annotated[str | None, typer.Option(help="survival, hazard-ratios: column of 2 * interval + event.")] = None,
    width: Annotated[float | None, typer.Option(help="survival, quantiles, group-means: length of a bin.")] = None,
    q: Annotated[float | None, typer.Option("--q", help="quantiles: which one; by default 0.5.")] = None,
    at_least: Annotated[float | None, typer.Option(help="groups, group-means: least noisy count of rows.")] = None,
    by: Annotated[str | None, typer.Option(help="Groups: a column of categories.")] = None,
    powers: Annotated[list[float] | None, typer.Option("--power", help="distribution: p of a sum of x^p.")] = None,
    quantiles: Annotated[
        list[float] | None, typer.Option("--quantile", help="distribution: share of the rows.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="synthetic: rows of the table; by default 10000.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="synthetic: the same seed gives the same rows; by default 0.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="synthetic: file for the rows, .csv or .parquet.")] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Ask released second moments: means, correlation, regress, synthetic, ...; or counts: survival, quantiles, ..."""
    from analyses.kept_moments.answer import AnswerError
    from results.generic.result import SavedResultError
    from results.generic.synthetic import check_suffix
    from results.kinds.pattern_count import PatternCountResult
    from results.kinds.second_moments import SecondMomentsResult

    given = {
        "columns": _names(columns), "others": _names(others),
        "label": label, "offset": offset, "normal": normal or None, "ridge": ridge, "weight": weight,
        "k": k, "scale": scale or None,
        "down": down, "across": across, "value": value, "by": by,
        "time": time, "width": width, "q": q, "at_least": at_least,
        "powers": powers or None, "quantiles": quantiles or None,
        "rows": rows, "seed": seed,
    }  # fmt: skip
    with exit_codes():
        try:
            if out is not None:
                check_suffix(out)
            found = _found(release, client)
            if not isinstance(found, SecondMomentsResult | PatternCountResult):
                needed = f"only second-moments and counts are asked again, and this job is of {found.job.analysis}"
                fail(needed, ExitCode.USAGE)
            answered = found.answer(question, **given)
            if out is not None:
                _write(answered, out)
        except (AnswerError, SavedResultError) as error:
            fail(str(error), ExitCode.USAGE, code=error.code)
        print_result(output, answered.to_dict(), repr(answered))


def _write(answered: object, out: Path) -> None:
    from analyses.kept_moments.answer import AnswerError
    from results.generic.synthetic import SyntheticTable

    if not isinstance(answered, SyntheticTable):
        raise AnswerError("only the question synthetic has rows to write to a file")
    try:
        answered.write(out)
    except OSError as error:
        fail(f"{out} cannot be written: {error.strerror}", ExitCode.USAGE)


def _names(given: list[str] | None) -> list[str] | None:
    return [one.strip() for name in given for one in name.split(",")] if given else None


def _found(release: str, client: Path) -> "Result":
    """Return the result of a file if there is one of this name, else of a job."""
    from results.saved import load

    if Path(release).is_file():
        return load(release)
    import asyncio  # with what connects to a coordinator, as a file does not

    from analyst.client import result_of
    from analyst.connection import ClientConfig, connect

    config = ClientConfig.load(client)

    async def fetched() -> "Result":
        async with connect(config) as coordinator:
            view = await coordinator.show(release)
        if view.state != "DONE":
            fail(f"there is nothing to ask: job {release} is {view.state}", ExitCode.FAILED)
        return result_of(view)

    return asyncio.run(fetched())
