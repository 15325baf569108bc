"""How many persons have each pattern, from one randomized response about each of their records [VertPrim23, app. H].

Each record of a person is kept by a device of its own. Of a record with k values the device tells one of them, or that
there is none, by randomized response among these k + 1 (`DirectResponse`); a number it rounds to one end of its range
first (`SignResponse`, the same with k = 2).

Estimate. Let a response be v with the probability q + r where the record is v, and with q else. The score
u_v = (1[response is v] - q) / r has the expectation 1 or 0, as the record is v or not. Responses of one person are
drawn independently, so the product of the scores of some records is unbiased for whether all of them have these values,
and a count is the sum of such products over the persons who have answered about all records of the pattern. This
inverts the Kronecker product of the responses' matrices, record by record.

Error. For given values persons are independent, and the expectation of a product X is its square, so that the variance
of a count is the sum of E[X^2] - E[X], of which the sum of X^2 - X is an unbiased estimate. E[u_v^2] is
m = ((q + r) (1 - q)^2 + (1 - q - r) q^2) / r^2 where the record is v, and o = q (1 - q) / r^2 else; m - o =
(1 - 2 q) / r >= 1, as q + (q + r) <= 1, and m >= 1. So of all persons those who have the whole pattern add the most,
prod m - 1, and the least is prod o or that.

Cost. A set of records takes one pass over the table of outputs, and time for each of its patterns.
"""

from collections.abc import Sequence
from itertools import combinations, product
from math import comb, factorial, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import Forecast, Quantity, Signal
from dp.local_mechanism.hashed_response import DirectResponse
from dp.local_mechanism.sign_response import SignResponse

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RecordResponse = SignResponse | DirectResponse
"""How a device answers about its record; each has an output for a record without a value, the last one."""

MAX_RECORDS = 8
"""Largest number of records of a person."""

MAX_COMBINATIONS = 1 << 19
"""Largest number of combinations of outputs, or none, of all records: so many counts of persons are kept."""

MAX_PATTERNS = 4096
"""Largest number of patterns that a result states."""

MAX_ORDER = 4
"""Largest number of records of a pattern. With epsilon 0.5 of a response and a million persons the standard error of a
count is 0.9 % of them for a pattern of 2, 3 % of 3, 8 % of 4, 23 % of 5; with epsilon 1 it is 0.8 % of 4."""

TWO_VALUES = 2
"""Values of a record that is no number but a yes or a no."""

LEAST_DEVIATIONS = 4.0
"""Standard errors above 0 of the number of those who have a value, for a mean of them to be stated."""

_EVEN = (
    "Everybody answers about each record and has a value, and patterns are equally frequent. In the best case nobody "
    "resembles the pattern, in the bad case everybody has it."
)
_OF_LARGEST_ERRORS = "Of so many records those are forecast whose counts err most."
_EVEN_NUMBERS = "Everybody answers about each record and has a value, and values are spread evenly over their ranges."


def check_size(n_values: Sequence[int], order: int) -> None:
    """Refuse a question whose counts would be too many.

    Args:
        n_values: number of values of each record.
        order: largest number of records of a pattern.

    Raises:
        ValueError: the text names the fields.
    """
    if (n := prod(k + 2 for k in n_values)) > MAX_COMBINATIONS:
        raise ValueError(f"others: {n} combinations of answers, at most {MAX_COMBINATIONS}; ask about fewer values")
    n = sum(prod(some) for size in range(1, order + 1) for some in combinations(n_values, size))
    if n > MAX_PATTERNS:
        raise ValueError(f"order: {n} patterns, at most {MAX_PATTERNS}; ask about patterns of fewer records")


