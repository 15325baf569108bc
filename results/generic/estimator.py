"""Fitted estimators of scikit-learn: the rows of an analyst, scaled by public bounds, and a model of scaled columns.

Needs scikit-learn; `results.generic.model` imports it when somebody asks.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler

from results.generic.own_rows import Bounds, Floats, Sources, clipped_rows


class OwnRows(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Rows as the owners' were before scaling: see `results.generic.own_rows.clipped_rows`. There is nothing to fit.

    Args:
        columns: names of the columns that the model needs, in its order.
        bounds: their public bounds.
        sources: where columns come from that are several.
    """

    def __init__(self, columns: Sequence[str], bounds: Bounds, sources: Sources) -> None:
        self.columns = columns
        self.bounds = bounds
        self.sources = sources

    def fit(self, rows: Any, labels: Any = None) -> "OwnRows":
        """Return the transformer itself."""
        return self

    def transform(self, rows: Any) -> Floats:
        """Return rows of numbers, shape (rows, columns); arguments and errors as `clipped_rows`."""
        return clipped_rows(rows, self.columns, self.bounds, self.sources)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns."""
        return np.array(self.columns, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def pipeline_of(columns: Sequence[str], bounds: Bounds, sources: Sources, model: Any) -> Pipeline:
    """Return rows, scaling to [0, 1] by the public bounds, and a model of scaled columns, all fitted."""
    of_columns = {name: bounds[name] for name in columns}
    lower, upper = np.array(list(of_columns.values()), dtype=np.float64).reshape(-1, 2).T
    scaler = MinMaxScaler(clip=True)
    scaler.data_min_, scaler.data_max_, scaler.data_range_ = lower, upper, upper - lower
    scaler.scale_ = 1 / (upper - lower)
    scaler.min_ = -lower * scaler.scale_
    scaler.n_features_in_ = model.n_features_in_ = len(columns)
    scaler.n_samples_seen_ = 0
    own = {name: source for name, source in sources.items() if name in of_columns}
    return Pipeline([("rows", OwnRows(tuple(columns), of_columns, own)), ("bounds", scaler), ("model", model)])


def onnx_of(pipeline: Pipeline) -> Any:
    """Return a pipeline of `pipeline_of` without its first step as a model of ONNX.

    Args:
        pipeline: the whole.

    Returns:
        `onnx.ModelProto`, of one input: a matrix of 32 bit numbers whose columns are in the order of its metadata
        `columns`, categories as indicators.
    """
    from skl2onnx import to_onnx

    columns, steps = pipeline[0].columns, pipeline[1:]
    model = to_onnx(steps, np.zeros((1, len(columns)), dtype=np.float32), options=_without_maps(steps[-1]))
    model.metadata_props.add(key="columns", value="\n".join(columns))
    return model


def _without_maps(model: Any) -> dict[Any, Any]:
    """Return the option that has probabilities as a matrix."""
    return {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else {}
