"""Figure 3 of [SPCA24]: test accuracy of logistic regression by epsilon and gamma, on stand-ins for its census data.

Printed are 5 to 20 epochs in batches of a thousandth of the rows, and weights of norm 1 at most; no step of descent, so
ours is that of our other tables.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyses.logistic_regression.plan import plan
from analyses.logistic_regression.protocol import scaled_rows
from bench.analyses.logistic_regression import accuracy_by_moments, accuracy_of_jobs
from bench.baselines.logistic import accuracy, dp_sgd_weights, exact_weights, local_noise_table
from bench.datasets.labelled_tables import LabelledTables, adult, employment
from bench.pca_figures.measured import CENTRAL, DELTA, EXACT, LOCAL, Point, ours
from bench.utility.logistic_jobs import LEARNING, WEIGHT_NORM

EPOCHS: Mapping[float, int] = {0.5: 5, 1.0: 5, 2.0: 8, 4.0: 10, 8.0: 20, 16.0: 20}
RATE = 0.001
COARSE, FINE = 2**12, 2**16
WIDER = f"{ours(COARSE)}, weights to {WEIGHT_NORM:g}"
MOMENTS, SAME = "by moments", "one label"
N_RUNS = 1


@dataclass(frozen=True)
class Census:
    """A table with a label.

    Attributes:
        what: rows, columns, and where it is from.
        figure: table of the source in whose place it stands.
        read: the table.
        epsilons: of those printed, what was measured.
    """

    what: str
    figure: str
    read: Callable[[], LabelledTables]
    epsilons: tuple[float, ...]


TABLES: Mapping[str, Census] = {
    "income": Census(
        "Adult, the census of 1994: over 50,000 dollars? 32,561 rows to learn from, 16,281 to test, 108 columns",
        "ACSIncome, four states",
        adult,
        (0.5, 1.0, 4.0, 16.0),
    ),
    "employment": Census(
        "tax units of the CPS, 2012 to 2014: does the head have wages? 210,003 rows, 70,002 to test, 42 columns",
        "ACSEmployment, four states",
        employment,
        (0.5, 1.0),
    ),
}


def figure_3(name: str, epsilon: float, rate: float = RATE, runs: int = N_RUNS) -> Iterator[Point]:
    """Yield the mean accuracy on one table at one epsilon; `k` of the point is its number of epochs."""
    data, rng = TABLES[name].read(), np.random.default_rng(0)
    chosen = plan(data.job(epsilon=1.0, method="gradient"), [t.schema for t in data.training])
    (x, y), (testing, labels) = scaled_rows(data.training, chosen), scaled_rows(data.testing, chosen)
    steps: dict[str, Any] = {"sampling_rate": rate, "iterations": round(EPOCHS[epsilon] / rate)}
    three = {"epsilon": epsilon, "release": "three-sums", **steps}
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "rng": rng}

    def central() -> float:
        return accuracy(testing @ dp_sgd_weights(x, y, **budget, **steps, **LEARNING), labels)

    def local() -> float:
        noisy_x, noisy_y = local_noise_table(x, y, **budget)
        return accuracy(testing @ exact_weights(noisy_x, (noisy_y > 0.5).astype(float)), labels)

    numbers = {
        EXACT: accuracy(testing @ exact_weights(x, y), labels),
        **{
            ours(gamma): accuracy_of_jobs(data, runs, gamma=gamma, weight_norm=1.0, **three)[0]
            for gamma in (COARSE, FINE)
        },
        WIDER: accuracy_of_jobs(data, runs, gamma=COARSE, **three)[0],
        MOMENTS: accuracy_by_moments(data, epsilon, runs),
        CENTRAL: statistics.fmean(central() for _ in range(runs)),
        LOCAL: statistics.fmean(local() for _ in range(runs)),
        SAME: float(max(labels.mean(), 1 - labels.mean())),
    }
    yield Point("3", name, epsilon, EPOCHS[epsilon], numbers)
