"""Numbers in texts: one rule for each spelling, and what could be two numbers is neither."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from party.tables.spelling.numbers import numbers_of

COMMA = {"decimal_comma": True}
UNCLEAR, NONE = "unclear", None


def read(text, **form):
    found = numbers_of(pl.Series([text], dtype=pl.String), **form)
    return UNCLEAR if found.unclear[0] else found.values[0]


@pytest.mark.parametrize(
    ("text", "plain", "with_comma"),
    [
        ("12", 12.0, 12.0),
        (" 12\t", 12.0, 12.0),
        ("\u00a012\u202f", 12.0, 12.0),
        ("12\u200b", 12.0, 12.0),
        ("\ufeff12", 12.0, 12.0),
        ("+12", 12.0, 12.0),
        ("\u221212", -12.0, -12.0),
        ("\uff11\uff12", 12.0, 12.0),
        ("\u0661\u0662", 12.0, 12.0),
        ("1e3", 1000.0, 1000.0),
        ("1.5E-1", 0.15, UNCLEAR),
        ("1,5e3", UNCLEAR, 1500.0),
        ("007", 7.0, 7.0),
        ("1.5", 1.5, UNCLEAR),
        ("1,5", UNCLEAR, 1.5),
        ("1.234", 1.234, UNCLEAR),
        ("1,234", UNCLEAR, 1.234),
        (".5", 0.5, UNCLEAR),
        (",5", UNCLEAR, 0.5),
        ("1.234,5", UNCLEAR, UNCLEAR),
        ("1,234.5", UNCLEAR, UNCLEAR),
        ("1.234.567", UNCLEAR, UNCLEAR),
        ("12,34,567", UNCLEAR, UNCLEAR),
        ("1 234", UNCLEAR, UNCLEAR),
        ("1\u00a0234", UNCLEAR, UNCLEAR),
        ("1'234", UNCLEAR, UNCLEAR),
        ("1\u2019234,50", UNCLEAR, UNCLEAR),
        ("1_234", UNCLEAR, UNCLEAR),
        ("12 %", UNCLEAR, UNCLEAR),
        ("12%", UNCLEAR, UNCLEAR),
        ("\u20ac 12", UNCLEAR, UNCLEAR),
        ("$1,234.50", UNCLEAR, UNCLEAR),
        ("-$12", UNCLEAR, UNCLEAR),
        ("12 EUR", UNCLEAR, UNCLEAR),
        ("CHF 12", UNCLEAR, UNCLEAR),
        ("12-", UNCLEAR, UNCLEAR),
        ("(12)", UNCLEAR, UNCLEAR),
        ("12 kg", NONE, NONE),
        ("10\u00b2", NONE, NONE),
        ("\u00bd", NONE, NONE),
        ("2020-01-31", NONE, NONE),
        ("31.12.2020", NONE, NONE),
        ("0x1F", NONE, NONE),
        ("1.2.3", NONE, NONE),
        ("twelve", NONE, NONE),
        ("", NONE, NONE),
    ],
)
def test_each_spelling_has_one_rule(text, plain, with_comma):
    assert read(text) == plain
    assert read(text, **COMMA) == with_comma


@pytest.mark.parametrize(
    ("text", "mark", "comma", "found"),
    [
        ("1,234", ",", False, 1234.0),
        ("1,234,567.5", ",", False, 1234567.5),
        ("-12,345", ",", False, -12345.0),
        ("12,34", ",", False, UNCLEAR),
        ("1,2345", ",", False, UNCLEAR),
        ("1.234", ",", False, 1.234),
        ("1.234", ".", True, 1234.0),
        ("1.234.567,5", ".", True, 1234567.5),
        ("1.23", ".", True, UNCLEAR),
        ("1,5", ".", True, 1.5),
        ("1 234,5", " ", True, 1234.5),
        ("1\u00a0234\u202f567", " ", False, 1234567.0),
        ("1'234.5", "'", False, 1234.5),
        ("1\u2019234", "'", False, 1234.0),
        ("1,234", "'", False, UNCLEAR),
        ("$1,234", ",", False, UNCLEAR),
    ],
)
def test_marks_between_groups_of_digits_are_understood_where_they_are_declared(text, mark, comma, found):
    assert read(text, decimal_comma=comma, thousands=mark) == found


@settings(max_examples=40)
@given(st.lists(st.one_of(st.none(), st.text(alphabet="0123456789.,-+ '%e$\u00a0\uff11", max_size=9)), min_size=1))
def test_a_text_is_read_alike_alone_and_among_others_and_is_never_a_number_and_unclear(texts):
    for form in ({}, COMMA, {"thousands": ","}):
        found = numbers_of(pl.Series(texts, dtype=pl.String), **form)
        alone = [UNCLEAR if text is not None and read(text, **form) == UNCLEAR else NONE for text in texts]
        assert [UNCLEAR if one else NONE for one in found.unclear] == alone
        assert not (found.values.is_not_null() & found.unclear).any()
        assert found.values.is_not_null().to_list() == [
            text is not None and read(text, **form) not in (NONE, UNCLEAR) for text in texts
        ]
