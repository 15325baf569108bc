"""Optimised local hashing (OLH) of [WBLJ17]: randomized response about a short public hash of the choice.

With many options direct reports are nearly all false. Here slot i has a public random function from the k options to g
buckets and reports, by randomized response among g, the bucket of its choice. A choice is supported by every report
that equals its bucket. The functions are drawn as full tables, so any two options collide with probability exactly 1/g,
independently from slot to slot.

[WBLJ17] lets g = e^epsilon + 1, no integer; `g = round(e^epsilon) + 1` is, and the probabilities p of the truth and 1/g
of support by chance belong to that g.
"""

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, CalibrationError
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.views import View
from dp.mechanism.response import Floats, Integers, RandomizedResponse
from entropy import Entropy, KeyStream

MAX_BUCKETS = 256
"""Reports fit a byte."""


@dataclass(frozen=True)
class LocalHashing:
    """Reports the bucket of a choice 0 .. k - 1 under the slot's own public function.

    Attributes:
        n_options: k, at least 2.
        response: randomized response to the bucket, one of g.
        label: public; the functions are drawn from its hash. Different reporters take different labels.
    """

    n_options: int
    response: RandomizedResponse
    label: str

    @classmethod
    def calibrate(cls, n_options: int, label: str, *, n_reports: int, epsilon: float, delta: float) -> Self:
        """Return the hashing of which `n_reports` by one record cost at most `epsilon` at `delta`.

        The epsilon of one report that g is chosen by is that of a response among two; g changes the variance only.

        Raises:
            CalibrationError: epsilon or delta is out of range, or leaves nothing of the truth.
        """
        binary = RandomizedResponse.calibrate(2, n_reports=n_reports, epsilon=epsilon, delta=delta)
        n_buckets = round(min(math.exp(binary.pure_epsilon), MAX_BUCKETS - 1)) + 1
        response = RandomizedResponse.calibrate(n_buckets, n_reports=n_reports, epsilon=epsilon, delta=delta)
        return cls(n_options, response, label)

    @classmethod
    def of_odds(cls, n_options: int, label: str, favoured: int, other: int) -> Self:
        """Return the hashing to g = round(A / B) + 1 buckets whose response has the odds A to B.

        Args:
            n_options: k.
            label: see the class.
            favoured: A.
            other: B; the epsilon of one report is ln(A / B).
        """
        n_buckets = min(round(Fraction(favoured, other)), MAX_BUCKETS - 1) + 1
        return cls(n_options, RandomizedResponse.of_odds(n_buckets, favoured, other), label)

    def __post_init__(self) -> None:
        if self.n_options < 2 or self.response.n_options > MAX_BUCKETS:
            raise CalibrationError(f"local hashing needs at least two options and at most {MAX_BUCKETS} buckets")

    def event(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> RandomizedResponseDpEvent:
        """Return what one report costs: that of its response, as functions are public and do not depend on choices."""
        return self.response.event(adjacency)

    def events(self, view: View) -> tuple[RandomizedResponseDpEvent]:
        """Return what the one report about a unit costs, as `RandomizedResponse.events`."""
        return self.response.events(view)

    def draw(self, entropy: Entropy, n_reports: int) -> Integers:
        """Draw the noise of the response about buckets; see `RandomizedResponse.draw`."""
        return self.response.draw(entropy, n_reports)

    def reports(self, choices: Integers, noise: Integers) -> Integers:
        """Return one report per slot: a bucket 0 .. g - 1.

        Args:
            choices: shape (n,), 0 .. k - 1.
            noise: shape (n,), of `draw`.

        Raises:
            ValueError: a choice that is no option.
        """
        if choices.size and not 0 <= choices.min() <= choices.max() < self.n_options:
            raise ValueError(f"a choice is outside 0..{self.n_options - 1}")
        buckets = self._buckets(len(choices))[np.arange(len(choices)), choices].astype(np.int64)
        return self.response.reports(buckets, noise)

    def unbiased_indicators(self, reports: Integers) -> Floats:
        """Return (1[report = bucket of a] - 1/g) / (p - 1/g) for every option a: unbiased for 1[choice = a].

        Args:
            reports: shape (n,).

        Returns:
            shape (n, k).

        Raises:
            CalibrationError: p = 1/g: reports say nothing.
        """
        p, q = float(self.response.truthful), 1 / self.response.n_options
        if p == q:
            raise CalibrationError("no unbiased estimate exists, because the reports do not depend on the truth")
        found: Floats = ((reports[:, None] == self._buckets(len(reports))) - q) / (p - q)
        return found

    def _buckets(self, n_slots: int) -> NDArray[np.uint8]:
        """Return the functions of all slots as tables of shape (n_slots, k).

        A byte is uniform among g buckets once those that would favour the lowest ones are drawn again.
        """
        stream = KeyStream(hashlib.sha256(b"moiety local hashing functions:" + self.label.encode()).digest())
        n_buckets, size = self.response.n_options, n_slots * self.n_options
        usable = MAX_BUCKETS // n_buckets * n_buckets
        out = np.empty(size, dtype=np.uint8)
        filled = 0
        while filled < size:
            drawn = np.frombuffer(stream.read(size - filled), dtype=np.uint8)
            kept = drawn[drawn < usable]
            out[filled : filled + len(kept)] = kept % np.uint16(n_buckets)  # 256 is no byte itself
            filled += len(kept)
        return out.reshape(n_slots, self.n_options)
