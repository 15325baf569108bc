"""The tables on which we are compared with other programs: bundled ones, and two that scikit-learn brings.

Bounds and bins follow from what the columns mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from bench.analyses.moments import borrowers
from bench.analyses.pattern_count import people
from bench.datasets import vertical_tables
from bench.datasets.bundled import read
from bench.datasets.small_tables import digits, pixel_columns, split_columns, tumour_columns, tumours

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BinnedColumn:
    """A column of which each of several parties holds some rows, and the bins of its histogram.

    Attributes:
        name: of the data.
        values: shape (rows,).
        edges: of the bins, ascending.
    """

    name: str
    values: Floats = field(repr=False)
    edges: tuple[float, ...]

    def of_parties(self, n_parties: int) -> list[Table]:
        """Return the tables of so many parties, each with every n-th row."""
        column = (ColumnSchema(name="value", lower=self.edges[0], upper=self.edges[-1]),)
        parts = [self.values[i::n_parties] for i in range(n_parties)]
        return [
            Table(BlockSchema(party=f"party-{i}", columns=column, rows=(1, len(part))), part[:, None])
            for i, part in enumerate(parts, start=1)
        ]


def _coded(values: pl.Series, order: Sequence[Any]) -> list[int]:
    return [order.index(value) for value in values.to_list()]


def _ink() -> list[Floats]:
    """Return the sum of the pixels of three parts of each image: columns 0 to 2, 3 and 4, 5 to 7."""
    images = digits()[0].reshape(-1, 8, 8)
    return [images[:, :, part].sum(axis=(1, 2)) for part in (slice(0, 3), slice(3, 5), slice(5, 8))]


def patterns() -> dict[str, list[Table]]:
    """Return the tables of pattern counts: three parties, one column of categories each."""
    loans, connections = read("lending_club"), read("nsl_kdd_train20pct")
    (values, benign, _), (_, shown), ink = tumours(), digits(), _ink()
    flags = sorted({"OTH", "REJ", "RSTO", "RSTOS0", "RSTR", "S0", "S1", "S2", "S3", "SF", "SH"})
    return {
        "Adult, 64 patterns": people(),
        "Lending Club, 42 patterns": split_columns(
            {
                "registry": [("home", _coded(loans["homeownership"], ("MORTGAGE", "OWN", "RENT")), 0, 2)],
                "lender": [("term", _coded(loans["term"], (36, 60)), 0, 1)],
                "agency": [("grade", _coded(loans["grade"], tuple("ABCDEFG")), 0, 6)],
            }
        ),
        "NSL-KDD, 66 patterns": split_columns(
            {
                "carrier": [("protocol", _coded(connections["protocol_type"], ("icmp", "tcp", "udp")), 0, 2)],
                "host": [("flag", _coded(connections["flag"], flags), 0, 10)],
                "monitor": [("attack", (connections["label"] != "normal").to_list(), 0, 1)],
            }
        ),
        "digits, 160 patterns": split_columns(
            {
                "reader": [("digit", shown, 0, 9)],
                "left": [("ink", np.minimum(ink[0] // 32, 3), 0, 3)],
                "right": [("ink", np.minimum(ink[2] // 32, 3), 0, 3)],
            }
        ),
        "breast tumours, 48 patterns": split_columns(
            {
                "clinic": [("benign", benign, 0, 1)],
                "radiology": [("radius", np.minimum(values[:, 0] // 5, 5), 0, 5)],
                "pathology": [("texture", np.minimum(values[:, 1] // 10, 3), 0, 3)],
            }
        ),
    }


def binned() -> list[BinnedColumn]:
    """Return the columns of histograms; values beyond the edges are left out of both programs' histograms."""
    images, _ = digits()
    values, _, _ = tumours()

    def of(name: str, column: Any, edges: Any) -> BinnedColumn:
        numbers, bins = np.asarray(column, dtype=np.float64), tuple(float(edge) for edge in edges)
        return BinnedColumn(name, numbers[(numbers >= bins[0]) & (numbers <= bins[-1])], bins)

    return [
        of("Taxi 2018, pickup hour", read("taxi_2018")["pickup_sec_of_day"] / 3600, range(25)),
        of("Adult, age", read("adult_train")["age"], range(15, 95, 5)),
        of("CPS, hourly earnings", read("cpssw8")["earnings"], range(0, 80, 4)),
        of("digits, ink of an image", images.sum(axis=1), range(0, 513, 32)),
        of("breast tumours, radius", values[:, 0], range(0, 41, 2)),
    ]


def spread_counts() -> dict[str, list[Table]]:
    """Return the tables of moments: whole numbers of three parties, whose sum per row is the quantity."""
    letters, ink = read("letter"), _ink()
    values, _, names = tumours()
    of_party = {"clinic": "mean_radius", "laboratory": "mean_texture", "ward": "worst_radius"}
    sizes = {party: np.rint(values[:, names.index(name)]) for party, name in of_party.items()}
    return {
        "Lending Club, accounts": borrowers(),
        "letters, edges": split_columns(
            {p: [(c, letters[c], 0, 15)] for p, c in (("one", "x_ege"), ("two", "y_ege"), ("three", "onpix"))}
        ),
        "digits, ink": split_columns(
            {
                p: [("ink", part, 0, 16 * 8 * width)]
                for p, part, width in zip(("left", "middle", "right"), ink, (3, 2, 3), strict=True)
            }
        ),
        "breast tumours, sizes": split_columns({party: [("size", size, 0, 50)] for party, size in sizes.items()}),
    }


def rows() -> dict[str, tuple[list[Table], int]]:
    """Return the tables of principal components besides those of the example, and how many components are sought."""
    return {
        "California housing": (vertical_tables.housing(), 3),
        "CPS earnings": (vertical_tables.earnings(), 3),
        "digits": (split_columns(pixel_columns()), 5),
        "breast tumours": (split_columns(tumour_columns()), 3),
    }
