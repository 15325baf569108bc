"""Text files that people write by hand. Only the standard library is needed."""

import codecs
from pathlib import Path

_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class TextFileError(ValueError):
    """A file that cannot be read as text; the message names the file and says what is wrong with it."""

    code: str = "file-unreadable"


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, without a byte order mark at its beginning.

    Raises:
        TextFileError: there is no such file, it cannot be read, or it is in another encoding.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise TextFileError(f"{path}: there is no such file") from error
    except OSError as error:
        raise TextFileError(f"{path}: cannot be read: {error.strerror}") from error
    if content.startswith(_UTF_16_MARKS):
        raise TextFileError(f"{path}: cannot be read: the file is UTF-16 text; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TextFileError(
            f"{path}: cannot be read: not UTF-8 text, line {line} has bytes of another encoding; save the file as UTF-8"
        ) from error
