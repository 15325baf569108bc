"""What is asked about a number, and how it is answered: the same for the rows of a job and the devices of a survey."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analyses.distribution.methods import METHODS, Answered, Mechanism, Method, Way
from analyses.distribution.pairs import LEAST_PARTS, PairGrid, usual_parts
from analyses.job.job import Finite, PublicModel
from analyses.rows.grid import Grid
from dp.local_mechanism.odds import MAX_INPUTS, Odds
from dp.local_mechanism.prefix_response import MAX_VALUES

Integers = NDArray[np.int64]

Range = tuple[Finite, Finite]

MAX_RANGES = 64

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the quantiles in a result, where nothing else is asked."""

MAX_HALF_WIDTH = 0.5
"""Largest half-width of a wave, in ranges: the best one at epsilon 0. Outputs then fit into two bytes on any grid."""

MAX_BINS = 1024
"""Largest number of bins: an estimate from hashes looks at each response for each bin."""

Parts = Annotated[int, Field(ge=1, le=MAX_BINS)]

_NOT_SHOWN = Field(exclude_if=lambda value: value is None)
_RECTANGLES = Field(exclude_if=lambda value: value is None, max_length=MAX_RANGES)

_ONE_BYTE = 256


class DistributionParams(PublicModel):
    """Parameters of the analysis.

    Attributes:
        range: range of the number; values outside it count as its nearer end. By default the bounds of the columns,
            which then have to agree.
        buckets: into how many parts of equal length the range is divided: at most 16,384, or 2^48 for `prefixes`.
        method: how a row answers: by a wave, of which `piecewise` is the one for means; by one of two signs, about the
            mean alone (`sign`); about a bin by randomized response among all bins (`direct`), by its hash (`hashed`),
            by whichever of the two has the smaller variance (`bins`), or by one bit (`hadamard`); about a level of a
            tree; about a Haar coefficient; about the first bits of the bucket's number, for the frequent ones of very
            many (`prefixes`); about the cell of a grid over two numbers (`grid`). Or `masked`: rows do not answer, the
            parties' counts are added up under masks. `analyses.distribution.methods` has an entry for each.
        bins: number of bins, for the methods about bins; it divides the buckets. Of a category with k values, coded 0
            to k - 1, `range` is 0 to k, and buckets and bins are k.
        fine: inputs of the grid on which waves randomize rows, a multiple of `buckets`, which are estimated.
            By default the grid is that of the buckets.
        half_width: b, half of the window of a wave in units of the range; rounded to whole inputs. By default the one
            with the most mutual information.
        top: part of a trapezoid's window that is flat: its upper side to its lower one. By default a half.
        centre: a number c of the range: `sign` answers about (x - c)^2 in the place of x, so it tells the variance
            about c. The JSON of other questions does not show the field.
        second: range of the second number of a `grid`, as `range` of the first. By default the bounds of the columns.
        cells: numbers of parts of equal length of either range of a `grid`. By default both are what
            `analyses.distribution.pairs.usual_parts` says of the responses that are expected.
        rectangles: rectangles of a `grid` whose probability the result states: lower and upper end of the first number
            and of the second one. The JSON of other questions shows none of these three fields.
        estimate: how a distribution is made of what was answered, of `Method.ways`; by default the first of them.
        tau: plain expectation maximisation (`em`) ends where a map raises the log likelihood of all responses by less.
            By default e^epsilon / 1000.
        smoothing: passes per map of smoothed expectation maximisation; `auto` chooses by prediction.
        queries: ranges (lower end, upper end) whose probability the result states.
        quantiles: the levels, between 0 and 1, of the quantiles that the result states.
    """

    range: Range | None = None
    buckets: Annotated[int, Field(ge=2, le=MAX_VALUES)] = 256
    method: Literal[Answered, "masked"] = "wave"
    bins: Annotated[int, Field(ge=2, le=MAX_BINS)] = 32
    fine: Annotated[int, Field(ge=2, le=MAX_INPUTS)] | None = None
    half_width: Annotated[Finite, Field(gt=0, le=MAX_HALF_WIDTH)] | None = None
    top: Annotated[Finite, Field(ge=0, le=1)] | None = None
    centre: Annotated[Finite | None, Field(exclude_if=lambda centre: centre is None)] = None
    second: Annotated[Range | None, _NOT_SHOWN] = None
    cells: Annotated[tuple[Parts, Parts] | None, _NOT_SHOWN] = None
    rectangles: Annotated[tuple[tuple[Finite, Finite, Finite, Finite], ...] | None, _RECTANGLES] = None
    estimate: Way | None = None
    tau: Annotated[Finite, Field(gt=0)] | None = None
    smoothing: Annotated[int, Field(ge=1, le=100)] | Literal["auto"] = "auto"
    queries: Annotated[tuple[Range, ...], Field(max_length=MAX_RANGES)] = ()
    quantiles: Annotated[tuple[Annotated[Finite, Field(gt=0, lt=1)], ...], Field(max_length=MAX_RANGES)] = LEVELS

    @property
    def entry(self) -> Method:
        """The entry of the method."""
        return METHODS[self.method]

    @property
    def way(self) -> Way | None:
        """How a distribution is made of what was answered; None where that tells a mean alone."""
        return self.estimate or next(iter(self.entry.ways), None)

    @property
    def n_inputs(self) -> int:
        """Number of parts of the range that rows are told apart by, before they are randomized or counted."""
        if self.n_values > 1:
            return self.pairs.n_cells
        return self.bins if self.entry.is_binned else self.fine or self.buckets

    @property
    def n_values(self) -> int:
        """How many numbers of a row are asked about."""
        return self.entry.n_values

    @property
    def pairs(self) -> PairGrid:
        """The cells of a `grid`; both ranges and how many cells there are must be known."""
        assert self.second is not None
        assert self.cells is not None
        first, second = self.cells
        return PairGrid((Grid(*self.known_range, first), Grid(*self.second, second)))

    def with_cells(self, odds: Odds, n_responses: int) -> Self:
        """Return these parameters with as many cells as a `grid` has by default, where they do not say how many."""
        if self.n_values == 1 or self.cells is not None:
            return self
        return self.model_copy(update={"cells": (usual_parts(odds, n_responses),) * 2})

    def check_grid(self) -> None:
        """Refuse parts of the range that do not fit each other, and what the method has not. The range must be known.

        Raises:
            ValueError: the text begins with the name of the field.
        """
        lower, upper = self.known_range
        if self.buckets > MAX_INPUTS and self.method != "prefixes":
            raise ValueError(f"buckets: {self.method} has at most {MAX_INPUTS}; only prefixes has more")
        Grid(lower, upper, self.buckets if self.n_values > 1 else max(self.n_inputs, self.buckets))
        if self.entry.is_binned and self.buckets % self.bins:
            raise ValueError(f"bins: {self.bins} bins do not divide {self.buckets} buckets")
        for name in ("fine", "half_width", "top", "centre", "second", "cells", "rectangles"):
            if getattr(self, name) is not None and name not in self.entry.options:
                those = ", ".join(other for other, method in METHODS.items() if name in method.options)
                raise ValueError(f"{name}: {self.method} has none; only {those}")
        if self.centre is not None and not lower <= self.centre <= upper:
            raise ValueError(f"centre: {self.centre:g} is outside the range")
        if self.fine is not None and self.fine % self.buckets:
            raise ValueError(f"fine: {self.fine} is no multiple of {self.buckets} buckets")
        self._check_estimate()
        self._check_pairs()
        for start, end in self.queries:
            if not lower <= start < end <= upper:
                raise ValueError(f"queries: {start:g} to {end:g} is no range within the one asked about")

    def _check_pairs(self) -> None:
        if self.n_values == 1:
            return
        if self.second is None:
            raise ValueError(f"second: {self.method} asks about two numbers, so it needs the range of the second")
        if self.cells is not None and not 1 < self.cells[0] * self.cells[1] <= MAX_BINS:
            raise ValueError(
                f"cells: {self.cells[0]} x {self.cells[1]} cells are not 2 to {MAX_BINS}: an estimate looks at each "
                "response for each cell, and noise in so many hides their shares"
            )
        sides, n_parts = {"range": self.known_range, "second": self.second}, self.cells or (LEAST_PARTS, LEAST_PARTS)
        for (name, ends), n in zip(sides.items(), n_parts, strict=True):
            try:
                Grid(*ends, n)
            except ValueError as error:
                raise ValueError(f"{name}: {str(error).partition(': ')[2]}") from error
        for start, end, second_start, second_end in self.rectangles or ():
            for (lower, upper), ends in zip(sides.values(), ((start, end), (second_start, second_end)), strict=True):
                if not lower <= ends[0] < ends[1] <= upper:
                    what = f"{ends[0]:g} to {ends[1]:g} is no range within {lower:g} to {upper:g}"
                    raise ValueError(f"rectangles: {what}")

    def _check_estimate(self) -> None:
        ways = self.entry.ways
        if self.estimate is not None and self.estimate not in ways:
            raise ValueError(f"estimate: {self.method} has {', '.join(ways) or 'none: it makes no distribution'}")
        if self.queries and self.n_values > 1:
            raise ValueError(f"queries: {self.method} has rectangles in their place")
        if self.queries and not ways:
            raise ValueError(f"queries: {self.method} makes no distribution")
        if self.tau is not None and self.way != "em":
            raise ValueError('tau: only plain expectation maximisation ends by it: estimate = "em"')
        if self.smoothing != "auto" and self.way == "em":
            raise ValueError("smoothing: plain expectation maximisation has none")

    @property
    def answered_range(self) -> Range:
        """The range of what is answered about: that of the number, or of its squared distance from the centre."""
        if self.centre is None:
            return self.known_range
        return 0.0, max((end - self.centre) ** 2 for end in self.known_range)

    @property
    def known_range(self) -> Range:
        """The range, which must be known."""
        assert self.range is not None
        return self.range


