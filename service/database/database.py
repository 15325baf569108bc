"""What a store sees of its database: its tables, statements, and transactions. One SQL text serves every engine.

Statements are PostgreSQL's where the engines differ, with `%s` for each value; an engine translates them at one place.
Both know RETURNING, ON CONFLICT, and TRUE. In a schema LONGTEXT is the type of a `LongText`, what stands in comments is
for SQLite alone (STRICT, WITHOUT ROWID), and `Tables.only_sqlite` and `Tables.only_postgres` hold more statements.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from service.errors import ServiceError

T = TypeVar("T")

Run = Callable[..., Any]
"""Runs a statement with its values within a transaction; returns a cursor, with `fetchone` and `rowcount`."""


class LongText(str):
    """A text of megabytes, or of any characters. PostgreSQL stores its bytes, so that a piece is read without the rest.

    Within other texts PostgreSQL stores no NUL: it becomes the replacement character.
    """

    __slots__ = ()


@dataclass(frozen=True)
class Tables:
    """The tables of one store, in any database.

    Attributes:
        what: name of the store, for error texts.
        failure: raised, with a text, where the database cannot be opened; elsewhere too without the next two.
        schema: CREATE TABLE statements of the newest version, separated by a semicolon and a line break.
        version: version of the schema. A file of a later version is refused.
        upgrades: earlier version to the statements that make it the next one. PostgreSQL runs all of them at each
            opening, so they only add columns.
        prefix: prefix of all tables' names, in databases that hold other tables too; files leave it out.
        only_sqlite, only_postgres: statements that follow the schema.
        write_failure, read_failure: raised, with the cause, where a write or a read fails.
    """

    what: str
    failure: Callable[[str], ServiceError]
    schema: str
    version: int = 1
    upgrades: Mapping[int, str] = field(default_factory=dict)
    prefix: str = ""
    only_sqlite: str = ""
    only_postgres: str = ""
    write_failure: Callable[[object], ServiceError] | None = None
    read_failure: Callable[[object], ServiceError] | None = None


class Database(Protocol):
    """The database of one store. May be called from several threads, of which one works at a time.

    Raises:
        ServiceError: the failures of its `Tables`. What was to be written is not, as far as anybody knows.
    """

    def read(self, statement: str, *values: object) -> list[Any]:
        """Return the rows of a SELECT."""

    def write(self, work: Callable[[Run], T]) -> T:
        """Do some work in one transaction, which is durable when this returns; an exception takes all of it back.

        The work may be done twice where a connection broke: it must come to the same where the first was committed.
        """

    def transaction(self) -> AbstractContextManager[Run]:
        """Begin a transaction as that of `write`, which is never done twice."""

    def piece(self, table: str, column: str, number: int, start: int, n_bytes: int) -> bytes:
        """Return at most `n_bytes` of a `LongText` in UTF-8, from byte `start`; `number` is the row's primary key."""

    def close(self) -> None:
        """Release the file or the connection."""
