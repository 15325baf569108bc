"""A public list of names in a text file, one a line, which a configuration may name in place of the list."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BeforeValidator, ValidationInfo

from service.files.text_file import TextFileError, read_text

MAX_LIST_BYTES = 1 << 28


def read_names(path: Path, most: int) -> tuple[str, ...]:
    """Return the names in a UTF-8 file, in order, without spaces around them.

    Args:
        path: path of the file.
        most: maximum number of names.

    Raises:
        TextFileError: it cannot be read, is too long, or a line is blank; names the file and the line.
    """
    if path.exists() and not path.is_file():  # to open a pipe may take for ever
        raise TextFileError(f"{path}: it is no regular file")
    if path.exists() and path.stat().st_size > MAX_LIST_BYTES:
        raise TextFileError(f"{path}: it is longer than {MAX_LIST_BYTES >> 20} MiB")
    text = read_text(path)
    names = [line.strip() for line in text.removesuffix("\n").split("\n")]
    if len(names) > most:
        raise TextFileError(f"{path}: it has {len(names)} lines, and a list may have {most} names")
    if "" in names:
        raise TextFileError(f"{path}: line {names.index('') + 1} is blank; each line is one name")
    return tuple(names)


def list_or_file(most: int) -> BeforeValidator:
    """Return what lets a field take `{ file = "names.txt" }` for the names in that file.

    A relative path starts at the folder of the configuration.

    Args:
        most: maximum number of names.
    """

    def read(given: object, info: ValidationInfo) -> object:
        return _names_of(given, info.context or {}, most) if isinstance(given, Mapping | str) else given

    checked: Callable[[Any, ValidationInfo], Any] = read
    return BeforeValidator(checked)


def _names_of(given: Mapping[str, object] | str, context: Mapping[str, Any], most: int) -> tuple[str, ...]:
    if isinstance(given, str) or set(given) != {"file"} or not isinstance(given["file"], str):
        raise ValueError('write how many there are, the list of their names, or { file = "names.txt" }')
    return read_names(Path(context.get("folder", "")) / given["file"], most)
