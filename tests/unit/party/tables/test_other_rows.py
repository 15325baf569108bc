"""What a table says about one id depends on that id's rows alone, whatever other rows stand in the source.

Privacy is proven for neighbours that differ in one row of `Table.values`. So one row of the source must move one row of
that: rows of others are added, removed and put in another order before everything that happens between a source and the
values of a job.
"""

import csv
from datetime import date

import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from analyses.job.job import JobInput
from party.tables.table import UnusableTableError, load_table

LARGEST = "1.7976931348623157e308"
NUMBERS = ["0", "-0.0", "2.5", "31", "1e305", "-1.797e305", "1.6e296", "1e308", LARGEST, f"-{LARGEST}", "5e-324"]
WIDE = 8e307  # of the widest bounds that a column may have
NAMES = ["id", "amount", "number", "whole", "yes", "level", "town", "day"]
POOLS = {
    "id": ["007", "7", "8", "08", "x", "Ä", "ä ", "1e3", "true"],
    "amount": NUMBERS,  # a column with bounds
    "number": [*NUMBERS, "inf", "-inf", "", "nan", "-999", "much"],
    "whole": ["0", "3", "2.5", "1e300", "", "three"],
    "yes": ["yes", "no", "TRUE", "0", "", "perhaps"],
    "level": ["low", "high", "", "none"],
    "town": ["01", "1", "02", "", "true", "9"],
    "day": ["2020-01-01", "1999-12-31", "31.12.1999", ""],
}
KINDS = {
    "number": {"kind": "number", "bounds": [-WIDE, WIDE], "gaps": ["-999"], "others": "missing"},
    "whole": {"kind": "integer", "bounds": [0, 1e18], "others": "missing"},
    "yes": {"kind": "yes/no", "others": "missing"},
    "level": {"kind": "ordinal", "values": ["low", "high"], "others": "missing"},
    "town": {"kind": "category", "values": ["01", "02", "true"], "others": "other"},
    "day": {"kind": "date", "bounds": [date(2000, 1, 1), date(2030, 1, 1)], "others": "missing"},
}
CONSTANTS = {"number": 1.5, "whole": 2, "yes": "no", "level": "low", "town": "02", "day": date(2010, 5, 5)}
FILTERS = {
    "number": {"number": {"at_least": -1e300, "below": 1e297}},
    "whole": {"whole": {"at_least": 1}},
    "yes": {"yes": {"one_of": ["yes"]}},
    "level": {"level": {"one_of": ["low"]}},
    "town": {"town": {"one_of": ["01"]}},
    "day": {"day": {"at_least": date(2000, 6, 1)}},
}
NUMBER_RULES = ("sum", "mean", "max", "min")
ORDER_RULES = ("last", "first", "max", "min")


def rules_of(first):
    """Return rules of which the numbers get the first, and each other kind one that makes sense of it."""
    turned = ORDER_RULES[NUMBER_RULES.index(first) :] + ORDER_RULES
    others = dict(zip(("whole", "yes", "level"), turned, strict=False))
    return {
        "amount": first,
        "number": first,
        "town": turned[0] if turned[0] in ("last", "first") else "last",
        "day": "mean",
        **others,
    }


RULES = {**{first: rules_of(first) for first in NUMBER_RULES}, "last": "last", "first": "first"}
OWN = "own"


def rows_of(ids):
    return st.tuples(ids, *(st.sampled_from(POOLS[name]) for name in NAMES[1:]))


ROWS = st.lists(rows_of(st.sampled_from(POOLS["id"])), max_size=8)
OWN_ROWS = st.lists(rows_of(st.just(OWN)), min_size=1, max_size=3)


