"""Principal components as text for people."""

from typing import Any

from analyses.job.text import privacy_lines, wrong_share_lines

MAX_ENTRIES = 6
"""At most this many columns of a component are printed, those of largest weight; JSON has all of them."""


def pca_lines(result: dict[str, Any]) -> list[str]:
    """Return each component with its variance and its largest weights, and which of them are no more than noise."""
    lines, (k, seen) = [], (len(result["components"]), result["n_above_noise"])
    for number in range(1, k + 1):
        lines += [f"component {number} ({_variance_of(result, number - 1)})", *weight_lines(result, number - 1)]
    if result["left_out"]:
        lines.append(f"left out, as they vary too little to be scaled: {_some(result['left_out'])}")
    return [*lines, *noise_lines(k, seen), *wrong_share_lines(result), "", *privacy_lines(result)]


def component_lines(result: dict[str, Any]) -> list[str]:
    """Return each component of a low-rank approximation, its largest weights, and which are no more than noise."""
    lines = []
    for at, (_, eigenvalue) in enumerate(zip(result["components"], result["eigenvalues"], strict=False)):
        lines += [f"component {at + 1} (eigenvalue {eigenvalue:.6g})", *weight_lines(result, at)]
    noise = noise_lines(len(result["components"]), result["n_seen"])
    return [*lines, *noise, *wrong_share_lines(result), "", *privacy_lines(result)]


def weight_lines(result: dict[str, Any], at: int) -> list[str]:
    """Return the largest weights of one component."""
    entries = sorted(zip(result["components"][at], result["columns"], strict=True), key=lambda entry: -abs(entry[0]))
    lines = [f"  {weight:+.4f}  {column}" for weight, column in entries[:MAX_ENTRIES]]
    return lines + ([f"  and {len(entries) - MAX_ENTRIES} smaller ones"] if len(entries) > MAX_ENTRIES else [])


def noise_lines(n_components: int, n_seen: int) -> list[str]:
    """Return a line that says which components are no more than noise; no line if there are none."""
    if n_seen >= n_components:
        return []
    first = n_seen + 1
    if first == n_components:
        return [f"component {first} is not distinguishable from noise"]
    return [f"components {first} to {n_components} are not distinguishable from noise"]


def _variance_of(result: dict[str, Any], at: int) -> str:
    percent = f"{result['explained_variance_ratio'][at]:.1%}"
    if result["explained_variance"] is None:
        return f"{percent} of the sum of squares"
    found = f"variance {result['explained_variance'][at]:.4g}, {percent} of the whole"
    if result["explained_variance_interval"] is None:
        return found
    low, high = result["explained_variance_interval"][at]
    return f"{found}; 95 % interval {low:.4g} to {high:.4g}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MAX_ENTRIES} more" if len(names) > MAX_ENTRIES else ""
    return ", ".join(names[:MAX_ENTRIES]) + more
