"""Canonical spellings: which texts are one value of a list, and which lists say one value twice."""

import pytest

from party.tables.spelling.canonical import canonical, check_list, of_number


@pytest.mark.parametrize(
    ("value", "spellings"),
    [
        ("1", ["1", "1.0", "1.", "+1", " 1 ", "01.0"[1:], "1.000", "\uff11", "\u0661", "1\u200b", "\u200e1\u202c"]),
        ("-1", ["-1", "-1.0", "\u22121"]),
        ("0", ["0", "-0", "0.0", ".0", "+0.00"]),
        ("0.5", ["0.5", ".5", "0.50", "+.5"]),
        ("true", ["true", "True", "TRUE", " true"]),
        ("false", ["false", "False", "FALSE"]),
        ("Zo\u00eb", ["Zo\u00eb", "Zoe\u0308", " Zo\u00eb", "Zo\u00eb\u00a0"]),
        ("a b", ["a b", "a  b", "a\u00a0b"]),
        ("007", ["007", " 007"]),
        ("00", ["00"]),
        ("1e3", ["1e3"]),
        ("E10.0", ["E10.0"]),
        ("m\u00b2", ["m\u00b2"]),
        ("1,5", ["1,5"]),
        ("North", ["North"]),
    ],
)
def test_spellings_of_one_value(value, spellings):
    assert {canonical(one) for one in spellings} == {value}
    assert canonical(value) == value


def test_a_decimal_comma_is_one_where_it_is_declared():
    assert canonical("1,50", decimal_comma=True) == "1.5"
    assert canonical("1,0", decimal_comma=True) == "1"
    assert canonical("1.234", decimal_comma=True) == "1.234"
    assert canonical("1.234,5", decimal_comma=True) == "1.234,5"


@pytest.mark.parametrize(
    ("value", "text"), [(7.0, "7"), (-0.0, "0"), (0.1, "0.1"), (1e20, "1" + "0" * 20), (1e-7, "1e-07"), (2.5, "2.5")]
)
def test_numbers_that_have_a_type_are_spelled_like_their_texts(value, text):
    assert of_number(value) == text
    assert value < 1e-6 or canonical(str(value)) == text or value >= 1e16


@pytest.mark.parametrize(
    "values", [["1", "1.0"], ["True", "true"], ["a b", "a  b"], ["0", "-0"], ["Zo\u00eb", "Zoe\u0308"], ["x", "x"]]
)
def test_a_list_that_says_one_value_twice_is_refused(values):
    with pytest.raises(ValueError, match="values: the same value appears more than once"):
        check_list("values", ["other", *values])


@pytest.mark.parametrize("values", [["7", "007"], ["a", "A"], ["1", "10"], ["1.0", "1,0"]])
def test_other_values_are_two(values):
    check_list("values", values)


def test_a_decimal_comma_makes_two_texts_one():
    with pytest.raises(ValueError, match="are one"):
        check_list("values", ["1", "1,0"], decimal_comma=True)
