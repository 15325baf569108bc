import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc.public_text import check_public, is_public, made_public, public_json, public_tree

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
CHARACTERS = [chr(number) for number in range(0x110000)]


def test_no_character_of_a_forbidden_category_is_public_and_all_letters_and_signs_are():
    for c in CHARACTERS:
        category = unicodedata.category(c)
        if category in FORBIDDEN or (category == "Zs" and c != " "):
            assert not is_public(c), hex(ord(c))
        elif category in {"Lu", "Ll", "Nd", "Sm", "Sc", "Pd", "Ps", "Pe"}:
            assert is_public(c), hex(ord(c))
    assert is_public("Überblick 傾向 “quoted”, 5 %")


@pytest.mark.parametrize("blank", "\u2800\u3164\u115f\u1160\uffa0\u034f\ufe0f\U000e0100")
def test_printable_characters_that_show_nothing_are_not_public(blank):
    assert not is_public(f"a{blank}b")
    with pytest.raises(ValueError, match=f"title: the character U\\+{ord(blank):04X}"):
        check_public(f"a{blank}b", "title")


@given(st.text(max_size=300), st.integers(10, 200))
@settings(deadline=None)
def test_what_is_made_public_is_public_short_and_stays_as_it_is(text, most):
    shown = made_public(text, most)
    assert is_public(shown)
    assert len(shown) <= most
    assert made_public(shown, most) == shown


def test_what_was_changed_can_be_seen():
    assert made_public("a\u202eb\x1b[2Jc") == r"a\u202eb\x1b[2Jc"
    assert made_public("one\r\ntwo\t\u2028three ") == "one two three"
    assert made_public("x" * 50, 20) == "x" * 17 + "..."


@pytest.mark.parametrize("value", [["\n"], {"a": {"b": ("c", "\x00")}}, {"\u202e": 1}], ids=str)
def test_texts_inside_of_values_are_checked_with_their_names(value):
    with pytest.raises(ValueError, match="parameters: the character"):
        check_public(value, "parameters")


def test_texts_that_are_too_long_are_refused():
    check_public("x" * 10, "title", most_characters=10)
    with pytest.raises(ValueError, match="title: longer than 10 characters"):
        check_public("x" * 11, "title", most_characters=10)


def test_honest_json_is_returned_byte_for_byte_and_other_json_is_mended():
    honest = '{"b":[1.0,"Ü",null],"a":"' + "x" * 5000 + '"}'
    assert public_json(honest) is honest
    mended = json.loads(public_json(json.dumps({"a\x1b": ["\u202e", 1.5, {"b": "c\nd"}]})))
    assert mended == {"a\\x1b": ["\\u202e", 1.5, {"b": "c d"}]}
    assert public_tree(mended) == mended
    for text in ("", "{", "[" * 100_000):
        with pytest.raises(ValueError, match=r"."):
            public_json(text)
