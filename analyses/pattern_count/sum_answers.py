"""What counts of sums answer without a job: power sums of any real order, quantiles and entropy of the joint value.

Counts are public once they are released. A power sum is linear in them, so its error by noise is exact; quantiles and
entropy are those of the nearest counts that are not negative, with errors by draws of further noise: how far these lie
from the released counts is how far those lie from the rows, and for an entropy that has a direction.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analyses.job.forecast import NORMAL_95
from analyses.kept_moments.answer import SEEN, Answer, AnswerError, Floats, ends, numbers
from analyses.second_moments.spectrum import SimulatedNoise
from dp.mechanism.valid_counts import valid_counts

N_DRAWS = 400
BIAS = 1 / (2**0.5 - 1)
QUARTILES = (0.25, 0.5, 0.75)


def distribution(fields: Mapping[str, Any], powers: Sequence[float], quantiles: Sequence[float]) -> Answer:
    """Return sums over the rows of x^p, quantiles of x and the entropy of its distribution.

    Args:
        fields: result of counts of one column of numbers, or of sums, by method `mpc`.
        powers: p of each power sum, above 0.
        quantiles: shares of the rows, between 0 and 1; a quantile is the least value that so many rows do not exceed.

    Raises:
        AnswerError: the counts are of several columns or of names, or not of `mpc`; x may be negative where powers are
            asked for; a number is out of its range; the rows are not distinguishable from noise.
    """
    name, values = _values(fields)
    if not all(0 < p < np.inf for p in powers) or not all(0 < q < 1 for q in quantiles):
        raise AnswerError("a power must be a number above 0, and a quantile lie between 0 and 1")
    if powers and values[0] < 0:
        raise AnswerError(f"powers of {name} are not real: it may be negative")
    counts, errors = (np.array(fields[of], dtype=np.float64) for of in ("counts", "standard_errors"))
    if not counts.sum() > SEEN * float(np.sqrt(np.sum(errors**2))):
        raise AnswerError("the rows are not distinguishable from noise: ask for a larger epsilon")
    raised = np.array([values**p for p in powers]).reshape(len(powers), len(values))
    drawn = counts + errors * SimulatedNoise().normal(N_DRAWS, len(counts))
    likely = [_shares(one) for one in (counts, *drawn)]
    read = np.array([[*(_quantile(values, one, q) for q in quantiles), _entropy(one)] for one in likely])
    sums, of_sums = raised @ counts, np.sqrt(raised**2 @ errors**2)
    low, high = np.quantile(read[1:], [0.025, 0.975], axis=0)
    off, deviation = read[1:].mean(axis=0) - read[0], read[1:].std(axis=0, ddof=1)
    # Noise moves an entropy to one side: by about its variance where all values occur, by its deviation where many do
    # not. So as much noise again moves it by the same, or by sqrt(2) - 1 of it: `BIAS` times as far is the furthest.
    error, furthest = float(np.hypot(deviation[-1], off[-1])), float(np.log2(len(values)))
    low[-1] = max(min(low[-1], read[0, -1] - BIAS * off[-1] - NORMAL_95 * deviation[-1]), 0.0)
    high[-1] = min(max(high[-1], read[0, -1] - BIAS * off[-1] + NORMAL_95 * deviation[-1]), furthest)
    deviation[-1] = error
    return Answer(
        "distribution",
        {
            "of": [*(f"sum of x^{p:g}" for p in powers), *(f"quantile {q:g}" for q in quantiles), "entropy, bits"],
            "value": numbers(np.concatenate([sums, read[0]])),
            "noise_error": numbers(np.concatenate([of_sums, deviation])),
            "interval": ends(
                np.concatenate([sums - NORMAL_95 * of_sums, np.minimum(low, read[0])]),
                np.concatenate([sums + NORMAL_95 * of_sums, np.maximum(high, read[0])]),
            ),
        },
        {"x": name},
        ("errors and 95 % intervals are by noise alone",),
    )


def _values(fields: Mapping[str, Any]) -> tuple[str, Floats]:
    if len(fields["columns"]) > 1:
        raise AnswerError("these are counts of several columns: count their sums (counted = 'sums')")
    (name,) = fields["columns"]
    if fields["method"] != "mpc" or name in fields["labels"]:
        raise AnswerError(f"counts of {name} by method {fields['method']} have no distribution of numbers: ask by mpc")
    low, high = fields["categories"][name]
    return name, np.arange(low, high + 1, dtype=np.float64)


def _shares(counts: Floats) -> Floats:
    """Return the shares of rows by the nearest counts that are not negative and have the same sum."""
    kept = valid_counts(counts, max(float(counts.sum()), 1.0))
    return np.asarray(kept / kept.sum(), dtype=np.float64)


def _quantile(values: Floats, shares: Floats, q: float) -> float:
    return float(values[min(int(np.searchsorted(np.cumsum(shares), q - 1e-9)), len(values) - 1)])


def _entropy(shares: Floats) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log2(some)).sum())
