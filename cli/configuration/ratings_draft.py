"""`moiety table draft --ratings`: a first section of a table of ratings, with the questions that its owner answers."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

_USER = re.compile(r"user|person|customer|client|member|student|reader|patient|account", re.IGNORECASE)
_ITEM = re.compile(r"item|product|article|movie|film|book|song|track|lecturer|course|title", re.IGNORECASE)
_RATING = re.compile(r"rating|stars|score|grade|points|vote", re.IGNORECASE)


def ratings_lines(name: str, path: Path, columns: Iterable[str], source: list[str]) -> list[str]:
    """Return the section as lines of TOML, from the names of columns alone.

    Args:
        name: what jobs call the table.
        path: the file.
        columns: their names.
        source: the section of its source; empty where its path is enough.
    """
    left = list(columns)
    # A column such as `user_rating` is a rating, and `item_id` of a user's table an item: ratings are looked for first.
    rating, user, item = (_taken(left, pattern) for pattern in (_RATING, _USER, _ITEM))
    return [
        "# All of this is public. Answer from what the table is about, never from a look at its values.",
        "[[tables]]",
        f"name = {json.dumps(name)}",
        'kind = "ratings"',
        *([] if source else [f"path = {json.dumps(str(path))}"]),
        "# Which columns say whose rating it is, what is rated, and how highly? Names of users are never sent.",
        f"# user = {user}",
        f"# item = {item}",
        f"# rating = {rating}",
        "# Which items can be rated? The same list in the same order at all parties whose users differ: a file with an",
        "# item on each line, or their number where they are called 0, 1, 2, ... Ratings of others are dropped.",
        '# items = { file = "items.txt" }',
        "# How many users can there be at most? A round number, never a count.",
        "# users = MOST",
        "# About how many ratings has a user? Only estimates depend on it.",
        "# ratings_per_user = ABOUT",
        "",
        *([*source, ""] if source else []),
        "# What may all jobs together learn? docs/privacy-guarantee.md says what an epsilon lets others guess.",
        "# [tables.first_budget]",
        '# period = "?"',
        "# epsilon = EPSILON",
        "# delta = DELTA    # below 1 / (the most users)",
        "",
        "# From what to what can a rating be, by its meaning? What is outside is clipped.",
        "[tables.bounds]",
        f"# {rating} = [LEAST, MOST]",
    ]


def _taken(columns: list[str], pattern: re.Pattern[str]) -> str:
    """Return the first column of such a name, quoted, and take it out of the list; "?" where there is none."""
    found = next((column for column in columns if pattern.search(column)), None)
    if found is None:
        return '"?"'
    columns.remove(found)
    return json.dumps(found, ensure_ascii=False)
