import json
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import earlier_ledgers as earlier
import pytest
from child_processes import PROCESSES, child_environ, child_process, end_of
from ledger_children import spend_all
from ledgers import budget, cost_of, event, ledger_in, reserve

from dp.cost.accounting import Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from ledger.books import BudgetExhaustedError, ChargeError, JobState
from ledger.counter import Head, LedgerCounter
from ledger.entry import LedgerDamagedError, LedgerError, genesis, write_entry
from ledger.ledger import Ledger, open_ledger
from ledger.sql_store import LedgerFile, SqlEntryStore
from ledger.standing import lines_of


@pytest.fixture
def ledger(tmp_path):
    ledger = ledger_in(tmp_path)
    ledger.set_budget("visits", budget(1.0), "first")
    yield ledger
    ledger.close()


def edit(folder: Path, *statements: str) -> None:
    """Change the file as somebody would who knows how to get round the triggers."""
    database = sqlite3.connect(folder / "ledger.sqlite")
    for trigger in ("entries_stay", "entries_last"):
        database.execute(f"DROP TRIGGER {trigger}")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def test_a_job_is_reserved_committed_and_charged(ledger):
    reserve(ledger, "job-1")
    assert ledger.charge("job-1").state is JobState.RESERVED
    ledger.commit("job-1")
    balance = ledger.balance("visits")
    assert balance.spent == balance.held == pytest.approx(composed_epsilon(event(), 1e-6).epsilon)
    assert [entry.kind for entry in ledger.history()] == ["budget", "reserved", "committed"]


def test_an_exact_result_is_written_down_once_and_no_epsilon_counts_it(ledger, tmp_path):
    told = {"dataset": "visits", "analyst": "ada", "analysis": "secure-sum", "consent": "owner"}
    ledger.record_exact("job-1", **told)
    assert (ledger.balance("visits").spent, ledger.balance("visits").n_exact) == (0.0, 1)
    with pytest.raises(ChargeError, match="used only once"):
        ledger.record_exact("job-1", **told)
    with pytest.raises(ChargeError, match="used only once"):
        reserve(ledger, "job-1")
    with pytest.raises(ChargeError, match="used only once"):
        ledger.check_unused("job-1")
    reserve(ledger, "job-2")
    with pytest.raises(ChargeError, match="used only once"):
        ledger.record_exact("job-2", **told)
    ledger.close()
    again = ledger_in(tmp_path)
    assert [entry.kind for entry in again.history()] == ["budget", "exact", "reserved"]
    assert again.balance("visits").n_exact == 1
    again.verify()
    again.close()


def test_everything_is_there_after_it_was_closed_and_opened_again(ledger, tmp_path):
    reserve(ledger, "job-1")
    ledger.commit("job-1")
    reserve(ledger, "job-2")
    before = [balance.as_dict() for balance in ledger.balances()]
    ledger.close()
    assert [balance.as_dict() for balance in ledger_in(tmp_path).balances()] == before


def test_reserving_and_committing_again_changes_nothing(ledger):
    for _ in range(2):
        reserve(ledger, "job-1")
    for _ in range(2):
        ledger.commit("job-1")
    assert len(ledger.history()) == 3


def test_a_job_id_is_charged_once_whatever_became_of_it(ledger):
    reserve(ledger, "job-1")
    with pytest.raises(ChargeError, match="was charged before and is reserved; a job id may be used only once"):
        reserve(ledger, "job-1", 0.02)
    ledger.commit("job-1")
    with pytest.raises(ChargeError, match="is committed"):
        reserve(ledger, "job-1")
    reserve(ledger, "job-2", 0.001)
    assert ledger.release("job-2", "failed")
    with pytest.raises(ChargeError, match="is released"):
        reserve(ledger, "job-2", 0.001)


def test_a_committed_job_is_never_released(ledger):
    reserve(ledger, "job-1")
    ledger.commit("job-1")
    assert not ledger.release("job-1", "it failed after the opening")
    assert ledger.balance("visits").spent > 0


def test_nothing_is_committed_without_a_reservation(ledger):
    with pytest.raises(ChargeError, match="nothing may be opened"):
        ledger.commit("job-1")
    reserve(ledger, "job-1")
    assert ledger.release("job-1", "cancelled")
    assert ledger.release("job-1", "again")
    with pytest.raises(ChargeError, match="nothing may be opened"):
        ledger.commit("job-1")


