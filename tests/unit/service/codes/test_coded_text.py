import pytest

from service.codes.coded_text import coded, joined, parted, told
from service.errors import NotFoundError


def test_a_text_ends_in_its_code_and_is_parted_again():
    assert told(NotFoundError("no such thing")) == "no such thing [not-found]"
    assert parted("no such thing [not-found]") == ("no such thing", "not-found")


def test_a_text_that_has_a_code_keeps_it_because_it_names_the_cause():
    assert coded("party west: it is away [nothing-listens]", code="job-failed").endswith("away [nothing-listens]")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[a]",
        "plain",
        "one of [1, 2]",
        "x [UPPER-CASE]",
        "x [one]",
        "x [a-b] and more",
        f"x [{'a' * 39}-b]",
        "x [a--b]",
    ],
)
def test_other_brackets_are_no_code(text):
    assert parted(text) == (text, "")


def test_several_texts_have_the_code_of_the_first_that_has_one():
    assert joined(["a", "b [b-b]", "c [c-c]"]) == "a; b; c [b-b]"
    assert joined(["a", "b"]) == "a; b"
