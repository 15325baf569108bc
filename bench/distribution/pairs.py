"""Rectangles over two numbers from a grid, beside two surveys about one number each, and beside other grids.

    OMP_NUM_THREADS=1 python -m bench.distribution.pairs

Workers of the CPS (`cpssw8`): age or years of education, and hourly wage. Each respondent answers once, at epsilon. Of
two surveys half of the respondents answer each, by a square wave about 256 buckets, and numbers are taken to be
independent: the share of a rectangle is the product of two. That has a bias that more respondents do not take away,
`margins` here: the product of the exact shares. Prints JSON: mean absolute error of the shares of 200 rectangles with
random ends, and the part of the grid's 95 % intervals that hold the share in all who might be asked.
"""

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.estimate import estimated
from analyses.distribution.estimates.tally import tally_of
from analyses.distribution.inquiry import DistributionParams, Inquiry
from analyses.distribution.methods import takes_choices
from analyses.distribution.pairs import Rectangle, usual_parts
from bench.datasets.bundled import read
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy

Floats = NDArray[np.float64]

RANGES = {"age": (20.0, 65.0), "education": (5.0, 21.0), "earnings": (0.0, 80.0)}
N_RECTANGLES = 200


def population(name: str) -> Floats:
    """Return both numbers of all workers, shape (workers, 2)."""
    return read("cpssw8").select(name, "earnings").to_numpy().astype(np.float64)


def rectangles_of(name: str) -> list[Rectangle]:
    """Return rectangles with random ends."""
    rng = np.random.default_rng(5)
    first, second = (
        np.sort(rng.uniform(*RANGES[one], (N_RECTANGLES, 2)), axis=1).tolist() for one in (name, "earnings")
    )
    return [(a, b, c, d) for (a, b), (c, d) in zip(first, second, strict=True)]


def share_in(values: Floats, rectangles: list[Rectangle]) -> tuple[Floats, Floats]:
    """Return the exact share of each rectangle, and the product of those of its sides."""
    sides = [
        [(values[:, at] >= one[2 * at]) & (values[:, at] < one[2 * at + 1]) for one in rectangles] for at in (0, 1)
    ]
    both = np.array([np.mean(a & b) for a, b in zip(*sides, strict=True)])
    return both, np.array([np.mean(a) * np.mean(b) for a, b in zip(*sides, strict=True)])


def found_by(inquiry: Inquiry, values: Floats, seed: str) -> dict[str, Any]:
    """Return the result of a survey of these respondents."""
    mechanism, inputs, source = inquiry.response, inquiry.inputs_of(values)[0], InsecureTestEntropy(seed)
    tally = tally_of(mechanism)
    if isinstance(mechanism, Wave):
        tally.add(mechanism.respond(inputs, source))
    else:
        choices = PublicChoices(seed.encode(), map(str, range(len(values))))
        responses = mechanism.respond(inputs, choices, source)  # type: ignore[call-arg]
        tally.add(responses, choices if takes_choices(mechanism) else None)
    return estimated(inquiry, tally)


def measure(name: str, epsilon: float, n: int, grids: list[int], runs: int) -> Iterator[dict[str, Any]]:
    """Yield the errors of all ways."""
    everybody, asked = population(name), rectangles_of(name)
    exact, product = share_in(everybody, asked)
    odds = Odds.of_epsilon(epsilon)
    usual = usual_parts(odds, n)
    common = {"numbers": f"{name} x earnings", "epsilon": epsilon, "respondents": n, "runs": runs}
    yield {**common, "way": "margins", "error": float(np.abs(product - exact).mean())}
    alone = [Inquiry(DistributionParams(range=RANGES[one]), odds.favoured) for one in (name, "earnings")]
    for parts in [0, *sorted({usual, *grids})]:
        errors, held, started_s = [], [], time.process_time()
        for run in range(runs):
            values = everybody[np.random.default_rng(run).integers(0, len(everybody), n)]
            if parts == 0:
                sides = [found_by(alone[at], values[at::2, at], f"{run} {at}")["probabilities"] for at in (0, 1)]
                shares = np.prod([_ranges(np.array(side), at, asked, name) for at, side in enumerate(sides)], axis=0)
            else:
                params = DistributionParams(
                    range=RANGES[name],
                    second=RANGES["earnings"],
                    cells=(parts, parts),
                    method="grid",
                    rectangles=asked[:64],
                )
                inquiry = Inquiry(params, odds.favoured)
                grid = found_by(inquiry, values, f"{run}")["grid"]
                cells = np.array(grid["cells"], dtype=np.float64)[..., 0].ravel()
                shares = np.array([params.pairs.covered(one).evenly for one in asked]) @ cells
                stated = np.array(grid["rectangles"], dtype=np.float64)
                held += [(stated[:, 6] <= exact[:64]) & (exact[:64] <= stated[:, 7])]
            errors.append(np.abs(shares - exact).mean())
        way = "two surveys" if parts == 0 else f"grid of {parts} x {parts}" + " (by default)" * (parts == usual)
        yield {
            **common,
            "way": way,
            "error": float(np.mean(errors)),
            **({"intervals_that_hold": float(np.mean(held))} if held else {}),
            "processor_s": (time.process_time() - started_s) / runs,
        }


def _ranges(probabilities: Floats, at: int, rectangles: list[Rectangle], name: str) -> Floats:
    lower, upper = RANGES[(name, "earnings")[at]]
    cumulative = np.concatenate([[0.0], np.cumsum(probabilities)])
    edges = np.linspace(lower, upper, len(cumulative))
    start, end = (np.interp([one[2 * at + side] for one in rectangles], edges, cumulative) for side in (0, 1))
    found: Floats = end - start
    return found


def main() -> None:
    """Measure and print, a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", nargs="+", default=["age", "education"], choices=["age", "education"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--respondents", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--grids", type=int, nargs="*", default=[2, 3, 4, 6, 8, 12, 16])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    for name in options.numbers:
        for epsilon in options.epsilon:
            for n in options.respondents:
                for line in measure(name, epsilon, n, options.grids, options.runs):
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
