"""The canonical spelling of a value of a list: two spellings of one value have the same one.

Categories, ordinals, yes and no, texts that mean gaps, and items of ratings are compared by it. `1.0`, `+1` and `1` are
one value, and so are `True` and `true`; `007` and `7` are two, because zeros in front are part of a code.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

INVISIBLE = (
    "\u00ad\u180e\u200b\u200c\u200d\u2060\ufeff\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Characters that no screen shows: soft hyphen, zero-width space, joiners, byte order mark; marks of direction."""

_FOR_TEXTS = {ord(one): None for one in INVISIBLE} | {0x2212: "-"}
_NUMBER = re.compile(r"([+-]?)(0|[1-9][0-9]*|(?=\.[0-9]))(?:\.([0-9]*))?", re.ASCII)
_TRUTHS = ("true", "false")


def plain(text: str) -> str:
    """Return a text without what cannot be seen, spaces at its ends, and other scripts' digits and minus signs."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text.translate(_FOR_TEXTS))
        text = "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in text)
    return " ".join(text.split())


def canonical(text: str, *, decimal_comma: bool = False) -> str:
    """Return the canonical spelling of a value.

    Args:
        text: text in the table or in the configuration.
        decimal_comma: whether its numbers have a comma before their fraction.
    """
    text = plain(text)
    if text.lower() in _TRUTHS:
        return text.lower()
    number = _NUMBER.fullmatch(text.replace(",", ".", 1) if decimal_comma and "." not in text else text)
    if number is None:
        return text
    sign, whole, fraction = number[1], number[2] or "0", (number[3] or "").rstrip("0")
    value = f"{whole}.{fraction}" if fraction else whole
    return f"-{value}" if sign == "-" and value != "0" else value


def of_number(value: float) -> str:
    """Return the canonical spelling of a number that has a type."""
    return canonical(f"{value:.0f}" if float(value).is_integer() else repr(float(value)))


def same_spelling(texts: Iterable[str], *, decimal_comma: bool = False) -> tuple[str, str] | None:
    """Return two of some declared texts that are spellings of one value; None where all differ."""
    first: dict[str, str] = {}
    for text in texts:
        if (value := canonical(text, decimal_comma=decimal_comma)) in first:
            return first[value], text
        first[value] = text
    return None


def check_list(field: str, texts: Sequence[str], what: str = "value", *, decimal_comma: bool = False) -> None:
    """Refuse a declared list that has two spellings of one value.

    Raises:
        ValueError: names both.
    """
    if (both := same_spelling(texts, decimal_comma=decimal_comma)) is not None:
        one, other = both
        which = f"{one!r}" if one == other else f"{one!r} and {other!r} are one"
        raise ValueError(f"{field}: the same {what} appears more than once: {which}")
