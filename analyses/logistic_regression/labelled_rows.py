"""An owner's rows of a logistic regression: features, and the label where it is its own."""

import numpy as np
from numpy.typing import NDArray

from analyses.logistic_regression.labelled_plan import LabelledRowPlan
from analyses.rows.integer_column import nearest_places
from analyses.rows.own_rows import OwnRows, RowSource


class LabelledRows(OwnRows):
    """My rows: quantised features, then the label if it is mine, then a shared constant.

    Rows that do not count are zero, including the constant, so their gradient is zero for any weights.
    """

    def __init__(self, plan: LabelledRowPlan, me: int, table: RowSource, counting: NDArray[np.bool_] | None) -> None:
        super().__init__(table, counting, [column.name for column in plan.features_of(me).columns])
        names = [c.name for c in table.schema.columns]
        label = plan.params.label_column if table.schema.party == plan.params.label_party else None
        self._constant = plan.constant if plan.shares_constant and me == plan.owners[-1] else None
        self._features = [i for i, name in enumerate(names) if name != label]
        self._labels = {name: i for i, name in enumerate(names) if name == label}
        self._quantiser = plan.quantiser_of(me)
        self._label_values = np.array(plan.label_values)
        self._mapped = dict.fromkeys(self._labels, 0)
        self._width = plan.width_of(me)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """See `OwnRows`."""
        return (self._width,)

    def quantise(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Scale and clip the features, and map the label to 0 or 1 and to the integer that stands for it."""
        features, outside, clipped = self._quantiser.quantise(values[:, self._features])
        columns = [features]
        for name, place in self._labels.items():
            labels, n_mapped = nearest_places(values[:, place], 0, 1)
            self._mapped[name] += n_mapped
            columns.append(self._label_values[labels][:, None])
        if self._constant is not None:
            columns.append(np.full((len(values), 1), self._constant))
        return np.hstack(columns), outside, clipped

    def mapped_values(self) -> dict[str, int]:
        """Return how many labels were neither 0 nor 1."""
        return self._mapped
