"""Reads files in a process of their own, because the library that reads them may end the process.

The library maps Parquet and Arrow files into memory: whoever writes to one, or cuts it, ends its readers by a signal. A
damaged one may ask for more memory than there is, which ends them too. So a child reads and sends rows
(`party.tables.sources.apart_main`). When it ends without a word the table cannot be used, and nothing else is touched.

Cost: 0.3 s to start a child, and three copies of the values on their way.
"""

import contextlib
import json
import struct
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from party.tables.sources.file import CHANGED
from party.tables.sources.source import SourceError, TableSource, library_errors

if TYPE_CHECKING:
    import polars as pl

HEAD = struct.Struct("<cQ")
"""Header of a message: its kind, and the bytes of its content."""

NUMBERS, FRAME, ANSWER, REFUSAL = b"N", b"F", b"A", b"R"
"""Kinds of messages: columns of numbers, one behind the other as float64; a frame as an Arrow stream; a JSON value; the
text of a `SourceError`."""

ENDED = "its file ended the process that read it: it is damaged, was changed meanwhile, or needs too much memory"


class ReadApart(TableSource):
    """A source that a child process reads. Its methods `*_here` run there; the others ask the child."""

    @abstractmethod
    def rows_here(self, start: int, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """Run `batches_from` in the child."""

    @abstractmethod
    def count_here(self) -> int:
        """Run `count_rows` in the child."""

    def batches(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `TableSource`."""
        return self.batches_from(0, numbers, texts)

    def batches_from(self, start: int, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `TableSource`."""
        import polars as pl  # the configuration of a table is read without

        before, arrays = self.version(), dict[str, Any]()
        try:
            for kind, content in asked(self, "rows", start, list(numbers), list(texts)):
                if kind == NUMBERS:
                    arrays = content
                elif kind == FRAME:
                    columns = {one.name: one for one in content} | {n: pl.Series(n, a) for n, a in arrays.items()}
                    yield pl.DataFrame([columns[name] for name in (*numbers, *texts)])
        except SourceError:
            if self.version() != before:
                raise SourceError(CHANGED) from None
            raise
        if self.version() != before:
            raise SourceError(CHANGED)

    def count_rows(self) -> int:
        """See `TableSource`."""
        return int(next(content for kind, content in asked(self, "count") if kind == ANSWER))


def asked(source: ReadApart, what: str, *arguments: object) -> Iterator[tuple[bytes, Any]]:
    """Start a child, ask it, and yield its messages: their kinds and contents.

    Raises:
        SourceError: the child's, or the child ended.
    """
    module, name = type(source).__module__, type(source).__qualname__
    request = {"class": [module, name], "fields": source.model_dump(mode="json"), "do": what, "with": arguments}
    with subprocess.Popen(
        [sys.executable, "-m", "party.tables.sources.apart_main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a panic of the library writes values there
    ) as child:
        assert child.stdin is not None, "it is a pipe"
        assert child.stdout is not None, "it is a pipe"
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()  # and open: the child ends with us
            while (message := _next(child.stdout)) is not None:
                kind, content = message
                if kind == REFUSAL:
                    raise SourceError(content)
                yield kind, content
                if kind == ANSWER:
                    return
        except OSError:
            pass
        finally:
            child.kill()
            with contextlib.suppress(OSError):  # of what was not written
                child.stdin.close()
    raise SourceError(ENDED)


def _next(pipe: IO[bytes]) -> tuple[bytes, Any] | None:
    import polars as pl  # the configuration of a table is read without

    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    kind, n_bytes = HEAD.unpack(head)
    content = pipe.read(n_bytes)
    if len(content) < n_bytes:
        return None
    if kind == NUMBERS:
        names, height = json.loads(content)
        block: NDArray[np.float64] = np.empty((len(names), height))
        view = block.reshape(-1).view(np.uint8).data
        if _filled(pipe, view) < len(view):
            return None
        return kind, dict(zip(names, block, strict=True))
    if kind == FRAME:
        with library_errors("a column has a type that cannot be read"):
            return kind, pl.read_ipc_stream(BytesIO(content))
    return kind, content.decode() if kind == REFUSAL else json.loads(content)


def _filled(pipe: IO[bytes], view: memoryview) -> int:
    """Read into a buffer until it is full or the pipe has ended; return how many bytes came."""
    got = 0
    while got < len(view) and (more := pipe.readinto(view[got:])):  # type: ignore[attr-defined]
        got += more
    return got
