"""Structured logs of the services: one line per event, as JSON or as text; keys, shares and data are never logged.

Only text, one line of it (`mpc.public_text`), and single numbers are written. Every other value (bytes, arrays, lists,
objects) is replaced by its type's name, and tracebacks never show local variables: whoever logs a share by mistake logs
`<withheld: ndarray>`.
"""

import io
import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO

from mpc.public_text import made_public

LogFormat = Literal["json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]

_MAX_TEXT = 2000


def configure_logs(log_format: LogFormat, *, stream: TextIO | None = None, level: LogLevel = "info") -> None:
    """Set up logging for this process, at its start or where the level changes.

    Args:
        log_format: `json` (one object per line) or `console`.
        stream: where lines go; standard error where absent.
        level: the lowest level that is written.
    """
    import structlog  # with what prints tracebacks; commands read configurations and log nothing

    out = sys.stderr if stream is None else stream
    renderers: list[Any]
    if log_format == "json":
        renderers = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        renderers = [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=_write_traceback)]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            withhold_data,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


def _write_traceback(out: TextIO, exc_info: Any) -> None:
    """Write a traceback, without local variables; texts of others in it cannot pass for lines of the log."""
    import structlog

    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    for line in text.getvalue().splitlines():
        indent = len(line) - len(line.lstrip(" "))
        out.write(f"\n    | {' ' * indent}{made_public(line, _MAX_TEXT)}")


def withhold_data(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace every value that is not text, a single number, or an exception to be formatted."""
    for name, value in event.items():
        if name == "exc_info":
            continue
        if isinstance(value, str):
            event[name] = "<withheld: private key>" if "PRIVATE KEY" in value else made_public(value, _MAX_TEXT)
        elif not (value is None or type(value) in (bool, int, float)):
            event[name] = f"<withheld: {type(value).__name__}>"
    return event
