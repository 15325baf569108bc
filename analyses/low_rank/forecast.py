"""What a low-rank approximation will be able to see, before it is asked for."""

from math import sqrt

from analyses.job.forecast import Forecast, Quantity
from analyses.low_rank.plan import LowRankPlan
from analyses.second_moments.forecast import noise_level
from analyses.second_moments.gram_plan import GramPlan, deviation_of, rows_of
from analyses.second_moments.noisy_moments import edge_of

_RANGE = (
    "In the best case the leading eigenvalue is well above the noise and well apart from the others. In the bad case "
    "others are as large, or it is close to the noise: then noise moves it by as much as `seen_from`."
)
_SKETCHED = (
    "In the best case the eigenvalue is small beside the noise of the sketch. In the bad case all rows are as long as "
    "they may be: a sketch errs in proportion to the eigenvalues."
)

_UNIT = "squared scaled units"


def forecast(plan: LowRankPlan) -> Forecast:
    """Return the standard error of an eigenvalue, and from which size on an eigenvalue is seen."""
    level, most = noise_level(plan), rows_of(plan)[1] * plan.row_norm**2
    seen = edge_of(plan, level)
    if isinstance(plan, GramPlan):
        error = sqrt(2) * deviation_of(plan)
        one = Quantity(
            "leading eigenvalue", _UNIT, error, seen_from=seen, least=0.0, largest=most, bad_case=max(error, seen)
        )
        return Forecast((one,), (_RANGE,))
    # v' (N' N / s - mean) v has the variance 2 noise^2 / s, for a Gaussian matrix of s rows and this variance.
    ratio = plan.n_row_columns / plan.sketch_rows
    noise = level / (2 * sqrt(ratio) + ratio)
    error = noise * sqrt(2 / plan.sketch_rows)
    # The largest eigenvalue x of the rows becomes about x (1 + sqrt(r / s))^2, r the trace over x, and varies by its
    # fraction sqrt(2 / s).
    s = plan.sketch_rows
    bad = seen + most * ((2 + sqrt(2)) / sqrt(s) + 1 / s)
    one = Quantity("leading eigenvalue", _UNIT, error, seen_from=seen, least=0.0, largest=most, bad_case=bad)
    return Forecast((one,), (_SKETCHED,))