@dataclass(frozen=True)
class Inquiry:
    """A range in buckets, and the mechanism by which one respondent answers.

    Attributes:
        params: with the range.
        favoured: A, the larger weight of a response; B is `dp.local_mechanism.odds.UNIT_WEIGHT`. None where nobody
            answers, because counts are added up under masks.
    """

    params: DistributionParams
    favoured: int | None = None

    @property
    def odds(self) -> Odds:
        """A and B."""
        assert self.favoured is not None
        return Odds(self.favoured)

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """How a slot or a device answers; None where nobody does."""
        return None if self.favoured is None else mechanism_of(self.params, self.odds)

    @property
    def response(self) -> Mechanism:
        """How a slot or a device answers.

        Raises:
            ValueError: nobody answers, because counts are added up under masks.
        """
        if self.mechanism is None:
            raise ValueError("nothing answers: the parties' counts are added up under masks")
        return self.mechanism

    @property
    def grid(self) -> Grid:
        """The buckets."""
        return Grid(*self.params.known_range, self.params.buckets)

    @property
    def edges(self) -> NDArray[np.float64]:
        """Edges of the buckets, shape (buckets + 1,)."""
        return self.grid.edges

    @property
    def empty(self) -> int:
        """The input of a slot that holds no row, and of a device whose record cannot be used."""
        return self.params.n_inputs

    @property
    def n_outputs(self) -> int:
        """Every response is below it."""
        return self.response.n_outputs

    @property
    def response_bytes(self) -> int:
        """Length of a response as it travels."""
        return 1 if self.n_outputs <= _ONE_BYTE else 2

    def inputs_of(self, values: NDArray[np.float64]) -> tuple[Integers, Integers]:
        """Return the input of each row, and how many values of each number lay outside its range. Private.

        Args:
            values: shape (rows, numbers), or (rows,) of one number, finite.
        """
        params = self.params
        if params.n_values > 1:
            return params.pairs.places(values)
        places, n_clipped = self._inputs_of(values.reshape(-1))
        return places, np.array([n_clipped])

    def _inputs_of(self, values: NDArray[np.float64]) -> tuple[Integers, int]:
        params = self.params
        if params.centre is not None:
            clipped = np.clip(values, *params.known_range)
            places, _ = Grid(*params.answered_range, params.n_inputs).places((clipped - params.centre) ** 2)
            return places, int(np.count_nonzero(clipped != values))
        places, n_clipped = Grid(*params.known_range, max(params.n_inputs, params.buckets)).places(values)
        if params.entry.is_binned:
            places = places * params.bins // params.buckets
        return places, n_clipped


def mechanism_of(params: DistributionParams, odds: Odds) -> Mechanism:
    """Return the mechanism of a method in which somebody answers.

    Raises:
        CalibrationError: there is no such mechanism.
    """
    factory = params.entry.mechanism
    assert factory is not None
    return factory(params, odds)
