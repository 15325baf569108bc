"""The text of a CSV file as UTF-8, chunk by chunk, whatever it is compressed by or encoded in.

What the file is, its first bytes say, not its name. A file that is no text, or another text than its owner declares, is
refused here.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from party.tables.sources.file import NAMES_UNREADABLE, UNREADABLE, check_regular
from party.tables.sources.first_bytes import GZIP, HEAD_BYTES, guessed_wide, known_kind, mark_of
from party.tables.sources.source import SourceError

CHUNK_BYTES = 1 << 23
"""Bytes that are read at once: the library takes long to begin with some text."""


class EncodingError(SourceError):
    """The text is of another encoding than the owner declares."""


CUT_SHORT = "its file is cut short or damaged: gzip cannot unpack all of it"

_WIDE = ("utf-16", "utf-32")
"""Encodings whose byte order only a mark tells."""


def codec_of(encoding: str) -> str:
    """Return the one name of an encoding that has many; `utf-8` also for what is part of it.

    Raises:
        LookupError: it is not the name of an encoding of text.
    """
    found = codecs.lookup(encoding)
    if not found._is_text_encoding:
        raise LookupError(encoding)
    return "utf-8" if found.name in ("utf-8-sig", "ascii") else found.name


def utf_8_chunks(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield the text of a file without its byte order mark.

    Bytes of a file that is declared to be UTF-8 are not looked at: the reader of the lines does, which knows their
    numbers.

    Memory: a chunk.

    Args:
        path: the file.
        encoding: encoding that the owner declares.

    Raises:
        SourceError: it cannot be read, or is not text of this encoding.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(0)
            if path.suffix == ".gz" and not head.startswith(GZIP):
                raise SourceError(f"{UNREADABLE}: its name ends in .gz, and gzip has not compressed it")
            if head.startswith(GZIP):
                with gzip.open(file, "rb") as unpacked:
                    yield from _decoded(unpacked, encoding)
            else:
                yield from _decoded(file, encoding)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise SourceError(CUT_SHORT) from None
    except OSError:
        raise SourceError(UNREADABLE) from None


def encoding_of(path: Path) -> str:
    """Return the encoding of a file if its first bytes tell it, or else `utf-8`.

    Raises:
        SourceError: it cannot be read.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            is_packed = file.read(len(GZIP)) == GZIP
        with gzip.open(path, "rb") if is_packed else path.open("rb") as unpacked:
            head = unpacked.read(HEAD_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise SourceError(CUT_SHORT) from None
    except OSError:
        raise SourceError(UNREADABLE) from None
    return mark_of(head)[1] or guessed_wide(head) or "utf-8"


def _decoded(file: IO[bytes] | gzip.GzipFile, encoding: str) -> Iterator[bytes]:
    first = file.read(HEAD_BYTES)
    what = known_kind(first)
    if what is not None:
        raise SourceError(f"its file is not CSV text: it is {what}")
    mark = _mark_to_skip(first, encoding)
    codec = codec_of(encoding)
    if codec == "utf-8":
        yield first[len(mark) :]
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
        return
    if codec in _WIDE:  # whose decoder wants the mark
        mark = b""
    decoder = codecs.getincrementaldecoder(codec)()
    chunk, is_last, n_lines = first[len(mark) :], False, 1
    while not is_last:
        following = file.read(CHUNK_BYTES)
        is_last = not following
        try:
            text = decoder.decode(chunk, final=is_last)
            yield text.encode()
        except UnicodeDecodeError as error:
            line = n_lines + error.object[: error.start].decode(codec, "replace").count("\n")
            what = f"line {line} of its file has bytes that are not {encoding} text"
            raise SourceError(f"{NAMES_UNREADABLE}: {what}" if line == 1 else what) from None
        except UnicodeError:
            raise SourceError(f"its file has bytes that are not {encoding} text") from None
        n_lines += text.count("\n")
        chunk = following


def _mark_to_skip(head: bytes, encoding: str) -> bytes:
    """Return the mark with which a text of the declared encoding begins; refuse text that is of another one.

    Raises:
        SourceError: says which.
    """
    codec = codec_of(encoding)
    mark, marked = mark_of(head)
    wide = guessed_wide(head)
    if mark and marked != codec:
        order = "le" if mark[:1] == b"\xff" else "be"
        if codec == f"{marked}-{order}":
            return mark
        if codec == "utf-8":
            raise EncodingError(
                f'its file is {marked.upper()} text; declare encoding = "{marked}", or save it as UTF-8'
            )
        raise EncodingError(
            f'its file begins with the mark of {marked.upper()}, and encoding = "{encoding}" is declared'
        )
    if not mark and codec in _WIDE:
        right = f'"{wide}"' if wide else f'"{codec}-le" or "{codec}-be"'
        raise EncodingError(f"its file has no mark of its byte order: declare encoding = {right}")
    if not mark and wide is not None and wide != codec:
        raise EncodingError(f'its file is {wide[:6].upper()} text; declare encoding = "{wide}", or save it as UTF-8')
    return mark
