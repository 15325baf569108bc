"""Kinds of columns in the configuration: which columns jobs see, by which names, and what a policy says of them."""

import re
import tomllib
from pathlib import Path

import polars as pl
import pytest

from analyses.job.job import JobInput
from analyses.job.listing import ListedTable
from party.tables.table import TableError, UnusableTableError, describe_table, load_table

REGION = {"kind": "category", "values": ["north", "south"], "others": "other"}
COLUMNS = {"region": REGION, "income": {"kind": "number", "bounds": [10, 20], "missing": "column"}}
ENCODED = ["stay", "region=north", "region=south", "region=other", "income", "income=missing"]


@pytest.fixture
def config(make_config, tmp_path):
    frame = pl.DataFrame({"stay": [1.0, 2.0], "region": ["south", "elsewhere"], "income": [12.5, None]})
    frame.write_csv(tmp_path / "visits.csv")
    return make_config(bounds={"stay": [0, 30]}, columns=COLUMNS)


def asks_for(*columns):
    return JobInput(party="north", table="visits", columns=columns)


def names_of(config, *columns):
    return [column.name for column in describe_table(config, asks_for(*columns)).columns]


def test_a_job_names_the_column_of_the_table_or_an_encoded_one(config):
    assert names_of(config) == ENCODED
    assert names_of(config, "region") == ["region=north", "region=south", "region=other"]
    assert names_of(config, "region=other", "stay") == ["region=other", "stay"]
    assert names_of(config, *ENCODED) == ENCODED  # as `moiety tables` lists them
    with pytest.raises(TableError, match="more than once"):
        describe_table(config, asks_for("region", "region"))
    with pytest.raises(TableError, match="'region=west' has no public bounds"):
        describe_table(config, asks_for("region=west"))


def test_values_stand_in_the_order_of_the_job(config):
    table = load_table(config, asks_for("income", "stay", "region=other"))
    assert [column.name for column in table.schema.columns] == ["income", "income=missing", "stay", "region=other"]
    assert table.values.tolist() == [[12.5, 0.0, 1.0, 0.0], [10.0, 1.0, 2.0, 1.0]]
    assert (table.gaps, table.others) == ({"income": 1}, {"region": 1})


def test_the_public_schema_says_which_columns_are_a_group_and_old_ones_read_as_before(config):
    schema = describe_table(config, asks_for())
    assert [column.group for column in schema.columns] == [None, *["region"] * 3, *["income"] * 2]
    assert type(schema).from_json(schema.canonical_json()) == schema
    assert "group" not in describe_table(config, asks_for("stay")).canonical_json()


def test_the_catalogue_knows_the_columns_by_both_names(config):
    listed = ListedTable(name="visits", block=describe_table(config, asks_for()), usual=tuple(ENCODED), admitted={})
    for columns in ((), ("region",), ("income", "region=south")):
        assert listed.schema_of(asks_for(*columns)) == describe_table(config, asks_for(*columns))
    with pytest.raises(KeyError, match="region=west"):
        listed.schema_of(asks_for("region=west"))


def test_a_job_names_products_of_columns_which_are_those_of_clipped_values(make_config, tmp_path):
    (tmp_path / "visits.csv").write_text("stay,region,income\n40,south,12.5\n-3,east,\n3,north,1e300\n")
    config = make_config(bounds={"stay": [0, 30]}, columns=COLUMNS)
    asked = asks_for("stay^2", "income*stay", "stay*region")
    schema, table = describe_table(config, asked), load_table(config, asked)
    names = ["stay^2", "income*stay", "stay*region:north", "stay*region:south", "stay*region:other"]
    assert [column.name for column in schema.columns] == names
    assert [(column.lower, column.upper) for column in schema.columns] == [(0, 900), (0, 600), *[(0, 30)] * 3]
    assert [column.group for column in schema.columns] == [None, None, *["stay*region"] * 3]
    assert schema.columns[3].factors == ("stay", "region=south")
    assert table.values.tolist() == [[900, 375, 0, 30, 0], [0, 0, 0, 0, 0], [9, 60, 3, 0, 0]]
    assert type(schema).from_json(schema.canonical_json()) == schema
    assert "factors" not in describe_table(config, asks_for()).canonical_json()


def test_a_product_of_rows_of_one_id_is_that_of_the_row_that_counts(make_config, tmp_path):
    (tmp_path / "visits.csv").write_text("id,stay,cost\na,2,10\na,4,30\nb,5,1\n")
    matching = {"columns": ["id"], "duplicates": "mean"}
    config = make_config(bounds={"stay": [0, 30], "cost": [0, 100]}, matching=matching)
    table = load_table(config, asks_for("stay*cost", "stay"))
    assert table.values.tolist() == [[60.0, 3.0], [5.0, 5.0]]  # 3 * 20, and not (20 + 120) / 2


@pytest.mark.parametrize(
    "name", ["stay*id", "stay^9", "stay*", "income*income*income*stay^2", "region=north*region=south"]
)
def test_what_is_no_product_of_public_columns_is_refused_by_its_name(config, name):
    with pytest.raises(TableError, match=re.escape(f"{name!r} has no public bounds")):
        describe_table(config, asks_for(name))


@pytest.mark.parametrize("name", ["region", "region=south"])
def test_columns_on_request_have_either_name(make_config, name):
    config = make_config(bounds={"stay": [0, 30]}, columns=COLUMNS, on_request=[name])
    assert not {name} & set(names_of(config))
    assert ("region=north" in names_of(config)) == (name != "region")


def test_a_value_that_is_refused_is_told_to_nobody_but_the_owner(make_config, tmp_path):
    (tmp_path / "visits.csv").write_text("region\nnorth\nsecret-7\n")
    config = make_config(bounds={}, columns={"region": {**REGION, "others": "refuse"}})
    with pytest.raises(UnusableTableError) as caught:
        load_table(config, asks_for())
    assert caught.value.detail == "column 'region' has a value that is not of the kind that its section declares"
    assert "region" not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"bounds": {"region": [0, 1]}, "columns": {"region": REGION}}, "'region' has bounds already"),
        ({"bounds": {"region=north": [0, 1]}, "columns": {"region": REGION}}, "two columns would be called"),
        ({"bounds": {}, "columns": {"region": REGION}, "id_column": "region"}, "'region' is the id column"),
        ({"bounds": {}, "columns": {}}, "at least one column is needed"),
        ({"columns": {"region": {**REGION, "values": ["a\nb", "c"]}}}, r"U\+000A"),
        ({"columns": {"income": {"kind": "number", "bounds": [2, 1]}}}, "is not below upper bound"),
        ({"columns": {"region": {**REGION, "other": "refuse"}}}, "other"),
    ],
)
def test_sections_that_contradict_themselves_are_refused(make_config, section, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_config(**section)


def test_the_examples_of_the_documentation_are_understood(make_config):
    root = Path(__file__).parents[4]
    page = (root / "docs/tables.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    declared = next(tomllib.loads(block) for block in blocks if "[tables.columns]" in block)
    commented = (root / "examples/party.toml").read_text().rpartition("# [tables.columns]\n")[2]
    for columns in (declared["tables"]["columns"], tomllib.loads(re.sub(r"(?m)^# ", "", commented))):
        assert len(make_config(columns=columns).tables[0].columns) >= 5
