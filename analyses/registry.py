"""The analyses on offer, and how to find one by its name."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from analyses.clustering import protocol as clustering
from analyses.distribution import protocol as distribution
from analyses.drawing.chart import Picture, PictureError
from analyses.job.analysis import Analysis
from analyses.job.job import Job, JobError
from analyses.job.text import lines_of_result
from analyses.least_squares import protocol as least_squares
from analyses.logistic_regression import protocol as logistic_regression
from analyses.low_rank import protocol as low_rank
from analyses.matrix_factorization import protocol as matrix_factorization
from analyses.pattern_count import protocol as pattern_count
from analyses.pca import protocol as pca
from analyses.power_moments import protocol as moments
from analyses.sums import protocol as sums

OFFERED = (
    clustering.ANALYSIS,
    distribution.ANALYSIS,
    least_squares.ANALYSIS,
    logistic_regression.ANALYSIS,
    low_rank.ANALYSIS,
    matrix_factorization.ANALYSIS,
    moments.ANALYSIS,
    pattern_count.ANALYSIS,
    pca.ANALYSIS,
    sums.ANALYSIS,
)

ANALYSES: dict[str, Analysis] = {name: analysis for analysis in OFFERED for name in analysis.names}
"""All analyses by name."""


def analysis_of(job: Job) -> Analysis:
    """Return the analysis that a job names.

    Raises:
        JobError: there is none of this name, or its answer is noisy and the job has no privacy target.
    """
    if job.analysis not in ANALYSES:
        raise JobError(f"analysis: there is no analysis {job.analysis!r}; available: {', '.join(sorted(ANALYSES))}")
    analysis = ANALYSES[job.analysis]
    if job.target is None and not analysis.may_be_exact:
        raise JobError(f"privacy: missing; the answer of {job.analysis} is noisy, so it needs epsilon and delta")
    return analysis


def lines_of(name: str) -> Callable[[dict[str, Any]], list[str]]:
    """Return the function that formats a result; results of unknown analyses are printed field by field."""
    return ANALYSES[name].lines if name in ANALYSES else lines_of_result


def picture_of(result: Mapping[str, Any], heading: str = "") -> Picture:
    """Return what is to be seen of a result of any analysis.

    Args:
        result: as the coordinator sent it.
        heading: to stand above it, such as the title of the job.

    Raises:
        PictureError: its analysis has no picture or is not known, or the result has nothing to draw.
    """
    name = str(result.get("analysis"))
    if name not in ANALYSES:
        raise PictureError(f"there is no analysis {name!r} here, so its result cannot be drawn")
    draw = ANALYSES[name].picture
    if draw is None:
        raise PictureError(f"results of {name} have no picture")
    try:
        return replace(draw(dict(result)), heading=heading)
    except PictureError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise PictureError(f"this result of {name} cannot be drawn: it is not as this version writes it") from error
