"""How many persons have each pattern, from one randomized response about each of their records [VertPrim23, app. H].

Each record of a person is kept by a device of its own, which answers by a `SignResponse`. Responses of one person are
drawn independently, so with u_j an unbiased number for what record j says, the product of u_j over the records of a
pattern is unbiased for what all of them say; a count is the sum of these products over the persons who have answered
about all records of the pattern. This inverts the Kronecker product of the responses' matrices, record by record.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import comb, factorial, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import Forecast, Quantity, Signal
from dp.local_mechanism.sign_response import MINUS, NEITHER, PLUS, SignResponse

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_RECORDS = 8
"""Largest number of records of a person: 4^8 combinations of outputs are counted."""

MAX_ORDER = 4
"""Largest number of records of a pattern. With epsilon 0.5 of a response and a million persons the standard error of a
count is 0.9 % of them for a pattern of 2, 3 % of 3, 8 % of 4, 23 % of 5; with epsilon 1 it is 0.8 % of 4."""

TWO_VALUES = 2
"""Inputs of a record that is no number but a yes or a no."""

LEAST_DEVIATIONS = 4.0
"""Standard errors above 0 of the number of those who have a value, for a mean of them to be stated."""

_KINDS = 1 + max(PLUS, MINUS, NEITHER) + 1  # no response, or an output of a response with an empty input

_EVEN = (
    "Everybody answers about each record and has a value, and patterns are equally frequent. In the best case nobody "
    "resembles the pattern, in the bad case everybody has it."
)
_EVEN_NUMBERS = "Everybody answers about each record and has a value, and values are spread evenly over their ranges."


class PersonTally:
    """How many persons gave each combination of outputs.

    Args:
        n_records: m.

    Attributes:
        counts: shape (4,) * m: 0 stands for no response, 1 + the output else.
        n_responses: number of responses.
    """

    def __init__(self, n_records: int) -> None:
        self._shape = (_KINDS,) * n_records
        self._flat = np.zeros(_KINDS**n_records, dtype=np.int64)
        self._person, self._cell = "", 0
        self.n_responses = 0

    @property
    def counts(self) -> Integers:
        """See the class."""
        self._close()
        return self._flat.reshape(self._shape)

    def add(self, respondents: Sequence[tuple[str, int]], responses: Integers) -> None:
        """Add responses, all those of one person one after the other, though perhaps in several calls.

        Args:
            respondents: person and place of the record.
            responses: outputs, shape (n,).
        """
        n_records = len(self._shape)
        self.n_responses += len(respondents)
        for (person, place), response in zip(respondents, responses.tolist(), strict=True):
            if person != self._person:
                self._close()
                self._person = person
            self._cell += (1 + response) * _KINDS ** (n_records - 1 - place)

    def _close(self) -> None:
        if self._cell:
            self._flat[self._cell] += 1
        self._person, self._cell = "", 0


def scores_of(mechanism: SignResponse) -> Floats:
    """Return what each kind of output says of a record, without bias, shape (4, 2); nothing for no response.

    With x the input in units of d - 1, the columns have the expectations 1 - x and x; both 0 where there is no value.
    See `analyses.distribution.estimates.wave_moments.sign_mean`.
    """
    q = mechanism.odds.other * (mechanism.n_inputs - 1) / mechanism.total
    r = 1 - mechanism.n_outputs * q
    scores = np.zeros((_KINDS, 2))
    for column, output in enumerate((MINUS, PLUS)):
        scores[1:, column] = ((np.arange(_KINDS - 1) == output) - q) / r
    return scores


def described(
    mechanism: SignResponse, counts: Integers, records: Sequence[str], ranges: Sequence[tuple[float, float]], order: int
) -> dict[str, Any]:
    """Return what the responses say, JSON-able.

    Args:
        mechanism: which was answered by, with an empty input.
        counts: from `PersonTally`.
        records: names.
        ranges: ranges of their numbers.
        order: largest number of records of a pattern.

    Returns:
        `persons`, who have answered about any record; of records with two values `patterns`, each with how many persons
        have answered about all its records, how many of them have it, and the standard error of that by the responses;
        and `powers`: sums over all persons who have answered about all records, of powers of the number of records
        whose value is 1, one that has no value counting as 0. Of numbers `means`, and `covariances` of two records, of
        all who have both, with errors that hold for the population that persons are drawn from.
    """
    cells = np.flatnonzero(counts)
    n = counts.reshape(-1)[cells].astype(np.float64)
    kinds = np.array(np.unravel_index(cells, counts.shape))
    people = _People(mechanism, tuple(records), n, kinds)
    found: dict[str, Any] = {"analysis": "pattern-count", "records": list(records), "persons": int(n.sum())}
    if mechanism.n_inputs == TWO_VALUES:
        return found | {"patterns": list(people.patterns(order)), "powers": people.powers(order)}
    return found | {"means": people.means(ranges), "covariances": people.covariances(ranges)}


class _People:
    """Persons by their outputs: n of each combination, and `kinds`, shape (records, combinations)."""

    def __init__(self, mechanism: SignResponse, records: tuple[str, ...], n: Floats, kinds: Integers) -> None:
        self._mechanism, self._records, self._n, self._kinds = mechanism, records, n, kinds
        self._scores = scores_of(mechanism)[kinds]  # (records, combinations, 2)

    def _who(self, places: Sequence[int]) -> tuple[Floats, Floats]:
        """Return of the combinations with a response about each of some records the numbers, and the scores."""
        has = np.all(self._kinds[list(places)] > 0, axis=0)
        return self._n[has], self._scores[list(places)][:, has]

    def patterns(self, order: int) -> Iterator[dict[str, Any]]:
        """Yield the count of each pattern of up to so many records.

        For given values persons are independent, and a product X of scores has the expectation 1 or 0, as its person
        has the pattern or not: the variance of the sum is the sum of E[X^2] - E[X], of which X^2 - X is an unbiased
        estimate. It may be too small for a few persons, so it is no less than in the best case.
        """
        for size in range(1, order + 1):
            for places in combinations(range(len(self._records)), size):
                n, scores = self._who(places)
                for values in product((0, 1), repeat=size):
                    x = np.prod(scores[np.arange(size), :, list(values)], axis=0)
                    count, least = float(n @ x), float(n.sum()) * _variances(self._mechanism, size)[0]
                    yield {
                        "records": [self._records[place] for place in places],
                        "values": list(values),
                        "persons": int(n.sum()),
                        "count": count,
                        "standard_error": sqrt(max(float(n @ x**2) - count, least)),
                    }

    def powers(self, order: int) -> list[dict[str, Any]]:
        """Return the sum of each power p up to so many of the number of ones.

        s^p = sum_k k! S(p, k) e_k(x) for s the sum of numbers x that are 0 or 1, e_k the elementary symmetric
        polynomials, S Stirling numbers of the second kind; e_k of unbiased scores is unbiased. The error is that of a
        sample of persons, which is no less than that for given values.
        """
        n, scores = self._who(range(len(self._records)))
        symmetric = np.zeros((order + 1, len(n)))
        symmetric[0] = 1.0
        for one in scores[:, :, 1]:
            symmetric[1:] += one * symmetric[:-1]
        total, found = float(n.sum()), []
        for power in range(1, order + 1):
            z = sum(factorial(k) * _stirling(power, k) * symmetric[k] for k in range(1, power + 1))
            value = float(n @ z)
            spread = float(n @ z**2) - value**2 / max(total, 1.0)
            found.append(
                {"power": power, "persons": int(total), "sum": value, "standard_error": sqrt(max(spread, 0.0))}
            )
        return found

    def means(self, ranges: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
        """Return the mean of each record; no number where those who have a value are not seen in the noise."""
        found = []
        for place, (name, (lower, upper)) in enumerate(zip(self._records, ranges, strict=True)):
            n, scores = self._who([place])
            one, present = scores[0, :, 1], scores[0].sum(axis=1)
            value, error = _ratio(n, one, present)
            scale, d = upper - lower, self._mechanism.n_inputs
            stated = None if value is None else lower + scale * (value * (d - 1) + 0.5) / d
            error = None if error is None else error * scale * (d - 1) / d
            found.append({"record": name, "persons": int(n.sum()), "mean": stated, "standard_error": error})
        return found

    def covariances(self, ranges: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
        """Return the covariance of each two records, by the means of all who have both."""
        found, shrunk = [], (self._mechanism.n_inputs - 1) / self._mechanism.n_inputs
        scales = [shrunk * (upper - lower) for lower, upper in ranges]
        for i, j in combinations(range(len(self._records)), 2):
            n, scores = self._who([i, j])
            (u, v), (p, q) = scores[:, :, 1], scores.sum(axis=2)
            means = [_ratio(n, one, p * q)[0] for one in (u * q, p * v)]
            value, error = (None, None) if None in means else _ratio(n, (u - means[0] * p) * (v - means[1] * q), p * q)
            scale = scales[i] * scales[j]
            found.append(
                {
                    "records": [self._records[i], self._records[j]],
                    "persons": int(n.sum()),
                    "covariance": None if value is None else scale * value,
                    "standard_error": None if error is None else scale * error,
                }
            )
        return found


def forecast(
    mechanism: SignResponse, n_records: int, order: int, ranges: Sequence[tuple[float, float]], n_responses: int
) -> Forecast:
    """Return the errors that are expected of counts, by the number of records, or of a covariance.

    Args:
        mechanism: which is answered by.
        n_records: m.
        order: largest number of records of a pattern.
        ranges: ranges of the records' numbers.
        n_responses: how many devices answer, m of each person.
    """
    n = n_responses / n_records
    if mechanism.n_inputs > TWO_VALUES:
        return _forecast_of_numbers(mechanism, n, ranges)
    found = []
    for size in range(1, order + 1):
        best, even, bad = (sqrt(n * one) for one in _variances(mechanism, size))
        name = f"count of a pattern of {size} record{'s' * (size > 1)}"
        found.append(Quantity(name, "persons", even, None, None, 0.0, n, best, bad))
    signal = Signal(
        "the least error of a count of two records", sqrt(n * _variances(mechanism, 2)[0]), "their number", n, "persons"
    )
    return Forecast(tuple(found), (_EVEN,), infeasible=signal.in_words if signal.is_infeasible else "")


def _forecast_of_numbers(mechanism: SignResponse, n: float, ranges: Sequence[tuple[float, float]]) -> Forecast:
    d, scores = mechanism.n_inputs, scores_of(mechanism)[1:]
    law = mechanism.weights_of(np.arange(d)).mean(axis=0) / mechanism.total
    residual = (scores[:, 1] - scores[:, 0]) / 2  # u - p / 2, p the sum of both
    spread = float(law @ residual**2)
    widths = sorted((d - 1) / d * (upper - lower) for lower, upper in ranges)
    unit = "units of the records"
    pair = widths[-1] * widths[-2]
    mean = Quantity("mean of the record with the widest range", unit, widths[-1] * sqrt(spread / n))
    both = Quantity(
        "covariance of the two records with the widest ranges", f"{unit}, multiplied", pair * spread / sqrt(n),
        least=-pair / 4, largest=pair / 4,
    )  # fmt: skip
    return Forecast((mean, both), (_EVEN_NUMBERS,))


def _variances(mechanism: SignResponse, size: int) -> tuple[float, float, float]:
    """Return the variance of a person's product of scores: in the best case, for even patterns, in the bad case."""
    scores = scores_of(mechanism)[1:, 1]
    low, high, empty = mechanism.weights_of(np.array([0, mechanism.n_inputs - 1, mechanism.n_inputs])) / mechanism.total
    others, match = [float(law @ scores**2) for law in (low, empty)], float(high @ scores**2)
    best = min(min(*others, match) ** size, match**size - 1)
    even = ((others[0] + match) / 2) ** size - 0.5**size
    return best, even, max(match**size - 1, max(others) ** size)


def _ratio(n: Floats, above: Floats, below: Floats) -> tuple[float | None, float | None]:
    """Return the ratio of two sums over persons, and its standard error; None where the lower one is near 0."""
    total, bottom = float(n.sum()), float(n @ below)
    spread = float(n @ below**2) - bottom**2 / max(total, 1.0)
    if bottom <= LEAST_DEVIATIONS * sqrt(max(spread, 0.0)) or bottom <= 0:
        return None, None
    value = float(n @ above) / bottom
    return value, sqrt(float(n @ (above - value * below) ** 2)) / bottom


def _stirling(n: int, k: int) -> int:
    """Return the number of ways to divide n things into k groups, none empty."""
    found: int = sum((-1 if (k - i) % 2 else 1) * comb(k, i) * i**n for i in range(k + 1)) // factorial(k)
    return found
