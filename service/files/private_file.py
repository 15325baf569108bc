"""Files that only their owner may read, and that are there completely or not at all."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_private(path: Path, parts: Iterable[bytes]) -> Path:
    """Write a file of mode 0600, in a folder that is made with mode 0700 where it is missing; return its path.

    Whoever looks for it meanwhile finds what was there before, or nothing.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        Path(unfinished).replace(path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    return path
