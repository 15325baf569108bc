"""Whole tables in files of other spellings: folders whose files differ, commas, marks, queries over text."""

from datetime import date

import polars as pl
import pytest

from analyses.job.job import JobInput
from party.tables.sources.csv_file import CsvFile
from party.tables.table import UnusableTableError, load_table

ASKED = JobInput(party="north", table="visits")
CODES = {"a": {"kind": "category", "values": ["1", "2"], "others": "other"}}
GAPS = {"kind": "number", "bounds": [0, 10], "missing": "column", "others": "missing"}


@pytest.fixture
def read(make_config):
    def read(**table):
        return load_table(make_config(**{"bounds": {}, **table}), ASKED)

    return read


@pytest.fixture
def refused(read):
    def refused(**table):
        with pytest.raises(UnusableTableError) as caught:
            read(**table)
        return caught.value.detail

    return refused


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("values", [([1, 2], [1.0]), ([1.0], [2, 1]), ([1], [2.0, 1.0]), ([1.0, 2.0], [1])])
def test_whole_numbers_in_one_file_and_floats_in_another_are_the_same_codes(read, tmp_path, kind, values):
    folder = tmp_path / "parts"
    folder.mkdir()
    for place, some in enumerate(values):
        write = getattr(pl.DataFrame({"a": some}), "write_parquet" if kind == "parquet" else "write_ipc")
        write(folder / f"{place}.{kind}")
    table = read(path=None, source={"kind": kind, "path": "parts"}, columns=CODES)
    expected = [float(one == 1) for some in values for one in some]
    assert table.values[:, 0].tolist() == expected
    assert table.values[:, 1].tolist() == [1 - one for one in expected]
    assert table.others == {}


FORM = {"kind": "csv", "path": "visits.csv", "delimiter": ";"}


@pytest.mark.parametrize(
    ("texts", "form", "found"),
    [
        (["1,5", "2"], {"decimal_comma": True}, [1.5, 2.0]),
        ([" 1,5", "2 "], {"decimal_comma": True}, [1.5, 2.0]),
        (["1.234,5", "2"], {"decimal_comma": True, "thousands": "."}, [1234.5, 2.0]),
        (["1,234.5", "2"], {"thousands": ","}, [1234.5, 2.0]),
        (["1'234", "2"], {"thousands": "'"}, [1234.0, 2.0]),
        (["1 234", "2\u00a0345"], {"thousands": " "}, [1234.0, 2345.0]),
        (["+1.5", " 2\t"], {}, [1.5, 2.0]),
        (["\uff11", "\u22122"], {}, [1.0, -2.0]),
    ],
)
def test_numbers_with_bounds_and_of_a_kind_are_read_alike(read, tmp_path, texts, form, found):
    (tmp_path / "visits.csv").write_text("a;b\n" + "".join(f"{one};{one}\n" for one in texts), encoding="utf-8")
    kind = {"kind": "number", "bounds": [-1e6, 1e6]}
    table = read(path=None, source={**FORM, **form}, bounds={"a": [-1e6, 1e6]}, columns={"b": kind})
    assert table.values[:, 0].tolist() == found
    assert table.values[:, 1].tolist() == found


def test_a_comma_may_separate_columns_and_stand_within_quoted_numbers(read, tmp_path):
    (tmp_path / "visits.csv").write_text('a,b\n"1,5",2\n3,"4,25"\n', encoding="utf-8")
    table = read(path=None, source={**FORM, "delimiter": ",", "decimal_comma": True}, bounds={"a": [0, 9], "b": [0, 9]})
    assert table.values.tolist() == [[1.5, 2.0], [3.0, 4.25]]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("1.234", {"decimal_comma": True}),
        ("1.0", {"decimal_comma": True}),
        ("1,234", {}),
        ("1,5", {}),
        ("1'234", {}),
        ("12 %", {}),
        ("$5", {"thousands": ","}),
        ("1.23", {"decimal_comma": True, "thousands": "."}),
    ],
)
def test_what_can_be_two_numbers_is_refused_with_bounds_and_whatever_a_kind_says_of_others(
    refused, tmp_path, text, form
):
    (tmp_path / "visits.csv").write_text(f"a;b\n1;1\n{text};{text}\n", encoding="utf-8")
    source = {**FORM, **form}
    assert refused(path=None, source=source, bounds={"a": [0, 10]}) == "column 'a' is not numeric"
    assert "not of the kind" in refused(path=None, source=source, columns={"b": GAPS})


