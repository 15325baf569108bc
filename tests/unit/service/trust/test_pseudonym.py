"""Pseudonyms of persons: the same at all apps with the key, and nothing without it."""

import base64
import hashlib

import pytest

from service.trust.pseudonym import name_of_device

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


def by_hand(key, text):
    """HMAC-SHA256 as RFC 2104 writes it, in base 32."""
    padded = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(one ^ 0x36 for one in padded) + text).digest()
    digest = hashlib.sha256(bytes(one ^ 0x5C for one in padded) + inner).digest()
    return base64.b32encode(digest[:16]).decode().rstrip("=").lower()


def test_all_apps_of_a_person_come_to_one_pseudonym():
    names = [name_of_device(KEY, "+43 660 1234567", record) for record in ("smokes", "sleeps-well")]
    pseudonym = by_hand(KEY, b"moiety pseudonym of a person:+43 660 1234567")
    assert names == [f"{pseudonym}-smokes", f"{pseudonym}-sleeps-well"]
    assert len(pseudonym) == 26


def test_without_the_key_nobody_finds_a_person_by_trying():
    """A hash that anybody can compute is found among all that might be meant; with another key none of them matches."""
    name, candidates = name_of_device(KEY, "0660-0417", "smokes"), [f"0660-{i:04d}" for i in range(1000)]
    assert [one for one in candidates if name_of_device(KEY, one, "smokes") == name] == ["0660-0417"]
    assert not [one for one in candidates if name_of_device(OTHER, one, "smokes") == name]


@pytest.mark.parametrize(("key", "record"), [(KEY[:31], "smokes"), (KEY, "Smokes"), (KEY, "s" * 40), (KEY, "")])
def test_a_short_key_or_a_long_name_is_refused_without_a_word_of_the_person(key, record):
    with pytest.raises(ValueError, match=r"32 random ones|name") as error:
        name_of_device(key, "somebody", record)
    assert "somebody" not in str(error.value)