def test_the_budget_is_spent_to_its_end_and_not_beyond(ledger):
    granted = 0
    while composed_epsilon([event(0.004)] * (granted + 1), 1e-6).epsilon <= 1.0:
        reserve(ledger, f"job-{granted}", 0.004)
        ledger.commit(f"job-{granted}")
        granted += 1
    with pytest.raises(BudgetExhaustedError):
        reserve(ledger, "one-more", 0.004)
    assert 5 < granted < 50
    assert ledger.balance("visits").spent <= 1.0
    reserve(ledger, "smaller", 1e-6)


def test_another_period_needs_a_reason_and_a_unit_stays_within_a_period(ledger):
    with pytest.raises(ChargeError, match="reason"):
        ledger.set_budget("visits", budget(period="2027"), " ")
    with pytest.raises(ChargeError, match="begin another period"):
        ledger.set_budget("visits", budget(unit="rating"), "finer")
    ledger.set_budget("visits", budget(period="2027", unit="rating"), "finer")
    assert ledger.history()[-1].what.reason == "finer"


@pytest.mark.parametrize(
    ("changed", "is_committed"),
    [
        (budget(1.0), True),
        (budget(0.5), False),
        (budget(0.1, period="2027"), True),
        (budget(0.1, period="2027", unit="rating"), True),
    ],
    ids=["as before", "smaller", "another period", "another unit"],
)
def test_no_period_spends_more_than_its_owner_has_set_while_jobs_are_running(ledger, tmp_path, changed, is_committed):
    reserve(ledger, "job-1", 0.04)
    ledger.set_budget("visits", changed, "while the job runs")
    if is_committed:
        ledger.commit("job-1")
    else:
        with pytest.raises(BudgetExhaustedError):
            ledger.commit("job-1")
        assert ledger.release("job-1", "failed")
    balance = ledger.balance("visits")
    assert balance.spent <= changed.epsilon
    ledger.close()
    again = ledger_in(tmp_path)
    assert again.balance("visits").as_dict() == balance.as_dict()
    if changed.period != "2026":
        again.set_budget("visits", budget(1.0), "the old period goes on")
        assert 0.5 < again.balance("visits").spent <= 1.0
    again.verify()
    again.close()


def test_what_was_spent_in_all_periods_of_a_unit_is_told_together(ledger):
    for number, period in enumerate(("2026", "2027", "2028"), start=1):
        ledger.set_budget("visits", budget(1.0, period=period), "new year")
        reserve(ledger, f"job-{number}", 0.01)
        ledger.commit(f"job-{number}")
    shown = ledger.balance("visits").as_dict()
    together = composed_epsilon([event(0.01)] * 3, 1e-6).epsilon
    assert shown["all_periods_epsilon"] == pytest.approx(together, rel=1e-9)
    assert shown["all_periods_epsilon"] > shown["spent_epsilon"]
    assert shown["periods"] == 3
    assert any("over all 3 periods together" in line for line in lines_of(shown))
    ledger.set_budget("visits", budget(1.0, period="2029", unit="rating"), "another unit")
    other = ledger.balance("visits").as_dict()
    assert (other["all_periods_epsilon"], other["periods"]) == (0.0, 0)


def test_a_ledger_begins_once_with_all_its_first_budgets(tmp_path):
    ledger = ledger_in(tmp_path)
    assert ledger.is_new
    assert ledger.begin({"visits": budget(1.0), "stays": budget(2.0)})
    assert not ledger.is_new
    assert not ledger.begin({"visits": budget(9.0)})
    assert [one.budget.epsilon for one in ledger.balances()] == [2.0, 1.0]
    ledger.close()


def test_a_ledger_that_only_recorded_an_exact_result_is_not_new(tmp_path):
    ledger = ledger_in(tmp_path)
    ledger.record_exact("job-1", dataset="visits", analyst="ada", analysis="secure-sum", consent="owner")
    assert not ledger.is_new
    assert not ledger.begin({"visits": budget(1.0)})
    ledger.close()


