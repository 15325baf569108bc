"""Tables are read from every kind of source, by every rule, and jobs about them are replayed on neighbours.

A row more, another row, or other contents of one row or one id move nothing but this row or this id: what enters a
mechanism is at most as far apart as it declares, and others see no difference. Rows hold bounds, infinite values,
values that are not of their kind, and gaps.
"""

import itertools

import numpy as np
import pytest
from neighbouring_sources import ODD, ORDINARY, OWNERS, Sources
from postgres import schema_of_its_own
from virtual_time import run_in_virtual_time

from audit.whole_jobs.neighbours import LARGEST
from audit.whole_jobs.replay import differences, replay
from audit.whole_jobs.shifts import shifts_between
from party.tables import identify
from party.tables.sources.registry import SOURCES

FILES = ("csv", "csv.gz", "parquet", "arrow", "query", "duckdb", "delta")
FILTER = {"filters": {"some": {"v": {"below": 0.75}, "c": {"one_of": ["red"]}, "d": {"at_least": "2020-01-01"}}}}
_WHERE = {"inputs": [{"party": name, "table": "people", "where": "some"} for name in OWNERS]}
_IDS = {"columns": ["who"], "normalise": ["trim"], "missing": "leave out", "reveal": True}


def identified(rule, **more):
    """What a table declares that merges the rows of one id; categories allow the first or the last row only."""
    numbers = {"v": rule, "n": rule, "b": rule, "d": rule}
    if rule in ("mean", "sum"):
        numbers |= {"b": "max", "d": "min" if rule == "sum" else "mean"}
    by_column = {**numbers, "c": "last" if rule == "last" else "first"}
    return {"matching": {**_IDS, "duplicates": rule if rule in ("first", "last") else by_column}, **more}


RULES = {
    "no rule": ({}, {}),
    "filter": (FILTER, _WHERE),
    "gaps as a constant": (
        {"columns": {"v": {"kind": "number", "bounds": [0, 1], "missing": {"value": 0.5}, "others": "missing"}}},
        {},
    ),
    "others as a category": (
        {
            "columns": {
                "c": {"kind": "category", "values": ["red", "blue"], "missing": "column", "others": "other"},
                "v": {"kind": "number", "bounds": [0, 1], "missing": "column", "others": "missing"},
            }
        },
        {},
    ),
    "ordinal": (
        {
            "columns": {
                "c": {"kind": "ordinal", "values": ["red", "blue"], "missing": {"value": "red"}, "others": "missing"}
            }
        },
        {},
    ),
    **{f"duplicates: {rule}": (identified(rule), {}) for rule in ("first", "last", "mean", "sum", "max", "min")},
    "duplicates: mean, with a filter": (identified("mean", **FILTER), _WHERE),
}
LOW_RANK = {"analysis": "low-rank", "parameters": {"max_rows": 40, "gamma": 256, "rank": 1}}
MATCHED = {
    f"{kind} matching, duplicates: {rule}": (identified(rule), {**LOW_RANK, "matching": {"kind": kind}})
    for kind in ("revealed", "secret")
    for rule in ("first", "mean", "sum")
}


def common(name):
    """Rows that both tables of an owner hold; one id has several rows, one row has no id."""
    ids = ["ann", "bob", "cleo", "bob", "", f"only {name}"]
    return [(who, *values) for who, values in zip(ids, itertools.cycle(ORDINARY), strict=False)]


def new(values, *, times=1):
    """The rows of a new id: other contents in each of them, the first as given."""
    rows = [values, *((*reversed(ODD),) * 2)][:times]
    return [("zoe", *of) for of in rows]


def at_the_edge(name):
    """Rows of ids whose values are about as large as may be added up, so that a limit of one row less matters."""
    n_ids = 8
    large = float(np.nextafter(LARGEST / (2 * n_ids), 0))
    rows = [(float("inf"), 1, "no", "red", "2020-01-01"), (-large, 1, "no", "red", "2020-01-01")]
    return [(f"{name} {i}", *values) for i in range(n_ids) for values in rows]


