"""Neighbouring tables of a job, within the declared bounds and far beyond them, and a search for the worst.

A table is a list of *units*: the rows that one protected unit has at each owner. Two tables are neighbours in the
coordinator's view if one has a unit more, in a coalition's if one unit has other contents.
"""

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyses.job.ratings import RatingRows
from analyses.job.row_ids import Persons, digest_of_ids, digests_of_ids
from analyses.job.schema import BlockSchema, Table
from dp.cost.views import View

Floats = NDArray[np.float64]

LARGEST = float(np.finfo(np.float64).max)
"""What an infinite value becomes when a table is read."""


@dataclass(frozen=True)
class Unit:
    """What neighbours differ in.

    Attributes:
        name: name of a row, of a person, or of the user of ratings; the same at all owners.
        rows: owner to its rows, shape (rows, columns); of a table of ratings, places of items and values.
    """

    name: str
    rows: Mapping[str, Floats] = field(repr=False)


def tables_of(schemas: Mapping[str, BlockSchema], units: Sequence[Unit]) -> dict[str, Table]:
    """Return the tables of all owners that hold some units, rows in the order of the units.

    Owners that identify their rows for matching have them in different orders.
    """
    return {owner: _table(schema, units, place) for place, (owner, schema) in enumerate(schemas.items())}


def _table(schema: BlockSchema, units: Sequence[Unit], place: int) -> Table:
    held = [unit for unit in units if schema.party in unit.rows]
    if schema.ratings is not None:
        return _ratings(schema, held)
    if schema.matching is not None and place:
        held = held[::-1]
    names = [f"{unit.name} {i}" for unit in held for i in range(len(unit.rows[schema.party]))]
    width = len(schema.columns)
    values = np.concatenate([np.empty((0, width)), *(unit.rows[schema.party] for unit in held)])
    persons = None
    if schema.most_rows_per_person is not None:
        persons = Persons.of(unit.name for unit in held for _ in unit.rows[schema.party])
    return Table(
        schema,
        values,
        digest_of_ids(names) if schema.has_ids else b"",
        persons,
        ids=None if schema.matching is None else digests_of_ids([names]),
    )


def _ratings(schema: BlockSchema, held: Sequence[Unit]) -> Table:
    rows = [(unit.name, item, value) for unit in held for item, value in unit.rows[schema.party].tolist()]
    names = tuple(sorted({name for name, *_ in rows}))
    rated = RatingRows(
        np.array([names.index(name) for name, *_ in rows], dtype=np.int64),
        np.array([item for _, item, _ in rows], dtype=np.int64),
        np.array([value for *_, value in rows]),
        names,
    )
    return Table(schema, np.empty((len(rows), 0)), ratings=rated)


def values_of_column(lower: float, upper: float) -> list[float]:
    """Return values at which a column may be at its worst: bounds, their middle, roundings, far beyond, infinite."""
    width = upper - lower
    return [
        lower,
        upper,
        lower + width / 2,
        np.nextafter(upper, lower),
        lower + width / 3,
        upper + width,
        lower - 1e6 * width,
        LARGEST,
        -LARGEST,
    ]


def candidates(schemas: Mapping[str, BlockSchema], name: str, rng: np.random.Generator) -> Iterator[Unit]:
    """Yield units of one row each: all values at one end, ends that alternate, and then any mixture.

    Args:
        schemas: schemas of the owners that hold the unit.
        name: name of the unit.
        rng: random generator of the mixtures.
    """
    choices = {o: [values_of_column(c.lower, c.upper) for c in schema.columns] for o, schema in schemas.items()}
    n_values = len(values_of_column(0, 1))
    for place in range(n_values):
        yield Unit(name, {o: np.array([[of[place] for of in columns]]) for o, columns in choices.items()})
    for low, high in ((0, 1), (1, 0), (1, 2), (7, 8)):
        ends = itertools.cycle((low, high))
        yield Unit(name, {o: np.array([[of[next(ends)] for of in columns]]) for o, columns in choices.items()})
    while True:
        yield Unit(name, {o: np.array([[of[rng.integers(n_values)] for of in c]]) for o, c in choices.items()})


def candidate_raters(schemas: Mapping[str, BlockSchema], name: str, rng: np.random.Generator) -> Iterator[Unit]:
    """Yield users of one owner: all items at either bound, one item, alternating, repeated and unknown items."""
    (owner, schema), *_ = schemas.items()
    declared = schema.ratings
    assert declared is not None
    values, items = values_of_column(declared.lower, declared.upper), np.arange(declared.items)
    for first, second in ((0, 0), (1, 1), (0, 1), (7, 8), (2, 2)):
        for n in (1, declared.items):
            of = np.where(np.arange(n) % 2 == 0, values[first], values[second])
            yield Unit(name, {owner: np.column_stack([items[:n], of])})
    twice = np.concatenate([items, items, [-1]])
    while True:
        yield Unit(name, {owner: np.column_stack([twice, rng.choice(values, len(twice))])})


async def worst_pair(
    candidates: Iterator[Unit],
    view: View,
    size: Callable[[Unit | None, Unit], Awaitable[float]],
    *,
    n_candidates: int,
) -> tuple[Unit | None, Unit]:
    """Return the two units of which neighbours move furthest what is released.

    Args:
        candidates: units that may be at its worst.
        view: a unit against none, or against another one.
        size: how far; it chooses only, and decides nothing.
        n_candidates: how many units are tried: each against none, then each against the best ones.
    """
    tried = list(itertools.islice(candidates, n_candidates))
    alone = [await size(None, unit) if view == "coordinator" else await size(tried[0], unit) for unit in tried]
    best = sorted(range(len(tried)), key=lambda place: -alone[place])
    if view == "coordinator":
        return None, tried[best[0]]
    firsts = [tried[0], *(tried[place] for place in best[:3])]
    found = [(far, 0, j) for j, far in enumerate(alone)]
    for i, one in enumerate(firsts[1:], 1):
        found += [(await size(one, other), i, j) for j, other in enumerate(tried)]
    _, i, j = max(found)
    return firsts[i], tried[j]
