"""Results that are a model of columns: as an estimator of scikit-learn and of ONNX, which need no federation."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from results.generic.own_rows import Floats, RowsError
from results.generic.result import Result


class ModelResult(Result, ABC):
    """A result that says something of further rows."""

    _columns: ClassVar[str] = "columns"
    """Name of the field with the columns that the model is about."""

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """Names of the columns that the model is about, `party.column`."""
        return np.array(self.fields[self._columns])

    @abstractmethod
    def _model(self, lower: Floats, widths: Floats) -> Any:
        """Return a fitted estimator of columns that are scaled to [0, 1], (value - lower) / width."""

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.pipeline.Pipeline`, which predicts as this result does, also when it was pickled.

        Its first step takes own rows as `predict` does, and refuses them likewise; the second scales them by the public
        bounds; the last is an estimator of scikit-learn, whose `coef_`, `components_` or `cluster_centers_` are about
        scaled columns. Whoever loads the pickle needs Moiety and scikit-learn.

        Raises:
            ModuleNotFoundError: scikit-learn is not installed, the extra `sklearn`.
            AttributeError: the result has no model.
            RowsError: the plan of the job states no bounds.
        """
        from results.generic.estimator import pipeline_of

        names = list(self.fields[self._columns])
        unbounded = [name for name in names if name not in self.column_bounds]
        if unbounded:
            raise RowsError(f"the plan of this job states no bounds of {unbounded[0]}, so there is no model of rows")
        lower, upper = np.array([self.column_bounds[name] for name in names], dtype=np.float64).T
        return pipeline_of(names, self.column_bounds, self.column_sources, self._model(lower, upper - lower))

    def to_onnx(self) -> Any:
        """Return the model as `onnx.ModelProto`, for rows that are encoded already; values are clipped to their bounds.

        Raises:
            ModuleNotFoundError: skl2onnx is not installed, the extra `onnx`.
            AttributeError, RowsError: see `to_sklearn`.
        """
        from results.generic.estimator import onnx_of

        return onnx_of(self.to_sklearn())