class PersonTally:
    """How many persons gave each combination of outputs.

    Args:
        mechanisms: one a record.

    Attributes:
        counts: an axis a record: 0 stands for no response, 1 + the output else.
        n_responses: number of responses.
    """

    def __init__(self, mechanisms: Sequence[RecordResponse]) -> None:
        self._shape = tuple(1 + mechanism.n_outputs for mechanism in mechanisms)
        self._flat = np.zeros(prod(self._shape), dtype=np.int64)
        self._strides = [prod(self._shape[place + 1 :]) for place in range(len(self._shape))]
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
        self.n_responses += len(respondents)
        for (person, place), response in zip(respondents, responses.tolist(), strict=True):
            if person != self._person:
                self._close()
                self._person = person
            self._cell += (1 + response) * self._strides[place]

    def _close(self) -> None:
        if self._cell:
            self._flat[self._cell] += 1
        self._person, self._cell = "", 0


def n_values_of(mechanism: RecordResponse) -> int:
    """Return how many values of a record are told apart."""
    return mechanism.n_outputs - 1


def _law(mechanism: RecordResponse) -> tuple[float, float]:
    """Return q and r of the module's text."""
    if isinstance(mechanism, DirectResponse):
        other = mechanism.response.other
        return float(other), float(mechanism.response.truthful - other)
    q = mechanism.odds.other * (mechanism.n_inputs - 1) / mechanism.total
    return q, 1 - mechanism.n_outputs * q


def scores_of(mechanism: RecordResponse) -> Floats:
    """Return what each kind of output says of a record, without bias, shape (1 + outputs, values): 0 for no response.

    Of numbers, with x the input in units of d - 1, the columns have the expectations 1 - x and x; both 0 where there is
    no value. See `analyses.distribution.estimates.wave_moments.sign_mean`.
    """
    q, r = _law(mechanism)
    scores = np.zeros((1 + mechanism.n_outputs, n_values_of(mechanism)))
    scores[1:] = (np.eye(*scores[1:].shape) - q) / r
    return scores


def described(
    mechanisms: Sequence[RecordResponse],
    counts: Integers,
    records: Sequence[str],
    ranges: Sequence[tuple[float, float]],
    order: int,
) -> dict[str, Any]:
    """Return what the responses say, JSON-able.

    Args:
        mechanisms: responses about each record, with an empty input; all of one kind.
        counts: from `PersonTally`.
        records: names.
        ranges: ranges of their numbers; values of categories are counted from the lower end.
        order: largest number of records of a pattern.

    Returns:
        `persons`, who have answered about any record; of records with a few values `patterns`, each with how many
        persons have answered about all its records, how many of them have it, and the standard error of that by the
        responses; and where all have two values `powers`: sums over all persons who have answered about all records, of
        powers of the number of records whose value is the second, one that has no value counting as 0. Of numbers
        `means`, and `covariances` of two records, of all who have both, with errors that hold for the population that
        persons are drawn from.
    """
    found: dict[str, Any] = {"analysis": "pattern-count", "records": list(records), "persons": int(counts.sum())}
    first = mechanisms[0]
    if isinstance(first, SignResponse) and first.n_inputs > TWO_VALUES:
        people = _People(first, records, counts)
        return found | {"means": people.means(ranges), "covariances": people.covariances(ranges)}
    starts = [
        int(lower) if isinstance(one, DirectResponse) else 0 for one, (lower, _) in zip(mechanisms, ranges, strict=True)
    ]
    found["patterns"] = [
        row
        for size in range(1, order + 1)
        for places in combinations(range(len(records)), size)
        for row in _patterns(mechanisms, counts, records, starts, places)
    ]
    if all(n_values_of(one) == TWO_VALUES for one in mechanisms):
        found["powers"] = _People(first, records, counts).powers(order)
    return found


