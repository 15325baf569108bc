"""What is asked about a number, and how it is answered: the same for the rows of a job and the devices of a survey."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analyses.job.job import Finite, PublicModel
from analyses.rows.grid import Grid
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse, frequency_oracle
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse
from dp.local_mechanism.odds import MAX_INPUTS, Odds
from dp.local_mechanism.wave import Wave

Integers = NDArray[np.int64]

Oracle = DirectResponse | HashedResponse | HadamardResponse
"""The mechanisms that tell how frequent each input is, whatever the order of the inputs."""

Mechanism = Wave | Oracle | HierarchicalResponse | HaarResponse

Range = tuple[Finite, Finite]

MAX_RANGES = 64

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the quantiles in a result, where nothing else is asked."""

MASKED = "masked"
"""The method in which no row answers."""

WAVES = ("wave", "trapezoid", "triangle")
"""The methods whose responses lie near the truth, of which there is a finer grid."""

BINNED = ("bins", "direct", "hashed", "hadamard")
"""The methods that ask for a bin of several buckets."""

MAX_BINS = 1024
"""Largest number of bins: an estimate from hashes looks at each response for each bin."""

_ONE_BYTE = 256


class DistributionParams(PublicModel):
    """Parameters of the analysis.

    Attributes:
        range: range of the number; values outside it count as its nearer end. By default the bounds of the columns,
            which then have to agree.
        buckets: into how many parts of equal length the range is divided.
        method: how a row answers: by a wave; about a bin by randomized response among all bins (`direct`), by its hash
            (`hashed`), by whichever of the two has the smaller variance (`bins`), or by one bit (`hadamard`); about a
            level of a tree; about a Haar coefficient. Or `masked`: rows do not answer, the parties' counts are added
            up under masks.
        bins: number of bins, for the methods about bins; it divides the buckets. Of a category with k values, coded 0
            to k - 1, `range` is 0 to k, and buckets and bins are k.
        fine: inputs of the grid on which waves randomize rows, a multiple of `buckets`, which are estimated.
            By default the grid is that of the buckets.
        smoothing: passes per map of the estimate from a wave; `auto` chooses by prediction.
        queries: ranges (lower end, upper end) whose probability the result states.
        quantiles: the levels, between 0 and 1, of the quantiles that the result states.
    """

    range: Range | None = None
    buckets: Annotated[int, Field(ge=2, le=MAX_INPUTS)] = 256
    method: Literal[
        "wave", "trapezoid", "triangle", "bins", "direct", "hashed", "hadamard", "tree", "haar", "masked"
    ] = "wave"
    bins: Annotated[int, Field(ge=2, le=MAX_BINS)] = 32
    fine: Annotated[int, Field(ge=2, le=MAX_INPUTS)] | None = None
    smoothing: Annotated[int, Field(ge=1, le=100)] | Literal["auto"] = "auto"
    queries: Annotated[tuple[Range, ...], Field(max_length=MAX_RANGES)] = ()
    quantiles: Annotated[tuple[Annotated[Finite, Field(gt=0, lt=1)], ...], Field(max_length=MAX_RANGES)] = LEVELS

    @property
    def n_inputs(self) -> int:
        """Number of parts of the range that rows are told apart by, before they are randomized or counted."""
        return self.bins if self.method in BINNED else self.fine or self.buckets

    def check_grid(self) -> None:
        """Refuse parts of the range that do not fit each other. The range must be known.

        Raises:
            ValueError: the text begins with the name of the field.
        """
        lower, upper = self.known_range
        Grid(lower, upper, max(self.n_inputs, self.buckets))
        if self.method in BINNED and self.buckets % self.bins:
            raise ValueError(f"bins: {self.bins} bins do not divide {self.buckets} buckets")
        if self.fine is not None:
            if self.method not in WAVES:
                raise ValueError("fine: only waves are drawn on a finer grid than that of the buckets")
            if self.fine % self.buckets:
                raise ValueError(f"fine: {self.fine} is no multiple of {self.buckets} buckets")
        for start, end in self.queries:
            if not lower <= start < end <= upper:
                raise ValueError(f"queries: {start:g} to {end:g} is no range within the one asked about")

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

    @cached_property
    def n_outputs(self) -> int:
        """Every response is below it."""
        mechanism = self.response
        match mechanism:
            case Wave():
                return mechanism.n_outputs
            case DirectResponse() | HashedResponse():
                return mechanism.response.n_options
            case HierarchicalResponse():
                return max(oracle.response.n_options for oracle in mechanism.oracles)
        return 2

    @property
    def response_bytes(self) -> int:
        """Length of a response as it travels."""
        return 1 if self.n_outputs <= _ONE_BYTE else 2

    def inputs_of(self, values: NDArray[np.float64]) -> tuple[Integers, int]:
        """Return the input of each value, and how many values lay outside the range. Private.

        Args:
            values: shape (rows,), finite.
        """
        params = self.params
        places, n_clipped = Grid(*params.known_range, max(params.n_inputs, params.buckets)).places(values)
        if params.method in BINNED:
            places = places * params.bins // params.buckets
        return places, n_clipped


def mechanism_of(params: DistributionParams, odds: Odds) -> Mechanism:
    """Return the mechanism of a method, with one more input: of who has nothing to answer.

    Raises:
        CalibrationError: there is no such mechanism.
    """
    n_inputs = params.n_inputs + 1
    match params.method:
        case "bins":
            return frequency_oracle(n_inputs, odds)
        case "direct":
            return DirectResponse(n_inputs, odds)
        case "hashed":
            return HashedResponse.of_odds(n_inputs, odds)
        case "hadamard":
            return HadamardResponse(n_inputs, odds)
        case "tree":
            return HierarchicalResponse(n_inputs, odds)
        case "haar":
            return HaarResponse(n_inputs, odds)
        case "trapezoid" | "triangle":
            return Wave.of_shape(params.method, params.n_inputs, odds, has_empty=True)
    return Wave.square(params.n_inputs, odds, has_empty=True)


def takes_choices(mechanism: Mechanism) -> bool:
    """Say whether a mechanism takes a public choice of its own for each respondent, so that responses have names."""
    return not isinstance(mechanism, Wave | DirectResponse)