OLD = (
    earlier.budget_set(budget(10.0)),
    earlier.reserved("job-1", event(0.05), event(0.05)),
    earlier.budget_set(budget(0.1, period="2027", unit="rating"), reason="new year"),
    earlier.committed("job-1"),
    earlier.budget_set(budget(0.5, unit="rating"), reason="a unit that changed within a period"),
)


def test_a_ledger_that_an_earlier_version_wrote_is_whole_and_grants_nothing_more(tmp_path):
    """Earlier versions checked nothing at the commit, and let a period come back with another unit."""
    head = earlier.write_ledger(tmp_path, *OLD)
    ledger = ledger_in(tmp_path)
    assert ledger.verify() == head
    assert ledger.balance("visits").spent > 1
    with pytest.raises(BudgetExhaustedError):
        reserve(ledger, "job-2", 1e-6, unit="rating")


def test_jobs_of_version_1_count_in_the_same_sum_and_are_told_apart(tmp_path):
    earlier.write_ledger(tmp_path, earlier.budget_set(budget(1.0)), earlier.reserved("job-1", event(0.01)), COMMIT)
    ledger = ledger_in(tmp_path)
    reserve(ledger, "job-2", 0.01)
    balance = ledger.balance("visits")
    assert balance.held == pytest.approx(composed_epsilon([event(0.01)] * 2, 1e-6).epsilon, rel=1e-9)
    assert (balance.as_dict()["earlier_jobs"], balance.least_colluding) == (1, 1)
    assert [entry.what.colluding for entry in ledger.history() if entry.kind == "reserved"] == [None, 1]
    ledger.close()
    again = ledger_in(tmp_path)
    assert again.balance("visits").as_dict() == balance.as_dict()
    again.close()


COMMIT = earlier.committed("job-1")


@pytest.mark.parametrize(
    ("analysis", "is_known"), [("least-squares", False), ("low-rank", False), ("clustering", True)]
)
def test_a_period_of_version_1_whose_sketches_may_have_cost_more_is_closed(tmp_path, analysis, is_known):
    """It kept the coalition's view alone, which in sketches may be the better one: see `dp.mechanism.projection`."""
    cost = DiscreteGaussianDpEvent(Fraction(1, 10**6), Adjacency.REPLACE_ONE)
    job = earlier.reserved("job-1", cost, analysis=analysis)
    earlier.write_ledger(tmp_path, earlier.budget_set(budget(1.0)), job, COMMIT)
    ledger = ledger_in(tmp_path)
    shown = ledger.balance("visits").as_dict()
    assert (shown["spent_epsilon"] is not None) == is_known == (shown["remaining_part"] > 0)
    if is_known:
        reserve(ledger, "job-2", 1e-6)
    else:
        with pytest.raises(BudgetExhaustedError):
            reserve(ledger, "job-2", 1e-6)
        ledger.set_budget("visits", budget(1.0, period="2027"), "another period")
        reserve(ledger, "job-2", 1e-6)
    ledger.close()


def test_a_program_of_an_earlier_version_is_told_that_it_cannot_read_what_a_later_one_appends(tmp_path):
    earlier.write_ledger(tmp_path, earlier.budget_set(budget(1.0)))
    ledger_in(tmp_path).close()
    database = sqlite3.connect(tmp_path / "ledger.sqlite")
    assert database.execute("PRAGMA user_version").fetchone() == (2,)
    database.execute("PRAGMA user_version = 3")
    database.close()
    with pytest.raises(LedgerError, match="has version 3; this program reads up to version 2"):
        ledger_in(tmp_path)


def test_a_first_budget_is_set_only_where_there_is_none(ledger):
    assert not ledger.set_first_budget("visits", budget(99.0), "file")
    assert ledger.set_first_budget("stays", budget(2.0), "file")
    assert [b.budget.epsilon for b in ledger.balances()] == [2.0, 1.0]


def test_an_installation_gives_back_its_own_leftovers_and_no_committed_ones(ledger, tmp_path):
    other = ledger_in(tmp_path, holder="installation-2")
    for name in ("kept", "lost"):
        reserve(ledger, name, 0.001)
    ledger.commit("kept")
    reserve(other, "running-elsewhere", 0.001)
    ledger.close()
    again = ledger_in(tmp_path)
    assert again.release_leftovers("stopped") == ["lost"]
    assert again.release_leftovers("stopped") == []
    other.commit("running-elsewhere")
    with pytest.raises(ChargeError, match="nothing may be opened"):
        again.commit("lost")
    assert again.balance("visits").n_committed == 2


