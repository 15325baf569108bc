"""Filters that jobs may name: each row decides about itself, nobody sees how many pass, and none may."""

from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from analyses.job.job import Job, JobError, JobInput
from analyses.registry import analysis_of
from party.tables.filters import Condition, filter_in_words
from party.tables.table import TableError, UnusableTableError, describe_table, load_table

COLUMNS = {
    "region": {"kind": "category", "values": ["north", "south"], "others": "other", "missing": "column"},
    "smoker": {"kind": "yes/no", "missing": {"value": "no"}},
    "school": {"kind": "ordinal", "values": ["none", "some", "all"], "missing": "column"},
    "joined": {"kind": "date", "bounds": [date(2000, 1, 1), date(2030, 1, 1)], "missing": "column"},
    "children": {"kind": "integer", "bounds": [0, 9], "missing": "column"},
}
FRAME = pl.DataFrame(
    {
        "age": [17.0, 18.0, 70.0, 44.0, 20.0],
        "region": ["north", "south", "west", None, "south"],
        "smoker": ["yes", "no", None, "yes", "no"],
        "school": ["none", "some", "all", None, "all"],
        "joined": [date(2025, 1, 1), date(2025, 12, 31), date(2026, 1, 1), None, date(1990, 1, 1)],
        "children": [0, 3, 20, None, 1],
    }
)
FILTERS = {
    "adults": ({"age": {"at_least": 18}}, [1, 2, 3, 4]),
    "southern": ({"region": {"one_of": ["south"]}}, [1, 4]),
    "known-region": ({"region": {"one_of": ["south", "north"]}}, [0, 1, 4]),
    "smokers": ({"smoker": {"one_of": ["yes"]}}, [0, 3]),
    "others-smoke": ({"smoker": {"one_of": ["no"]}}, [1, 4]),
    "schooled": ({"school": {"one_of": ["some", "all"]}}, [1, 2, 4]),
    "year": ({"joined": {"at_least": date(2025, 1, 1), "below": date(2026, 1, 1)}}, [0, 1]),
    "parents": ({"children": {"at_least": 1}}, [1, 2, 4]),
    "both": ({"age": {"below": 70}, "region": {"one_of": ["south"]}}, [1, 4]),
    "nobody": ({"age": {"at_least": 71}}, []),
}


def asks_for(name, *columns):
    return JobInput(party="north", table="visits", columns=columns, where=name)


@pytest.fixture
def make(make_config, tmp_path):
    def make(filters, **table):
        FRAME.write_parquet(tmp_path / "visits.parquet")
        table = {"bounds": {"age": [0, 120]}, "columns": COLUMNS, "rows": [5, 10]} | table
        return make_config(path="visits.parquet", filters=filters, **table)

    return make


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_leaves_the_rows_that_meet_all_its_conditions(make, name):
    conditions, rows = FILTERS[name]
    table = load_table(make({name: conditions}), asks_for(name, "age"))
    assert table.values[:, 0].tolist() == FRAME["age"].gather(rows).to_list()
    assert table.filtered == 5 - len(rows)


@given(kept=st.lists(st.integers(0, 120), min_size=1, max_size=8), least=st.integers(0, 120), data=st.data())
def test_a_row_decides_about_itself_alone(kept, least, data):
    condition = Condition(at_least=least, below=90)
    alone = [bool(condition.holds_for(np.array([float(age)]))[0]) for age in kept]
    assert condition.holds_for(np.array(kept, dtype=float)).tolist() == alone


def test_the_number_of_rows_is_that_of_the_table_and_not_of_the_filter(make):
    assert load_table(make({"nobody": {"age": {"at_least": 71}}}), asks_for("nobody", "age")).n_rows == 0
    with pytest.raises(UnusableTableError) as caught:
        load_table(make({"nobody": {"age": {"at_least": 71}}}, rows=[1, 4]), asks_for("nobody", "age"))
    assert "outside the range" in caught.value.detail


def test_a_value_that_rules_a_table_out_does_so_whatever_the_filter_leaves(make):
    columns = COLUMNS | {"region": {"kind": "category", "values": ["north", "south"]}}
    config = make({"young": {"age": {"below": 18}}}, columns=columns)
    with pytest.raises(UnusableTableError):
        load_table(config, asks_for("young", "age", "region"))


