"""The PostgreSQL database that several coordinators share: how one connects to it, who leads, and its errors in words.

A URL may hold a password, and texts of the database and of its driver quote what they were given. So no text of an
error repeats either: each has words of our own.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from service.errors import RemoteFailureError, ServiceError

VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS coordinator_leader (
    is_only BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (is_only),
    version INTEGER NOT NULL,
    coordinator TEXT NOT NULL,
    term BIGINT NOT NULL DEFAULT 0,
    holder TEXT NOT NULL DEFAULT '',
    lapses_at TIMESTAMPTZ NOT NULL DEFAULT '-infinity'
);
"""

LEADER = "SELECT holder, lapses_at >= clock_timestamp(), term FROM coordinator_leader"
"""Returns the fields of a `Leader`."""

_SCHEMA_LOCK = 0x6D6F696574796A  # any number that others do not use: two processes may start at once

_REASONS = {
    "28P01": "it refuses the user or the password",
    "28000": "it refuses the user or the password",
    "3D000": "it, or the user, does not exist on the server",
    "42501": "it does not let this user do so",
    "3F000": "the URL names no schema of it",
    "25006": "it can only be read: is its server a replica?",
    "53100": "its disk is full",
    "53300": "its server has too many connections",
    "55P03": "another process keeps its tables locked",
    "57014": "it took too long",
}
"""SQLSTATE to what the coordinator says."""

_WORDS = {"authentication failed": "28P01", "no pg_hba.conf entry": "28000", "does not exist": "3D000"}
"""What the server says where it refuses to connect, to the SQLSTATE that it means."""

_COMING_AND_GOING = ("08", "57P")
"""How the SQLSTATEs begin of a server that starts, stops, or whose connection broke."""

AWAY = "it does not answer, or went away"


class DatabaseError(ServiceError):
    """The database of the coordinators cannot be used as it is configured, or holds something else."""

    code = "job-database-unusable"


class DatabaseAwayError(RemoteFailureError):
    """The database does not answer now; it may again."""

    code = "job-database-away"


@dataclass(frozen=True)
class Leader:
    """Who leads, or led last.

    Attributes:
        holder: its instance; empty where nobody ever led.
        leads: whether its lease has not lapsed.
        term: number of the term.
    """

    holder: str
    leads: bool
    term: int


@dataclass(frozen=True)
class JobDatabase:
    """Where the database is.

    Attributes:
        url: `postgresql://user@host:port/database`. `?options=-csearch_path%3Dnorth` chooses a schema.
        password_file: a file whose first line is the password; None where the URL or libpq's own ways give it.
        password_variable: an environment variable that holds the password, likewise.
        patience_s: seconds that a statement, a lock, an unfinished transaction or an unacknowledged connection may
            take.
    """

    url: SecretStr
    password_file: Path | None = None
    password_variable: str | None = None
    patience_s: float = 15.0

    def connect(self) -> Any:
        """Return a connection of psycopg in which each statement is a transaction of its own.

        Raises:
            DatabaseError: psycopg is not installed, or the database refuses us.
            DatabaseAwayError: it does not answer.
        """
        psycopg, password = driver(), self._password()
        patience_ms = int(1000 * self.patience_s)
        try:
            connection = psycopg.connect(
                self.url.get_secret_value(),
                autocommit=True,
                connect_timeout=max(2, int(self.patience_s)),  # libpq takes 1 for 2
                tcp_user_timeout=patience_ms,
                **password,
            )
            # A coordinator that is stopped amid a transaction must not keep the others from leading for ever.
            connection.execute(
                f"SET synchronous_commit = on; SET statement_timeout = {patience_ms}; SET lock_timeout = {patience_ms};"
                f" SET idle_in_transaction_session_timeout = {patience_ms}"
            )
        except psycopg.Error as error:
            raise error_of(error) from None
        return connection

    def prepare(self, coordinator: str) -> None:
        """Make the table of who leads where it is absent, for one coordinator.

        Args:
            coordinator: URI of its identity. Another one's database is refused.

        Raises:
            DatabaseError: the database is another coordinator's, or of another version.
            DatabaseAwayError: it does not answer.
        """
        connection = self.connect()
        try:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                connection.execute(_SCHEMA)
                connection.execute(
                    "INSERT INTO coordinator_leader (version, coordinator) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                    (VERSION, coordinator),
                )
                check_owner(connection, coordinator)
        except driver().Error as error:
            raise error_of(error) from None
        finally:
            connection.close()

    def leader(self, coordinator: str) -> "Leader | None":
        """Return who leads, or led last; None where the tables are not there yet. Nothing is changed.

        Args:
            coordinator: URI of the identity whose database it must be.

        Raises:
            DatabaseError: the database is another coordinator's, or of another version, or refuses us.
            DatabaseAwayError: it does not answer.
        """
        connection = self.connect()
        try:
            (there,) = connection.execute("SELECT to_regclass('coordinator_leader') IS NOT NULL").fetchone()
            if not there:
                return None
            check_owner(connection, coordinator)
            return Leader(*connection.execute(LEADER).fetchone())
        except driver().Error as error:
            raise error_of(error) from None
        finally:
            connection.close()

    def _password(self) -> dict[str, str]:
        if self.password_variable is not None:
            if self.password_variable not in os.environ:
                raise DatabaseError("the environment variable of the password of the jobs' database is not set")
            return {"password": os.environ[self.password_variable]}
        if self.password_file is not None:
            try:
                return {"password": self.password_file.read_text().partition("\n")[0]}
            except (OSError, UnicodeDecodeError):
                raise DatabaseError(
                    f"the file {self.password_file} of the password of the jobs' database is missing or unreadable"
                ) from None
        return {}


def check_owner(connection: Any, coordinator: str) -> None:
    """Refuse tables that are not those of a coordinator, or of another version.

    Raises:
        DatabaseError: says whose they are.
    """
    version, owner = connection.execute("SELECT version, coordinator FROM coordinator_leader").fetchone()
    if version != VERSION:
        raise DatabaseError(f"the jobs' database has version {version}; this program uses version {VERSION}")
    if owner != coordinator:
        raise DatabaseError(f"the jobs' database holds the jobs of {owner}, and this is {coordinator}")


def driver() -> Any:
    """Return the module psycopg.

    Raises:
        DatabaseError: it is not installed.
    """
    try:
        import psycopg
    except ImportError:
        raise DatabaseError("a store of jobs in PostgreSQL needs psycopg: pip install 'moiety[postgres]'") from None
    return psycopg


def error_of(error: Any) -> DatabaseError | DatabaseAwayError:
    """Return what psycopg reports as an error of ours, whose text quotes nothing of it."""
    state = error.sqlstate
    if state is None:  # libpq gives none while it connects
        state = next((one for words, one in _WORDS.items() if words in str(error)), None)
    if state is None and isinstance(error, driver().ProgrammingError):
        return DatabaseError("the jobs' database cannot be used: its URL is not one")
    if state is None or state.startswith(_COMING_AND_GOING):
        return DatabaseAwayError(f"the jobs' database cannot be used now: {AWAY}")
    return DatabaseError(f"the jobs' database cannot be used: {_REASONS.get(state, f'it refuses ({state})')}")
