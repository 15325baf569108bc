"""Kinds of columns: what a value becomes, and that it stays inside what is declared whatever it is."""

from datetime import date, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from party.tables.encoding import encode
from party.tables.kinds import AnyColumnKind

KINDS = TypeAdapter(AnyColumnKind)
NUMBER = {"kind": "number", "bounds": [0, 10]}
REGION = {"kind": "category", "values": ["north", "south"]}
JOINED = {"kind": "date", "bounds": [date(2000, 1, 1), date(2020, 1, 1)]}
ANSWER = {"kind": "yes/no"}
SCHOOL = {"kind": "ordinal", "values": ["none", "school", "university"]}
GAP_COLUMN = {"missing": "column"}


def encoded(declared, values, **options):
    kind = KINDS.validate_python(declared)
    column = values if isinstance(values, pl.Series) else pl.Series("c", values)
    found = encode(kind, column, **options)
    assert list(found.columns) == [one.name for one in kind.encoded("c")]
    return found


def columns_of(declared, values, **options):
    found = encoded(declared, values, **options)
    assert not found.refused.any()
    return {name: codes.tolist() for name, codes in found.columns.items()}


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        (NUMBER, ["1", " 2.5 ", "1e1"], {"c": [1.0, 2.5, 10.0]}),
        (NUMBER, pl.Series("c", ["7.25"]).cast(pl.Decimal(10, 2)), {"c": [7.25]}),
        ({**NUMBER, "kind": "integer"}, [1.0, 3.0], {"c": [1.0, 3.0]}),
        (ANSWER, ["Yes", "no", "TRUE", "0"], {"c": [1.0, 0.0, 1.0, 0.0]}),
        (ANSWER, [True, False], {"c": [1.0, 0.0]}),
        ({**ANSWER, "yes": ["Ja"], "no": ["Nein"]}, ["JA", " nein"], {"c": [1.0, 0.0]}),
        (REGION, ["south", "north "], {"c=north": [0.0, 1.0], "c=south": [1.0, 0.0]}),
        ({"kind": "category", "values": ["1", "2"]}, [2, 1], {"c=1": [0.0, 1.0], "c=2": [1.0, 0.0]}),
        (REGION, pl.Series("c", ["south"], dtype=pl.Categorical), {"c=north": [0.0], "c=south": [1.0]}),
        (SCHOOL, ["university", "none"], {"c": [2.0, 0.0]}),
        (JOINED, ["2000-01-02", "1999-12-31"], {"c": [1.0, -1.0]}),
        (JOINED, [date(2000, 2, 1)], {"c": [31.0]}),
        ({**JOINED, "since": date(1999, 12, 31)}, [datetime(2000, 1, 1, 23, 59)], {"c": [1.0]}),
        (JOINED, pl.Series("c", [datetime(2000, 1, 3)]).dt.replace_time_zone("Europe/Berlin"), {"c": [2.0]}),
        ({**JOINED, "format": "%d.%m.%Y"}, ["03.01.2000"], {"c": [2.0]}),
    ],
)
def test_values_of_a_kind_become_numbers(declared, values, expected):
    assert columns_of(declared, values) == expected


def test_a_decimal_comma_is_read_where_it_is_declared():
    assert columns_of(NUMBER, ["2,5"], decimal_comma=True) == {"c": [2.5]}
    assert encoded(NUMBER, ["2,5"]).others.tolist() == [True]


@pytest.mark.parametrize("declared", [NUMBER, {**NUMBER, "kind": "integer"}, REGION, JOINED, ANSWER, SCHOOL])
def test_gaps_and_values_of_another_kind_are_refused_unless_something_else_is_declared(declared):
    found = encoded(declared, ["?!", None, "", "  "])
    assert found.others.tolist() == [True, False, False, False]
    assert found.gaps.tolist() == [False, True, True, True]
    assert found.refused.all()
    as_gap = encoded({**declared, "missing": "column", "others": "missing", "gaps": ["?!"]}, ["?!", "what", None])
    assert as_gap.gaps.tolist() == [True, False, True]
    assert as_gap.others.tolist() == [False, True, False]
    assert not as_gap.refused.any()
    assert as_gap.columns["c=missing"].tolist() == [1.0, 1.0, 1.0]


def test_a_number_that_is_missing_stands_on_its_lower_bound_beside_its_indicator():
    declared = {"kind": "number", "bounds": [-3, 10], **GAP_COLUMN}
    assert columns_of(declared, [5.0, None, float("nan")]) == {"c": [5.0, -3.0, -3.0], "c=missing": [0.0, 1.0, 1.0]}


