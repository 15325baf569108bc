"""Matrix factorization: errors at equal true privacy, for each figure of [SGDMF22], and what is claimed of them."""

from collections.abc import Callable, Iterator

from bench.analyses.matrix_factorization import at_size, figures, printed, tables, whole_jobs
from bench.analyses.matrix_factorization.said import verdicts
from bench.analyses.table import Row

__all__ = ["parts", "verdicts"]


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    return {**tables.parts(), **figures.parts(), **printed.parts(), **at_size.parts(), **whole_jobs.parts()}
