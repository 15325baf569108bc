"""Principal components: the spectrum beside what noise alone shows, and the leading components."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from results.drawing.chart import AnyPanel, Picture, Spectrum
from results.generic.text import closing_lines, some_of
from results.kinds.components import MAX_ENTRIES, ComponentsResult, loadings_of, noise_lines, spectrum_of, weight_lines


class PcaResult(ComponentsResult):
    """Principal components of the joint table, whose columns are scaled by their public bounds."""

    analyses = ("pca",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return each component above the noise, its variance and largest weights, and which are mere noise."""
        lines, (k, seen) = [], (len(fields["components"]), fields["n_above_noise"])
        for at in range(min(k, seen)):
            lines += [f"component {at + 1} ({_variance_of(fields, at)})", *weight_lines(fields, at)]
            if at and (known := fields["explained_variance"]) is not None and known[at] > known[at - 1]:
                lines.append(f"  which of components {at} and {at + 1} has more variance, the noise does not let tell")
        if fields["left_out"]:
            names = some_of(fields["left_out"], MAX_ENTRIES)
            lines.append(f"left out, as they vary too little to be scaled: {names}")
        return [*lines, *noise_lines(k, seen), *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return the eigenvalues per row with the intervals that are stated, and the largest weights of component 1."""
        return (_spectrum(fields), *loadings_of(fields, fields["n_above_noise"]))


def picture_beside(fields: Mapping[str, Any], exact: Sequence[float]) -> Picture:
    """Return the picture with the exact variances beside the private ones, where somebody holds all data."""
    spectrum = _spectrum(fields)
    beside = replace(spectrum, exact=tuple(exact[: len(spectrum.values)]))
    return Picture((beside, *loadings_of(fields, fields["n_above_noise"])))


def _spectrum(fields: Mapping[str, Any]) -> Spectrum:
    per_row = fields["n_rows"] or 1.0
    name = "variance along the component" if fields["center"] else "sum of squares along the component"
    if fields["scaled"]:
        name += ", columns scaled to variance 1"
    intervals = [ends and tuple(ends) for ends in fields["explained_variance_interval"] or ()]
    return spectrum_of(
        [value / per_row for value in fields["eigenvalues"]],
        edge=fields["noise_edge"] / per_row,
        n_kept=len(fields["components"]),
        estimates=fields["explained_variance"] or () if intervals else (),
        intervals=intervals,
        axis=name,
        title="Variance of the principal components" if fields["center"] else "Spectrum",
    )


def _variance_of(fields: Mapping[str, Any], at: int) -> str:
    percent = f"{fields['explained_variance_ratio'][at]:.1%}"
    if fields["explained_variance"] is None:
        return f"{percent} of the sum of squares"
    found = f"variance {fields['explained_variance'][at]:.4g}, {percent} of the whole"
    if fields["explained_variance_interval"] is None:
        return found
    if (ends := fields["explained_variance_interval"][at]) is None:
        return f"{found}; no interval is known, as it is close to the noise or to another component"
    low, high = ends
    return f"{found}; 95 % interval {low:.4g} to {high:.4g}"
