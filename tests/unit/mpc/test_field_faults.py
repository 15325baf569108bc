"""Faults of fields in plain words: nothing of the library that finds them."""

import re
import tomllib
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mpc.field_faults import fault_in_words, fields_beside, place_in_words, toml_fault

LIBRARY = re.compile(r"(Input|String) should|pydantic|valid (tuple|list|dictionary|integer|number|string)|\^\[|tuple\[")


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["a", "b"] = "a"
    most_rows: int = 1


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.5
    count: Annotated[int, Field(ge=1, le=9)] = 1
    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")] = "a"
    texts: Annotated[tuple[str, ...], Field(min_length=1)] = ("a",)
    either: str | tuple[str, ...] = "a"
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    renamed: Annotated[float, Field(alias="privacy")] = 1.0
    yes: bool = True


def told(tree):
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate(tree)
    return [
        f"{place_in_words(problem['loc'])}: {fault_in_words(problem, fields_beside(Whole, problem['loc']))}"
        for problem in caught.value.errors()
    ]


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"number": "x"}, "number: must be a number"),
        ({"number": 0}, "number: must be greater than 0"),
        ({"number": 1}, "number: must be less than 1"),
        ({"number": float("nan")}, "number: must be a finite number"),
        ({"count": 0}, "count: must be at least 1"),
        ({"count": 10}, "count: must be at most 9"),
        ({"count": 1.5}, "count: must be a whole number"),
        ({"count": "many"}, "count: must be a whole number"),
        ({"name": "My Bank"}, "name: a name has 1 to 63 lower-case letters"),
        ({"name": 5}, "name: must be text"),
        ({"texts": "a"}, "texts: must be a list"),
        ({"texts": []}, "texts: must have at least 1 entries"),
        ({"either": 5}, "either"),
        ({"inner": 5}, "inner: must be a section, with fields of its own"),
        ({"inner": {"kind": "c"}}, "inner.kind: must be 'a' or 'b'"),
        ({"yes": "perhaps"}, "yes: must be true or false"),
        ({"nubmer": 1}, "nubmer: there is no such field; did you mean 'number'?"),
        ({"privasy": 1}, "privasy: there is no such field; did you mean 'privacy'?"),
        ({"inner": {"max_rows": 1}}, "inner.max_rows: there is no such field; did you mean 'most_rows'?"),
        ({"inners": [{}, {"knd": "a"}]}, "inners.1.knd: there is no such field; did you mean 'kind'?"),
        ({"zzz": 1}, "zzz: there is no such field"),
    ],
)
def test_faults_are_told_in_plain_words_and_unknown_fields_with_the_closest_one(tree, words):
    lines = told(tree)
    assert lines[0].startswith(words)
    for line in lines:
        assert not LIBRARY.search(line), line


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Einkommen (EUR) = 1", "a name with other characters"),
        ("größe = 1", "a name with other characters"),
        ("columns = [age, income]", "text stands in straight quotation marks"),
        ("columns = [info]", "text stands in straight quotation marks"),
        ("name = “bank”", "text stands in straight quotation marks"),
        ("id = 2nd", "text stands in straight quotation marks"),
        ("order = True", "true and false are written in small letters"),
        ("epsilon = .5", "a number begins with a digit"),
        (r'path = "C:\Users"', "text with backslashes"),
        (r'path = "C:\data"', "text with backslashes"),
        ("a = 1\na = 2", ""),
    ],
)
def test_what_toml_cannot_be_is_told_with_what_it_must_look_like(text, hint):
    with pytest.raises(tomllib.TOMLDecodeError) as caught:
        tomllib.loads(text)
    _, _, told = toml_fault(caught.value).partition("; ")
    assert hint in told
    assert bool(hint) == bool(told)
