"""Columns of the owners' tables behind the columns of a release, and the states that a value of each may be in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analyses.kept_moments.answer import Floats, chosen, noise_of_products
from analyses.second_moments.released import ReleasedMoments

SEEN = 4.0
"""Standard errors of its noise that rows outside of all released values, or values between 0 and 1, must come to."""

MISSING = "missing"

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_BIN = re.compile(rf"({_NUMBER})\.\.({_NUMBER})")

Kind = Literal["category", "bins", "yes/no", "number"]


@dataclass(frozen=True)
class Source:
    """A column of an owner's table.

    A value is in one state: in one of the released columns, or in the rest. A number is in its column to the part of
    its bounds' width that it lies above the lower one, and in the rest otherwise: then means of states are means of it.

    Attributes:
        name: `party.column`.
        kind: what its values are; `bins` are categories that are intervals, `a..b`.
        columns: places of its columns in the release.
        labels: what is written for each of its columns; None for a number, and for a gap of one.
        has_rest: whether values may be in none of the columns.
    """

    name: str
    kind: Kind
    columns: tuple[int, ...]
    labels: tuple[str | None, ...]
    has_rest: bool

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.columns) + self.has_rest

    @property
    def bins(self) -> tuple[tuple[float, float] | None, ...]:
        """Ends of the interval of each column; None where it is none, such as of gaps."""
        return tuple(bin_of(label) for label in self.labels)


def bin_of(label: str | None) -> tuple[float, float] | None:
    """Return the ends of an interval that is written `a..b` with a < b; None for any other text."""
    found = None if label is None else _BIN.fullmatch(label)
    if found is None or not float(found[1]) < float(found[2]):
        return None
    return float(found[1]), float(found[2])


@dataclass(frozen=True)
class Layout:
    """A release, by sources and their states.

    Moments here are those of (y, 1), y a row with each column scaled to [0, 1] by its bounds: R = A' M A'^T, M the
    released matrix of (z, constant).

    Attributes:
        moments: the release.
        sources: its sources, in the order of their first columns.
        starts: first state of each source, shape (sources,).
        source_of: source of each state, shape (states,).
        state_of: state of each column of the release, shape (columns,).
        is_number: whether a column holds a number, shape (columns,).
        is_same: whether two columns are of one source, shape (columns, columns).
        to_scaled: A with (z, constant) = A (y, 1), shape (columns + 1, columns + 1).
    """

    moments: ReleasedMoments
    sources: tuple[Source, ...]
    starts: NDArray[np.int64] = field(repr=False)
    source_of: NDArray[np.int64] = field(repr=False)
    state_of: NDArray[np.int64] = field(repr=False)
    is_number: NDArray[np.bool_] = field(repr=False)
    is_same: NDArray[np.bool_] = field(repr=False)
    to_scaled: Floats = field(repr=False)

    @classmethod
    def of(cls, moments: ReleasedMoments) -> "Layout":
        """Return the layout of all columns of a release."""
        sources = sources_of(moments)
        n_states = [source.n_states for source in sources]
        starts = np.cumsum([0, *n_states[:-1]])
        n = len(moments.names)
        state_of, owner, is_number = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.bool_)
        for at, (source, start) in enumerate(zip(sources, starts, strict=True)):
            columns = list(source.columns)
            state_of[columns] = start + np.arange(len(columns))
            owner[columns] = at
            is_number[columns[0]] = source.kind == "number"
        to_scaled = np.eye(n + 1)
        to_scaled[:n, n] = (moments.lower - moments.zeros) / moments.widths
        to_scaled[n, n] = moments.constant
        source_of = np.repeat(np.arange(len(sources)), n_states)
        return cls(moments, sources, starts, source_of, state_of, is_number, owner[:, None] == owner, to_scaled)

    @cached_property
    def from_scaled(self) -> Floats:
        """The inverse of `to_scaled`."""
        return np.asarray(np.linalg.inv(self.to_scaled), dtype=np.float64)

    @cached_property
    def measured(self) -> Floats:
        """Moments of (y, 1) as they were released, with their noise, shape (columns + 1, columns + 1)."""
        back = self.from_scaled
        return np.asarray(back @ self.moments.matrix @ back.T, dtype=np.float64)

    def states(self, at: int) -> Floats:
        """Return u of each state of a source with u.(y, 1) = how far a row is in it, shape (states, columns + 1)."""
        source, n = self.sources[at], len(self.moments.names)
        found = np.eye(n + 1)[list(source.columns)]
        if source.has_rest:
            found = np.vstack([found, np.eye(n + 1)[n] - found.sum(0)])
        return np.asarray(found, dtype=np.float64)


def sources_of(moments: ReleasedMoments) -> tuple[Source, ...]:
    """Return the sources of a release's columns.

    Columns `NAME=VALUE` are of the source NAME. A column without values is a yes or no if its bounds are 0 and 1 and
    the noise does not show that it has values between them, which its sum less its sum of squares tells. Values outside
    of those that were released are a state where the noise does not hide them.
    """
    members: dict[str, list[int]] = {}
    for at, name in enumerate(moments.names):
        members.setdefault(name.partition("=")[0], []).append(at)
    return tuple(_source(moments, name, columns) for name, columns in members.items())


def _source(moments: ReleasedMoments, name: str, columns: list[int]) -> Source:
    units = np.eye(len(moments.names) + 1)
    if name in moments.names:
        first = moments.names.index(name)
        columns = [first, *(at for at in columns if at != first)]
        between = units[-1] - units[first]
        is_between = _is_seen(moments, units[first], between)
        has_ends = (moments.lower[first], moments.widths[first]) == (0.0, 1.0)
        kind: Kind = "yes/no" if has_ends and not is_between and len(columns) == 1 else "number"
        return Source(name, kind, tuple(columns), (None,) * len(columns), has_rest=True)
    values = [moments.names[at][len(name) + 1 :] for at in columns]
    rest = units[-1] - units[columns].sum(0)
    is_bins = any(bin_of(value) for value in values) and all(bin_of(v) or v == MISSING for v in values)
    written = tuple(None if is_bins and value == MISSING else value for value in values)
    return Source(
        name, "bins" if is_bins else "category", tuple(columns), written, has_rest=_is_seen(moments, rest, units[-1])
    )


def _is_seen(moments: ReleasedMoments, left: Floats, right: Floats) -> bool:
    """Return whether u' R v, in the columns' own units, is larger than `SEEN` of its standard errors."""
    value = float(left @ moments.raw @ right)
    return value > SEEN * float(np.sqrt(noise_of_products(moments, left[None], right[None])[0, 0]))


def layout_of(moments: ReleasedMoments, names: Sequence[str]) -> Layout:
    """Return the layout of some columns, a category for all its values; of all but products where none is named.

    Raises:
        AnswerError: a column is not in the release, or is named twice.
    """
    found = [] if names else [one for one in moments.names if one not in moments.factors]
    for name in names:
        values = [one for one in moments.names if one.partition("=")[0] == name]
        found += values or [name]
    return Layout.of(chosen(moments, found))