def write(folder, form, rows):
    """Write rows as a source reads them, and return its section."""
    if form == "parquet":
        pl.DataFrame(rows, schema=dict.fromkeys(NAMES, pl.String), orient="row").with_columns(
            pl.col("amount").cast(pl.Float64)
        ).write_parquet(folder / "t.parquet")
        return {"kind": "parquet", "path": "t.parquet"}
    delimiter = ";" if form == "semicolons" else ","
    with (folder / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(NAMES)
        comma = form == "semicolons"
        writer.writerows(
            [
                one.replace(".", ",") if comma and NAMES[at] in ("amount", "number", "whole") else one
                for at, one in enumerate(row)
            ]
            for row in rows
        )
    if form == "query":
        return {"kind": "query", "files": {"t": "t.csv"}, "query": "SELECT * FROM t"}
    return {"kind": "csv", "path": "t.csv", "delimiter": delimiter, "decimal_comma": form == "semicolons"}


def own_rows(make_config, folder, form, rows, where, **table):
    """Return the values of the rows of `OWN`, as bytes; None where the table cannot be used, which is public."""
    config = make_config(path=None, source=write(folder, form, rows), bounds={"amount": [-WIDE, WIDE]}, **table)
    try:
        loaded = load_table(config, JobInput(party="north", table="visits", where=where))
    except UnusableTableError:
        return None
    if loaded.ids is None:
        return loaded.values[[place for place, one in enumerate(row[0] for row in rows) if one == OWN]].tobytes()
    alone = own_ids(make_config, folder, table)
    return loaded.values[(loaded.ids == alone).all(axis=1)].tobytes()


def own_ids(make_config, folder, table):
    """Return the digest of `OWN` in any table."""
    row = (OWN, *(POOLS[name][0] for name in NAMES[1:]))
    config = make_config(path=None, source=write(folder, "commas", [row]), bounds={"amount": [-WIDE, WIDE]}, **table)
    return load_table(config, JobInput(party="north", table="visits")).ids[0]


def check_other_rows(make_config, folder, form, duplicates, data):
    """Draw rows of `OWN`, and other rows twice, and compare what becomes of `OWN` with each, and alone."""
    mine, others = data.draw(OWN_ROWS), [data.draw(ROWS), data.draw(ROWS), []]
    missing = data.draw(st.sampled_from(["column", "constant"]))
    columns = {
        name: {**kind, "missing": "column" if missing == "column" else {"value": CONSTANTS[name]}}
        for name, kind in KINDS.items()
    }
    table, where = {"columns": columns}, None
    if duplicates is not None:
        matching = {"columns": ["id"], "normalise": ["trim", "nfkc", "lower"], "duplicates": RULES[duplicates]}
        table |= {"matching": matching, "filters": FILTERS}
        where = data.draw(st.sampled_from([None, *FILTERS]))
    found = []
    for mixed in others:
        places = sorted(data.draw(st.lists(st.integers(0, len(mixed)), min_size=len(mine), max_size=len(mine))))
        for place, row in zip(reversed(places), reversed(mine), strict=True):
            mixed.insert(place, row)
        found.append(own_rows(make_config, folder, form, mixed, where, **table))
    usable = [one for one in found if one is not None]
    assume(len(usable) > 1)
    assert len(set(usable)) == 1


DRAWN = settings(suppress_health_check=list(HealthCheck), deadline=None)
FORMS = ["commas", "semicolons", "parquet", "query"]


@pytest.mark.parametrize("duplicates", [None, "mean", "first"])  # a rule that computes, and one that chooses
@given(data=st.data())
@settings(DRAWN, max_examples=4)
def test_other_rows_move_nothing_of_the_rows_of_an_id(make_config, tmp_path, duplicates, data):
    check_other_rows(make_config, tmp_path, data.draw(st.sampled_from(FORMS)), duplicates, data)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["commas", "semicolons"])
@pytest.mark.parametrize("duplicates", [None, *RULES])
@given(data=st.data())
@settings(DRAWN, max_examples=10)
def test_no_rule_lets_other_rows_move_the_rows_of_an_id(make_config, tmp_path, form, duplicates, data):
    check_other_rows(make_config, tmp_path, form, duplicates, data)


@pytest.mark.slow  # a process reads each table
@pytest.mark.parametrize("form", ["parquet", "query"])
@pytest.mark.parametrize("duplicates", [None, "mean"])
@given(data=st.data())
@settings(DRAWN, max_examples=5)
def test_no_kind_of_source_lets_other_rows_move_the_rows_of_an_id(make_config, tmp_path, form, duplicates, data):
    """Rules are applied to what was read, the same for all kinds."""
    check_other_rows(make_config, tmp_path, form, duplicates, data)


ROW = ("x", "2.5", "1", "3", "yes", "low", "01", "2020-01-01")


def changed(**values):
    return tuple(values.get(name, value) for name, value in zip(NAMES, ROW, strict=True))


KINDS_WITH_GAPS = {name: {**kind, "missing": "column"} for name, kind in KINDS.items()}


@pytest.mark.parametrize("rule", ["sum", "mean"])
@pytest.mark.parametrize(
    ("mine", "more"),
    [
        ([changed(id=OWN, amount=LARGEST), changed(id=OWN, amount="-8.98e307")], [ROW]),
        ([changed(id=OWN, amount="8e307")], [ROW, ROW]),  # of which no two had one id before
    ],
)
def test_a_row_more_moves_no_sum_or_mean_of_another_id(make_config, tmp_path, rule, mine, more):
    table = {"columns": KINDS_WITH_GAPS, "matching": {"columns": ["id"], "duplicates": RULES[rule]}}
    alone = own_rows(make_config, tmp_path, "commas", mine, None, **table)
    assert alone == own_rows(make_config, tmp_path, "commas", [*mine, *more], None, **table)


def test_the_type_of_a_column_of_a_query_over_csv_is_decided_by_no_row(make_config, tmp_path):
    mine = [changed(id=OWN, town="01")]
    table = {"columns": KINDS_WITH_GAPS}
    alone = own_rows(make_config, tmp_path, "query", mine, None, **table)
    assert alone is not None
    assert alone == own_rows(make_config, tmp_path, "query", [*mine, changed(town="nowhere")], None, **table)


NAMED = st.sampled_from(["1", "01", "b", "Z"])
RATINGS = st.lists(st.tuples(NAMED, st.sampled_from("0127x"), st.sampled_from(["1", "4.5", "1e308"])), max_size=6)
RATED = {"kind": "ratings", "user": "user", "item": "item", "rating": "rating", "items": 5, "users": 9}


@given(before=RATINGS, after=RATINGS, mine=RATINGS.filter(bool))
@settings(DRAWN, max_examples=10)
def test_other_users_move_nothing_of_the_ratings_of_a_user(make_config, tmp_path, before, after, mine):
    config = make_config(path="r.csv", bounds={"rating": [0, 5]}, ratings_per_user=3, **RATED)
    found = []
    for others in (before, after):
        rows = [*others, *((OWN, item, rating) for _, item, rating in mine)]
        (tmp_path / "r.csv").write_text("user,item,rating\n" + "".join(f"{','.join(row)}\n" for row in rows))
        ratings = load_table(config, JobInput(party="north", table="visits")).ratings
        is_own = ratings.users == ratings.user_names.index(OWN)
        found.append((ratings.items[is_own].tolist(), ratings.values[is_own].tolist()))
    assert found[0] == found[1]
