"""Low-rank approximations: singular values beside what noise alone shows, and the leading direction."""

import math
from collections.abc import Mapping
from typing import Any

from analyses.drawing.chart import Picture
from analyses.pictures.pca import loadings_of, spectrum_of


def picture(result: Mapping[str, Any]) -> Picture:
    """Return the singular values, 0 where noise made an eigenvalue negative, and the largest weights of direction 1."""
    spectrum = spectrum_of(
        [math.sqrt(max(value, 0.0)) for value in result["eigenvalues"]],
        edge=math.sqrt(max(result["noise_level"], 0.0)),
        n_kept=len(result["components"]),
        axis="singular value of the scaled table",
        title="Singular values",
        is_log=False,
    )
    return Picture((spectrum, loadings_of(result)))
