"""Measures what the figures of [SPCA24] show: the variance captured, by epsilon, gamma and number of components."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.pca.protocol import PcaPlan, clipped_rows, leading_components, plan, reference
from analyses.pca.reference import captured_variance
from analyses.second_moments.spectrum import some_components
from bench.baselines.components import central_moment, noisy_rows
from bench.pca_figures.sources import Source, job_of, kdd_parties
from bench.utility.logistic_rivals import auc
from bench.utility.pca_utility import (
    quantised_moment,
    released_components,
    released_moment,
    with_privacy,
    without_norm_bounds,
)

Floats = NDArray[np.float64]

DELTA = 1e-5
OF_PARTIES = (3, 5, 10, 30)
ONE, ALMOST_HALF = "one colludes", "as many as may collude"
EXACT, CENTRAL, LOCAL = "exact", "central", "local noise"


def ours(gamma: int) -> str:
    """Return the name of a job with this gamma."""
    return f"gamma 2^{gamma.bit_length() - 1}"


@dataclass(frozen=True)
class Point:
    """What one figure shows at one place.

    Attributes:
        figure: of the source; `ONE` and `ALMOST_HALF` are its tables 1 and 2, by who colludes.
        data: name of the source of the table.
        epsilon: against the coordinator.
        k: number of components; of figure 3 that of epochs.
        numbers: way to what was captured, means over runs; of the figure about parties number to epsilon.
        loss_to_bound: what the finest gamma lost to the bound of lemma 3, and None where it is not asked.
    """

    figure: str
    data: str
    epsilon: float
    k: int
    numbers: dict[str, float]
    loss_to_bound: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Self:
        """Return what `as_json` made."""
        return cls(**kept)


@dataclass(frozen=True)
class _Table:
    """What a measurement needs of a table.

    Attributes:
        plans: gamma to the job's plan at some epsilon.
        truth: X^T X of the scaled rows, none of them shortened.
        unit_moment: X^T X of the shortened rows, in units of the longest one.
        quantised: gamma to X^T X of the rounded rows.
    """

    plans: dict[int, PcaPlan]
    truth: Floats
    unit_moment: Floats
    quantised: dict[int, Floats]


def figure_1(name: str, source: Source) -> Iterator[Point]:
    """Yield the variance captured on one table, beside central privacy and local noise."""
    table, rng = _read(source), np.random.default_rng(0)
    largest, finest = max(source.components), max(source.gammas)

    def captured_by(moment: Floats) -> list[float]:
        components = some_components(moment, largest)[1]
        return [captured_variance(table.truth, components[:k]) for k in source.components]

    exact = captured_by(table.truth)
    for epsilon in source.epsilons:
        found: dict[str, list[list[float]]] = {EXACT: [exact]}
        for gamma, planned in table.plans.items():
            own = plan(with_privacy(planned.job, epsilon, DELTA), planned.schemas)
            runs = (released_moment(table.quantised[gamma], own) for _ in range(source.n_runs))
            found[ours(gamma)] = [captured_by(one) for one in runs]
            deviation = own.noise_deviation
        central = (
            central_moment(table.unit_moment, epsilon=epsilon, delta=DELTA, rng=rng)[0] for _ in range(source.n_runs)
        )
        found[CENTRAL] = [captured_by(one) for one in central]
        found[LOCAL] = [captured_by(one) for one in _local_moments(source, epsilon, rng)]
        means = {way: [statistics.fmean(at) for at in zip(*runs, strict=True)] for way, runs in found.items()}
        for at, k in enumerate(source.components):
            lost = (means[EXACT][at] - means[ours(finest)][at]) * float(np.trace(table.truth))
            bound = 2 * k * 2 * deviation * math.sqrt(len(table.truth))
            yield Point("1", name, epsilon, k, {way: values[at] for way, values in means.items()}, lost / bound)


def figure_2(epsilon: float = 0.25, rows: int | None = None, n_runs: int = 20) -> Iterator[Point]:
    """Yield how well two components tell attacks from normal connections: the area under the curve of a line.

    The line is that of least squares on the two scores of all connections, so that only the subspace differs.
    """
    parties = kdd_parties(rows)
    tables, labels = parties.in_memory(), parties.on_request["monitor"][:, 0]
    schemas = [table.schema for table in tables]
    planned = plan(with_privacy(job_of(schemas, 2, 2**12, row_norm=4.0), epsilon, DELTA), schemas)
    scaled, rng = clipped_rows(tables, plan(without_norm_bounds(planned.job), schemas)), np.random.default_rng(0)
    longest = planned.unit * planned.total_squared_norm**0.5
    unit_rows, moment_q = clipped_rows(tables, planned) / longest, quantised_moment(tables, planned)
    unit_moment = unit_rows.T @ unit_rows

    def separated(components: Floats) -> float:
        scores = np.column_stack([scaled @ components.T, np.ones(len(scaled))])
        return auc(scores @ np.linalg.lstsq(scores, labels, rcond=None)[0], labels)

    def central() -> Floats:
        return leading_components(central_moment(unit_moment, epsilon=epsilon, delta=DELTA, rng=rng)[0], 2)[1]

    def local() -> Floats:
        noisy = noisy_rows(unit_rows, epsilon=epsilon, delta=DELTA, rng=rng)
        return leading_components(noisy.T @ noisy, 2)[1]

    numbers = {
        EXACT: separated(leading_components(scaled.T @ scaled, 2)[1]),
        ours(2**12): statistics.fmean(separated(released_components(moment_q, planned)) for _ in range(n_runs)),
        CENTRAL: statistics.fmean(separated(central()) for _ in range(n_runs)),
        LOCAL: statistics.fmean(separated(local()) for _ in range(max(1, n_runs // 4))),
    }
    yield Point("2", "KDD Cup 99", epsilon, 2, numbers)


def parties(epsilons: Sequence[float] = (0.25, 1.0, 4.0, 16.0)) -> Iterator[Point]:
    """Yield epsilon against the coordinator and colluding parties, by the number of parties."""
    for figure in (ONE, ALMOST_HALF):
        for epsilon in epsilons:
            numbers = {}
            for n in OF_PARTIES:
                column = (ColumnSchema(name="x", lower=0, upper=1),)
                schemas = [BlockSchema(party=f"p{at}", columns=column, rows=(1000, 1000)) for at in range(n)]
                colluding = 1 if figure == ONE else (n - 1) // 2
                job = job_of(schemas, 2, 2**12).model_copy(update={"colluding": colluding})
                report = plan(with_privacy(job, epsilon, DELTA), schemas).privacy_report()
                numbers[f"{n}"] = report["views"]["coalition"]["epsilon"]
            yield Point(figure, "any", epsilon, 2, numbers)


def _read(source: Source) -> _Table:
    plans: dict[int, PcaPlan] = {}
    sums: dict[str, Any] = {}
    for tables in source.blocks():
        schemas = [table.schema for table in tables]
        plans = plans or {gamma: plan(source.job(schemas, gamma), schemas) for gamma in source.gammas}
        own = plans[max(source.gammas)]
        unit = clipped_rows(tables, own) / (own.unit * own.total_squared_norm**0.5)
        added = {
            "truth": reference(tables, plan(without_norm_bounds(own.job), schemas)),
            "unit": unit.T @ unit,
            **{str(gamma): quantised_moment(tables, planned) for gamma, planned in plans.items()},
        }
        sums = {name: sums.get(name, 0) + moment for name, moment in added.items()}
    return _Table(plans, sums["truth"], sums["unit"], {gamma: sums[str(gamma)] for gamma in plans})


def _local_moments(source: Source, epsilon: float, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield X^T X of rows to which each party has added noise."""
    for _ in range(source.n_local_runs):
        total: Any = 0
        for tables in source.blocks():
            own = plan(source.job([t.schema for t in tables], max(source.gammas)), [t.schema for t in tables])
            unit = clipped_rows(tables, own) / (own.unit * own.total_squared_norm**0.5)
            noisy = noisy_rows(unit, epsilon=epsilon, delta=DELTA, rng=rng)
            total = total + noisy.T @ noisy
        yield total
