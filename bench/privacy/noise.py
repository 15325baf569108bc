"""Exact noise from a cryptographic key stream, a million values of each kind; one thread.

    python -m bench.privacy.noise --size 1000000

Discrete Laplace and discrete Gaussian noise, and Skellam noise beside NumPy's difference of Poisson numbers. NumPy's is
no alternative: from 1e15 on its variance is wrong (none is shown there), and its generator is not cryptographic. It
shows what exactness costs.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from bench.machine import describe_machine
from bench.protocols.local_gram import medians_s
from dp.draw.noise import sample_discrete_gaussian, sample_discrete_laplace
from dp.draw.skellam import sample_skellam
from entropy import SystemEntropy

MUS = (1 << 3, 1 << 10, 10**6, 1 << 30, 1 << 60, 1 << 71, 1 << 100)
SCALES = (Fraction(1), Fraction(1000), Fraction(10**9))
MAX_NUMPY_MU = 10**15


def measure(mu: int, size: int, repeats: int) -> dict[str, Any]:
    """Return values per second for one parameter; `numpy_per_s` is None where NumPy is wrong."""
    works: list[Callable[[], object]] = [lambda: sample_skellam(SystemEntropy(), mu, size)]
    if mu < MAX_NUMPY_MU:
        rng = np.random.default_rng(0)
        works.append(lambda: rng.poisson(mu, size) - rng.poisson(mu, size))
    ours_s, *numpy_s = medians_s(works, repeats)
    numpy_per_s = size / numpy_s[0] if numpy_s else None
    return {"mu": str(mu), "per_s": size / ours_s, "numpy_per_s": numpy_per_s}


def measure_scales(size: int, repeats: int) -> list[dict[str, Any]]:
    """Return seconds for discrete Laplace noise of some scales and discrete Gaussian noise of the same deviations."""
    rows = []
    for scale in SCALES:
        laplace = partial(sample_discrete_laplace, SystemEntropy(), scale, size)
        gaussian = partial(sample_discrete_gaussian, SystemEntropy(), scale**2, size)
        laplace_s, gaussian_s = medians_s([laplace, gaussian], repeats)
        rows.append({"scale": int(scale), "laplace_s": laplace_s, "gaussian_s": gaussian_s})
    return rows


def as_text(report: dict[str, Any]) -> str:
    """Return the table that people read."""
    lines = [f"{report['size']} Skellam values, millions per second", "    mu   ours  numpy"]
    for row in report["parameters"]:
        numpy_rate = "     -" if row["numpy_per_s"] is None else f"{row['numpy_per_s'] / 1e6:6.1f}"
        lines.append(f"{float(row['mu']):6.0e} {row['per_s'] / 1e6:6.1f} {numpy_rate}")
    lines += [f"{report['size']} values, seconds", "     scale  Laplace  Gaussian"]
    lines += [f"{row['scale']:>10} {row['laplace_s']:8.2f} {row['gaussian_s']:9.2f}" for row in report["scales"]]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    parameters = [measure(mu, options.size, options.repeats) for mu in MUS]
    scales = measure_scales(options.size, options.repeats)
    report = {
        "bench": "noise",
        "size": options.size,
        "parameters": parameters,
        "scales": scales,
        "machine": describe_machine(),
    }
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
