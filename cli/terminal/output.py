"""Common rules of all commands: results on standard output, all else on standard error, one exit code per outcome.

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | the job failed or was cancelled, or a service could not do what was asked |
| 2 | wrong usage, or an input file that cannot be used |
| 3 | the coordinator cannot be reached, or does not let us in |
| 4 | there is no such job |
| 130 | interrupted; a submitted job goes on |
"""

import codecs
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, NoReturn

import typer

from cli.terminal.wrapping import fitted_to_terminal
from service.codes.coded_text import INTERNAL_CODE, code_of, coded

EXIT_CODES = (
    "Exit codes: 0 done; 1 the job failed or was cancelled, or it could not be done; 2 wrong usage or input file; "
    "3 cannot reach the coordinator or not let in; 4 no such job or report; 130 interrupted (a job goes on)."
)


class ExitCode(IntEnum):
    """How a command ended; see the table above."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_ACCESS = 3
    NOT_FOUND = 4
    INTERRUPTED = 130


_ESCAPED = "escaped"
"""Name of the way in which text is written that an encoding lacks."""


class Format(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


def print_anywhere() -> None:
    r"""Let standard output and error take any text, whatever the terminal's encoding: what it lacks becomes `\uXXXX`.

    Without it one analyst's title would keep the list of jobs from everybody whose terminal lacks one of its letters.
    The escapes are those of TOML and JSON.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "it is for writing only"
    codes = map(ord, error.object[error.start : error.end])
    return "".join(f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}" for code in codes), error.end


codecs.register_error(_ESCAPED, _escaped)


def print_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """Print a result for people on standard output, in lines that a terminal does not wrap."""
    sys.stdout.write(fitted_to_terminal(text, sys.stdout) + "\n")


def print_toml(text: str) -> None:
    """Print a configuration on standard output. TOML is UTF-8: where that is another encoding, escapes stand in it."""
    is_utf_8 = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
    sys.stdout.write((text if is_utf_8 else text.encode("ascii", _ESCAPED).decode("ascii")) + "\n")


def print_result(
    output: Format,
    value: Any,
    text: str | Iterable[str],
    *,
    by: Callable[[str], None] = print_text,
    nothing: str = "",
) -> None:
    """Print a result in the form that was asked for.

    Args:
        output: the form.
        value: the result as one JSON value.
        text: the result for people, or its lines.
        by: prints the text; `say` where the command is asked for what it does, not for what it prints.
        nothing: said to people where there are no lines.
    """
    if output is Format.JSON:
        print_json(value)
        return
    found = text if isinstance(text, str) else "\n".join(text)
    if found or not nothing:
        by(found)
    else:
        say(nothing)


def say(text: str) -> None:
    """Print a line on standard error: whatever is not the result."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def this_command() -> str:
    """Return how the user called us, so that the next command can be copied."""
    called = sys.argv[0]
    return called if Path(called).name == "moiety" and shutil.which("moiety") != called else "moiety"


def fail(what: str | Exception, exit_code: ExitCode, *, code: str = "") -> NoReturn:
    """End the command with one clear message, whose last word is a code that `moiety explain` explains.

    Args:
        what: a text, or an error, which has a code.
        exit_code: exit code of the command.
        code: code of the text; without, what can be said by the exit code alone.
    """
    of_error = code_of(what) if isinstance(what, Exception) else ""
    if of_error == INTERNAL_CODE and exit_code is not ExitCode.FAILED:
        of_error = ""  # an error of a library about what a user wrote
    text = coded(str(what), code=found) if (found := code or of_error) else str(what)
    say(f"error: {coded_anyhow(text, exit_code)}")
    raise typer.Exit(exit_code)


def coded_anyhow(text: str, exit_code: ExitCode) -> str:
    """Return a text with a code at its end: its own, or what can be said by the exit code alone."""
    match exit_code:
        case ExitCode.USAGE:
            return coded(text, code="usage-wrong")
        case ExitCode.NOT_FOUND:
            return coded(text, code="nothing-there")
        case ExitCode.INTERRUPTED:
            return coded(text, code="command-interrupted")
        case _:
            return coded(text, code="command-failed")


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn errors that users cause or can fix into a message and an exit code. Bugs pass through.

    Users can fix a file that cannot be read or written; other errors of the system name nothing that they could fix.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        fail(f"{error.filename}: {error.strerror}", ExitCode.USAGE, code="file-unusable")
    except Exception as error:
        from analyses.job.job import JobError  # what a command that works loads for its own ends alone
        from service.errors import ServiceError
        from service.settings import SettingsError

        if isinstance(error, SettingsError | JobError):
            fail(error, ExitCode.USAGE)
        if isinstance(error, ServiceError):
            fail(error, _code_of(error))
        raise
    except KeyboardInterrupt:
        fail("interrupted", ExitCode.INTERRUPTED)


def _code_of(error: Exception) -> ExitCode:
    from service import errors, tls

    codes: dict[type[Exception], ExitCode] = {
        tls.CredentialsError: ExitCode.USAGE,
        errors.InvalidRequestError: ExitCode.USAGE,
        errors.AlreadyExistsError: ExitCode.USAGE,
        errors.UnreachableError: ExitCode.NO_ACCESS,
        errors.TimedOutError: ExitCode.NO_ACCESS,
        errors.UnauthenticatedError: ExitCode.NO_ACCESS,
        errors.NotAllowedError: ExitCode.NO_ACCESS,
        errors.NotFoundError: ExitCode.NOT_FOUND,
    }
    return next((codes[kind] for kind in type(error).__mro__ if kind in codes), ExitCode.FAILED)