@pytest.mark.parametrize(
    ("names", "table", "detail"),
    [
        (["a", "b", "c", "d", "d"], {}, "two rows have the same id"),
        (["a", "b", "c", "d", None], {}, "a row has no id"),
        (["a", "b", "c", "d", "e"], {"rows": [1, 4]}, "outside the range"),
        (["a", "b", "c", "d", "e"], {"rows": [6, 9]}, "outside the range"),
        (["a", "b", "c", "d", "d"], {"rule": "first", "person_column": "school"}, "name different persons"),
    ],
)
def test_what_rules_a_table_out_does_so_whatever_rows_pass(make_config, tmp_path, names, table, detail):
    """Else a job with a filter would tell, by failing, whether there are two equal ids among the rows that pass."""
    FRAME.with_columns(name=pl.Series(names, dtype=pl.String)).write_parquet(tmp_path / "visits.parquet")
    filters = {"seniors": {"age": {"at_least": 70}}, "all": {"age": {"at_least": 0}}, "nobody": {"age": {"below": 0}}}
    table = {"rows": [1, 5]} | table
    rule = table.pop("rule", "refuse")
    if "person_column" in table:
        table |= {"most_rows_per_person": 1}
    bounds = {"age": [0, 120]}
    matching = {"columns": ["name"], "duplicates": rule}
    config = make_config(path="visits.parquet", bounds=bounds, filters=filters, matching=matching, **table)
    for where in (None, *filters):
        with pytest.raises(UnusableTableError) as caught:
            load_table(config, asks_for(where, "age"))
        assert detail in caught.value.detail


def test_an_id_column_that_names_a_row_twice_rules_the_table_out_whatever_rows_pass(make_config, tmp_path):
    FRAME.with_columns(name=pl.Series(["a", "b", "c", "d", "d"])).write_parquet(tmp_path / "visits.parquet")
    config = make_config(
        path="visits.parquet", bounds={"age": [0, 120]}, filters={"nobody": FILTERS["nobody"][0]}, id_column="name"
    )
    with pytest.raises(UnusableTableError) as caught:
        load_table(config, asks_for("nobody", "age"))
    assert "names a row twice" in caught.value.detail


def test_rows_of_one_id_become_one_after_the_filter(make_config, tmp_path):
    FRAME.with_columns(name=pl.Series(["d", "b", "c", "d", "d"])).write_parquet(tmp_path / "visits.parquet")
    config = make_config(
        path="visits.parquet",
        bounds={"age": [0, 120]},
        filters={"adults": FILTERS["adults"][0], "nobody": FILTERS["nobody"][0]},
        matching={"columns": ["name"], "duplicates": {"age": "mean"}},
        rows=[3, 5],
    )
    table = load_table(config, asks_for("adults", "age"))
    assert table.values[:, 0].tolist() == [18, 70, 32]
    assert (table.filtered, table.merged, table.left_out) == (1, 1, 0)
    none = load_table(config, asks_for("nobody", "age"))
    assert (none.n_rows, none.filtered, none.ids.shape) == (0, 5, (0, 32))


def test_the_public_description_says_the_filter_in_words(make):
    config = make({"both": FILTERS["both"][0]})
    assert describe_table(config, asks_for("both", "age")).where == "age is below 70.0, and region is south"
    assert describe_table(config, asks_for(None, "age")).where is None
    assert "where" not in describe_table(config, asks_for(None, "age")).canonical_json()
    with pytest.raises(TableError, match="has no filter 'adults'; it has both"):
        describe_table(config, asks_for("adults", "age"))
    assert filter_in_words({"joined": Condition(at_least=date(2025, 1, 1))}) == "joined is at least 2025-01-01"


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({}, "at least 1 item"),
        ({"weight": {"below": 3}}, "'weight' has neither bounds nor a kind"),
        ({"age": {}}, "at_least, below or both, or else one_of"),
        ({"age": {"below": 3, "one_of": ["x"]}}, "at_least, below or both, or else one_of"),
        ({"age": {"one_of": ["x"]}}, "must be numbers"),
        ({"age": {"below": date(2025, 1, 1)}}, "must be numbers"),
        ({"joined": {"below": 3}}, "must be dates"),
        ({"region": {"below": 3}}, "one_of must be given"),
        ({"region": {"one_of": ["west"]}}, "'west' is not among its values"),
        ({"smoker": {"one_of": ["perhaps"]}}, "of yes and no"),
        ({"age": {"rank": 3}}, "there is no such field"),
    ],
)
def test_a_filter_that_cannot_be_asked_of_the_table_is_refused_with_the_configuration(make, conditions, words):
    with pytest.raises(ValidationError) as caught:
        make({"odd": conditions})
    assert words in str(caught.value) or words == "there is no such field"


def planned(job, *, where):
    job = Job.model_validate(job | {"inputs": [one | {"where": where} for one in job["inputs"]]})
    analysis_of(job).check_filters(job)


def test_a_filter_is_refused_where_others_would_see_what_it_leaves():
    parties = [{"party": name, "table": "people"} for name in ("bank", "clinic", "shop")]
    private = {"privacy": {"epsilon": 1.0, "delta": 1e-6}, "inputs": parties}
    planned({"analysis": "secure-mean"} | private, where="adults")
    planned({"analysis": "pca", "matching": {"kind": "secret"}} | private, where="adults")
    for job, words in (
        ({"analysis": "pca"} | private, "match the rows in secret"),
        ({"analysis": "pca", "matching": {"kind": "revealed"}} | private, "match the rows in secret"),
        ({"analysis": "secure-sum", "inputs": parties}, "an exact answer"),
    ):
        with pytest.raises(JobError, match=words):
            planned(job, where="adults")
        planned(job, where=None)
