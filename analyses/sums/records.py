"""How a member of masked sums declares a record, checks a question against it, and contributes to the sum.

A member answers or refuses by its declaration and the question alone, both of which are public. Whatever the record
holds, it then contributes one vector within the question's bounds: the record's, clipped, where the record is what was
declared, else zeros. Nobody but its owner learns which.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import JobError
from analyses.sums.round import MEAN
from analyses.sums.secure_sum import SumParams


@dataclass(frozen=True)
class Record:
    """The record that one member keeps under one name, as read. Nothing about it has been checked.

    Attributes:
        values: numbers, finite or not. Secret.
        weight: for means. Secret.
    """

    values: NDArray[np.float64] = field(repr=False)
    weight: int = field(default=1, repr=False)


@dataclass(frozen=True)
class DeclaredRecord:
    """The public declaration of a record, which an owner makes from its meaning and not from its contents.

    Attributes:
        length: numbers in it; None where their number varies, so that only histograms may ask for it.
        largest_weight: largest value of its weight, which is 0 or more; None where it is in no means.
    """

    length: int | None = None
    largest_weight: int | None = None

    @classmethod
    def as_asked(cls, params: SumParams) -> Self:
        """Return the declaration that fits a question exactly."""
        return cls(None if params.edges or params.tree else params.length, params.largest_weight)

    def check(self, params: SumParams) -> None:
        """Refuse a question that this declaration does not fit.

        Raises:
            JobError: the text is made of the question and the declaration only.
        """
        name = params.record
        if params.tree is not None:
            if self.length not in (None, 1):
                raise JobError(f"record: {name} is declared here with several values; a distribution asks for one")
        elif not params.edges:
            if self.length is None:
                raise JobError(f"record: {name} is declared here without a length, so only histograms may use it")
            if params.length != self.length:
                raise JobError(
                    f"length: the question has {params.length}, but {name} is declared here with length {self.length}"
                )
        if params.largest_weight is not None:
            if self.largest_weight is None:
                raise JobError(f"record: {name} is declared here without a largest_weight, so means may not use it")
            if params.largest_weight < self.largest_weight:
                raise JobError(
                    f"largest_weight: the question's {params.largest_weight} is smaller than the {self.largest_weight} "
                    f"declared here for {name}; it must be at least {self.largest_weight}"
                )

    def why_unusable(self, record: Record) -> str:
        """Return why a record does not match its declaration, or an empty text. Private to the owner."""
        if record.values.ndim != 1 or type(record.weight) is not int:
            return "its values must be a list of numbers, and its weight a whole number"
        if self.length is not None and record.values.size != self.length:
            return f"it has {record.values.size} values; {self.length} are declared"
        if not np.isfinite(record.values).all():
            return "it has values that are not finite numbers"
        return ""


@dataclass(frozen=True)
class Contribution:
    """The contribution of one member before it is encoded, with facts about it that only its owner may know.

    Attributes:
        vector: shape (length of the question's encoding,), finite. Secret.
        weight: 0 .. the question's largest; None where the question has no weights. Secret.
        weight_was_clipped: whether the record's was outside of what was declared. Private.
        not_used_because: why the record counts as zeros; empty where it is used. Private.
        n_left_out: numbers that lie in a bin and are more than the question counts. Private.
    """

    vector: NDArray[np.float64] = field(repr=False)
    weight: int | None = field(repr=False)
    weight_was_clipped: bool = field(default=False, repr=False)
    not_used_because: str = field(default="", repr=False)
    n_left_out: int = field(default=0, repr=False)


def no_contribution(params: SumParams, why: str) -> Contribution:
    """Return the vector of zeros, of weight 0, that stands for a record that cannot be used."""
    weight = None if params.largest_weight is None else 0
    return Contribution(np.zeros(params.encoding.length), weight, not_used_because=why)


def contribution(params: SumParams, declared: DeclaredRecord, record: Record) -> Contribution:
    """Return what one member contributes of any record.

    Privacy: the encoding clips every entry to the question's `largest`, and the weight w is clipped here to 0 .. W'
    with W' <= W, the largest weights of declaration and question. So the integers w (x, 1) have a squared norm of at
    most W^2 (B + 1), B the bound of x. A vector of zeros has norm 0. Every record, whatever it holds, is thus mapped
    into the ball that `SumParams.sensitivities` is stated for, and one record's vector in the place of another's, zeros
    included, moves the sum by at most its diameter. Where a histogram counts `values` numbers of a member, its counts
    are whole numbers 0 .. `largest` whose sum is at most `values` (`counts_within`). For a distribution, a record of
    any other length than one contributes zeros, and one number counts at one node of each level.

    Raises:
        JobError: the declaration does not fit the question; the record was not looked at.
    """
    declared.check(params)
    if why := declared.why_unusable(record):
        return no_contribution(params, why)
    vector = record.values
    if params.tree is not None:
        if vector.shape != (1,):
            return no_contribution(params, f"it has {vector.size} values; a distribution asks for one")
        places, _ = params.grid.places(vector)
        return Contribution(params.tree.counted(places).astype(np.float64), None)
    if params.values is not None:
        counts, n_left_out = counts_within(record.values, params.edges, int(params.largest), params.values)
        return Contribution(counts.astype(np.float64), None, n_left_out=n_left_out)
    if params.edges:
        counts, _ = np.histogram(record.values, bins=np.array(params.edges))
        vector = counts.astype(np.float64)
    if params.largest_weight is None or declared.largest_weight is None:
        return Contribution(vector, None)
    weight = max(0, min(record.weight, declared.largest_weight))
    return Contribution(vector, weight, weight_was_clipped=weight != record.weight)


def counts_within(
    values: NDArray[np.float64], edges: Sequence[float], most_in_bin: int, most_in_all: int
) -> tuple[NDArray[np.int64], int]:
    """Return how many numbers lie in each bin, no more than may count, and how many were left out.

    In the record's order a number counts where fewer than `most_in_bin` before it count in its bin and fewer than
    `most_in_all` in all. Nothing else decides: neither other members' records nor any randomness.

    Args:
        values: values of one member, finite.
        edges: edges of the bins, ascending; each bin includes its lower edge, the last its upper edge too.
        most_in_bin: L, at least 1.
        most_in_all: K, at least 1.

    Returns:
        Counts, shape (bins,), each 0 .. L and K in all at most; and the numbers in some bin that do not count.
    """
    within = values[(values >= edges[0]) & (values <= edges[-1])]
    n_bins = len(edges) - 1
    bins = np.minimum(np.searchsorted(np.array(edges), within, side="right") - 1, n_bins - 1)
    by_bin = np.argsort(bins, kind="stable")
    before_in_bin = np.empty(len(bins), dtype=np.int64)
    before_in_bin[by_bin] = np.arange(len(bins)) - np.searchsorted(bins[by_bin], bins[by_bin])
    counting = bins[before_in_bin < most_in_bin][:most_in_all]
    return np.bincount(counting, minlength=n_bins).astype(np.int64), len(bins) - len(counting)


def reference(params: SumParams, records: Mapping[str, Record]) -> list[float] | None:
    """Return the same answer from all records in one place: the sum, the mean (None over weight 0) or the counts.

    Records that are not what the question asks for count as zeros.
    """
    encoding, total, total_weight = params.encoding, np.zeros(params.encoding.length, dtype=object), 0
    declared, most = DeclaredRecord.as_asked(params), encoding.largest_entry
    for record in records.values():
        found = contribution(params, declared, record)
        clipped = np.clip(found.vector, -params.largest, params.largest)
        units = np.array([max(-most, min(most, int(v * encoding.units))) for v in clipped], dtype=object)
        total += units * (1 if found.weight is None else found.weight)
        total_weight += found.weight or 0
    if params.analysis == MEAN:
        return [float(v) / encoding.units / total_weight for v in total] if total_weight else None
    return [float(v) / encoding.units for v in total]
