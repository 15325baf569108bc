"""What the doctor says of values: of each spelling what helps, and nothing that would change a value in silence."""

import re

import polars as pl
import pytest

from cli.doctor import csv_faults
from cli.doctor.tables import check_table
from party.config import PartyConfig
from party.tables.sources.csv_file import CsvFile

NUMBER = {"kind": "number", "bounds": [0, 10], "missing": "column", "others": "missing"}
CATEGORY = {"kind": "category", "values": ["north", "south"], "others": "other"}
JOINED = {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "missing": "column", "others": "missing"}
RATINGS = {
    "kind": "ratings",
    "user": "who",
    "item": "film",
    "rating": "stars",
    "items": 5,
    "users": 10,
    "ratings_per_user": 2,
    "bounds": {"stars": [1, 5]},
}


@pytest.fixture
def examine(tmp_path):
    """The checks of a table by name, given its content and its section."""

    def examine(content, **table):
        if isinstance(content, pl.DataFrame):
            content.write_parquet(tmp_path / "visits.parquet")
            table.setdefault("path", "visits.parquet")
        else:
            (tmp_path / "visits.csv").write_text(content, encoding="utf-8")
        source = table.pop("source", None)
        where = (
            {"path": "visits.csv"} if source is None else {"source": {"kind": "csv", "path": "visits.csv", **source}}
        )
        document = {
            "name": "north",
            "federation": "clinics",
            "data_dir": "north-data",
            "tls": {"authority": "ca.pem", "certificate": "north.pem", "key": "north.key"},
            "coordinator": {"name": "coordinator", "address": "127.0.0.1:7100"},
            "peers": {"south": "127.0.0.1:7102", "west": "127.0.0.1:7103"},
            "tables": [{"name": "visits", "rows": [1, 1000], **where, **table}],
        }
        config = PartyConfig.model_validate(document, context={"folder": tmp_path})
        found = check_table(config, config.tables[0])
        return {check.name.removesuffix(" of visits"): check for check in found}

    return examine


def lines(*values, header="a"):
    return "\n".join([header, *values]) + "\n"


@pytest.mark.parametrize("value", ["1,234", "1,234.5", "1'234", "1 234", "12 %", "$5", "5 EUR", "(5)", "5-"])
def test_a_number_that_can_mean_two_things_is_asked_about_and_no_comma_is_advised(examine, value):
    for section in ({"bounds": {"a": [0, 10]}}, {"columns": {"a": NUMBER}}):
        check = examine(lines("1", f'"{value}"'), **section)["values"]
        assert check.outcome == "failed"
        assert value in check.found
        assert "thousands" in check.fix
        assert "Declare decimal_comma = true" not in check.fix


@pytest.mark.parametrize(("value", "is_comma"), [("1,5", True), ("1234,567", True), ("1,2345", True), ("1,234", False)])
def test_a_decimal_comma_is_advised_only_where_the_comma_can_be_nothing_else(examine, value, is_comma):
    check = examine(lines("1", f'"{value}"'), bounds={"a": [0, 10]})["values"]
    assert ("Declare decimal_comma = true" in check.fix) == is_comma


def test_the_advised_decimal_comma_reads_quoted_numbers_between_commas(examine):
    content = lines('"5,11",1', '"6,5",2', header="a,b")
    section = {"bounds": {"a": [0, 10], "b": [0, 10]}}
    assert "Declare decimal_comma = true" in examine(content, **section)["values"].fix
    assert examine(content, source={"decimal_comma": True}, **section)["values"].outcome == "ok"
    without_quotes = examine(lines("5,11,1", header="a,b"), source={"decimal_comma": True}, **section)
    assert "Quote values that contain a separator" in without_quotes["lines"].fix


def test_a_point_under_a_decimal_comma_is_told(examine):
    check = examine(lines("1", "1.234"), bounds={"a": [0, 10]}, source={"delimiter": ";", "decimal_comma": True})
    assert "thousands" in check["values"].fix


@pytest.mark.parametrize(
    ("content", "section", "told"),
    [
        (
            lines(*["1.5"] * 9, "north"),
            {"a": CATEGORY},
            "9 of 10 values are not of the declared kind; the commonest: '1.5'",
        ),
        (lines(*["NORTH"] * 10), {"a": CATEGORY}, "10 of 10"),
        (lines(*["much"] * 10), {"a": NUMBER}, "not of the declared kind; the commonest: 'much'"),
        (lines(*['""'] * 10), {"a": NUMBER}, "10 of 10 values are gaps; the commonest: ''"),
        (lines(*["11"] * 10), {"a": NUMBER}, "10 of 10 values are outside of their bounds; the commonest: '11'"),
        (lines(*["01.02.2020"] * 10), {"a": JOINED}, "not of the declared kind; the commonest: '01.02.2020'"),
        (lines(*["1999-12-31"] * 10), {"a": JOINED}, "outside of their bounds; the commonest: '1999-12-31'"),
        (pl.DataFrame({"a": [1.5] * 10}), {"a": CATEGORY}, "not of the declared kind; the commonest: '1.5'"),
    ],
)
def test_nearly_all_values_that_are_lost_are_told_with_the_commonest(examine, content, section, told):
    path = {"path": "visits.parquet"} if isinstance(content, pl.DataFrame) else {}
    check = examine(content, columns=section, **path)["lost values"]
    assert check.outcome == "warning"
    assert told in check.found


def test_few_lost_values_are_not_told(examine):
    assert "lost values" not in examine(lines(*["1"] * 9, "much"), columns={"a": NUMBER})


