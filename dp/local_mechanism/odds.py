"""The odds of a local response: two integer weights whose ratio bounds what one response tells of its respondent."""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from dp.cost.accounting import Adjacency, CalibrationError, log_ratio
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.views import ADJACENCY, View
from dp.draw.rejection import precise_context

UNIT_WEIGHT = 1 << 20
"""B, the smaller weight, where nothing else is said."""

MIN_EPSILON = Fraction(1, 1 << 10)
MAX_EPSILON = 16
"""Range of the epsilon of one response. Below it, 2^20 units represent the ratio too coarsely; above it, sums of
weights might exceed 63 bits."""

MAX_INPUTS = 1 << 14
"""Largest number of inputs of a local mechanism: the sum of its weights then fits into 63 bits at the largest
epsilon."""

_DIGITS = 30


@dataclass(frozen=True)
class Odds:
    """Weights A and B: no output is more than A / B times likelier for one input than for another one.

    Proof, for every mechanism of this room. Given what is public, a mechanism maps a uniform integer u < T to an
    output; how many u lead to an output is its weight, an integer between B and A, and T does not depend on the input.
    So each probability lies between B / T and A / T, and for a set S of outputs

        P(S | i)  =  sum over S of a / T  <=  (A / B) sum over S of a' / T  =  (A / B) P(S | i').

    The claim is ln(A / B) at delta 0, for neighbours that replace one input by another.

    Attributes:
        favoured: A, larger than B.
        other: B, positive.

    Raises:
        CalibrationError: the weights are not in that order.
    """

    favoured: int
    other: int = UNIT_WEIGHT

    def __post_init__(self) -> None:
        if not 1 <= self.other < self.favoured:
            raise CalibrationError(f"odds of {self.favoured} to {self.other} say nothing of an input, or too much")

    @staticmethod
    def of_epsilon(epsilon: float | Fraction, other: int = UNIT_WEIGHT) -> "Odds":
        """Return A = floor(B e^epsilon), so that ln(A / B) <= epsilon.

        The exponential is enclosed in decimal arithmetic, whose result is the same on every machine, until both ends of
        the enclosure have one integer part.

        Args:
            epsilon: 2^-10 .. 16; a float stands for the exact number that it is.
            other: B.

        Raises:
            CalibrationError: epsilon is out of range, or so small for B that A would be B.
        """
        if not math.isfinite(epsilon) or not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            raise CalibrationError(f"the epsilon of a response must be in 2^-10..{MAX_EPSILON}, not {float(epsilon):g}")
        exact, digits = Fraction(epsilon), _DIGITS
        while True:
            with localcontext(precise_context(digits)):
                # The quotient and the exponential are rounded once each: a relative error below 17 * 10^(1 - digits).
                product = other * (Decimal(exact.numerator) / Decimal(exact.denominator)).exp()
                error = product.scaleb(3 - digits)
                low, high = math.floor(product - error), math.floor(product + error)
            if low == high:
                return Odds(low, other)
            digits *= 2

    @property
    def truthful(self) -> Fraction:
        """A / (A + B), the probability of the truth in a response among two."""
        return Fraction(self.favoured, self.favoured + self.other)

    @property
    def pure_epsilon(self) -> float:
        """ln(A / B), rounded up."""
        return log_ratio(Fraction(self.favoured), Fraction(self.other))

    def event(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> RandomizedResponseDpEvent:
        """Return what one response costs: at most what a response among two with these odds does.

        For two inputs let P and Q be the laws of the response, P / Q between B / A and A / B. Every such pair is a
        post-processing of a response among two [KOV15]: with p = A / (A
        + B) and q = 1 - p, the functions (p P - q Q) / (p - q) and (p Q - q P) / (p - q) are distributions, because
        neither is negative, and a response that is 0 with probability p for the one input and q for the other, replaced
        by a draw from the first where it is 0 and from the second where it is 1, has the laws P and Q.

        Args:
            adjacency: add_or_remove_one only where a slot without a unit answers too, as one more input.
        """
        return RandomizedResponseDpEvent(2, self.truthful, adjacency)


class LocalResponse:
    """What all mechanisms have in common in which a respondent gives one response with certain odds.

    Attributes:
        odds: A and B.
        n_outputs: every response is below it.
    """

    odds: Odds

    @property
    def n_outputs(self) -> int:
        """See the class."""
        raise NotImplementedError

    def events(self, view: View) -> tuple[RandomizedResponseDpEvent]:
        """Return what the one response of a respondent costs, where slots without one answer too: `Odds.event`."""
        return (self.odds.event(ADJACENCY[view]),)
