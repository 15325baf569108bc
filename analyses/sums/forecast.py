"""The errors of sums, means and histograms before they are asked for: all of it follows from the noise of the plan."""

import math
from collections.abc import Sequence

from analyses.job.forecast import Forecast, Quantity, Signal
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.sums.plan import TableSumPlan
from analyses.sums.reference import names_of_answer
from analyses.sums.row_vectors import BinnedRows, ScaledRows, WeightedRows

_ALL_STAY = "All parties stay in the sum, so its noise is the smallest that the plan allows."

LARGEST_FRACTION = 0.2
"""Largest ratio of noise to total weight for which a mean, which is divided by that weight, has a standard error."""

BAD_ROWS = 10.0
"""Factor by which the most rows exceed those of the bad case."""

_BAD = (
    "In the bad case each mean lies at one of its bounds, and the total weight is a tenth of that, or the fewest rows' "
    "that are declared where this is more; with less than five times its noise, a mean may come out anywhere."
)

_FEW = (
    "The noise on the total weight is more than a fifth of it, even with the most rows: a mean is divided by it, and "
    "may come out anywhere."
)


def deviation_of(plan: TableSumPlan) -> float:
    """Return the standard deviation of the noise on each integer of the sum, where all parties stay."""
    return 0.0 if plan.noise is None else math.sqrt(plan.noise.variance(plan.n_parties))


def rows_of(plan: TableSumPlan) -> tuple[list[int], list[int]]:
    """Return the fewest and the most rows of each party that can count."""
    declared = [schema.rows or (0, plan.params.max_rows) for schema in plan.schemas]
    is_filtered = [schema.where is not None for schema in plan.schemas]  # of the rows of a table, none may pass
    fewest = [0 if is_any else one for (one, _), is_any in zip(declared, is_filtered, strict=True)]
    return [min(one, plan.params.max_rows) for one in fewest], [min(one, plan.params.max_rows) for _, one in declared]


def signal(plan: TableSumPlan) -> Signal | None:
    """Return the noise of a sum, mean or count beside the largest that it can be; None for an exact answer."""
    if plan.noise is None:
        return None
    rows, deviation, most = plan.rows, deviation_of(plan), sum(rows_of(plan)[1])
    if isinstance(rows, BinnedRows):
        return Signal("the standard error of a count", deviation, "the largest number of all rows", most, "rows")
    found = []
    for one in _sums(plan) if isinstance(rows, ScaledRows) else _means(plan):
        assert one.least is not None
        assert one.largest is not None
        found.append((one.standard_error, one.largest - one.least, one))
    error, width, one = min(found, key=lambda each: each[0] / each[1] if each[1] > 0 else math.inf)
    return Signal(
        f"the standard error of the {one.name}", error, "the range in which it must lie anyway", width, one.unit
    )


def forecast(plan: TableSumPlan) -> Forecast:
    """Return the standard errors of all sums, means or counts."""
    if plan.noise is None:
        return Forecast(assumptions=("The answer is exact: it has no noise, and protects nobody.",))
    rows = plan.rows
    if isinstance(rows, BinnedRows):
        most = float(sum(rows_of(plan)[1]))
        count = Quantity("count of any bin", "rows", deviation_of(plan), least=0.0, largest=most)
        return Forecast((count,), (_ALL_STAY,))
    if isinstance(rows, ScaledRows):
        rounded = (
            "Rounding moves a sum by no more than `worst_rounding` of the result says, which is planned to be small."
        )
        return Forecast(_sums(plan), (_ALL_STAY, rounded))
    assert isinstance(rows, WeightedRows)
    if deviation_of(plan) > LARGEST_FRACTION * rows.rows.units * _weights_of(plan)[1]:
        return Forecast(not_forecast=(_FEW,))
    weights = "Every row has half of the largest weight." if rows.weight_column is not None else ""
    middle = "In the best case each mean lies as near to 0 as its bounds admit."
    declared = all(schema.rows is not None for schema in plan.schemas)
    n_rows = "The tables have the most rows that are declared." if declared else "The tables have max_rows rows each."
    return Forecast(_means(plan), tuple(filter(None, (_ALL_STAY, n_rows, weights, middle, _BAD))))


def _sums(plan: TableSumPlan) -> tuple[Quantity, ...]:
    rows, deviation = plan.rows, deviation_of(plan)
    assert isinstance(rows, ScaledRows)
    fewest, most = rows_of(plan)
    found = []
    for place, (name, scale) in enumerate(zip(names_of_answer(plan), rows.scales, strict=True)):
        columns = _columns_at(plan.schemas, place)
        ends = [
            (min(few * c.lower, many * c.lower), max(few * c.upper, many * c.upper))
            for c, few, many in zip(columns, fewest, most, strict=True)
        ]
        error = deviation * scale / rows.units
        least, largest = float(sum(low for low, _ in ends)), float(sum(high for _, high in ends))
        found.append(Quantity(f"sum of {name}", "units of the column", error, least=least, largest=largest))
    return tuple(found)


def _means(plan: TableSumPlan) -> tuple[Quantity, ...]:
    """Return the errors of ratios S / W: of variance s^2 (1 + m^2) / W^2, in scaled units, by the delta method."""
    rows, deviation = plan.rows, deviation_of(plan)
    assert isinstance(rows, WeightedRows)
    fewest, most = _weights_of(plan)
    places = [i for i in range(len(plan.schemas[0].columns)) if i != rows.weight_column]
    few = max(fewest, most / BAD_ROWS, min(most, deviation / LARGEST_FRACTION / rows.rows.units))
    is_seen = fewest < most and deviation <= LARGEST_FRACTION * rows.rows.units * fewest
    found = []
    for name, place, scale in zip(names_of_answer(plan), places, rows.rows.scales, strict=True):
        columns = _columns_at(plan.schemas, place)
        least, largest = min(c.lower for c in columns), max(c.upper for c in columns)
        middle = (least + largest) / 2 / scale
        nearest, farthest = max(0.0, least, -largest) / scale, max(abs(least), abs(largest)) / scale
        best, error, bad = (
            deviation / rows.rows.units * scale * math.sqrt(1 + at**2) for at in (nearest, middle, farthest)
        )
        found.append(
            Quantity(
                f"mean of {name}",
                "units of the column",
                error / most,
                at_fewest_rows=error / fewest if is_seen else None,
                least=least,
                largest=largest,
                best_case=best / most,
                bad_case=bad / few,
            )
        )
    return tuple(found)


def _weights_of(plan: TableSumPlan) -> tuple[float, float]:
    """Return the total weight with the fewest and the most rows."""
    rows = plan.rows
    assert isinstance(rows, WeightedRows)
    weight = 1.0 if rows.weight_column is None else rows.largest_weight / 2
    fewest, most = (weight * sum(of) for of in rows_of(plan))
    return fewest, most


def _columns_at(schemas: Sequence[BlockSchema], place: int) -> list[ColumnSchema]:
    return [schema.columns[place] for schema in schemas]
