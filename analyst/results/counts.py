"""Counts, sums, means, moments and distributions."""

from itertools import product

import numpy as np

from analyst.results.own_rows import Floats
from analyst.results.result import Columns, Result


class PatternCountResult(Result):
    """How many rows have each combination of categories."""

    analyses = ("pattern-count",)

    @property
    def counts_(self) -> Floats:
        """The counts, an axis per column in the order of the job; noise may have made some negative."""
        return np.array(self.fields["counts"], dtype=np.float64)

    def table(self) -> Columns:
        """Return a row per combination: a category of each column, the count and its standard error."""
        names, bounds = self.fields["columns"], self.fields["categories"]
        ranges = [range(int(bounds[name][0]), int(bounds[name][1]) + 1) for name in names]
        combinations = list(product(*ranges))
        shown: Columns = {name: [one[at] for one in combinations] for at, name in enumerate(names)}
        for field, called in (("counts", "count"), ("standard_errors", "standard_error")):
            if self.fields.get(field) is not None:
                shown[called] = np.array(self.fields[field]).ravel().tolist()
        return shown


class MomentsResult(Result):
    """A frequency moment."""

    analyses = ("moments",)

    @property
    def standard_errors_(self) -> Floats:
        """The standard error of the moment, shape ()."""
        return np.array(self._field("standard_error"), dtype=np.float64)

    def table(self) -> Columns:
        """Return one row: the moment and its standard error."""
        shown = {name: [self.fields[name]] for name in ("order", "moment", "standard_error", "clipped_moment")}
        return {"columns": [", ".join(self.fields["columns"])], **shown}


class SumResult(Result):
    """Sums of columns, each added over all parties."""

    analyses = ("secure-sum",)

    _found, _called = "sum", "sum"

    def table(self) -> Columns:
        """Return a row per column, with all that the result says of each."""
        names, values = self.fields["columns"], self.fields[self._found]
        shown = {"column": list(names), self._called: list(values)}
        return shown | self._same_length(len(names), but=("columns", self._found, "survivors"))


class MeanResult(SumResult):
    """Means of columns over the rows of all parties."""

    analyses = ("secure-mean",)

    _found, _called = "mean", "mean"


class HistogramResult(Result):
    """How many rows of all parties lie in each bin."""

    analyses = ("secure-histogram",)

    @property
    def counts_(self) -> Floats:
        """The counts, shape (bins,)."""
        return np.array(self.fields["counts"], dtype=np.float64)

    def table(self) -> Columns:
        """Return a row per bin: its edges, the count and its standard error."""
        edges = self.fields["edges"]
        shown: Columns = {"lower": edges[:-1], "upper": edges[1:], "count": list(self.fields["counts"])}
        return shown | self._error_column


class DistributionResult(Result):
    """How a number is distributed."""

    analyses = ("distribution",)

    @property
    def probabilities_(self) -> Floats:
        """Probability of each bucket between the `edges`, shape (buckets,)."""
        return np.array(self.fields["probabilities"], dtype=np.float64)

    def table(self) -> Columns:
        """Return a row per bucket: its edges, its probability, and half the width of a 95 % interval of that."""
        edges = self.fields["edges"]
        shown: Columns = {"lower": edges[:-1], "upper": edges[1:], "probability": list(self.fields["probabilities"])}
        half_widths = (self.fields.get("half_widths") or {}).get("probabilities")
        return shown if half_widths is None else {**shown, "half_width": list(half_widths)}