def test_a_clock_that_jumps_back_changes_nothing_but_the_times_written_down(tmp_path):
    times = iter([5e9, 4e9, 1.0, -7.0, 0.0])
    store, counter = SqlEntryStore(LedgerFile(tmp_path / "l")), LedgerCounter(tmp_path / "c")
    ledger = Ledger(store, counter, party="north", holder="here", clock=lambda: next(times))
    ledger.set_budget("visits", budget(1.0), "first")
    reserve(ledger, "job-1", 0.05)
    ledger.commit("job-1")
    with pytest.raises(BudgetExhaustedError):
        reserve(ledger, "job-2", 0.05)
    assert [entry.sequence for entry in ledger.history()] == [1, 2, 3]
    ledger.verify()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE entries SET text = replace(text, '\"epsilon\":1.0', '\"epsilon\":9.0')", "edited"),
        ("DELETE FROM entries WHERE sequence = 2", "entry 2 of the ledger is missing"),
        ("DELETE FROM entries WHERE sequence > 1", "truncated or restored .* its counter contains entry 3"),
        ("DELETE FROM entries", "truncated or restored"),
        ("UPDATE entries SET sequence = 9 WHERE sequence = 3", "truncated|missing"),
    ],
)
def test_a_ledger_that_was_edited_or_truncated_is_refused(ledger, tmp_path, damage, words):
    reserve(ledger, "job-1")
    ledger.commit("job-1")
    ledger.close()
    edit(tmp_path, damage)
    with pytest.raises(LedgerDamagedError, match=words):
        ledger_in(tmp_path)


def test_a_chain_that_was_computed_anew_after_an_edit_is_refused_by_the_counter(ledger, tmp_path):
    reserve(ledger, "job-1")
    ledger.commit("job-1")
    rows = ledger.history()
    ledger.close()
    digest, statements = genesis("north"), ["DELETE FROM entries"]
    for entry in rows:
        what = entry.what
        if entry.kind == "budget":
            what = type(what)("visits", budget(100.0), "first")
        forged = write_entry(entry.sequence, entry.at_s, what, digest)
        digest = forged.digest
        statements.append(f"INSERT INTO entries VALUES ({entry.sequence}, '{forged.text}', '{digest}')")
    edit(tmp_path, *statements)
    with pytest.raises(
        LedgerDamagedError, match="the ledger was edited or replaced: its counter contains a different entry 3"
    ):
        ledger_in(tmp_path)


def test_an_old_copy_is_refused_also_while_it_is_in_use_until_the_owner_adopts_it(ledger, tmp_path):
    reserve(ledger, "job-1")
    ledger.close()
    shutil.copy(tmp_path / "ledger.sqlite", tmp_path / "old")
    ledger = ledger_in(tmp_path)
    ledger.commit("job-1")
    ledger.close()
    shutil.copy(tmp_path / "old", tmp_path / "ledger.sqlite")
    for leftover in ("-wal", "-shm"):
        (tmp_path / f"ledger.sqlite{leftover}").unlink(missing_ok=True)
    with pytest.raises(LedgerDamagedError, match="truncated or restored from an old copy"):
        ledger_in(tmp_path)
    adopted = ledger_in(tmp_path, adopt="the disk burnt; the copy is of yesterday")
    assert adopted.history()[-1].what.reason == "the disk burnt; the copy is of yesterday"
    adopted.close()
    ledger_in(tmp_path).verify()


def test_an_edited_ledger_cannot_be_adopted(ledger, tmp_path):
    ledger.close()
    edit(tmp_path, "UPDATE entries SET text = replace(text, '\"epsilon\":1.0', '\"epsilon\":9.0')")
    with pytest.raises(LedgerDamagedError, match="edited"):
        ledger_in(tmp_path, adopt="please")


