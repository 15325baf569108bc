"""The store of jobs in PostgreSQL, on a real server: the promises of a lease."""

import pytest
from job_store_contract import Clock, a_job, job_in
from leases import lease_on, let_it_lapse
from pydantic import SecretStr
from stores import LeadingDatabase

from coordinator.leading.database import JobDatabase
from coordinator.leading.lease import SupersededError
from coordinator.sql_store import TABLES, SqlJobStore
from coordinator.state import IllegalStepError, State
from coordinator.store import Note, StoreReadError, StoreWriteError


def store_at(url, holder="one"):
    return SqlJobStore(LeadingDatabase(url, TABLES, holder), clock=Clock())


@pytest.fixture
def store(url):
    store = store_at(url)
    yield store
    store.close()


def executed(url, statement, *values):
    import psycopg

    with psycopg.connect(url, autocommit=True) as database:
        answer = database.execute(statement, values)
        return answer.fetchall() if answer.description else []


def everything(url):
    return [
        executed(url, f"SELECT * FROM {table} ORDER BY 1, 2") for table in ("coordinator_jobs", "coordinator_events")
    ]


def break_connections(url):
    executed(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


@pytest.mark.parametrize(
    "write",
    [
        lambda store, job_id: store.advance(job_id, State.OPENING),
        lambda store, job_id: store.advance(job_id, State.FAILED, reason="no"),
        lambda store, job_id: store.record_progress([Note(job_id, 0.0, "multiply", "west")]),
        lambda store, job_id: store.submit("ada", "another key", a_job()),
    ],
    ids=["step", "end", "progress", "submission"],
)
def test_who_was_taken_over_writes_nothing_more(store, url, write):
    job_id = job_in(store, State.RUNNING, a_job())
    let_it_lapse(url)
    other = store_at(url, "two")
    before = everything(url)
    with pytest.raises(SupersededError):
        write(store, job_id)
    assert store._db.lost == ["another coordinator has taken over"]
    assert everything(url) == before
    write(other, job_id)
    assert everything(url) != before
    other.close()


def test_who_was_taken_over_stores_no_result_though_its_transaction_had_begun(store, url):
    """The leader holds its term's row until it commits: a takeover comes before the transaction or after it."""
    job_id = job_in(store, State.OPENING, a_job())
    let_it_lapse(url)
    other = lease_on(url, "two")
    other.take()
    with pytest.raises(SupersededError):
        store.advance(job_id, State.DONE, result_json="{}")
    assert store.record(job_id).state is State.OPENING
    other.release()


def test_a_takeover_waits_for_a_transaction_of_the_leader(store, url):
    import psycopg

    let_it_lapse(url)
    with store._db.connection.transaction(), store._db.connection.cursor() as cursor:
        store._db.lease.fence(cursor)
        with psycopg.connect(url, autocommit=True) as impatient, pytest.raises(psycopg.errors.LockNotAvailable):
            impatient.execute("SELECT * FROM coordinator_leader FOR UPDATE NOWAIT")


def test_a_leader_stopped_amid_a_transaction_keeps_nobody_from_leading(url):
    """The server ends a transaction in which nothing happens for the length of the lease, and with it the lock."""
    lease = lease_on(url)
    lease.take()
    connection = lease.database.connect()
    (patience,) = connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()
    assert patience == f"{lease.database.patience_s:g}s"
    connection.close()
    lease.release()


def test_a_connection_that_broke_is_made_anew_and_nobody_notices(store, url):
    job_id = job_in(store, State.RUNNING, a_job())
    break_connections(url)
    store.advance(job_id, State.OPENING)
    break_connections(url)
    assert store.record(job_id).state is State.OPENING
    assert [event.state for event in store.events(job_id)].count(State.OPENING) == 1


class CommitLost:
    """A connection whose next commit reaches the database, and whose acknowledgement does not come back."""

    def __init__(self, connection, url):
        self._connection, self._url = connection, url

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def transaction(self):
        return self

    def __enter__(self):
        self._transaction = self._connection.transaction()
        return self._transaction.__enter__()

    def __exit__(self, *error):
        self._transaction.__exit__(*error)
        if error[0] is None:
            break_connections(self._url)
            self._connection.execute("SELECT 1")


def test_a_step_whose_commit_was_not_acknowledged_is_taken_once(store, url):
    job_id = job_in(store, State.OPENING, a_job())
    store._db.connection = CommitLost(store._db.connection, url)
    store.advance(job_id, State.DONE, result_json='{"r":1}')
    assert dict(store.texts(job_id))["result_json"] == '{"r":1}'
    assert [event.state for event in store.events(job_id)].count(State.DONE) == 1
    with pytest.raises(IllegalStepError):
        store.advance(job_id, State.DONE, result_json='{"r":2}')


def test_a_submission_whose_commit_was_not_acknowledged_is_new_once(store, url):
    store._db.connection = CommitLost(store._db.connection, url)
    job_id, is_new = store.submit("ada", "key", a_job())
    assert is_new
    assert store.submit("ada", "key", a_job()) == (job_id, False)


def test_a_database_that_is_away_is_an_error_that_says_so_and_quotes_nothing(store, url):
    secret = "hunter2-secret"
    job_id = job_in(store, State.RUNNING, a_job())
    store._db.lease.database = JobDatabase(SecretStr(f"postgresql://moiety:{secret}@127.0.0.1:1/postgres"))
    break_connections(url)
    for work, kind in (
        (lambda: store.advance(job_id, State.OPENING), StoreWriteError),
        (lambda: store.record(job_id), StoreReadError),
    ):
        with pytest.raises(kind, match="the jobs' database cannot be used now: it does not answer") as raised:
            work()
        assert secret not in str(raised.value)
        assert raised.value.__suppress_context__


def test_characters_that_postgresql_does_not_keep_do_no_harm(store):
    job_id, _ = store.submit("ada", "a\0key", a_job())
    assert store.submit("ada", "a\0key", a_job()) == (job_id, False)
    store.advance(job_id, State.FAILED, reason="what\0 happened")
    assert store.record(job_id).reason == "what� happened"


def test_a_piece_of_a_long_text_is_read_without_the_rest_of_it(store, url):
    """Only what is stored neither compressed nor as text is cut by the database before it is read."""
    rows = executed(
        url,
        "SELECT attname, attstorage::text, atttypid::regtype::text FROM pg_attribute"
        " WHERE attrelid = 'coordinator_jobs'::regclass AND attname LIKE '%%json'",
    )
    assert {(storage, kind) for _, storage, kind in rows} == {("e", "bytea")}
    assert len(rows) == 3
