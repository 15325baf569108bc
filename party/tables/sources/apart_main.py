"""The process that reads the files of one source for its parent (`party.tables.sources.apart`).

    python -m party.tables.sources.apart_main

It is asked by a line of JSON on its standard input, answers on its standard output, and ends with its parent.
"""

import contextlib
import importlib
import json
import os
import resource
import sys
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from party.tables.sources.apart import ANSWER, FRAME, HEAD, NUMBERS, REFUSAL, ReadApart
from party.tables.sources.columnar_file import ColumnarFile
from party.tables.sources.source import SourceError

LEAST_MEMORY = 1 << 32
"""Bytes of memory that the process may take in any case; else half of the machine's."""

NOT_READ = "its file has something in it that cannot be read: a type, a time zone, or damage"


def main() -> None:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    _limit()
    module, name = request["class"]
    source = getattr(importlib.import_module(module), name).model_validate(request["fields"])
    try:
        with contextlib.suppress(BrokenPipeError):  # the parent needs no more
            for kind, content in _answers(source, request["do"], *request["with"]):
                for part in (HEAD.pack(kind, len(content[0])), *content):
                    answers.write(part)
                answers.flush()
    except BaseException as error:  # panics of the library are no `Exception`
        text = str(error) if isinstance(error, SourceError) else NOT_READ
        with contextlib.suppress(BrokenPipeError):
            answers.write(HEAD.pack(REFUSAL, len(text.encode())) + text.encode())
            answers.flush()
    os._exit(0)  # without waiting for threads of the library


def _answers(source: ReadApart, what: str, *arguments: Any) -> Iterator[tuple[bytes, list[Any]]]:
    """Yield messages: their kinds, and their contents with what follows them."""
    if what == "count":
        yield ANSWER, [json.dumps(source.count_here()).encode()]
    elif what == "types" and isinstance(source, ColumnarFile):
        yield FRAME, [_as_stream(source.empty_here())]
    else:
        start, numbers, texts = arguments
        for batch in source.rows_here(start, numbers, texts):
            plain = [name for name in numbers if _is_plain(batch[name])]
            arrays = [np.ascontiguousarray(batch[name].cast(pl.Float64).to_numpy()).view(np.uint8) for name in plain]
            yield NUMBERS, [json.dumps([plain, batch.height]).encode(), *(one.data for one in arrays)]
            yield FRAME, [_as_stream(batch.drop(plain))]
        yield ANSWER, [b"null"]


def _is_plain(column: pl.Series) -> bool:
    return (column.dtype.is_numeric() or column.dtype == pl.Boolean) and not column.has_nulls() and len(column) > 0


def _as_stream(frame: pl.DataFrame) -> bytes:
    stream = BytesIO()
    frame.write_ipc_stream(stream)
    return stream.getvalue()


def _end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _limit() -> None:
    """Take at most half of the memory, leave no core file, which would hold values, and be ended before the service."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (max(LEAST_MEMORY, memory // 2),) * 2)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


if __name__ == "__main__":
    main()
