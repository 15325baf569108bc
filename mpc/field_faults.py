"""What is wrong with a field of a job, a question or a configuration, in words for whoever wrote it.

The library that checks fields tells of types and patterns of its own language. Here each kind of fault that it knows
has a plain text; a kind without one is told as the library tells it.
"""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args

_NUMBER, _WHOLE, _TEXT, _LIST = "must be a number", "must be a whole number", "must be text", "must be a list"
_SECTION, _YES_NO = "must be a section, with fields of its own", "must be true or false"

_TEXTS = {
    "missing": "missing",
    "extra_forbidden": "there is no such field",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "finite_number": "must be a finite number",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "union_tag_invalid": "must be one of {expected_tags}",
    "union_tag_not_found": "its kind is missing",
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "bool_type": _YES_NO,
    "bool_parsing": _YES_NO,
    "string_type": _TEXT,
    "string_sub_type": _TEXT,
    "string_unicode": _TEXT,
    "path_type": _TEXT,
    "bytes_type": _TEXT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "iterable_type": _LIST,
    "dict_type": _SECTION,
    "mapping_type": _SECTION,
    "model_type": _SECTION,
    "model_attributes_type": _SECTION,
    "dataclass_type": _SECTION,
    "none_required": "must be left out",
    "date_type": "must be a date",
    "date_parsing": "must be a date",
    "date_from_datetime_parsing": "must be a date",
    "datetime_type": "must be a date and a time",
    "datetime_parsing": "must be a date and a time",
    "datetime_from_date_parsing": "must be a date and a time",
    "timezone_aware": "must say its time zone",
    "url_type": "must be a URL",
    "url_parsing": "must be a URL",
    "url_scheme": "must be a URL that begins with {expected_schemes}",
    "json_invalid": "must be JSON",
    "json_type": "must be JSON",
}
"""Text of each kind of fault, by its name in the library; in braces what the library says of it."""

_PATTERNS = {
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$": (
        "a name has 1 to 63 lower-case letters, digits and hyphens, with no hyphen at either end"
    ),
    r"^[^.]+\..+$": "must be PARTY.COLUMN",
    r"^[^.]+(\.[^.]+)?$": "must be TABLE or SCHEMA.TABLE",
    r"^[^\"\r\n0-9A-Za-z]$": "must be one character, and no letter, digit, quote or end of a line",
}
"""Texts of the patterns that fields have."""

_TOML_HINTS = {
    ("Expected '=' after a key", "Invalid initial character for a key"): (
        "a name with other characters than A-Z, a-z, 0-9, _ and - stands in quotation marks"
    ),
    ("Invalid value", "Unclosed array", "Expected newline or end of document after a statement"): (
        'text stands in straight quotation marks ("age"), a number begins with a digit or a sign, and true and false '
        "are written in small letters"
    ),
    ("Invalid hex value", "Unescaped"): "text with backslashes stands in single quotation marks",
}
"""What to look for where TOML cannot be read, by the beginnings of what the library says."""

_OF_TYPES = re.compile(r"[\[\](){}]|^(?:function|constrained|lax-or-strict|is-instance|nullable|chain)\b")
"""Parts of a place that name types of the library, where a field may be one of several."""


def fault_in_words(problem: Mapping[str, Any], fields: Collection[str] = ()) -> str:
    """Return what is wrong with a field.

    Args:
        problem: one error of the library, with its `ctx`.
        fields: those that may stand at the place of an unknown field; the closest is named.
    """
    if problem["type"] == "string_pattern_mismatch":
        return _PATTERNS.get(problem["ctx"]["pattern"], "is not written as it must be")
    if problem["type"] == "int_type" and isinstance(problem["input"], float):
        return f"{_WHOLE}, without a point or an exponent"
    text = _TEXTS.get(problem["type"])
    if text is None:
        return str(problem["msg"]).removeprefix("Value error, ")
    told = text.format_map({name: _plain(value) for name, value in problem.get("ctx", {}).items()})
    if problem["type"] == "extra_forbidden" and problem["loc"]:
        close = difflib.get_close_matches(str(problem["loc"][-1]), fields, 1)
        told += f"; did you mean {close[0]!r}?" if close else ""
    return told


def toml_fault(error: ValueError) -> str:
    """Return what the library says of TOML that it cannot read, and what a name or a value must look like."""
    hints = [hint for beginnings, hint in _TOML_HINTS.items() if str(error).startswith(beginnings)]
    return "; ".join([str(error), *hints])


def place_in_words(place: Sequence[str | int]) -> str:
    """Return where a field stands, its sections before it, with dots between."""
    return ".".join(str(part) for part in place if not (isinstance(part, str) and _OF_TYPES.search(part)))


def fields_beside(model: Any, place: Sequence[str | int]) -> list[str]:
    """Return the fields that may stand where a place ends, as far as the model of the whole tells.

    Args:
        model: the class of the whole, whose fields are in its `model_fields`.
        place: path of a field, which may be unknown.
    """
    for part in place[:-1]:
        if isinstance(part, str):
            model = _model_in(getattr(model.model_fields.get(part), "annotation", None))
        if model is None:
            return []
    return [found.alias or name for name, found in model.model_fields.items()]


def _model_in(annotation: Any) -> Any:
    """Return the class of fields in a type, which may be a list of such or have others beside it; None without one."""
    if hasattr(annotation, "model_fields"):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _plain(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value