def test_a_public_constant_fills_gaps():
    assert columns_of({**NUMBER, "missing": {"value": 4}}, ["1", "", "nan"]) == {"c": [1.0, 4.0, 4.0]}
    assert columns_of({**REGION, "missing": {"value": "south"}}, ["north", None]) == {
        "c=north": [1.0, 0.0],
        "c=south": [0.0, 1.0],
    }
    assert columns_of({**JOINED, "missing": {"value": date(2000, 1, 11)}}, [None, "2000-01-01"]) == {"c": [10.0, 0.0]}
    assert columns_of({**ANSWER, "missing": {"value": "no"}}, [None, "yes"]) == {"c": [0.0, 1.0]}


def test_other_values_of_a_category_have_a_column_of_their_own_if_declared():
    found = encoded({**REGION, "others": "other"}, ["west", "north"])
    assert found.columns["c=other"].tolist() == [1.0, 0.0]
    assert found.others.tolist() == [True, False]
    assert not found.refused.any()


def test_a_whole_number_with_a_fraction_is_not_of_its_kind():
    assert encoded({**NUMBER, "kind": "integer"}, [1.5, 2.0]).others.tolist() == [True, False]


RULES = st.fixed_dictionaries({"missing": st.sampled_from(["refuse", "column"]), "gaps": st.sampled_from([[], ["NA"]])})
ODD = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.sampled_from(["north", "south", "yes", "NO", "2001-01-01", "1e400", "-inf", "nan", "NA", "other", "missing"]),
    st.floats().map(str),
)
SERIES = st.one_of(
    st.lists(ODD, min_size=1).map(lambda v: pl.Series("c", v, dtype=pl.String)),
    st.lists(st.floats() | st.none(), min_size=1).map(lambda v: pl.Series("c", v, dtype=pl.Float64)),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), min_size=1).map(lambda v: pl.Series("c", v, dtype=pl.Int64)),
    st.lists(st.booleans() | st.none(), min_size=1).map(lambda v: pl.Series("c", v, dtype=pl.Boolean)),
    st.lists(st.dates() | st.none(), min_size=1).map(lambda v: pl.Series("c", v, dtype=pl.Date)),
    st.lists(st.binary() | st.none(), min_size=1).map(lambda v: pl.Series("c", v, dtype=pl.Binary)),
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([NUMBER, {**NUMBER, "kind": "integer"}, REGION, JOINED, ANSWER, SCHOOL]), RULES, SERIES)
def test_whatever_the_values_are_at_most_one_column_of_a_group_is_away_from_its_lower_bound(declared, rules, column):
    others = ["refuse"]
    others += ["missing"] * (rules["missing"] == "column") + ["other"] * (declared["kind"] == "category")
    for other in others:
        kind = KINDS.validate_python({**declared, **rules, "others": other})
        found = encode(kind, column)
        away = np.zeros(len(column))
        for one in kind.encoded("c"):
            codes = found.columns[one.name]
            assert np.isfinite(codes).all()
            away += np.clip(codes, one.lower, one.upper) > one.lower
        if len(found.columns) > 1:
            assert away.max() <= 1
        assert not (found.gaps & found.others).any()
        assert not (found.refused & ~found.gaps & ~found.others).any()


@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        ({**REGION, "values": ["north", "north"]}, "more than once"),
        ({**REGION, "values": ["north", "other"], "others": "other"}, "stands for all values"),
        ({**REGION, "values": ["north", "missing"], "missing": "column"}, "stands for gaps"),
        ({**REGION, "values": ["north"]}, "at least 2"),
        ({**NUMBER, "missing": {"value": 11}}, "within its bounds"),
        ({**NUMBER, "missing": {"value": "4"}}, "within its bounds"),
        ({**JOINED, "missing": {"value": date(1999, 1, 1)}}, "within its bounds"),
        ({**REGION, "missing": {"value": "west"}}, "in its list"),
        ({**NUMBER, "others": "missing"}, "needs a rule for gaps"),
        ({**ANSWER, "yes": ["si"], "no": ["SI"]}, "none may mean both"),
        ({"kind": "colour"}, "colour"),
    ],
)
def test_declarations_that_cannot_be_kept_are_refused(declared, complaint):
    with pytest.raises(ValidationError, match=complaint):
        KINDS.validate_python(declared)
