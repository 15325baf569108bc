"""Kinds of columns: what a value becomes, and that it stays inside what is declared whatever it is."""

from datetime import date, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from party.tables import encoding
from party.tables.encoding import encode
from party.tables.kinds import AnyColumnKind

KINDS = TypeAdapter(AnyColumnKind)
NUMBER = {"kind": "number", "bounds": [0, 10]}
REGION = {"kind": "category", "values": ["north", "south"]}
JOINED = {"kind": "date", "bounds": [date(2000, 1, 1), date(2020, 1, 1)]}
ANSWER = {"kind": "yes/no"}
AGES = {"kind": "bins", "edges": [0, 18, 65, 120]}
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
        (
            AGES,
            ["17.9", "18", "-5", "200"],
            {"c=0..18": [1, 0, 1, 0], "c=18..65": [0, 1, 0, 0], "c=65..120": [0, 0, 0, 1]},
        ),
        ({**AGES, "edges": [-0.5, 0.25, 1e6]}, [0.25, 0.2], {"c=-0.5..0.25": [0, 1], "c=0.25..1000000": [1, 0]}),
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


CODES = {"kind": "category", "values": ["1", "2"]}
GRADES = {"kind": "ordinal", "values": ["0", "0.5", "1"]}
ONE_TWO = {"kind": "yes/no", "yes": ["2"], "no": ["1"]}


@pytest.mark.parametrize(
    "values",
    [
        ["2", "1"],
        ["2.0", "1.0"],
        [" 2", "+1"],
        ["2.00", "1."],
        ["\uff12", "1\u200b"],
        [2, 1],
        [2.0, 1.0],
        pl.Series("c", [2.0, 1.0], dtype=pl.Float32),
        pl.Series("c", [2, 1], dtype=pl.UInt8),
        pl.Series("c", ["2.00", "1.00"]).cast(pl.Decimal(10, 2)),
        pl.Series("c", ["2.0", "1"], dtype=pl.Categorical),
    ],
)
def test_a_value_of_a_list_is_the_same_in_every_spelling_and_type(values):
    assert columns_of(CODES, values) == {"c=1": [0.0, 1.0], "c=2": [1.0, 0.0]}
    assert columns_of({**CODES, "values": ["1.0", "2"]}, values) == {"c=1.0": [0.0, 1.0], "c=2": [1.0, 0.0]}
    assert columns_of({**CODES, "kind": "ordinal"}, values) == {"c": [1.0, 0.0]}
    assert columns_of(ONE_TWO, values) == {"c": [1.0, 0.0]}


@pytest.mark.parametrize("values", [["True", "FALSE"], ["true", "false"], [True, False]])
def test_truth_values_are_the_same_in_every_spelling_and_type(values):
    listed = {"kind": "category", "values": ["true", "false"]}
    assert columns_of(listed, values) == {"c=true": [1.0, 0.0], "c=false": [0.0, 1.0]}
    assert columns_of(ANSWER, values) == {"c": [1.0, 0.0]}


@pytest.mark.parametrize("values", [["1", "0"], ["1.0", "0.0"], [1, 0], [1.0, 0.0], [1.0, -0.0]])
def test_one_and_zero_are_yes_and_no(values):
    assert columns_of(ANSWER, values) == {"c": [1.0, 0.0]}


def test_numbers_of_another_list_of_yes_and_no_are_not_one_and_zero():
    assert columns_of(ONE_TWO, [1, 2]) == {"c": [0.0, 1.0]}
    assert encoded(ONE_TWO, [0]).others.tolist() == [True]
    assert columns_of({**ANSWER, "yes": ["ja"], "no": ["nein"]}, [1, 0]) == {"c": [1.0, 0.0]}


def test_a_gap_of_bins_is_in_none_of_them_or_where_the_owner_says():
    column = columns_of({**AGES, **GAP_COLUMN, "gaps": ["-1"]}, ["20", "", "-1.0"])
    assert column == {"c=0..18": [0, 0, 0], "c=18..65": [1, 0, 0], "c=65..120": [0, 0, 0], "c=missing": [0, 1, 1]}
    assert columns_of({**AGES, "missing": {"value": 65}}, [None, 1.0])["c=65..120"] == [1, 0]
    assert encoded(AGES, ["much", "1"]).others.tolist() == [True, False]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"edges": [0, 18, 18]}, "edges: must ascend"),
        ({"edges": [0, float("nan"), 18]}, "edges: must ascend"),
        ({"values": ["0..18", "18..65"]}, "in the place of `values`"),
        ({"edges": [0, 1]}, "at least 3 items"),
        ({"edges": [0, 1, float("inf")]}, "finite"),
        ({"missing": {"value": 121}}, "must be a value of the column"),
        ({"others": "other"}, "others"),
    ],
)
def test_edges_that_make_no_intervals_are_refused(wrong, words):
    with pytest.raises(ValidationError, match=words):
        KINDS.validate_python({**AGES, **wrong})


def test_fractions_of_codes_and_zeros_in_front_are_other_values():
    assert columns_of(GRADES, ["1.0", ".5", "0.50", 0.0][:3]) == {"c": [2.0, 1.0, 1.0]}
    assert columns_of(GRADES, [0.5, 1.0]) == {"c": [1.0, 2.0]}
    for values in (["1.5", "01", "001.0", "1e0", "10"], [1.5, 10.0], ["1,0"]):
        assert encoded(CODES, values).others.all()


