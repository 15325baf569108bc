"""The lease of a coordinator, on a real PostgreSQL: one leads at a time, terms rise, and who loses it hears so."""

import threading
import time

import pytest
from deadlines import GENEROUS_S, wait_until
from leases import HandClock, lease_on, let_it_lapse
from pydantic import SecretStr

from coordinator.leading.database import DatabaseAwayError, DatabaseError, JobDatabase
from coordinator.leading.lease import SupersededError
from service.trust.terms import MOST_AHEAD_S


@pytest.fixture
def held(url):
    """The lease of a coordinator that leads."""
    lease = lease_on(url, "north")
    assert lease.take()
    yield lease
    lease.release()


def test_one_leads_and_the_others_learn_who(held, url):
    other = lease_on(url, "south")
    assert not other.take()
    assert other.leader().holder == "north"
    other.close()


def test_of_many_that_try_at_once_one_leads(url):
    leases = [lease_on(url, f"number {i}") for i in range(8)]
    leases[0].database.prepare("spiffe://local/coordinator/coordinator")
    taken, start = [], threading.Barrier(len(leases))

    def try_it(lease):
        start.wait()
        taken.append(lease.take())

    threads = [threading.Thread(target=try_it, args=(lease,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 7 + [True]
    for lease in leases:
        lease.close()


def test_terms_rise_with_each_takeover_and_after_a_loss_of_the_database_too(held, url):
    import psycopg

    other = lease_on(url, "south")
    let_it_lapse(url)
    assert other.take()
    assert other.term > held.term
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("DROP TABLE coordinator_leader")
    third = lease_on(url, "west")
    assert third.take()
    assert third.term > other.term
    for lease in (other, third):
        lease.close()


def test_what_is_released_is_free_at_once(url):
    one, other = lease_on(url, "north"), lease_on(url, "south")
    assert one.take()
    one.release()
    assert other.take()
    other.release()


def test_who_was_taken_over_takes_nothing_from_the_other_when_it_ends(url):
    one, other = lease_on(url, "north"), lease_on(url, "south")
    one.take()
    let_it_lapse(url)
    other.take()
    one.release()
    assert not lease_on(url, "west").take()
    other.release()


def test_a_lease_that_is_kept_does_not_lapse_and_one_that_was_taken_over_is_lost(url):
    lost, is_lost = [], threading.Event()

    class Lost:
        def append(self, reason):
            lost.append(reason)
            is_lost.set()

    lease = lease_on(url, "north", lost=Lost(), lease_s=1.0)
    assert lease.take()
    first = lease._lapses_at_s
    lease._now_s.now_s = 0.5
    lease.keep()
    wait_until(lambda: lease._lapses_at_s > first)
    assert not lost
    let_it_lapse(url)
    other = lease_on(url, "south")
    while not other.take():  # the lease may have been renewed in between
        let_it_lapse(url)
    assert is_lost.wait(GENEROUS_S)
    assert lost == ["another coordinator has taken over"]
    for one in (lease, other):
        one.release()


def test_who_could_not_renew_for_the_length_of_the_lease_stops_though_nobody_took_over(url):
    clock, lost = HandClock(), []
    lease = lease_on(url, "north", lost=lost, lease_s=10.0, clock=clock)
    lease.take()
    lease.check()
    clock.now_s = 9.9
    lease.check()
    clock.now_s = 10.0
    with pytest.raises(SupersededError):
        lease.check()
    assert lost == ["the lease was not renewed for 10 s"]
    with pytest.raises(SupersededError):
        lease.check()
    assert len(lost) == 1  # said once
    lease.release()


def test_a_lease_that_lapses_while_the_database_hangs_is_lost(url):
    """The thread that renews may wait for the database for ever; another one watches the clock."""
    clock, is_lost = HandClock(), threading.Event()
    lease = lease_on(url, "north", lease_s=1.0, clock=clock)
    lease._on_lost = lambda reason: is_lost.set()
    lease.take()
    lease._renew_in_time = lambda: None
    lease.keep()
    clock.now_s = 1.0
    assert is_lost.wait(GENEROUS_S)
    lease.release()


def test_the_time_of_a_lease_begins_before_the_database_is_asked(url):
    """An answer that took long must not make it longer than the database believes."""
    clock = HandClock()
    lease = lease_on(url, "north", lease_s=10.0, clock=clock)
    row = lease._row

    def slowly(*statement):
        clock.now_s += 3.0
        return row(*statement)

    lease._row = slowly
    lease.take()
    clock.now_s = 9.9
    lease.check()
    clock.now_s = 10.0
    with pytest.raises(SupersededError):
        lease.check()
    lease.release()


def test_a_database_of_another_coordinator_is_refused(held, url):
    stranger = lease_on(url, "east", coordinator="spiffe://local/coordinator/stranger")
    words = "holds the jobs of spiffe://local/coordinator/coordinator, and this is spiffe://local/coordinator/stranger"
    with pytest.raises(DatabaseError, match=words):
        stranger.take()


def test_a_database_of_another_version_is_refused(held, url):
    import psycopg

    with psycopg.connect(url, autocommit=True) as database:
        database.execute("UPDATE coordinator_leader SET version = 2")
    with pytest.raises(DatabaseError, match="has version 2; this program uses version 1"):
        lease_on(url, "south").take()


SECRET = "hunter2-secret"


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (
            lambda url: url.replace("/postgres", "/absent"),
            DatabaseError,
            "it, or the user, does not exist on the server",
        ),
        (lambda url: "postgresql://moiety:x@127.0.0.1:1/postgres", DatabaseAwayError, "it does not answer"),
        (lambda url: url.partition("?")[0] + "?nonsense=1", DatabaseError, "its URL is not one"),
    ],
    ids=["no database", "no server", "no URL"],
)
def test_why_a_database_cannot_be_used_is_told_without_its_password(url, change, kind, words):
    database = JobDatabase(SecretStr(change(url.replace("moiety@", f"moiety:{SECRET}@"))))
    with pytest.raises(kind, match=words) as raised:
        database.prepare("spiffe://local/coordinator/coordinator")
    assert SECRET not in str(raised.value) + repr(database)
    assert raised.value.__suppress_context__


def test_the_password_comes_from_a_file_or_the_environment(tmp_path, monkeypatch, cluster):
    import psycopg

    with psycopg.connect(cluster, autocommit=True) as database:
        database.execute(f"CREATE ROLE keeper LOGIN PASSWORD '{SECRET}'")
    url = cluster.replace("moiety@", "keeper@")
    (tmp_path / "password").write_text(SECRET + "\n")
    monkeypatch.setenv("JOBS_PASSWORD", SECRET)
    for place in ({"password_file": tmp_path / "password"}, {"password_variable": "JOBS_PASSWORD"}):
        JobDatabase(SecretStr(url), **place).connect().close()
    monkeypatch.setenv("JOBS_PASSWORD", "another")
    with pytest.raises(DatabaseError, match="it refuses the user or the password"):
        JobDatabase(SecretStr(url), password_variable="JOBS_PASSWORD").connect()
    for place in ({"password_file": tmp_path / "absent"}, {"password_variable": "ABSENT_PASSWORD"}):
        with pytest.raises(DatabaseError, match="of the password of the jobs' database is"):
            JobDatabase(SecretStr(url), **place).connect()


def set_clock_wrong(url, column, value):
    """Write what a leader wrote while the clock of the database was far ahead."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as database:
        database.execute(f"UPDATE coordinator_leader SET {column} = %s", (value,))


def test_after_the_clock_was_far_ahead_terms_are_those_of_the_present_again(held, url):
    set_clock_wrong(url, "term", 4_102_444_800_001)
    let_it_lapse(url)
    other = lease_on(url, "south")
    assert other.take()
    assert other.term < 2_500_000_000_000
    let_it_lapse(url)
    third = lease_on(url, "west")
    assert third.take()
    assert third.term > other.term
    for lease in (other, third):
        lease.close()


def test_a_term_a_little_ahead_is_passed_and_not_taken_back(held, url):
    ahead = int(1000 * (time.time() + MOST_AHEAD_S / 2))
    set_clock_wrong(url, "term", ahead)
    let_it_lapse(url)
    other = lease_on(url, "south")
    assert other.take()
    assert other.term == ahead + 1
    other.close()


def test_a_lease_that_was_taken_while_the_clock_was_far_ahead_lapses(held, url):
    set_clock_wrong(url, "lapses_at", "2100-01-01")
    other = lease_on(url, "south")
    assert other.take()
    assert not lease_on(url, "west").take()
    other.release()
