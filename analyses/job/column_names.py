"""Names of many columns at once, `pixel_{0..63}` for `pixel_0` to `pixel_63`, and of products, `age*income`."""

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TypeVar

MAX_COLUMNS = 10_000
"""Most columns of one pattern."""

MAX_FACTORS = 4
"""Most factors of a product."""

POWER = re.compile(r"(.+)\^([1-9])")
"""Name of a power of a column: the column, and how often it is a factor."""

_RANGE = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")

T = TypeVar("T")


def expanded(name: str) -> tuple[str, ...]:
    """Return the columns that a name stands for: those of its range, in ascending order, or itself.

    A range `{a..b}` has two whole numbers, both included. A first number that begins with 0 and is as long as the last,
    as in `{01..12}`, means numbers of that length. Other braces are part of a name.

    Raises:
        ValueError: it has two ranges, one that is not of whole numbers, descends or is too long; the text names it.
    """
    found = list(_RANGE.finditer(name))
    if not found and re.search(r"\{[^{}]*\.\.[^{}]*\}", name):
        raise ValueError(f"column {name!r}: a range has two whole numbers, such as {{0..63}}")
    if not found:
        return (name,)
    if len(found) > 1:
        raise ValueError(f"column {name!r}: a name can have one range only")
    (place,) = found
    first, last = (int(number) for number in place.groups())
    if first > last:
        raise ValueError(f"column {name!r}: the range must ascend, and {first} is larger than {last}")
    if last - first >= MAX_COLUMNS:
        raise ValueError(f"column {name!r}: a range can have at most {MAX_COLUMNS} columns")
    digits = len(place[1]) if place[1].startswith("0") and len(place[1]) == len(place[2]) else 0
    before, after = name[: place.start()], name[place.end() :]
    return tuple(f"{before}{number:0{digits}d}{after}" for number in range(first, last + 1))


def n_named(names: Collection[object]) -> int:
    """Return how many columns names or patterns stand for, without making them; what is no text counts as one."""
    ranges = (place for name in names for place in _RANGE.finditer(name if isinstance(name, str) else ""))
    return len(names) + sum(max(0, int(place[2]) - int(place[1])) for place in ranges)


def expanded_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of some names or patterns, in their order.

    Raises:
        ValueError: see `expanded`.
    """
    return tuple(column for name in names for column in expanded(name))


def expanded_fields(by_name: Mapping[str, T]) -> dict[str, T]:
    """Return what is said of names or patterns, column by column.

    Raises:
        ValueError: see `expanded`; or a column is named twice.
    """
    found: dict[str, T] = {}
    named_by: dict[str, str] = {}
    for name, value in by_name.items():
        for column in expanded(name):
            if column in named_by:
                raise ValueError(f"column {column!r} is named twice: by {named_by[column]!r} and by {name!r}")
            found[column], named_by[column] = value, name
    return found


def factors_in(name: str, known: Container[str]) -> tuple[str, ...] | None:
    """Return the factors that the name of a product stands for: `age^2*income` for age, age and income; else None.

    Args:
        name: name of what is no column.
        known: names of columns, which may themselves have these signs in them.
    """
    found: list[str] = []
    for one in name.split("*"):
        power = None if one in known else POWER.fullmatch(one)
        factor, times = (one, 1) if power is None else (power[1], int(power[2]))
        if factor not in known:
            return None
        found += [factor] * times
    return tuple(found) if 1 < len(found) <= MAX_FACTORS else None


def spelled(factors: Sequence[str]) -> str:
    """Return how a job names the product of some columns: what `factors_in` reads."""
    return "*".join(one + (f"^{times}" if times > 1 else "") for one, times in Counter(factors).items())


def name_of_product(factors: Sequence[str]) -> str:
    """Return the name of a product; a value of a category has ":" in it, as `risk=high` begins a value of `risk`."""
    return spelled(factors).replace("=", ":")
