"""`moiety verify`: checks a saved result with its receipts; contacts nobody."""

from pathlib import Path
from typing import Annotated

import typer

from cli.terminal.options import OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_result
from verify.check import verify_file
from verify.document import DocumentError


def verify(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT.json", help="What `moiety job show JOB --format json` has printed.")
    ],
    authority: Annotated[
        Path, typer.Option(help="Certificate of the federation's authority, from another source than the result.")
    ],
    revoked: Annotated[Path | None, typer.Option(help="The authority's list of revoked certificates.")] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Check a saved result: who has signed it, whether all fits together, and the privacy that it claims.

    No party, no coordinator and no network is needed. Each line says what was verified, what fails, or what is taken on
    trust. The exit code is 1 where anything fails.
    """
    with exit_codes():
        text, authority_pem = result.read_bytes(), authority.read_bytes()
        revoked_pem = None if revoked is None else revoked.read_bytes()
        try:
            found = verify_file(text.decode(errors="replace"), authority_pem, revoked_pem)
        except DocumentError as error:
            fail(f"{result}: {error}", ExitCode.USAGE, code=error.code)
        except ValueError as error:
            fail(str(error), ExitCode.USAGE, code="authority-unusable")
        print_result(output, found.as_dict(), repr(found))
        if not found.holds:
            raise typer.Exit(ExitCode.FAILED)
