"""Releases counts and sums by OpenDP, in its own environment: called by `bench.analyses.rivals`.

    python opendp_releases.py FOLDER

FOLDER holds `asked.json`, a list of {name, kind, size, epsilon, delta, runs}, and `values.npz`: of each name a whole
number per record. Kind `counts`: how many records have each of the numbers 0 .. size - 1. Kind `sum`: the sum of the
numbers, clamped to 0 .. size. Writes `released.npz`: for each place in the list, `<place> laplace` and
`<place> gaussian`, shape (runs, entries): discrete Laplace noise for epsilon alone, discrete Gaussian noise for epsilon
and delta. Adding or removing one record, as the library's symmetric distance of 1 says; it finds the scale itself.
"""

import json
import sys
from pathlib import Path

import numpy as np
import opendp.prelude as dp

dp.enable_features("contrib")

RECORDS = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()


def query(kind, size, distance):
    """Return the transformation from records to the exact answer."""
    if kind == "counts":
        codes = list(range(size))
        return RECORDS >> dp.t.then_count_by_categories(categories=codes, null_category=False, MO=distance)
    return RECORDS >> dp.t.then_clamp((0, size)) >> dp.t.then_sum()


def laplace(asked):
    """Return exact answer and noise, discrete Laplace of the least scale."""
    exact, bounds = query(asked["kind"], asked["size"], dp.L1Distance["i64"]), of_scales(asked)

    def meets(scale):
        return (exact >> dp.m.then_laplace(scale)).check(1, asked["epsilon"])

    return exact, dp.m.make_laplace(*exact.output_space, dp.binary_search(meets, bounds))


def gaussian(asked):
    """Return exact answer and noise, discrete Gaussian of the least scale."""
    exact, bounds = query(asked["kind"], asked["size"], dp.L2Distance[float]), of_scales(asked)

    def meets(scale):
        measurement = dp.c.make_zCDP_to_approxDP(exact >> dp.m.then_gaussian(scale))
        return dp.c.make_fix_delta(measurement, delta=asked["delta"]).check(1, (asked["epsilon"], asked["delta"]))

    return exact, dp.m.make_gaussian(*exact.output_space, dp.binary_search(meets, bounds))


def of_scales(asked):
    """Return bounds of the scale to search: the library's own search for them takes minutes."""
    moved = 1.0 if asked["kind"] == "counts" else float(asked["size"])
    return 0.2 * moved / asked["epsilon"], 40 * moved / asked["epsilon"]


def main():
    """Answer what is asked."""
    folder = Path(sys.argv[1])
    values, released = np.load(folder / "values.npz"), {}
    for index, asked in enumerate(json.loads((folder / "asked.json").read_text())):
        records = values[asked["name"]].tolist()
        for name, make in (("laplace", laplace), ("gaussian", gaussian)):
            exact, noise = make(asked)
            answer = exact(records)  # once: the noise is drawn anew in each run
            released[f"{index} {name}"] = np.array([np.atleast_1d(noise(answer)) for _ in range(asked["runs"])])
    np.savez(folder / "released.npz", **released)


main()
