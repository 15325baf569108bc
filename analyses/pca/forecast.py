"""What a principal component analysis will be able to see, before it is asked for."""

from math import sqrt

from analyses.job.forecast import Forecast, Quantity
from analyses.pca.plan import PcaPlan
from analyses.second_moments.forecast import EVEN
from analyses.second_moments.gram_plan import rows_of
from analyses.second_moments.spectrum import noise_edge

_SEPARATE = (
    "The components are well above the noise and well apart from each other; close to the noise errors are as large as "
    "`seen_from`."
)

BAD_ROWS = 2.0
"""Ratio of the most rows to those of the bad case."""

_BAD = (
    "In the bad case the tables have half of the most rows, the mean of each column lies halfway between the middle of "
    "its bounds and one of them, and the component lies along that mean."
)


def forecast(plan: PcaPlan) -> Forecast:
    """Return the standard error of a component's variance, and the variance from which on a component is seen.

    The noise along a unit vector v is v' E v, of variance 2 s^2 whatever v, as the noise's distribution is the same in
    all directions. Where the job centres, the noise along the mean is larger (`analyses.second_moments.centred`).
    """
    deviation, n = plan.noise_deviation, len(plan.column_names)
    if not plan.params.center:
        edge = noise_edge(n, deviation)
        eigenvalue = Quantity("eigenvalue of a component", "squared scaled units", sqrt(2) * deviation, seen_from=edge)
        return Forecast((eigenvalue,), (_SEPARATE,))
    fewest, most = rows_of(plan)
    middle = 0.5 if plan.params.origin == "lower" else 0.0
    lift = n * middle**2 / (plan.constant * plan.unit) ** 2
    edge = noise_edge(n, deviation, lift)
    far = min(n * (middle + 0.25) ** 2, plan.row_norm**2) / (plan.constant * plan.unit) ** 2
    if plan.params.scale:
        why = "Errors of correlations depend on the columns' own variances, which divide them and are not known before."
        return Forecast(not_forecast=(why,))
    error, largest = sqrt(2) * deviation, plan.row_norm**2
    variance = Quantity(
        "variance along a component",
        "squared scaled units: columns are 1 long from bound to bound",
        error / most,
        at_fewest_rows=error / fewest if 0 < fewest < most else None,
        seen_from=edge / most,
        bad_case=error * BAD_ROWS * (1 + far) / most,
        least=0.0,
        largest=largest / 2 if middle else largest,  # two rows without negative entries are sqrt(2) norms apart at most
    )
    mean = (
        "The mean lies in the middle of the bounds, and components are at right angles to it as seen from the origin."
    )
    return Forecast((variance,), (EVEN, _SEPARATE, mean, _BAD))
