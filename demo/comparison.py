"""What a private answer is worth: it, and `ANALYSIS.reference` of all tables in one place, scored on the same rows.

Only a demo can do so, and a benchmark: in a federation nobody holds all tables. There is one function for each
class of plans; how other systems do at the same privacy, `bench.analyses` measures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.circuit.plan import CircuitPlan
from analyses.clustering.grid import in_scaled_units
from analyses.clustering.plan import ClusteringPlan
from analyses.clustering.reference import scaled_rows
from analyses.clustering.weighted_clustering import loss
from analyses.distribution.estimates.metrics import kolmogorov_smirnov, mean_of, quantiles, wasserstein
from analyses.distribution.plan import DistributionPlan
from analyses.job.schema import Table
from analyses.joint_sums.plan import JointSumPlan
from analyses.kept_moments.plan import KeptMomentsPlan
from analyses.least_squares.line import Line
from analyses.least_squares.plan import LeastSquaresPlan
from analyses.logistic_regression.plan import LogisticRegressionPlan
from analyses.low_rank.plan import LowRankPlan
from analyses.low_rank.reference import residual
from analyses.matrix_factorization.jobs.series_plan import SeriesPlan
from analyses.pattern_count.plan import PatternCountPlan
from analyses.pca.plan import PcaPlan
from analyses.pca.reference import captured_variance
from analyses.power_moments.plan import MomentsPlan
from analyses.registry import analysis_of
from analyses.rows.row_plan import clipped_rows
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import leading_components
from demo.rating_errors import scores_of_factors
from results.drawing.chart import EXACT, Picture
from results.kinds.distribution import GRID, PREFIXES, density_of, heat_of
from results.kinds.pca import picture_beside
from results.registry import picture_of as picture_of_result

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """One number about an answer, as a demo prints it.

    Attributes:
        what: quantity that is measured.
        moiety: figure of the private answer; None where it has none.
        no_privacy: figure of the reference; None where it has none.
    """

    what: str
    moiety: float | None
    no_privacy: float | None


@dataclass(frozen=True)
class Found:
    """An answer beside what somebody who held all tables would have.

    Attributes:
        result: result of the job, as the analysis returns it.
        reports: party to what it alone is told of the job.
        data: what the parties hold, and what nobody holds.
        tables: tables in the order of the inputs.
        plan: plan of the job.
    """

    result: Mapping[str, Any]
    reports: Mapping[str, Mapping[str, Any]]
    data: Any
    tables: Sequence[Table]
    plan: Any

    @cached_property
    def reference(self) -> Any:
        """What `ANALYSIS.reference` returns: the same without noise, of all tables in one place."""
        compute = analysis_of(self.plan.job).reference
        assert compute is not None, "every analysis of a demo has a reference"
        return compute(self.tables, self.plan)


_Scores = list[tuple[str, float | None, float | None]]


def scores_of(found: Found) -> list[Score]:
    """Return the scores of an answer, the most telling first."""
    return [Score(*score) for score in _scores(found.plan, found)]


@singledispatch
def picture_of(plan: Any, found: Found) -> Picture:
    """Return the picture of an answer, with the exact values in it where it has a place for them.

    Raises:
        PictureError: there is nothing to draw.
    """
    return picture_of_result(found.result)


@picture_of.register
def _(plan: PcaPlan, found: Found) -> Picture:
    exact = leading_components(found.reference, len(found.reference))[0] / found.tables[0].n_rows
    return picture_beside(found.result, exact.tolist())


@picture_of.register
def _(plan: DistributionPlan, found: Found) -> Picture:
    if found.result["method"] == GRID:
        released, exact = picture_of_result(found.result), found.reference.tolist()
        return Picture((*released.panels, heat_of(found.result["grid"], title=EXACT, exact=exact, note=())))
    if found.result["probabilities"] is None:
        return picture_of_result(found.result)
    return Picture((density_of(found.result, title=found.result["method"], exact=found.reference.tolist()),))


@singledispatch
def _scores(plan: Any, found: Found) -> _Scores:
    raise NotImplementedError(f"nothing says what an answer of {plan.job.analysis} is worth")


@_scores.register
def _(plan: PcaPlan, found: Found) -> _Scores:
    scatter, released = found.reference, np.array(found.result["components"])
    k, n_rows = len(released), found.tables[0].n_rows
    exact = leading_components(scatter, k)[1]
    along = np.einsum("ki,ij,kj->k", released, scatter, released) / n_rows
    captured = (captured_variance(scatter, released), captured_variance(scatter, exact))
    stated = found.result["explained_variance"] or [None] * k
    each = [(f"variance along released component {i}", stated[i - 1], float(along[i - 1])) for i in range(1, k + 1)]
    return [(f"fraction of the variance captured by {k} components", *captured), *each]


@_scores.register
def _(plan: KeptMomentsPlan, found: Found) -> _Scores:
    ours, exact = (ReleasedMoments.of(np.array(m), plan) for m in (found.result["matrix"], found.reference))
    off = ours.centred.mean - exact.centred.mean
    return [
        ("error of a mean, in widths of its bounds (root mean square)", float(np.sqrt(np.mean(off**2))), 0.0),
        ("rows", ours.n_rows, exact.n_rows),
    ]


@_scores.register
def _(plan: LowRankPlan, found: Found) -> _Scores:
    rows = clipped_rows(found.tables, plan)
    ours = residual(rows, np.array(found.result["components"]))
    return [("fraction of the table's norm that is lost", ours, residual(rows, found.reference))]


@_scores.register
def _(plan: LeastSquaresPlan, found: Found) -> _Scores:
    joint, names = _joint(found.tables)
    is_label = names == plan.params.label
    features, label = joint[:, ~is_label], joint[:, is_label][:, 0]

    def explained(line: Line) -> float:
        return float(1 - np.mean((label - line.predict(features)) ** 2) / np.var(label))

    coefficients = found.result["coefficients"]
    ours = None if coefficients is None else explained(Line(np.array(coefficients), found.result["intercept"]))
    return [("fraction of the variation explained (R^2)", ours, explained(found.reference))]


@_scores.register
def _(plan: LogisticRegressionPlan, found: Found) -> _Scores:
    joint, names = _joint(found.tables)
    is_label = names == plan.params.label
    features, label = joint[:, ~is_label], joint[:, is_label][:, 0] > 0.5

    def right(weights: Floats, intercept: float) -> float:
        return float(np.mean((features @ weights + intercept > 0) == label))

    ours = right(np.array(found.result["weights"]), found.result["intercept"])
    frequent = max(float(label.mean()), 1 - float(label.mean()))
    return [
        ("fraction of the rows with the right label", ours, right(*found.reference)),
        ("the same, where the more frequent label is said of all", None, frequent),
    ]


@_scores.register
def _(plan: ClusteringPlan, found: Found) -> _Scores:
    rows, power = scaled_rows(found.tables, plan), plan.params.p
    ours = in_scaled_units(np.array(found.result["centres"]), plan)
    what = "mean squared distance" if power == 2 else "mean distance"
    scores = (loss(rows, ours, power), loss(rows, found.reference.centres, power))
    return [(f"{what} to the nearest centre, columns scaled to [-1, 1]", *scores)]


@_scores.register
def _(plan: PatternCountPlan, found: Found) -> _Scores:
    ours, exact = np.array(found.result["counts"], dtype=np.float64), found.reference
    error = float(np.sqrt(np.mean((ours - exact) ** 2)))
    columns = [
        [f"{column.name.partition('.')[2]} {column.lower + place}" for place in range(column.n_values)]
        for column in plan.columns
    ]
    rows = zip(product(*columns), ours.ravel(), exact.ravel(), strict=True)
    counts: _Scores = [(f"rows with {', '.join(pattern)}", float(count), float(true)) for pattern, count, true in rows]
    return [("error of a count (root mean square)", error, 0.0), *counts]


@_scores.register
def _(plan: JointSumPlan, found: Found) -> _Scores:
    ours, exact = found.result, found.reference
    scores: _Scores = [("rows", ours["n_rows"], float(exact["n_rows"]))]
    for name in ("mean", "sum"):
        if name in ours:
            each = zip(ours["columns"], ours[name] or [None] * len(exact[name]), exact[name], strict=True)
            scores += [(f"{name} of {column}", value, true) for column, value, true in each]
    return scores


@_scores.register
def _(plan: CircuitPlan, found: Found) -> _Scores:
    ours = zip(found.result["names"], found.result["values"], strict=True)
    return [(name, value, float(found.reference[name])) for name, value in ours]


@_scores.register
def _(plan: MomentsPlan, found: Found) -> _Scores:
    ours, exact = found.result["moment"], found.reference
    return [("moment", ours, exact), ("relative error", abs(ours / exact - 1) if exact else None, 0.0)]


@_scores.register
def _(plan: DistributionPlan, found: Found) -> _Scores:
    lower, upper = plan.params.known_range
    if found.result["method"] == PREFIXES:
        width, exact = (upper - lower) / plan.params.buckets, dict(found.reference.T.tolist())
        of_value = [(f"share of {value:g}", share, value) for value, share, *_ in found.result["frequent"] or []]
        return [(said, share, exact.get(round((value - lower) / width), 0.0)) for said, share, value in of_value]
    if found.result["method"] == GRID:
        return _of_cells(plan, found)
    mean = ("mean", found.result["mean"], float(lower + (upper - lower) * mean_of(found.reference)))
    if found.result["probabilities"] is None:
        return [mean]
    ours, exact = np.array(found.result["probabilities"]), found.reference
    levels = [level for level, _ in found.result["quantiles"]]
    inverse = lower + (upper - lower) * quantiles(exact, np.array(levels))
    each = zip(found.result["quantiles"], inverse, strict=True)
    return [
        ("mean distance of cumulative distributions (W1), in ranges", wasserstein(ours, exact), 0.0),
        ("largest such distance (KS)", kolmogorov_smirnov(ours, exact), 0.0),
        mean,
        *((f"{100 * level:g} % are below", value, float(true)) for (level, value), true in each),
    ]


def _of_cells(plan: DistributionPlan, found: Found) -> _Scores:
    """Score the shares of cells and of rectangles; of a rectangle lower ends are in it, upper ones not."""
    values, shares = np.concatenate([table.values for table in found.tables]), np.array(found.result["grid"]["cells"])
    off = np.abs(shares[..., 0] - found.reference)
    scores: _Scores = [
        ("half of the sum of the errors of cells' shares", float(off.sum()) / 2, 0.0),
        ("largest error of a cell's share", float(off.max()), 0.0),
    ]
    for *ends, share, _, _, _ in found.result["grid"]["rectangles"]:
        lower, upper = np.array(ends).reshape(2, 2).T
        inside = ((lower <= values) & (values < upper)).all(axis=1)
        where = "share of {:g} to {:g}, {:g} to {:g}".format(*ends)
        scores.append((where, share, float(inside.mean())))
    return scores


@_scores.register
def _(plan: SeriesPlan, found: Found) -> _Scores:
    kept = {party: report["kept"] for party, report in found.reports.items()}
    return scores_of_factors(found.data, plan, found.result, found.reference, kept)


def _joint(tables: Sequence[Table]) -> tuple[Floats, NDArray[np.str_]]:
    """Return all columns of the joint table, clipped to their bounds, and their names, `party.column`."""
    columns = [(table.schema.party, column) for table in tables for column in table.schema.columns]
    bounds = np.array([(column.lower, column.upper) for _, column in columns])
    values = np.hstack([table.values for table in tables])
    return np.clip(values, *bounds.T), np.array([f"{party}.{column.name}" for party, column in columns])
