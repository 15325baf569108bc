"""A throw-away PostgreSQL cluster of a test; skips the test aloud where there is none to start."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from demo import throwaway_postgres
from demo.throwaway_postgres import NoPostgresError


@contextmanager
def throwaway_cluster(rules: str = "") -> Iterator[str]:
    """As `demo.throwaway_postgres.throwaway_cluster`."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(throwaway_postgres.throwaway_cluster(rules))
        except NoPostgresError as error:
            pytest.skip(f"SKIPPED LEDGER IN POSTGRESQL: {error}")
        yield url
