"""A text of an error and its code: a few short words with hyphens, in brackets at the end of the text.

The code is part of the text, so it goes wherever the text goes: through calls, stores, logs, pages. It names the
cause: whoever puts more words before a text, or passes it on, keeps the code that the text has.

A code is that of the error's class, and so says nothing that the text does not say. It comes from others: it is a label
to look something up by, and nothing is decided by it.
"""

import re

INTERNAL_CODE = "internal-error"
"""Code of unforeseen errors, whose text is never shown."""

MAX_CODE_CHARACTERS = 40

_CODED = re.compile(rf"(.*?) ?\[(?=.{{3,{MAX_CODE_CHARACTERS}}}\]\Z)([a-z]+(?:-[a-z]+)+)\]\Z", re.DOTALL)


def code_of(error: BaseException) -> str:
    """Return the code of an error: its class has it, or it came with the error from elsewhere."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else INTERNAL_CODE


def coded(text: str, *, code: str) -> str:
    """Return a text with a code at its end; one that has a code keeps it, which names the cause more closely."""
    return text if parted(text)[1] else f"{text} [{code}]"


def told(error: BaseException) -> str:
    """Return the text of an error with its code at the end."""
    return coded(str(error), code=code_of(error))


def parted(text: str) -> tuple[str, str]:
    """Return a text without its code, and the code; empty where it has none."""
    found = _CODED.fullmatch(text)
    return (text, "") if found is None else (found[1], found[2])


def joined(texts: list[str]) -> str:
    """Return several texts as one, which has the code of the first."""
    parts = [parted(text) for text in texts]
    code = next((code for _, code in parts if code), "")
    whole = "; ".join(text for text, _ in parts)
    return coded(whole, code=code) if code else whole
