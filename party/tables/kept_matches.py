"""What an owner keeps of matches for later jobs: of each, which of its rows all owners have, in `data_dir/matches`.

One file for each match, named after the job that made it. Its first line is JSON that says what the match is of; the
numbers of the rows follow, four bytes each, in the order that is common to all owners. Only the owner may read it: it
tells who of its table is in the others' tables, as the job that made it told the owner.
"""

import hashlib
import json
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analyses.job.matching import Recipe
from service.files.private_file import write_private
from service.job_id import is_job_id

_ENDING = ".match"
_NUMBER = np.dtype("<u4")
MAX_HEAD_BYTES = 1 << 16


class NoMatchError(Exception):
    """No such match is kept here."""

    code: str = "party-has-no-match"


class UnreadableMatchError(Exception):
    """The file of a kept match is damaged; the text is for its owner."""

    code: str = "match-damaged"


class KeptMatch(BaseModel):
    """What a kept match is of. Private; never shown by repr.

    Attributes:
        match: its id, that of the job that made it.
        kept_at_s: Unix time.
        inputs: party to its table, of all owners.
        table: table of this owner.
        recipe: recipe with which all owners identified their rows.
        version: version of the table's source when it was read, as JSON; None where the source has none.
        ids_digest: SHA-256 of the ids of all rows of the table, in its order, in hexadecimal digits.
        origin: see `analyses.job.schema.OwnMatch`, in hexadecimal digits.
        n_rows: how many rows matched.
        rows_digest: SHA-256 of what follows the head, in hexadecimal digits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    match: str
    kept_at_s: float
    inputs: dict[str, str]
    table: str
    recipe: tuple[Recipe, ...]
    version: str | None = Field(repr=False)
    ids_digest: str = Field(repr=False)
    origin: str = Field(repr=False)
    n_rows: int = Field(repr=False)
    rows_digest: str = Field(repr=False)


class KeptMatches:
    """The matches that a party keeps.

    Args:
        data_dir: the party's own folder.
    """

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "matches"

    def ids(self) -> list[str]:
        """Return the ids of all, sorted."""
        return sorted(path.stem for path in self._folder.glob(f"*{_ENDING}"))

    def find(self, match: str) -> KeptMatch:
        """Return what a kept match is of.

        Raises:
            NoMatchError: there is none.
            UnreadableMatchError: its file is damaged.
        """
        try:
            with self._path(match).open("rb") as file:
                head = KeptMatch.model_validate_json(file.readline(MAX_HEAD_BYTES))
        except FileNotFoundError:
            raise _none(match) from None
        except (OSError, ValidationError):
            raise _damaged(match) from None
        if head.match != match:
            raise _damaged(match)
        return head

    def rows(self, match: str) -> NDArray[np.int64]:
        """Return the numbers of the owner's rows that matched, in their common order; raises as `find`."""
        head = self.find(match)
        try:
            body = self._path(match).read_bytes().partition(b"\n")[2]
        except OSError:
            raise _none(match) from None
        if hashlib.sha256(body).hexdigest() != head.rows_digest or len(body) != head.n_rows * _NUMBER.itemsize:
            raise _damaged(match)
        return np.frombuffer(body, dtype=_NUMBER).astype(np.int64)

    def keep(
        self,
        match: str,
        rows: NDArray[np.int64],
        *,
        inputs: dict[str, str],
        table: str,
        recipe: tuple[Recipe, ...],
        version: str | None,
        ids_digest: str,
        origin: bytes,
    ) -> None:
        """Keep a match; arguments as the attributes of `KeptMatch`.

        Raises:
            OSError: it cannot be written.
        """
        body = rows.astype(_NUMBER).tobytes()
        head = KeptMatch(
            match=match,
            kept_at_s=time.time(),
            inputs=inputs,
            table=table,
            recipe=recipe,
            version=version,
            ids_digest=ids_digest,
            origin=origin.hex(),
            n_rows=len(rows),
            rows_digest=hashlib.sha256(body).hexdigest(),
        )
        write_private(self._path(match), [json.dumps(head.model_dump(mode="json")).encode() + b"\n", body])

    def delete(self, match: str) -> None:
        """Delete a match, readable or not; jobs that name it are refused from then on.

        Raises:
            NoMatchError: there is none.
        """
        try:
            self._path(match).unlink()
        except FileNotFoundError:
            raise _none(match) from None

    def _path(self, match: str) -> Path:
        if not is_job_id(match):
            raise _none(match)
        return self._folder / f"{match}{_ENDING}"


def _none(match: str) -> NoMatchError:
    return NoMatchError(f"there is no kept match {match}")


def _damaged(match: str) -> UnreadableMatchError:
    return UnreadableMatchError(f"the file of kept match {match} is damaged; delete it")
