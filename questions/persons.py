"""Records of one person, each kept by a device of its own: what a question may ask about them."""

from collections.abc import Sequence

from analyses.distribution.inquiry import MAX_BINS, Range
from analyses.job.job import Name, PublicModel

PERSON_UNIT = "person's records, one at each of its devices (that these answered is public)"
"""What all responses about a person protect together."""

SIGNS, CATEGORIES = "sign", "direct"
"""The methods of questions about several records: two values or numbers, and categories."""


class RecordOfPerson(PublicModel):
    """A further record of the same person, which another device of that person keeps.

    Attributes:
        record: its name.
        range: range of the number; values outside it count as its nearer end. Of a category with k values, coded by
            whole numbers from a on, a to a + k.
    """

    record: Name
    range: Range


def n_categories(ends: Sequence[float]) -> int:
    """Return how many categories a range has.

    Raises:
        ValueError: its ends are no whole numbers, or there are fewer than two of them or too many.
    """
    lower, upper = ends
    if lower != int(lower) or upper != int(upper) or not 2 <= upper - lower <= MAX_BINS:
        what = f"{lower:g} to {upper:g} is no range of 2 to {MAX_BINS} categories, coded by whole numbers"
        raise ValueError(f"range: {what} from its lower end on")
    return int(upper - lower)


def cost_in_words(n_records: int, epsilon: float) -> str:
    """Return what a person pays who has a device for each of some records, or for fewer of them.

    Args:
        n_records: number of records that are asked about.
        epsilon: epsilon of one response.
    """
    each = f"a person's records are the inputs of {n_records} responses, each drawn for itself"
    return f"{each}; a person with k devices that answer pays k times epsilon {epsilon:.4g}"
