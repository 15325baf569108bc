"""A linear regression as text for people."""

from typing import Any

from analyses.job.text import half_intervals, privacy_lines, table_lines, wrong_share_lines


def coefficient_lines(result: dict[str, Any]) -> list[str]:
    """Return the intercept, the coefficient of each column, the share explained, and what is to be said about them."""
    lines = []
    if result["coefficients"] is not None:
        lines.append(f"{result['label']} = {result['intercept']:.6g} and, per unit of each column,")
        table = {"column": result["features"], "coefficient": result["coefficients"]}
        if errors := result.get("standard_errors"):
            table["+-"] = half_intervals(errors)
        lines += table_lines(table)
        lines += ["+- is half of a 95 % interval"] if errors else []
    if result["r_squared"] is not None:
        interval = result["r_squared_interval"]
        ends = "" if interval is None else f"; 95 % interval {interval[0]:.4g} to {interval[1]:.4g}"
        lines.append(f"share of the variation explained (R^2): {result['r_squared']:.4g}{ends}")
    lines.append(
        f"second moments: smallest eigenvalue {result['smallest_eigenvalue']:.6g}, noise {result['noise_level']:.6g}, "
        f"ridge {result['ridge']:.6g}"
    )
    if result["note"]:
        lines += ["", result["note"]]
    return [*lines, *wrong_share_lines(result), "", *privacy_lines(result)]
