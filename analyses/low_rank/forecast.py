"""What a low-rank approximation will be able to see, before it is asked for."""

from math import sqrt

from analyses.job.forecast import Forecast, Quantity
from analyses.low_rank.plan import LowRankPlan
from analyses.second_moments.forecast import deviation_of, noise_level, rows_of
from analyses.second_moments.noisy_gram import GramPlan

_UNIT = "squared scaled units"


def forecast(plan: LowRankPlan) -> Forecast:
    """Return the standard error of an eigenvalue, and from which size on an eigenvalue is seen."""
    seen, most = noise_level(plan), rows_of(plan)[1] * plan.row_norm**2
    if isinstance(plan, GramPlan):
        error = sqrt(2) * deviation_of(plan)
        separate = "The eigenvalues are well above the noise and well apart from each other."
        one = Quantity("leading eigenvalue", _UNIT, error, seen_from=seen, least=0.0, largest=most)
        return Forecast((one,), (separate,))
    # v' (N' N / s - mean) v has the variance 2 noise^2 / s, for a Gaussian matrix of s rows and this variance.
    ratio = plan.n_row_columns / plan.sketch_rows
    noise = seen / (2 * sqrt(ratio) + ratio)
    error = noise * sqrt(2 / plan.sketch_rows)
    one = Quantity("leading eigenvalue, at least", _UNIT, error, seen_from=seen, least=0.0, largest=most)
    relative = (
        "A sketch errs besides in proportion to the eigenvalues, which are not known before: by sqrt(2 / sketch_rows) "
        "of them and of their products with the noise."
    )
    return Forecast((one,), ("The eigenvalue is small beside the noise of the sketch.",), (relative,))
