"""A throw-away PostgreSQL cluster of the tests; skips a test aloud where there is none to start."""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

import pytest
from own_processes import kept_until_the_run_ends

from demo import throwaway_postgres
from demo.throwaway_postgres import NoPostgresError


@contextmanager
def throwaway_cluster(rules: str = "", *, kept: bool = False) -> Iterator[str]:
    """As `demo.throwaway_postgres.throwaway_cluster`; one that is kept serves several files of tests."""
    with ExitStack() as stack:
        try:
            with kept_until_the_run_ends() if kept else nullcontext():
                url = stack.enter_context(throwaway_postgres.throwaway_cluster(rules))
        except NoPostgresError as error:
            pytest.skip(f"SKIPPED LEDGER IN POSTGRESQL: {error}")
        yield url


def schema_of_its_own(cluster: str, name: str) -> str:
    """Return the URL of an empty schema of a database, the same one whenever the name is the same."""
    import psycopg

    schema = f"s{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    with psycopg.connect(cluster, autocommit=True) as database:
        database.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    return f"{cluster}?options=-csearch_path%3D{schema}"