def _patterns(
    mechanisms: Sequence[RecordResponse],
    counts: Integers,
    records: Sequence[str],
    starts: Sequence[int],
    places: Sequence[int],
) -> list[dict[str, Any]]:
    """Return the count of each pattern of some records; see the module's text.

    The variance may be estimated too small for a few persons, so it is no less than in the best case.
    """
    others = tuple(place for place in range(counts.ndim) if place not in places)
    among = counts.sum(axis=others)[(slice(1, None),) * len(places)].astype(np.float64)
    own = [mechanisms[place] for place in places]
    sums, squares = among, among
    for scores in (scores_of(one)[1:] for one in own):  # each turns the first axis into the last one
        sums, squares = np.tensordot(sums, scores, (0, 0)), np.tensordot(squares, scores**2, (0, 0))
    persons = float(among.sum())
    errors = np.sqrt(np.maximum(squares - sums, persons * _variances(own)[0]))
    return [
        {
            "records": [records[place] for place in places],
            "values": [starts[place] + value for place, value in zip(places, values, strict=True)],
            "persons": int(persons),
            "count": float(sums[values]),
            "standard_error": float(errors[values]),
        }
        for values in product(*map(range, sums.shape))
    ]


class _People:
    """Persons by their outputs about records with one mechanism: n of each combination that anybody has.

    Args:
        mechanism: response about each record, which tells two values apart.
        records: names.
        counts: from `PersonTally`.
    """

    def __init__(self, mechanism: RecordResponse, records: Sequence[str], counts: Integers) -> None:
        cells = np.flatnonzero(counts)
        self._mechanism, self._records = mechanism, tuple(records)
        self._n = counts.reshape(-1)[cells].astype(np.float64)
        self._kinds = np.array(np.unravel_index(cells, counts.shape))
        self._scores = scores_of(mechanism)[self._kinds]  # (records, combinations, 2)

    def _who(self, places: Sequence[int]) -> tuple[Floats, Floats]:
        """Return of the combinations with a response about each of some records the numbers, and the scores."""
        has = np.all(self._kinds[list(places)] > 0, axis=0)
        return self._n[has], self._scores[list(places)][:, has]

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
    mechanisms: Sequence[RecordResponse], order: int, ranges: Sequence[tuple[float, float]], n_responses: int
) -> Forecast:
    """Return the errors that are expected of counts, by the number of records, or of a covariance.

    Args:
        mechanisms: responses about each record.
        order: largest number of records of a pattern.
        ranges: ranges of the records' numbers.
        n_responses: how many devices answer, one for each record of a person.
    """
    n, first = n_responses / len(mechanisms), mechanisms[0]
    if isinstance(first, SignResponse) and first.n_inputs > TWO_VALUES:
        return _forecast_of_numbers(first, n, ranges)
    found = []
    for size in range(1, order + 1):
        best, even, bad = np.sqrt(n * np.array([_variances(some) for some in combinations(mechanisms, size)])).T
        name = f"count of a pattern of {size} record{'s' * (size > 1)}"
        errors = (float(even.max()), None, None, 0.0, n, float(best.min()), float(bad.max()))
        found.append(Quantity(name, "persons", *errors))
    least = sqrt(n * min(_variances(some)[0] for some in combinations(mechanisms, 2)))
    signal = Signal("the least error of a count of two records", least, "their number", n, "persons")
    which = () if len(set(map(n_values_of, mechanisms))) == 1 else (_OF_LARGEST_ERRORS,)
    return Forecast(tuple(found), (_EVEN, *which), infeasible=signal.in_words if signal.is_infeasible else "")


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


def _variances(mechanisms: Sequence[RecordResponse]) -> tuple[float, float, float]:
    """Return the variance of a person's product of scores: in the best case, for even patterns, in the bad case."""
    least, even, most, n_patterns = 1.0, 1.0, 1.0, 1
    for mechanism in mechanisms:
        (q, r), k = _law(mechanism), n_values_of(mechanism)
        other, match = q * (1 - q) / r**2, ((q + r) * (1 - q) ** 2 + (1 - q - r) * q**2) / r**2
        least, most = least * other, most * match
        even, n_patterns = even * (match + (k - 1) * other) / k, n_patterns * k
    return min(least, most - 1), even - 1 / n_patterns, most - 1


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
