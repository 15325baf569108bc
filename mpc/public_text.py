"""The rule for texts that other members wrote, for everything that a person may see or a log may store.

A text from outside is shown beside our own words: in a question to an owner, in a log, in a terminal. Characters that
move the cursor, break the line, reverse the direction of writing or show nothing let it pass for our own words. The
rule: a public text holds printable characters only, which excludes the Unicode categories Cc (control), Cf (format,
with the bidirectional controls), Cs, Co, Cn, Zl and Zp and every space but U+0020 (`str.isprintable`); no character
that shows nothing though its category is another one; and not more than a given number of characters.

The rule is applied once, when a text is received. `check_public` refuses: for the fields of jobs, questions and
schemas, whose authors can mend them. `made_public` escapes: for reasons and errors, which must arrive in any case.
"""

import json
from collections.abc import Mapping
from typing import Any

MAX_CHARACTERS = 1000
"""Longest public text, in characters."""

_SHOW_NOTHING = frozenset(
    map(
        chr,
        (
            0x034F,  # combining grapheme joiner
            *(0x115F, 0x1160, 0x3164, 0xFFA0),  # fillers of Hangul
            *(0x17B4, 0x17B5),  # inherent vowels of Khmer
            *range(0x180B, 0x1810),  # Mongolian variation selectors
            0x2800,  # an empty pattern of Braille
            *range(0xFE00, 0xFE10),  # variation selectors
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Printable by their category, and blank: those of Unicode's Default_Ignorable_Code_Point that are, and U+2800."""


def is_public(text: str) -> bool:
    """Return whether a text consists of visible characters only."""
    return text.isprintable() and (text.isascii() or _SHOW_NOTHING.isdisjoint(text))


def check_public(value: object, what: str, *, most_characters: int = MAX_CHARACTERS) -> None:
    """Refuse a text that breaks the rule, or anything with such a text in it.

    Args:
        value: a text, or lists, tuples and mappings of texts and whatever else; keys count too.
        what: where it stands, for the error.
        most_characters: maximum number of characters of each text.

    Raises:
        ValueError: names the place, and the first character that is not allowed by its number.
    """
    if isinstance(value, str):
        if len(value) > most_characters:
            raise ValueError(f"{what}: longer than {most_characters} characters")
        if not is_public(value):
            number = ord(next(c for c in value if not is_public(c)))
            raise ValueError(f"{what}: the character U+{number:04X} is not allowed, because it is not printable")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            check_public(key, f"a name in {what}", most_characters=most_characters)
            check_public(inner, what, most_characters=most_characters)
    elif isinstance(value, list | tuple):
        for inner in value:
            check_public(inner, what, most_characters=most_characters)


def made_public(text: str, most_characters: int = MAX_CHARACTERS) -> str:
    r"""Return a text as one line that obeys the rule; a text that already obeys it is returned unchanged.

    Line breaks, tabs and other blanks become a space, and several of them one; other characters that are not allowed
    are written as escapes, U+202E as `\u202e`. A text that is cut ends in dots.
    """
    if len(text) <= most_characters and is_public(text) and "  " not in text and text == text.strip():
        return text
    cut = text[: most_characters + 1]  # escapes only make it longer
    shown = "".join(c if is_public(c) else " " if c.isspace() else _escape(c) for c in cut)
    shown = " ".join(part for part in shown.split(" ") if part)
    return shortened(shown if len(text) == len(cut) else shown + "...", most_characters)


def public_tree(value: Any) -> Any:
    """Return a JSON value in which every text, keys included, is as `made_public` makes it, of any length."""
    if isinstance(value, str):
        return value if is_public(value) else made_public(value, max(MAX_CHARACTERS, len(value)))
    if isinstance(value, dict):
        return {public_tree(key): public_tree(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [public_tree(inner) for inner in value]
    return value


def public_json(text: str) -> str:
    """Return a JSON text whose texts keep the rule; one that does already is returned byte for byte.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        tree = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    safe = public_tree(tree)
    return text if safe == tree else json.dumps(safe, sort_keys=True, separators=(",", ":"))


def shortened(text: str, n_characters: int) -> str:
    """Return a text of at most so many characters; one that was cut ends in dots."""
    return text if len(text) <= n_characters else text[: n_characters - 3] + "..."


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