@pytest.mark.parametrize(
    "form", [{"thousands": "."}, {"decimal_comma": True, "thousands": ","}, {"thousands": "x"}, {"thousands": ".."}]
)
def test_marks_that_cannot_be_are_refused(tmp_path, form):
    with pytest.raises(ValueError, match="thousands"):
        CsvFile(path=tmp_path / "visits.csv", delimiter=";", **form)


def test_a_comma_makes_two_texts_of_a_list_one(make_config):
    listed = {"a": {"kind": "category", "values": ["1", "1,0"]}}
    make_config(bounds={}, columns=listed)
    with pytest.raises(ValueError, match=r"columns\.a: values: .* are one"):
        make_config(path=None, source={**FORM, "decimal_comma": True}, bounds={}, columns=listed)


def test_a_query_over_csv_has_text_and_owners_say_what_is_a_number(read, refused, tmp_path):
    (tmp_path / "v.csv").write_text("id,zip,cost,day\n007,01234,1.5,2020-02-01\n008,01235,2.5,2020-02-02\n")
    section = {
        "zip": {"kind": "category", "values": ["01234", "01235"]},
        "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
    }

    def source(query):
        return {"kind": "query", "files": {"v": "v.csv"}, "query": query}

    table = read(path=None, source=source("SELECT * FROM v"), id_column="id", bounds={"cost": [0, 9]}, columns=section)
    assert table.values.tolist() == [[1.5, 1.0, 0.0, 31.0], [2.5, 0.0, 1.0, 32.0]]
    cast = source("SELECT id, CAST(cost AS DOUBLE) * 2 AS twice FROM v WHERE CAST(cost AS DOUBLE) > 2")
    assert read(path=None, source=cast, bounds={"twice": [0, 9]}).values.tolist() == [[5.0]]
    assert "query" in refused(path=None, source=source("SELECT * FROM v WHERE cost > 2"), bounds={"cost": [0, 9]})


def test_filters_know_values_in_every_spelling(make_config, tmp_path):
    (tmp_path / "visits.csv").write_text("a\n1.0\n2\n1\n")
    config = make_config(bounds={}, columns=CODES, filters={"ones": {"a": {"one_of": ["1.00"]}}})
    table = load_table(config, JobInput(party="north", table="visits", where="ones"))
    assert len(table.values) == 2


def test_dates_that_identify_rows_have_a_pivot_and_a_zone(make_config, tmp_path):
    def ids(values, form):
        pl.DataFrame({"born": values, "a": [1.0] * len(values)}).write_parquet(tmp_path / "visits.parquet")
        matching = {"columns": ["born"], "normalise": ["date"], "date_formats": {"born": form}}
        config = make_config(path="visits.parquet", bounds={"a": [0, 9]}, matching=matching)
        return load_table(config, ASKED).ids.tolist()

    known = ids(["1929-02-01"], "%Y-%m-%d")
    assert ids(["01.02.29"], {"format": "%d.%m.%y", "pivot": 1920}) == known
    assert ids(["01.02.29"], {"format": "%d.%m.%y", "pivot": 1930}) != known
    assert ids([date(1929, 2, 1)], {"zone": "Asia/Tokyo"}) == known
    for wrong in ("%d.%m.%y", "dd.mm.yyyy"):
        with pytest.raises(ValueError, match=r"format|pivot"):
            ids(["01.02.29"], wrong)