def test_entries_that_are_lost_under_a_running_process_are_noticed_before_the_next_one(ledger, tmp_path):
    reserve(ledger, "job-1")
    ledger.commit("job-1")
    edit(tmp_path, "DELETE FROM entries WHERE sequence > 1")
    with pytest.raises(LedgerDamagedError, match="this process contains entry 3"):
        reserve(ledger, "job-2")
    with pytest.raises(LedgerDamagedError):
        reserve(ledger, "job-2")


def test_a_ledger_whose_counter_was_removed_is_refused(ledger, tmp_path):
    ledger.close()
    (tmp_path / "ledger.counter").unlink()
    with pytest.raises(LedgerDamagedError, match=r"counter .* is missing"):
        ledger_in(tmp_path)


def test_the_ledger_of_another_party_is_refused(ledger, tmp_path):
    with pytest.raises(LedgerDamagedError):
        ledger_in(tmp_path, party="south")


def test_a_head_that_was_noted_elsewhere_finds_a_replaced_ledger(ledger):
    noted = ledger.verify()
    reserve(ledger, "job-1")
    assert ledger.verify(noted).sequence == 2
    with pytest.raises(LedgerDamagedError, match="the head that was noted"):
        ledger.verify(Head(noted.sequence, "0" * 64))
    with pytest.raises(LedgerDamagedError, match="the head that was noted"):
        ledger.verify(Head(99, noted.digest))


def test_the_database_itself_refuses_to_change_or_delete_an_entry(ledger, tmp_path):
    database = sqlite3.connect(tmp_path / "ledger.sqlite")
    for statement in ("UPDATE entries SET text = ''", "DELETE FROM entries"):
        with pytest.raises(sqlite3.IntegrityError, match="entries are never"):
            database.execute(statement)
    database.close()


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    (tmp_path / "ledger.sqlite").write_text("once upon a time " * 100)
    with pytest.raises(LedgerDamagedError, match="is damaged: file is not a database"):
        ledger_in(tmp_path)


@pytest.fixture
def whole(ledger, tmp_path) -> bytes:
    """The file of a closed ledger of three entries."""
    reserve(ledger, "job-1")
    ledger.commit("job-1")
    ledger.close()
    return (tmp_path / "ledger.sqlite").read_bytes()


@pytest.mark.parametrize("kept", [0, 0.01, 0.5, 0.9999])
def test_a_file_that_was_cut_short_is_damage(whole, tmp_path, kept):
    (tmp_path / "ledger.sqlite").write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(LedgerDamagedError, match=r"damaged|truncated|edited"):
        ledger_in(tmp_path)


@pytest.mark.parametrize("place", [b"SQLite format", b"CREATE TABLE", b"entries_stay", b'"analysis"', b'"committed"'])
@pytest.mark.parametrize("flip", [0x01, 0x80])
def test_a_flipped_byte_is_damage(whole, tmp_path, place, flip):
    damaged = bytearray(whole)
    damaged[whole.index(place) + 3] ^= flip
    (tmp_path / "ledger.sqlite").write_bytes(damaged)
    with pytest.raises(LedgerDamagedError):
        ledger_in(tmp_path)


def test_a_flipped_byte_anywhere_is_an_error_or_in_no_entry(whole, tmp_path):
    """Every 61st byte: much of a small file is empty space."""
    before = ledger_in(tmp_path)
    entries = before.history()
    before.close()
    for place in range(0, len(whole), 61):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        (tmp_path / "ledger.sqlite").write_bytes(damaged)
        try:
            ledger = ledger_in(tmp_path)
        except LedgerError:
            continue
        assert ledger.history() == entries
        ledger.close()


READ_ONLY = """
import os, sys
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
folder = Path(sys.argv[1])
from ledgers import ledger_in
os.chmod(folder, 0o555)
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
try:
    ledger_in(folder)
except Exception as error:
    print(type(error).__name__, error)
"""


def in_process(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=child_environ(), check=True).stdout


