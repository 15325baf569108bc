"""Limits that the documentation states in numbers are those of the code."""

import re
from pathlib import Path

import pytest

from analyses.job.job import MAX_BRINGING, MAX_COMPUTING
from analyses.job.matching import MAX_MATCHED_ROWS
from analyses.logistic_regression.parameters import MAX_ITERATIONS
from analyses.rows.slots import MAX_SLOTS
from coordinator.config import CoordinatorConfig
from coordinator.report_limits import MAX_REPORTS_BYTES
from coordinator.runner import MAX_JOB_S
from coordinator.scheduler import MAX_ASKING, MAX_JOB_BYTES, MAX_SLOW
from party.config import PartyConfig
from party.job_run import KEPT_S
from party.jobs import MAX_JOBS, MAX_KEPT
from service.limits import ARRAY_CHUNK_BYTES, LIMITS, MAX_CHUNK_BYTES, MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES, READS_EACH
from service.server import STREAM_WINDOW_BYTES
from transport.calls import party_client
from transport.messages.mailbox import DELIVER
from transport.messages.memory_limits import ALL_BYTES, SENDER_BYTES
from transport.messages.returning import MAX_KEPT_BYTES
from transport.messages.waits import MIN_BYTES_PER_S

DOCS = Path(__file__).parent.parent / "docs"
KIB, MIB = 1 << 10, 1 << 20
IN_WORDS = {2: "two", 4: "four", 6: "six"}


def default_of(settings, name):
    return settings.model_fields[name].default


def held_by_one():
    """What one member can make a service hold: `transport.messages.memory_limits`."""
    deliver = LIMITS[DELIVER]
    reads, windows = deliver.reads_each * MAX_MESSAGE_BYTES, deliver.calls_each * 2 * STREAM_WINDOW_BYTES
    return SENDER_BYTES + reads + windows


SENTENCES = {
    "operations.md": [
        f"in memory, at most {MAX_KEPT_BYTES // MIB} MiB for each job",
        f"keeps what it sent for {KEPT_S / 3600:g} hours, of the last {MAX_KEPT} such jobs",
    ],
    "decisions/051-a-coordinator-that-restarts.md": [
        f"at most {MAX_KEPT_BYTES // MIB} MiB, until",
        f"messages for {KEPT_S / 3600:g} hours, of at most {MAX_KEPT} jobs",
    ],
    "known-limits.md": [
        f"sent the coordinator more than {MAX_KEPT_BYTES // MIB} MiB",
        f"up to `table_memory_mib` ({default_of(PartyConfig, 'table_memory_mib')} MiB)",
        f"takes at most {MAX_ITERATIONS:,} steps",
        f"there are `max_rows` slots, at most 2^{MAX_SLOTS.bit_length() - 1}",
        f"most rows that owners declare, 2^{MAX_MATCHED_ROWS.bit_length() - 1} at most",
        f"A job has at most {MAX_JOB_BYTES // MIB} MiB of JSON",
        f"of all its parties together at most {MAX_REQUEST_BYTES // MIB} MiB",
        f"at most {MAX_BRINGING} parties that bring tables, and {MAX_COMPUTING} that compute",
        f"While {IN_WORDS[MAX_ASKING]} jobs wait for the owner of one party",
        f"A line slower than {MIN_BYTES_PER_S // KIB} KiB per second",
        f"A job runs for at most {IN_WORDS[MAX_JOB_S / 3600]} hours",
    ],
    "threat-model.md": [
        f"`least_deadline_s` ({default_of(PartyConfig, 'least_deadline_s'):g} s by default)",
        f"| {MAX_CHUNK_BYTES // KIB} KiB each, a longer request {MAX_REQUEST_BYTES // MIB} MiB in chunks",
        (
            f"gRPC takes in {(ARRAY_CHUNK_BYTES + 1024) // KIB} KiB, for {READS_EACH} calls of one caller at a time, "
            f"and {2 * STREAM_WINDOW_BYTES // KIB} KiB of others"
        ),
        (
            f"{SENDER_BYTES // MIB} MiB of one member over all jobs, {ALL_BYTES // MIB} MiB of all; with what gRPC "
            f"holds, less than {held_by_one() // MIB + 1} MiB of one"
        ),
        f"{MAX_KEPT_BYTES // MIB} MiB for each of {MAX_JOBS} jobs that run and {MAX_KEPT} whose part is done",
        f"its bytes at {MIN_BYTES_PER_S // KIB} KiB/s",
        f"`max_job_s` of every owner and of the coordinator, {MAX_JOB_S / 3600:g} hours by default",
        f"{IN_WORDS[MAX_SLOW]} of them at most wait for one party",
        f"{MAX_REPORTS_BYTES // KIB} KiB of notes per party and job",
    ],
}


@pytest.mark.parametrize(("page", "sentence"), [(page, one) for page, all_of in SENTENCES.items() for one in all_of])
def test_a_limit_that_a_page_states_is_that_of_the_code(page, sentence):
    assert sentence in re.sub(r"\s+", " ", (DOCS / page).read_text(encoding="utf-8"))


def test_a_job_may_run_as_long_as_both_sides_can_be_told_to_let_it():
    for settings in (PartyConfig, CoordinatorConfig):
        assert default_of(settings, "max_job_s") == MAX_JOB_S
        (longest,) = (limit.le for limit in settings.model_fields["max_job_s"].metadata if hasattr(limit, "le"))
        assert longest <= party_client.MAX_JOB_S
