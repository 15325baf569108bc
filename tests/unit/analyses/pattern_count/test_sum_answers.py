"""What counts of sums tell: power sums, quantiles, entropy beside those of the rows, and how far noise moves them."""

import numpy as np
import pytest
from scipy.stats import entropy

from analyses.kept_moments.answer import AnswerError
from analyses.pattern_count.sum_answers import distribution

NAME = "bank.loans + shop.orders"
LARGEST = 12
DEVIATION = 5.0
ROWS = np.random.default_rng(4).binomial(LARGEST, 0.3, 4000)
POWERS = (0.5, 1.0, 2.5)


def fields_of(rng=None, lowest=0, **changes):
    counts = np.bincount(ROWS, minlength=LARGEST + 1).astype(float)
    if rng is not None:
        counts = counts + rng.normal(0, DEVIATION, len(counts))
    return {
        "method": "mpc",
        "columns": [NAME],
        "categories": {NAME: [lowest, lowest + LARGEST]},
        "labels": {},
        "counts": counts.tolist(),
        "standard_errors": [0.0 if rng is None else DEVIATION] * len(counts),
        **changes,
    }


def test_without_noise_all_are_those_of_the_rows():
    found = distribution(fields_of(), POWERS, (0.1, 0.5))
    shares = np.bincount(ROWS) / len(ROWS)
    wanted = [*((ROWS.astype(float) ** p).sum() for p in POWERS), *np.quantile(ROWS, (0.1, 0.5), method="inverted_cdf")]
    np.testing.assert_allclose(found.table["value"], [*wanted, entropy(shares, base=2)])
    assert found.table["of"] == [
        "sum of x^0.5",
        "sum of x^1",
        "sum of x^2.5",
        "quantile 0.1",
        "quantile 0.5",
        "entropy, bits",
    ]


def test_errors_of_power_sums_are_those_of_many_releases():
    rng = np.random.default_rng(8)
    found = [distribution(fields_of(rng), POWERS, ()).table for _ in range(60)]
    spread = np.std([one["value"][:3] for one in found], axis=0, ddof=1)
    np.testing.assert_allclose(spread, found[0]["noise_error"][:3], rtol=0.3)
    truth = [(ROWS.astype(float) ** p).sum() for p in POWERS]
    within = [[low <= t <= high for t, (low, high) in zip(truth, one["interval"], strict=False)] for one in found]
    assert np.mean(within) > 0.85


@pytest.mark.parametrize("rows", [[31.0] * 64, [2000.0, *[0.0] * 63]])
def test_the_interval_of_an_entropy_that_noise_moves_to_one_side_holds_it(rows):
    rng, held = np.random.default_rng(3), []
    for _ in range(8):
        noisy = {"counts": (np.array(rows) + rng.normal(0, 20, 64)).tolist(), "standard_errors": [20.0] * 64}
        low, high = distribution(fields_of(categories={NAME: [0, 63]}, **noisy), (), ()).table["interval"][0]
        held.append(low - 1e-9 <= entropy(rows, base=2) <= high + 1e-9)
    assert sum(held) >= 7


@pytest.mark.parametrize(
    ("fields", "powers", "says"),
    [
        (fields_of(columns=["a", "b"]), (1,), "counts of several columns"),
        (fields_of(method="subsampled"), (1,), "ask by mpc"),
        (fields_of(lowest=-1), (0.5,), "may be negative"),
        (fields_of(), (0.0,), "above 0"),
        (fields_of(standard_errors=[1000.0] * (LARGEST + 1)), (1,), "not distinguishable from noise"),
    ],
)
def test_what_has_no_answer_is_told(fields, powers, says):
    with pytest.raises(AnswerError, match=says):
        distribution(fields, powers, ())
