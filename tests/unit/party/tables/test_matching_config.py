"""Section `[tables.matching]`: what is refused in it, what others learn, and which tables it rules out."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from analyses.job.job import JobInput
from analyses.job.matching import MatchingSchema
from analyses.job.row_ids import digests_of_ids
from analyses.job.schema import digest_of_ids
from party.tables.table import TableError, UnusableTableError, describe_table, load_table

REGION = {"kind": "category", "values": ["north", "south"]}
KINDS = {
    "region": REGION,
    "smoker": {"kind": "yes/no"},
    "school": {"kind": "ordinal", "values": ["none", "some"]},
    "since": {"kind": "date", "bounds": ["2000-01-01", "2030-12-31"]},
}
BY_NAME = {"columns": ["name", "born"], "normalise": {"name": ["letters", "lower"], "born": ["trim", "date"]}}
CSV = "name,born,age,stay\nAda L.,1815-12-10,36,1\n ben,1900-01-01,50,2\nADA L,1815-12-10,38,4\n,1815-12-10,7,9\n"


def asks_for(*columns):
    return JobInput(party="north", table="visits", columns=columns)


@pytest.fixture
def load(make_config, tmp_path):
    (tmp_path / "visits.csv").write_text(CSV)

    def load_with(*, table=None, **matching):
        return load_table(make_config(**(table or {}), matching={**BY_NAME, **matching}), asks_for("age", "stay"))

    return load_with


@pytest.mark.parametrize(
    ("matching", "text"),
    [
        ({"columns": []}, "columns"),
        ({"columns": ["name", "name"]}, "more than once"),
        ({"columns": ["age"]}, "'age' identifies rows, so it must not have bounds"),
        ({"columns": ["region"]}, "'region' identifies rows, so it must not have bounds"),
        ({"columns": ["name"], "normalise": ["upper"]}, "normalise"),
        ({"columns": ["name"], "normalise": ["trim", "trim"]}, "the same step more than once"),
        ({"columns": ["name"], "normalise": {"born": ["trim"]}}, "name each of `columns` and no other"),
        ({"columns": ["name"], "date_formats": {"name": "%d.%m.%Y"}}, "column 'name' has no step 'date'"),
        ({"columns": ["name"], "duplicates": "mean"}, "'mean' makes no value of the kind of column 'region'"),
        ({"columns": ["name"], "duplicates": {"age": "mean"}}, "must name each column that jobs can use"),
        ({"columns": ["name"], "duplicates": {"age": "refuse"}}, "a rule for a whole table"),
        ({"columns": ["name"], "missing": "keep"}, "missing"),
        ({"columns": ["name"], "salt": "x"}, "salt"),
    ],
)
def test_a_section_that_makes_no_sense_is_refused_by_the_name_of_its_field(make_config, matching, text):
    with pytest.raises(ValueError, match=text):
        make_config(columns=KINDS, matching=matching)


@pytest.mark.parametrize(
    ("column", "refused"),
    [("region", "max"), ("region", "mean"), ("smoker", "mean"), ("school", "sum"), ("since", "sum")],
)
def test_a_rule_must_make_a_value_of_the_kind(make_config, column, refused):
    rules = {"age": "mean", "stay": "sum", "region": "last", "smoker": "max", "school": "min", "since": "mean"}
    make_config(columns=KINDS, matching={"columns": ["name"], "duplicates": rules})
    with pytest.raises(ValueError, match=f"'{refused}' makes no value of the kind of column '{column}'"):
        make_config(columns=KINDS, matching={"columns": ["name"], "duplicates": {**rules, column: refused}})


def test_others_learn_the_rules_and_no_name_of_a_column(make_config):
    schema = describe_table(make_config(matching={**BY_NAME, "reveal": True}), asks_for())
    assert schema.matching == MatchingSchema(recipe=(("letters", "lower"), ("trim", "date")), reveal=True)
    assert "born" not in schema.canonical_json()


def test_a_column_that_identifies_rows_is_no_feature(make_config):
    with pytest.raises(TableError, match="column 'born' identifies the rows"):
        describe_table(make_config(matching=BY_NAME), asks_for("age", "born"))


def test_rows_of_one_id_become_one_and_rows_without_are_left_out(load):
    table = load(duplicates={"age": "mean", "stay": "sum"}, missing="leave out")
    assert table.values.tolist() == [[37, 5], [50, 2]]
    np.testing.assert_array_equal(table.ids, digests_of_ids([["adal", "ben"], ["1815-12-10", "1900-01-01"]]))
    assert (table.left_out, table.merged) == (1, 1)


@pytest.mark.parametrize(
    ("matching", "detail"),
    [
        ({"duplicates": "first"}, "a row has no id in 'name', 'born', and its section [tables.matching] refuses that"),
        ({"missing": "leave out"}, "two rows have the same id in 'name', 'born', and its section [tables.matching]"),
        ({"normalise": {"name": ["digits"], "born": []}, "missing": "leave out"}, "none of its rows has an id"),
    ],
)
def test_a_table_that_breaks_a_rule_serves_no_job_and_its_values_are_not_told(load, matching, detail):
    with pytest.raises(UnusableTableError) as caught:
        load(**matching)
    assert caught.value.detail.startswith(detail)
    assert "cannot be used; its owner finds the reason" in str(caught.value)
    assert not any(value in caught.value.detail for value in ("Ada", "1815", "ben"))


def test_the_declared_number_of_rows_is_that_of_ids(load):
    rules = {"duplicates": "first", "missing": "leave out"}
    assert len(load(table={"rows": [1, 2]}, **rules).values) == 2
    with pytest.raises(UnusableTableError):
        load(table={"rows": [3, 4]}, **rules)


def test_ids_and_persons_are_those_of_the_rows_that_stand(load):
    rules = {"duplicates": "last", "missing": "leave out"}
    table = load(table={"id_column": "born", "person_column": "born", "most_rows_per_person": 1}, **rules)
    assert table.ids_digest == digest_of_ids(["1815-12-10", "1900-01-01"])
    assert table.persons.ids == ("1815-12-10", "1900-01-01")


def test_rows_of_one_id_that_name_several_persons_rule_the_table_out(make_config, tmp_path):
    pl.DataFrame({"name": ["a", "a"], "who": ["x", "y"], "age": [1, 2]}).write_csv(tmp_path / "visits.csv")
    config = make_config(
        bounds={"age": [0, 9]},
        person_column="who",
        most_rows_per_person=1,
        matching={"columns": ["name"], "duplicates": "first"},
    )
    with pytest.raises(UnusableTableError) as caught:
        load_table(config, asks_for("age"))
    assert caught.value.detail == "rows of the same id name different persons in column 'who'"


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_every_form_of_a_table_gives_the_same_ids(make_config, tmp_path, form):
    frame = pl.DataFrame({"number": [7, 12], "born": ["1999-12-31", "2000-01-01"], "age": [1, 2]})
    path = tmp_path / f"visits.{form}"
    if form == "csv":
        frame.with_columns(number=pl.Series(["007", "12"])).write_csv(path)
    else:
        dated = frame.with_columns(pl.col("born").str.to_date())
        (dated.write_parquet if form == "parquet" else dated.write_ipc)(path)
    matching = {"columns": ["number", "born"], "normalise": {"number": ["integer"], "born": ["date"]}}
    config = make_config(path=path.name, bounds={"age": [0, 9]}, matching=matching)
    found = load_table(config, asks_for("age")).ids
    np.testing.assert_array_equal(found, digests_of_ids([["7", "12"], ["1999-12-31", "2000-01-01"]]))


def test_a_table_shows_neither_ids_nor_how_many_rows_were_merged(load):
    table = load(duplicates="first", missing="leave out")
    assert "left_out" not in repr(table)
    assert repr(replace(table, merged=2)) == repr(table)
