"""What the intervals of a distribution are about, or why none is known, in one sentence."""

from analyses.distribution.estimates.noise_of_responses import FEWEST
from analyses.distribution.inquiry import DistributionParams
from analyses.distribution.methods import MASKED

OF_COUNTS = "Intervals are of 95 %, each about one number by itself, and about the rows that were counted."
OF_RESPONSES = (
    "Intervals are of 95 %, each about one number by itself, and about the distribution that the rows are from."
)
SHARES_BESIDE = " Those of shares are about the rows that answered."
FEW_ROWS = "No interval is known: the number of rows is hardly seen in the noise."
FEW_RESPONSES = (
    f"No interval is known: fewer than {FEWEST} responses tell of some level, or the number of rows is hardly seen in "
    "the noise."
)
OF_WAVES = (
    "No interval is known of mean, quantiles, ranges and buckets: smoothing moves them by an amount that depends on "
    "the values."
)
OF_EM = (
    "No interval is known of mean, quantiles, ranges and buckets: where the steps of the estimate end moves them by an "
    "amount that depends on the values."
)
OF_BINS = (
    "Intervals are known of the shares of bins alone, each about one share by itself, and about the rows that "
    "answered: how values lie within a bin moves the other numbers."
)
OF_SIGNS = "Signs tell the mean alone, of which the standard error is known."
FEW_SIGNS = "Signs tell the mean alone, and here not that: the number of rows is hardly seen in the noise."

OF_SQUARES = "Signs about a centre tell the variance about it alone, of which the standard error is known."
OF_PREFIXES = (
    "Responses about prefixes tell frequent values alone. Their intervals are of 95 % all at once, and about the "
    "distribution that the rows are from."
)
OF_CELLS = (
    "Intervals are of 95 %, each about one share by itself, and about the distribution that the rows are from. A "
    "rectangle that cuts cells has one from the cells that it covers to all that it meets, wider than its standard "
    "error says: nobody knows where in them people are."
)
FEW_PREFIXES = "No frequent value is known: too few responses tell of some level, or the rows are hardly seen."


def about_intervals(params: DistributionParams, *, is_known: bool, is_part_known: bool) -> str:
    """Return the sentence for a result.

    Args:
        params: parameters of the question.
        is_known: whether the result has intervals of its distribution.
        is_part_known: whether it has shares of bins, a mean in closed form, or frequent values.
    """
    if params.method == MASKED:
        return OF_COUNTS if is_known else FEW_ROWS
    if is_known:
        return OF_RESPONSES + SHARES_BESIDE * is_part_known
    if params.way in ("ems", "em"):
        return OF_WAVES if params.way == "ems" else OF_EM
    if params.method == "prefixes":
        return OF_PREFIXES if is_part_known else FEW_PREFIXES
    if params.n_values > 1 and is_part_known:
        return OF_CELLS
    if params.way is None:
        return (OF_SIGNS if params.centre is None else OF_SQUARES) if is_part_known else FEW_SIGNS
    return OF_BINS if params.bins < params.buckets and is_part_known else FEW_RESPONSES