@pytest.mark.parametrize("sentinel", ["-999", "-9", "9999", "-1"])
@pytest.mark.parametrize("has_kind", [False, True])
def test_a_number_that_seems_to_mean_a_gap_is_asked_about(examine, sentinel, has_kind):
    section = {"columns": {"a": NUMBER}} if has_kind else {"bounds": {"a": [0, 10]}}
    check = examine(lines(*["1"] * 20, *[sentinel] * 3), **section)["gaps"]
    assert check.outcome == "warning"
    assert f'gaps = ["{sentinel}"]' in check.fix
    assert "`missing`" in check.fix
    assert ("kind" in check.fix) == (not has_kind)


def test_dates_are_printed_as_dates(examine):
    check = examine(lines("2020-05-05", "2021-02-03"), columns={"a": JOINED})["values"]
    assert "a: 2021-02-03" in check.found


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", ["missing", "kind"]),
        ("n/a", ["gaps", "missing", "kind", "yes/no", "category"]),
        ("yes", ["yes, no", "kind"]),
    ],
)
def test_the_fix_names_what_can_be_declared(examine, value, words):
    fix = examine(lines("1", f'"{value}"'), bounds={"a": [0, 10]})["values"].fix
    assert [word for word in words if word not in fix] == []


def test_a_space_in_a_header_is_named(examine):
    check = examine(lines("1", header="a "), bounds={"a": [0, 10]})["columns"]
    assert "the file has 'a ', with a space at an end" in check.found


def ratings(*rows):
    return "who,film,stars\n" + "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize(
    ("rows", "changes", "check", "words"),
    [
        (["ann,7.0,1", "bob,8.0,2"], {}, "lost values", "film: 2 of 2 values are of no declared item"),
        (["ann,0,20", "bob,1,100"], {}, "lost values", "stars: 2 of 2 values are outside of their bounds"),
        (["ann,0,1", "ann,0,2"], {}, "values", "1 rate an item that the same user has rated before"),
        (["ann,0,1", "bob,9,2"], {}, "values", "1 of them of a declared item"),
        (["ann,0,1", "bob,1,2"], {"users": 1}, "values", "2 ratings of 2 users"),
    ],
)
def test_ratings_that_would_not_count_are_told(examine, rows, changes, check, words):
    found = examine(ratings(*rows), **{**RATINGS, **changes})
    assert found[check].outcome == "warning"
    assert words in found[check].found
    assert "rows" not in found  # sums and means have no use for them


def test_ratings_that_count_are_passed(examine):
    found = examine(ratings("7,0.0,1", "8,1.0,5", "7.0,2,3"), **RATINGS)
    assert {check.outcome for check in found.values()} == {"ok"}
    assert found["values"].found == "3 ratings of 2 users, 3 of them of a declared item"


@pytest.mark.parametrize(
    ("ids", "steps", "outcome", "words"),
    [
        (["007", "123"], ["trim"], "warning", 'the step "integer"'),
        (["007", "123"], ["trim", "integer"], "ok", "50 % with zeros in front"),
        (["7", "1234"], ["trim"], "ok", "were zeros lost"),
        (["A1", "b2"], ["trim"], "warning", 'the step "lower"'),
        (["A1", "b2"], ["trim", "lower"], "ok", "50 % with capitals"),
        ([" a1", "b2"], ["trim"], "ok", "spaces around"),
        (["a1\u200b", "b2"], ["trim"], "ok", "characters that nobody sees"),
        (["7.0", "8.0"], ["digits"], "ok", "a fraction of zeros"),
        (["ab", "cd"], ["trim"], "ok", ": 2 characters;"),
        (["ab", "cde"], ["trim"], "ok", ": 2 to 3 characters;"),
        (["Zoe\u0308", "Bob"], ["trim"], "warning", 'the step "nfkc"'),
    ],
)
def test_ids_are_told_by_their_shape_and_none_is_shown(examine, ids, steps, outcome, words):
    rows = [f'"{one}",{place}' for place, one in enumerate(ids)]
    matching = {"columns": ["id"], "normalise": steps}
    check = examine(lines(*rows, header="id,a"), bounds={"a": [0, 10]}, matching=matching)["spelling of ids"]
    assert check.outcome == outcome
    assert words in check.found + check.fix
    assert [one for one in ids if len(one) > 1 and one.strip() in check.found + check.fix] == []


def test_text_that_was_read_in_the_wrong_encoding_is_told(examine):
    broken = "Z\u00fcrich".encode().decode("cp1252")
    found = examine(lines(broken, "north"), columns={"a": CATEGORY})
    assert "UTF-8 was read as another encoding" in found["encoding"].found
    assert "encoding" not in examine(lines("Z\u00fcrich", "north"), columns={"a": CATEGORY})


def test_values_that_are_no_numbers_are_not_called_so(examine):
    found = examine(lines("north", "south"), columns={"a": CATEGORY})["values"].found
    assert "as declared" in found
    assert "numbers" not in found


def test_a_table_without_ids_has_no_spelling_of_them(examine):
    assert "spelling of ids" not in examine(lines("1"), bounds={"a": [0, 10]})


@pytest.mark.parametrize("decimal_comma", [False, True])
@pytest.mark.parametrize(
    "text", ["15", "1.5", "1,5", "-0.25", "+1,234", "1.", ".5", "1e3", "1.234.567", "1" * 400 + ".5"]
)
def test_a_number_is_told_from_a_fault_alike_at_a_glance_and_as_tables_read_it(
    monkeypatch, tmp_path, text, decimal_comma
):
    source = CsvFile(path=tmp_path / "any.csv", delimiter=";", decimal_comma=decimal_comma)
    at_a_glance = csv_faults._fault_of(text, source, is_finite=True)
    monkeypatch.setattr(csv_faults, "_PLAIN", dict.fromkeys((False, True), re.compile("(?!)")))
    assert csv_faults._fault_of(text, source, is_finite=True) == at_a_glance
