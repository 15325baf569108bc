"""What the intervals of a distribution are about, or why none is known, in one sentence."""

from analyses.distribution.inquiry import BINNED, MASKED, WAVES

OF_COUNTS = "Intervals are of 95 %, each about one number by itself, and about the rows that were counted."
FEW_ROWS = "No interval is known: the number of rows is hardly seen in the noise."
OF_WAVES = (
    "No interval is known of mean, quantiles, ranges and buckets: smoothing moves them by an amount that depends on "
    "the values."
)
OF_BINS = (
    "Intervals are known of the shares of bins alone, each about one share by itself, and about the rows that "
    "answered: what makes shares a distribution moves the other numbers by an amount that depends on the values."
)
OF_OTHERS = (
    "No interval is known: what makes the noisy shares a distribution moves them by an amount that depends on the "
    "values."
)


def about_intervals(method: str, *, is_known: bool) -> str:
    """Return the sentence for a result of a method, with intervals or without."""
    if is_known:
        return OF_COUNTS
    if method == MASKED:
        return FEW_ROWS
    if method in BINNED:
        return OF_BINS
    return OF_WAVES if method in WAVES else OF_OTHERS
