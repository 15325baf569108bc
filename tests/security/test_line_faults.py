"""Whatever an owner's values raise, at whichever line: the job goes on, and the coordinator receives the same.

A table's values are used where `zeros_if_raised` computes, and nowhere else: no other line can raise because of them.
"""

import sys
from typing import ClassVar

import numpy as np
import pytest
from line_faults import InjectedError, LineFaults, called_by
from registry_jobs import VARIANTS
from virtual_time import run_in_virtual_time

from analyses.job.schema import Table
from analyses.rows.own_values import zeros_if_raised
from analyses.run_locally import run_locally
from entropy import InsecureTestEntropy
from mpc.protocol.session import COORDINATOR

FOLLOWS_NOISY_FLAGS = {"moments, threshold"}
"""Sizes of messages depend on noisy answers there, which are paid for (docs/threat-model.md)."""

QUICK = ("secure-sum", "distribution", "moments, laplace")

MOST_LINES = 4
"""Lines of a job that are tried, evenly among those that no job before it has tried."""

_TRIED: set[tuple[str, int]] = set()
"""Lines that an earlier variant has tried."""


def run(variant):
    """Run its job; return the plan's tables, the result and what left for the coordinator."""
    tables = variant.tables()
    found = run_in_virtual_time(
        run_locally(variant.job(), tables, entropy_of=lambda member: InsecureTestEntropy(f"member {member}"))
    )
    assert not found.failures
    sent = sorted(
        (message.sender, message.stage, message.array.shape, message.array.dtype.str)
        for message in found.network.transcript
        if message.receiver == COORDINATOR
    )
    return tables, found.result, sent, found.network.progress_log


def alike(name, sent, other):
    if name in FOLLOWS_NOISY_FLAGS:
        return [one[:2] for one in sent] == [one[:2] for one in other]
    return sent == other


def check(name, most):
    variant, faults = VARIANTS[name], LineFaults(called_by(zeros_if_raised))
    _, _, sent, told = run(variant)
    lines = [line for line in faults.lines_of(lambda: run(variant)) if line not in _TRIED]
    for line in lines[:: max(1, -(-len(lines) // most))]:
        _TRIED.add(line)
        tables, result, sent_now, told_now = faults.run_with_error(lambda: run(variant), line)
        assert sum(table.failures[InjectedError.__name__] for table in tables.values()) == 1, line
        assert result["analysis"] == variant.analysis
        assert alike(name, sent, sent_now), line
        assert told == told_now, line


@pytest.mark.parametrize("name", QUICK)
def test_an_error_in_computing_of_own_values_ends_no_job(name):
    check(name, most=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_an_error_at_any_line_that_computes_of_own_values_ends_no_job(name):
    check(name, most=MOST_LINES)


GUARDED = ("values", "ratings", "persons", "block")

ELSEWHERE = {"__post_init__", "n_rows", "block", "_columns_of", "_replace", "replace", "__call__", "read_table"}
"""Functions that count rows, choose some of them or hand them on: they compute of no value."""


class GuardedTable(Table):
    """A table that tells who reads its values outside of `zeros_if_raised`."""

    outside: ClassVar[set[str]] = set()

    def __getattribute__(self, name):
        if name in GUARDED:
            frame = sys._getframe(1)
            reader = frame.f_code
            while frame is not None and frame.f_code is not zeros_if_raised.__code__:
                frame = frame.f_back
            if frame is None and reader.co_name not in ELSEWHERE:
                self.outside.add(f"{reader.co_filename}: {reader.co_name} reads {name}")
        return super().__getattribute__(name)


@pytest.mark.parametrize("name", VARIANTS)
def test_values_of_a_table_are_read_where_an_error_becomes_zeros_and_nowhere_else(name):
    variant = VARIANTS[name]
    tables = {
        owner: GuardedTable(table.schema, table.values, table.ids_digest, ratings=table.ratings)
        for owner, table in variant.tables().items()
    }
    GuardedTable.outside.clear()
    run_in_virtual_time(run_locally(variant.job(), tables))
    assert not GuardedTable.outside
    assert all(isinstance(table.values, np.ndarray) for table in tables.values())