def test_a_folder_that_cannot_be_written_is_a_clear_error_and_nothing_is_lost(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for above in tmp_path.parents:
        if above.name.startswith("pytest-"):
            above.chmod(0o755)
    tmp_path.chmod(0o755)
    ledger = ledger_in(folder)
    ledger.set_budget("visits", budget(), "first")
    ledger.close()
    told = in_process(READ_ONLY, str(folder))
    folder.chmod(0o755)
    assert told.startswith("LedgerError")
    assert "cannot be opened: Permission denied" in told
    assert ledger_in(folder).balance("visits").budget == budget()


FULL_DISK = """
import resource, signal, sys
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from ledgers import ledger_in, reserve
ledger = ledger_in(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))
for i in range(1000):
    try:
        reserve(ledger, f"job-{i}", 1e-9)
        ledger.commit(f"job-{i}")
        print(i)
    except Exception as error:
        print(type(error).__name__, error)
        break
"""


def test_a_full_disk_is_a_clear_error_and_what_was_committed_stays(ledger, tmp_path):
    ledger.close()
    *committed, told = in_process(FULL_DISK, str(tmp_path)).splitlines()
    assert told.startswith("LedgerError the ledger")
    assert 0 < len(committed) < 1000
    again = ledger_in(tmp_path)
    again.verify()
    assert again.balance("visits").n_committed >= len(committed)


def test_threads_share_transactions_and_together_spend_no_more_than_there_is(ledger):
    granted, lock = [], threading.Lock()

    def spend(thread: int) -> None:
        for i in range(8):
            try:
                reserve(ledger, f"job-{thread}-{i}", 0.004)
                ledger.commit(f"job-{thread}-{i}")
            except BudgetExhaustedError:
                continue
            with lock:
                granted.append(i)

    threads = [threading.Thread(target=spend, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    balance = ledger.balance("visits")
    assert balance.n_committed == len(granted) < 96
    assert balance.spent <= 1.0 < composed_epsilon([event(0.004)] * (len(granted) + 1), 1e-6).epsilon
    ledger.verify()


def test_two_processes_on_one_ledger_together_spend_no_more_than_there_is(ledger, tmp_path):
    barrier = PROCESSES.Barrier(2)
    with (
        child_process(spend_all, tmp_path, "one", barrier) as one,
        child_process(spend_all, tmp_path, "two", barrier) as two,
    ):
        assert (end_of(one), end_of(two)) == (0, 0)
    balance = ledger.balance("visits")
    assert balance.spent <= 1.0 < composed_epsilon([event(0.004)] * (balance.n_committed + 1), 1e-6).epsilon
    holders = {json.loads(entry.text)["holder"] for entry in ledger.history() if entry.kind == "reserved"}
    assert holders == {"one", "two"}


def test_a_url_with_a_password_is_never_shown(tmp_path):
    url = "postgresql://north:hunter2@127.0.0.1:1/ledger"
    pytest.importorskip("psycopg")
    with pytest.raises(LedgerError) as raised:
        open_ledger("north", path=tmp_path / "l", url=url, counter=tmp_path / "c", holder="here")
    assert "hunter2" not in str(raised.value)


def test_a_unit_other_than_the_budgets_is_refused(ledger):
    with pytest.raises(ChargeError, match="this job protects the unit 'rating'"):
        reserve(ledger, "job-1", unit="rating")
    assert ledger.quote("visits", "ada", cost_of(event())).held_after < 1


class InterruptedStore(SqlEntryStore):
    """Takes a transaction back at its very end, when told to."""

    is_interrupted = False

    @contextmanager
    def transaction(self):
        with super().transaction() as entries:
            yield entries
            if self.is_interrupted:
                raise LedgerError("the lights went out")


def test_what_was_taken_back_by_the_store_is_forgotten_and_the_ledger_goes_on(tmp_path):
    store = InterruptedStore(LedgerFile(tmp_path / "l"))
    ledger = Ledger(store, LedgerCounter(tmp_path / "c"), party="north", holder="here")
    ledger.set_budget("visits", budget(1.0), "first")
    reserve(ledger, "job-1", 0.001)
    store.is_interrupted = True
    with pytest.raises(LedgerError, match="the lights went out"):
        ledger.commit("job-1")
    with pytest.raises(LedgerError):
        reserve(ledger, "job-2", 0.001)
    store.is_interrupted = False
    balance = ledger.balance("visits")
    assert (balance.n_reserved, balance.n_committed) == (1, 0)
    ledger.commit("job-1")
    assert ledger.verify().sequence == 3
