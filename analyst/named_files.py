"""Files that a job or question about ratings names in place of what they hold: items, their features, a start."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from analyses.job.job import JobError
from service.files.name_list import read_names
from service.files.text_file import read_text


def with_files(fields: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields, in which what stands in files has taken the place of `{ file = "..." }`.

    Args:
        fields: a question's fields, or a job's parameters. `items` and `features` name text files with an item on each
            line, `start` the JSON file of an earlier result or answer.
        folder: folder of the job or question, at which relative paths start.

    Raises:
        JobError: a file does not hold what it should; names the field.
        TextFileError: one cannot be read.
    """
    found = dict(fields)
    for name, read in _READERS.items():
        given = fields.get(name)
        if isinstance(given, Mapping) and set(given) == {"file"} and isinstance(given["file"], str):
            found[name] = read(folder / given["file"])
    return found


def _lines(path: Path) -> list[str]:
    from analyses.job.ratings import MAX_ITEMS  # with numerics

    return list(read_names(path, MAX_ITEMS))


def _features(path: Path) -> list[list[float]]:
    from analyses.job.ratings import numbers_of  # with numerics

    try:
        return [numbers_of(line, number) for number, line in enumerate(_lines(path), start=1)]
    except ValueError as error:
        raise JobError(f"features: {path.name}: {error}") from None


def _start(path: Path) -> dict[str, Any]:
    from analyses.matrix_factorization.jobs.earlier import start_of  # with numerics

    try:
        tree = json.loads(read_text(path))
        return start_of(tree.get("result") or tree)
    except (AttributeError, KeyError, RecursionError, json.JSONDecodeError):
        raise JobError(f"start: {path.name} holds no result of a job and no answer of devices") from None
    except ValueError as error:
        raise JobError(str(error)) from None


_READERS: Mapping[str, Callable[[Path], Any]] = {"items": _lines, "features": _features, "start": _start}
