"""A report by randomized response."""

import math
from fractions import Fraction

import attr
import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, Floats, float_orders, log_ratio
from dp.cost.events.event import PrivacyEvent
from dp.cost.losses.distribution import Losses
from dp.cost.losses.pairs import SLACK, PairLosses, alike


@attr.frozen
class RandomizedResponseDpEvent(PrivacyEvent):
    """One report of a choice among `n_options`: the truth with probability `truthful`, else any other, all alike.

    The unit answers in any case, so neighbours differ in the choice.

    Attributes:
        n_options: at least 2.
        truthful: at least 1 / n_options, below 1.
        adjacency: replace_one; add_or_remove_one only where absent units answer too (`dp.mechanism.response`).
    """

    word = "randomized response"
    bounds = ("n_options", "truthful")

    n_options: int
    truthful: Fraction
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return the exact divergence between the reports of two choices.

        With p = truthful, q = (1 - p) / (k - 1): ln(p^a q^(1-a) + q^a p^(1-a) + (k - 2) q) / (a - 1) [Mironov17, table
        2].
        """
        if self.n_options < 2 or not self.truthful.denominator <= self.n_options * self.truthful.numerator < (
            self.n_options * self.truthful.denominator
        ):
            raise ValueError(
                "randomized response needs at least two options, and the truth must be at least as likely as any other "
                "option"
            )
        p, other = self.truthful, (1 - self.truthful) / (self.n_options - 1)
        order = float_orders(orders)
        epsilon = log_ratio(p, other) * (1 + 2.0**-50)
        log_p, log_q = math.log(p), math.log(other)
        exponents = (order - 1) * epsilon
        found = np.logaddexp(log_p + exponents, log_q - exponents)
        if self.n_options > 2:
            found = np.logaddexp(found, math.log((self.n_options - 2) * other))
        slack = (2 + abs(log_p) + abs(log_q) + order * epsilon) * 2.0**-46
        bounded: Floats = np.minimum((np.maximum(found, 0.0) + slack) / (order - 1), math.nextafter(epsilon, math.inf))
        return bounded

    def losses(self) -> tuple[PairLosses, ...] | None:
        """Two options change places: probabilities p, q, and (k - 2) q for all others, whose loss is 0."""
        p, other = self.truthful, (1 - self.truthful) / (self.n_options - 1)
        loss = log_ratio(p, other)
        masses = np.array([float(p), float((self.n_options - 2) * other), float(other)])
        return alike(Losses(masses * (1 + SLACK), np.array([loss, 0.0, -loss]) + loss * SLACK), 1)