def problems(sources, one, others, view, *, everywhere, common=common):
    """What a table with the rows `one` and each with others shows; at all owners, or at the first one alone."""
    found, first = [], None
    for more in (one, *others):
        where = OWNERS if everywhere else OWNERS[:1]
        rows = {name: common(name) + (more if name in where else new(ODD[0]) if one else []) for name in OWNERS}
        plan, tables = sources.read(rows)
        run = run_in_virtual_time(replay(plan, tables, first=first))
        if first is None:
            first = run
            assert not first.ended, first.ended
            continue
        shown = differences(first, run, view)
        if not shown:
            shifts = shifts_between(first, run)
            assert shifts
            shown = [f"{shift.attained(view)} of what is declared" for shift in shifts if shift.attained(view) > 1]
        found += shown
    return found


def all_problems(sources, odd, *, times=1, everywhere=False, common=common):
    more = [new(values, times=times) for values in odd]
    found = problems(sources, [], more, "coordinator", everywhere=everywhere, common=common)
    if "where" not in str(sources.job):  # a row that passes, or does not, is a row more or less
        found += problems(sources, new(ODD[0], times=times), more, "coalition", everywhere=everywhere)
    return found


def test_every_kind_of_source_is_among_the_cases():
    assert set(SOURCES) == {*FILES, "postgres"} - {"csv.gz"}


@pytest.mark.parametrize("kind", FILES)
def test_a_row_of_a_file_moves_no_other_row_and_shows_nothing(tmp_path, kind):
    assert all_problems(Sources(tmp_path, kind), ODD[2:3]) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_row_or_an_id_moves_nothing_else_by_any_rule(tmp_path, rule):
    table, job = RULES[rule]
    times = 3 if rule.startswith("duplicates") else 1
    assert all_problems(Sources(tmp_path, "csv", table=table, job=job), ODD[4:5], times=times) == []


@pytest.mark.parametrize("rule", ["duplicates: mean", "duplicates: sum"])
def test_sums_at_the_edge_of_what_can_be_added_up_depend_on_no_other_row(tmp_path, rule):
    table, job = RULES[rule]
    assert all_problems(Sources(tmp_path, table=table, job=job), ODD[:1], common=at_the_edge) == []


ALL_RULES = [("csv", rule) for rule in RULES]
ALL_SOURCES = [(kind, "duplicates: mean, with a filter") for kind in FILES[1:]]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rule"), [*ALL_RULES, *ALL_SOURCES])
def test_all_odd_rows_move_nothing_else_by_any_rule_or_in_any_source(tmp_path, kind, rule):
    table, job = RULES[rule]
    times = 3 if rule.startswith("duplicates") else 1
    assert all_problems(Sources(tmp_path, kind, table=table, job=job), ODD, times=times) == []


@pytest.mark.parametrize("rule", ["revealed matching, duplicates: mean", "secret matching, duplicates: mean"])
def test_an_id_that_is_matched_moves_nothing_else(tmp_path, rule):
    table, job = MATCHED[rule]
    assert all_problems(Sources(tmp_path, table=table, job=job), ODD[2:3], times=2, everywhere=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("rule", MATCHED)
def test_all_odd_rows_of_a_matched_id_move_nothing_else(tmp_path, rule):
    table, job = MATCHED[rule]
    assert all_problems(Sources(tmp_path, table=table, job=job), ODD, times=2, everywhere=True) == []


@pytest.mark.slow
@pytest.mark.real_time  # a database
@pytest.mark.parametrize("rule", RULES)
def test_a_row_of_a_database_moves_no_other_row_and_shows_nothing(tmp_path, rule, cluster):
    table, job = RULES[rule]
    times = 3 if rule.startswith("duplicates") else 1
    database = schema_of_its_own(cluster, rule)
    assert all_problems(Sources(tmp_path, "postgres", database, table, job), ODD[2:6], times=times) == []


# -- the replay of sources has power ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["sum", "mean"])
def test_a_rule_by_which_the_number_of_rows_decides_is_noticed(tmp_path, monkeypatch, rule):
    whole = identify._combined

    def by_height(rule, values, *rest):
        return whole(rule, values, *rest) * 0 + len(values) % 2

    monkeypatch.setattr(identify, "_combined", by_height)
    assert all_problems(Sources(tmp_path, table=identified(rule)), ODD[:1])
