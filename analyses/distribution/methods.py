"""The methods of the analysis, one entry each: how a slot or a device answers, and what may be asked beside.

What the coordinator makes of the responses follows from their mechanism (`analyses.distribution.estimates.estimate`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Literal, Protocol

from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse, frequency_oracle
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.prefix_response import PrefixResponse
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Shape, Wave

Oracle = DirectResponse | HashedResponse | HadamardResponse
"""The mechanisms that tell how frequent each input is, whatever the order of the inputs."""

OfFrequencies = Oracle | HierarchicalResponse | HaarResponse
"""The mechanisms from whose responses frequencies of all inputs follow, linear in them and without bias."""

Mechanism = Wave | SignResponse | PrefixResponse | OfFrequencies

Answered = Literal[
    "wave", "trapezoid", "triangle", "piecewise", "sign",
    "bins", "direct", "hashed", "hadamard", "tree", "haar", "prefixes", "grid",
]  # fmt: skip
"""The methods in which rows or devices answer, each for itself."""

MASKED = "masked"
"""The method in which no row answers."""

Way = Literal["ems", "em", "isotonic", "norm-sub", "admm"]
"""How a distribution is made of responses: smoothed or plain expectation maximisation; or of frequencies, some of them
negative: an isotonic cumulative distribution, norm-sub, or, of a tree, the alternating-directions method (HH-ADMM)."""


class Shaping(Protocol):
    """What of the parameters of a question the mechanism follows from: see `analyses.distribution.inquiry`."""

    @property
    def n_inputs(self) -> int:
        """Number of inputs, without that of who has nothing to answer."""

    @property
    def half_width(self) -> float | None:
        """Half of a wave's window in ranges, or None for the best."""

    @property
    def top(self) -> float | None:
        """Flat part of a trapezoid's window, or None for a half."""


Factory = Callable[[Shaping, Odds], Mechanism]


@dataclass(frozen=True)
class Method:
    """One method.

    Attributes:
        mechanism: how a slot or a device answers, from the parameters and the odds, with one more input: of who has
            nothing to answer. None where nobody answers.
        ways: ways to make a distribution of what was answered, that by default first; none where it makes none.
        options: parameters of the mechanism that only some methods have.
        is_binned: whether it asks for a bin of several buckets.
        n_values: about how many numbers of a respondent it asks.
    """

    mechanism: Factory | None
    ways: tuple[Way, ...]
    options: frozenset[str] = frozenset()
    is_binned: bool = False
    n_values: int = 1


def _wave(shape: Shape) -> Factory:
    def made(params: Shaping, odds: Odds) -> Wave:
        b, top = params.half_width, Fraction(1, 2) if params.top is None else Fraction(params.top)
        half_width = None if b is None else floor(Fraction(b) * params.n_inputs + Fraction(1, 2))
        return Wave.of_shape(shape, params.n_inputs, odds, half_width, top=top, has_empty=True)

    return made


def _of_inputs(mechanism: Callable[[int, Odds], Mechanism]) -> Factory:
    return lambda params, odds: mechanism(params.n_inputs + 1, odds)


def least_variance(n_inputs: int, odds: Odds) -> Oracle:
    """Return the oracle whose frequencies of rare inputs have the smallest exact variance.

    One bit of a Hadamard response varies as much as hashes among two buckets, which are the best at small odds; of
    equals it is taken, as its estimate takes time O(n + d log d), and that from hashes O(n d).
    """
    found, signs = frequency_oracle(n_inputs, odds), HadamardResponse(n_inputs, odds)
    return signs if signs.variance <= found.variance else found


_EM: tuple[Way, ...] = ("ems", "em")
_FREQUENCIES: tuple[Way, ...] = ("isotonic", "norm-sub")
_TREE: tuple[Way, ...] = (*_FREQUENCIES, "admm")
_WIDE = frozenset({"fine", "half_width"})

METHODS: dict[str, Method] = {
    "wave": Method(_wave("square"), _EM, _WIDE),
    "trapezoid": Method(_wave("trapezoid"), _EM, _WIDE | {"top"}),
    "triangle": Method(_wave("triangle"), _EM, _WIDE),
    "piecewise": Method(
        lambda params, odds: Wave.piecewise(params.n_inputs, odds, has_empty=True), _EM, frozenset({"fine"})
    ),
    "sign": Method(lambda params, odds: SignResponse(params.n_inputs, odds, has_empty=True), (), frozenset({"centre"})),
    "bins": Method(_of_inputs(frequency_oracle), _FREQUENCIES, is_binned=True),
    "direct": Method(_of_inputs(DirectResponse), _FREQUENCIES, is_binned=True),
    "hashed": Method(_of_inputs(HashedResponse.of_odds), _FREQUENCIES, is_binned=True),
    "hadamard": Method(_of_inputs(HadamardResponse), _FREQUENCIES, is_binned=True),
    "tree": Method(_of_inputs(HierarchicalResponse), _TREE),
    "haar": Method(_of_inputs(HaarResponse), _FREQUENCIES),
    "prefixes": Method(_of_inputs(PrefixResponse), ()),
    "grid": Method(_of_inputs(least_variance), ("norm-sub",), frozenset({"second", "cells", "rectangles"}), n_values=2),
    MASKED: Method(None, _TREE),
}
"""Name to method; `Answered` has the names of those with a mechanism."""


def takes_choices(mechanism: Mechanism) -> bool:
    """Say whether a mechanism takes a public choice of its own for each respondent, so that responses have names."""
    return not isinstance(mechanism, Wave | SignResponse | DirectResponse)
