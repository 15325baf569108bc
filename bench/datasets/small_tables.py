"""Two public tables that scikit-learn brings, as three parties hold them: images of digits, measurements of tumours.

Bounds are constants from what the columns mean; none was computed from the data.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from bench.datasets.labelled_tables import LabelledTables

MIN_ROWS = 100
"""What owners declare publicly as their least number of rows; the most is what there is."""

Floats = NDArray[np.float64]

Columns = Mapping[str, Sequence[tuple[str, Any, float, float]]]
"""Party to its columns: name, values, lower and upper bound."""


def split_columns(columns: Columns, chosen: Any = slice(None)) -> list[Table]:
    """Return the tables of parties, with all rows or some."""
    tables = []
    for party, of_party in columns.items():
        schema = tuple(ColumnSchema(name=name, lower=low, upper=high) for name, _, low, high in of_party)
        values = np.column_stack([np.asarray(column, dtype=np.float64) for _, column, _, _ in of_party])[chosen]
        tables.append(Table(BlockSchema(party=party, columns=schema, rows=(MIN_ROWS, len(values))), values))
    return tables


def digits() -> tuple[Floats, Floats]:
    """Return the images, shape (1797, 64), pixels 0 .. 16, and the digits that they show."""
    found = load_digits()
    return np.asarray(found.data, dtype=np.float64), np.asarray(found.target, dtype=np.float64)


def tumours() -> tuple[Floats, Floats, list[str]]:
    """Return the measurements, shape (569, 30), whether a tumour is benign, and the columns' names."""
    found = load_breast_cancer()
    names = [name.replace(" ", "_") for name in found.feature_names]
    return np.asarray(found.data, dtype=np.float64), np.asarray(found.target, dtype=np.float64), names


# Of a mean, of an error and of a worst value: lengths in pixels, areas in squared pixels, the others are ratios.
_TUMOUR_BOUNDS: Mapping[str, tuple[float, float, float]] = {
    "radius": (40, 5, 50),
    "texture": (50, 5, 60),
    "perimeter": (250, 30, 320),
    "area": (3000, 600, 5000),
    "smoothness": (0.25, 0.05, 0.3),
    "compactness": (0.5, 0.2, 1.5),
    "concavity": (0.5, 0.5, 1.5),
    "concave_points": (0.25, 0.1, 0.4),
    "symmetry": (0.4, 0.1, 0.8),
    "fractal_dimension": (0.15, 0.05, 0.3),
}


def tumour_columns() -> dict[str, list[tuple[str, Any, float, float]]]:
    """Return the measurements as three parties hold them: means, errors, and worst values."""
    values, _, names = tumours()
    parties = dict(zip(("mean", "error", "worst"), np.split(np.arange(30), 3), strict=True))
    return {
        party: [
            (names[i], values[:, i], 0.0, bounds[kind])
            for i, bounds in zip(of_party, _TUMOUR_BOUNDS.values(), strict=True)
        ]
        for kind, (party, of_party) in enumerate(parties.items())
    }


def pixel_columns() -> dict[str, list[tuple[str, Any, float, float]]]:
    """Return the pixels as three parties hold them: three rows of an image at the top, two, three."""
    images, _ = digits()
    parts = np.split(np.arange(64), (24, 40))
    return {
        party: [(f"pixel_{i}", images[:, i], 0.0, 16.0) for i in part]
        for party, part in zip(("top", "middle", "bottom"), parts, strict=True)
    }


def benign_tumours() -> LabelledTables:
    """Return the measurements: is a tumour benign? 426 and 143 rows, no norm bounds."""
    columns = tumour_columns()
    columns["worst"].append(("is_benign", tumours()[1], 0.0, 1.0))
    return _halved("breast-tumours", "worst.is_benign", columns)


def high_digits() -> LabelledTables:
    """Return the images: do they show a digit of 5 or more? 1,347 and 450 rows, no norm bounds."""
    columns = pixel_columns()
    columns["bottom"].append(("is_high", digits()[1] >= 5, 0.0, 1.0))
    return _halved("digits", "bottom.is_high", columns)


def _halved(name: str, label: str, columns: Columns) -> LabelledTables:
    """Return three quarters of the rows for learning and the others for testing."""
    n_rows = len(next(iter(columns.values()))[0][1])
    order, cut = np.random.default_rng(0).permutation(n_rows), n_rows * 3 // 4
    return LabelledTables(name, label, {}, split_columns(columns, order[:cut]), split_columns(columns, order[cut:]))
