"""Beside programs for which somebody holds all records, at equal epsilon, delta and adjacency: nothing is tuned."""

from collections.abc import Callable, Iterator
from functools import partial

from bench.analyses.rivals import components, intervals, labels, numbers
from bench.analyses.table import Row
from bench.utility import logistic_rivals


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    return {
        "pattern counts": numbers.counts,
        "histograms": numbers.histograms,
        "moments": numbers.powers,
        "principal components": components.captured,
        "intervals": intervals.coverage,
        **{f"logistic regression, {name}": partial(labels.areas, name) for name in logistic_rivals.TABLES},
    }
