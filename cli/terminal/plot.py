"""`--plot`: draws a result into a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.terminal.output import ExitCode, fail, say

Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Also draw the result into this .svg file, or .png with the extra plot."
    ),
]


def check_plot(path: Path | None) -> None:
    """Say before anything is asked of anybody that no picture can be written there."""
    if path is not None:
        from results.drawing.chart import PictureError
        from results.drawing.file import check

        try:
            check(path)
        except PictureError as error:
            fail(error, ExitCode.USAGE)


def plot(result: Mapping[str, Any], path: Path, heading: str = "") -> None:
    """Draw a result; a failure ends the command with its reason. A result without anything to draw is none.

    Args:
        result: result of any analysis, as the coordinator sent it.
        path: path of the file.
        heading: heading above it.
    """
    from results.drawing.chart import NothingToDrawError, PictureError
    from results.drawing.file import write
    from results.registry import picture_of

    try:
        write(picture_of(result, heading), path)
    except NothingToDrawError as error:
        say(f"no plot: {error}")
        return
    except PictureError as error:
        fail(error, ExitCode.FAILED)
    except OSError as error:
        fail(f"{path}: cannot be written: {error.strerror}", ExitCode.USAGE)
    say(f"plot: {path}")
