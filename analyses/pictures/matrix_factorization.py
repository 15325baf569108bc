"""Factors of ratings: which items, or users, are rated high or low, and how much each direction explains."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from analyses.drawing.chart import AnyPanel, Picture, rows_of

MAX_OFFSETS = 20


def picture(result: Mapping[str, Any]) -> Picture:
    """Return the offsets that are furthest from 0, where the form has some, and the size of each direction."""
    units, what = result["units"], str(result["of"])
    offsets = [value / units for value in result["offsets"]]
    vectors = np.array(result["vectors"], dtype=np.float64).reshape(len(offsets), -1) / units
    panels: list[AnyPanel] = []
    if any(offsets):
        order = sorted(range(len(offsets)), key=lambda at: -offsets[at])
        panels.append(
            rows_of(
                [f"{what.removesuffix('s')} {at}" for at in order],
                [offsets[at] for at in order],
                title=f"Offsets of {what}",
                axis=f"rating above {result['centre']:g}",
                what=what,
                has_bars=True,
                most=MAX_OFFSETS,
            )
        )
    sizes = np.linalg.svd(vectors, compute_uv=False) / max(len(offsets), 1) ** 0.5
    panels.append(
        rows_of(
            [f"direction {at}" for at in range(1, len(sizes) + 1)],
            sizes.tolist(),
            title=f"Vectors of {what}",
            axis="root mean square along it",
            what="directions",
            has_bars=True,
            note=["Directions are those of the vectors' largest spread; factors themselves have no order."],
        )
    )
    return Picture(tuple(panels))