def test_a_list_in_a_file_with_decimal_commas():
    assert columns_of(CODES, ["1,0", "2"], decimal_comma=True) == {"c=1": [1.0, 0.0], "c=2": [0.0, 1.0]}
    listed = {**CODES, "values": ["1,5", "2,5"]}
    assert columns_of(listed, ["1,50", "2,5"], decimal_comma=True) == {"c=1,5": [1.0, 0.0], "c=2,5": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("declared", "gaps", "values"),
    [
        (NUMBER, ["-999"], ["-999", "-999.0", " -999"]),
        (NUMBER, ["-999"], [-999.0]),
        (NUMBER, ["-999.0"], [-999]),
        (NUMBER, ["NA", "?"], ["NA", "?\u200b"]),
        ({**NUMBER, "kind": "integer"}, ["99"], ["99.0"]),
        (CODES, ["9"], ["9.0", "9"]),
        (CODES, ["9"], [9.0]),
        (ANSWER, ["9", "Weiss nicht"], ["9.0", "weiss nicht"]),
        (ANSWER, ["9"], [9]),
        (JOINED, ["9999-12-31"], ["9999-12-31"]),
        (JOINED, ["9999-12-31"], [date(9999, 12, 31)]),
        (JOINED, ["1900-01-01"], [datetime(1900, 1, 1)]),
    ],
)
def test_a_declared_gap_is_one_in_every_spelling_and_type(declared, gaps, values):
    found = encoded({**declared, **GAP_COLUMN, "gaps": gaps}, values)
    assert found.gaps.all()
    assert not found.others.any()
    assert not found.refused.any()
    assert found.columns["c=missing"].tolist() == [1.0] * len(values)


@pytest.mark.parametrize("text", ["1,234", "1'299", "1 299", "12 %", "$5", "5-"])
@pytest.mark.parametrize("kind", ["number", "integer"])
def test_a_number_that_can_mean_two_things_is_refused_whatever_others_become(kind, text):
    lenient = {**NUMBER, "kind": kind, **GAP_COLUMN, "others": "missing"}
    found = encoded(lenient, ["1", text, "much"])
    assert found.refused.tolist() == [False, True, False]
    assert found.unclear.tolist() == [False, True, False]
    assert not encoded({**lenient, "gaps": [text]}, [text]).refused.any()  # the owner says what it is


@pytest.mark.parametrize("text", ["1.234", "1.0", "1.000"])
def test_a_point_is_refused_where_a_comma_stands_before_fractions(text):
    lenient = {**NUMBER, **GAP_COLUMN, "others": "missing"}
    assert encoded(lenient, [text], decimal_comma=True).refused.all()
    found = columns_of({**NUMBER, "bounds": [0, 1e6]}, ["1.234,5"], decimal_comma=True, thousands=".")
    assert found == {"c": [1234.5]}


def test_days_are_those_of_the_declared_zone_and_years_of_the_declared_hundred():
    late = pl.Series("c", [datetime(2000, 1, 3, 23, 30)]).dt.replace_time_zone("UTC")
    assert columns_of(JOINED, late) == {"c": [2.0]}
    assert columns_of({**JOINED, "zone": "Europe/Berlin"}, late) == {"c": [3.0]}
    assert columns_of({**JOINED, "format": "%d.%m.%y", "pivot": 1950}, ["03.01.00"]) == {"c": [2.0]}


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


ODD_NUMBERS = st.sampled_from([float("nan"), float("inf"), -float("inf"), -0.0, 0.5, 1e308, 2.0**53 + 2])


@settings(deadline=None)
@given(
    kind=st.sampled_from(["number", "integer"]),
    rules=st.sampled_from([(), ("column",), ("column", "missing"), ({"value": 3},), ({"value": 3}, "missing")]),
    values=st.one_of(
        st.lists(st.one_of(ODD_NUMBERS, st.floats(), st.integers(-5, 15).map(float)), min_size=1),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    ),
)
def test_numbers_in_columns_of_numbers_become_what_any_reader_makes_of_them(kind, rules, values):
    declared = {**NUMBER, "kind": kind, **dict(zip(("missing", "others"), rules, strict=False))}
    column = pl.Series("c", values)
    plain = encoded(declared, column)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(encoding, "_plain_numbers", lambda *_: None)
        read = encoded(declared, column)
    for name, codes in read.columns.items():
        assert codes.tobytes() == plain.columns[name].tobytes()
    for mask in ("gaps", "others", "refused", "unclear"):
        assert getattr(plain, mask).tolist() == getattr(read, mask).tolist()


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
        ({**REGION, "values": ["1", "1.0"]}, "'1' and '1.0' are one"),
        ({**SCHOOL, "values": ["True", "true"]}, "are one"),
        ({**REGION, "values": ["a", "b"], "gaps": ["b"]}, "values, gaps: the same value appears more than once"),
        ({**REGION, "values": ["1", "2"], "gaps": ["2.0"]}, "are one"),
        ({**NUMBER, "gaps": ["-9", "-9.0"]}, "gaps: the same value"),
        ({**ANSWER, "yes": ["1"], "no": ["1.0"]}, "none may mean both"),
        ({**ANSWER, "yes": ["1", "1.0"], "no": ["0"]}, "yes: the same value"),
        ({**JOINED, "format": "YYYY"}, "has no year"),
        ({**JOINED, "format": "%d.%m.%y"}, "pivot"),
        ({**JOINED, "pivot": 1950}, "only years of two digits"),
        ({**JOINED, "zone": "Mars/Phobos"}, "not a time zone"),
    ],
)
def test_declarations_that_cannot_be_kept_are_refused(declared, complaint):
    with pytest.raises(ValidationError, match=complaint):
        KINDS.validate_python(declared)
