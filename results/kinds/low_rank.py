"""Low-rank approximations: singular values beside what noise alone shows, and the leading directions."""

import math
from collections.abc import Mapping
from typing import Any

from results.drawing.chart import AnyPanel
from results.generic.text import closing_lines
from results.kinds.components import ComponentsResult, loadings_of, noise_lines, spectrum_of, weight_lines


class LowRankResult(ComponentsResult):
    """Leading directions of the joint table, whose columns are scaled by their public bounds."""

    analyses = ("low-rank",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return each component above the noise, and which are no more than noise."""
        lines, (k, seen) = [], (len(fields["components"]), fields["n_seen"])
        for at, eigenvalue in enumerate(fields["eigenvalues"][: min(k, seen)]):
            lines += [f"component {at + 1} (eigenvalue {eigenvalue:.6g})", *weight_lines(fields, at)]
        return [*lines, *noise_lines(k, seen), *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return the singular values, 0 where an eigenvalue is negative by noise, and the weights of direction 1."""
        spectrum = spectrum_of(
            [math.sqrt(max(value, 0.0)) for value in fields["eigenvalues"]],
            edge=math.sqrt(max(fields["noise_level"], 0.0)),
            n_kept=len(fields["components"]),
            axis="singular value of the scaled table",
            title="Singular values",
            is_log=False,
        )
        return (spectrum, *loadings_of(fields, fields["n_seen"]))
