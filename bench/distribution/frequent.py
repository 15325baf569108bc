"""Frequent values among very many, beside oracles that estimate all values, and beside PEM of `pure-ldp`.

    OMP_NUM_THREADS=1 python -m bench.distribution.frequent --runs 20

Respondents have values with Zipf's law, numbered at random. Prints JSON: of the ten most frequent values how many are
among the first ten found, and the mean absolute error of these ten shares; for `prefixes` also in how many runs all its
intervals hold. `pure-ldp` is measured where it can be imported, and takes minutes.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.frequencies import estimate
from analyses.distribution.estimates.frequent import PrefixTally, frequent_values
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.prefix_response import PrefixResponse
from dp.local_mechanism.public_choice import PublicChoices
from entropy import InsecureTestEntropy

TOP = 10
EXPONENT = 1.5
SMALL, LARGE = 14, 32
"""Bits of a value: with the fewer of them all values can be looked up."""

Integers = NDArray[np.int64]
Found = Mapping[int, float]


def drawn(n: int, n_bits: int, seed: int) -> tuple[Integers, dict[int, float]]:
    """Return values of n respondents, and the share of each value that somebody has, the most frequent first."""
    rng = np.random.default_rng(seed)
    ranks = np.minimum(rng.zipf(EXPONENT, n), 1 << 12) - 1
    values = rng.choice(1 << n_bits, 1 << 12, replace=n_bits > SMALL)[ranks]
    found, counts = np.unique(values, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return values, dict(zip(found[order].tolist(), (counts[order] / n).tolist(), strict=True))


def by_prefixes(values: Integers, n_bits: int, epsilon: float, run: int) -> tuple[Found, NDArray[np.float64]]:
    """Return the frequent values with their shares, and the intervals of these."""
    mechanism = PrefixResponse((1 << n_bits) + 1, Odds.of_epsilon(epsilon))
    choices = PublicChoices(f"bench {run}".encode(), map(str, range(len(values))))
    tally = PrefixTally(mechanism)
    tally.add(mechanism.respond(values, choices, InsecureTestEntropy(f"bench {run}")), choices)
    found = frequent_values(tally)
    if found is None:
        return {}, np.zeros((0, 2))
    return dict(zip(found.values.tolist(), found.shares[:, 0].tolist(), strict=True)), found.shares[:, 1:]


def by_oracle(mechanism: HashedResponse | DirectResponse, values: Integers, run: int) -> Found:
    """Return the most frequent of all values, by an oracle about all of them."""
    choices = PublicChoices(f"bench {run}".encode(), map(str, range(len(values))))
    responses = mechanism.respond(values, choices, InsecureTestEntropy(f"bench {run}"))
    found = estimate(mechanism, responses, choices).frequencies
    return {int(at): float(found[at]) for at in np.argsort(-found)[:TOP]}


def by_pem(values: Integers, n_bits: int, epsilon: float) -> Found:
    """Return what PEM of `pure-ldp` finds, with prefixes as long as ours."""
    from pure_ldp.frequency_oracles.local_hashing import LHClient
    from pure_ldp.heavy_hitters.prefix_extending import PEMClient, PEMServer

    lengths = {"start_length": 6, "max_string_length": n_bits, "fragment_length": 4}
    client = PEMClient(epsilon, fo_client=LHClient(epsilon, 1 << n_bits, use_olh=True), **lengths)
    server = PEMServer(epsilon, **lengths)
    for value in values.tolist():
        server.aggregate(client.privatise(f"{value:0{n_bits}b}"))
    names, counts = server.find_heavy_hitters(k=TOP)
    return {int(name, 2): count / len(values) for name, count in zip(names, counts, strict=True)}


def scored(found: Found, exact: Mapping[int, float]) -> tuple[float, float]:
    """Return how many of the most frequent values are among the first found, and the mean error of their shares."""
    top, first = list(exact)[:TOP], sorted(found, key=lambda value: -found[value])[:TOP]
    return float(len(set(top) & set(first))), float(np.mean([abs(found.get(v, 0.0) - exact[v]) for v in top]))


def measure(n: int, epsilon: float, runs: int) -> dict[str, Any]:
    """Return the scores of all ways, means over runs; of slow ways one run."""
    odds, rows, held, stated = Odds.of_epsilon(epsilon), {}, 0, 0

    def large(values: Integers, run: int) -> Found:
        nonlocal held, stated
        found, ends = by_prefixes(values, LARGE, epsilon, run)
        truth = np.array([np.mean(values == value) for value in found])
        held += bool(np.all((ends[:, 0] <= truth) & (truth <= ends[:, 1])))
        stated += len(found)
        return found

    ways: dict[str, tuple[int, int, Callable[[Integers, int], Found]]] = {
        f"prefixes, 2^{SMALL}": (SMALL, runs, lambda v, run: by_prefixes(v, SMALL, epsilon, run)[0]),
        f"prefixes, 2^{LARGE}": (LARGE, runs, large),
        f"hashed, all 2^{SMALL}": (
            SMALL,
            1,
            lambda v, run: by_oracle(HashedResponse.of_odds(1 << SMALL, odds), v, run),
        ),
        f"direct, all 2^{SMALL}": (SMALL, runs, lambda v, run: by_oracle(DirectResponse(1 << SMALL, odds), v, run)),
        f"PEM of pure-ldp, 2^{SMALL}": (SMALL, 1, lambda v, run: by_pem(v, SMALL, epsilon)),
    }
    for name, (n_bits, times, way) in ways.items():
        started, scores = time.process_time(), []
        try:
            for run in range(times):
                values, exact = drawn(n, n_bits, run)
                scores.append(scored(way(values, run), exact))
        except ImportError:
            continue
        found, error = np.mean(scores, axis=0)
        seconds = (time.process_time() - started) / times
        rows[name] = {
            "found": float(found),
            "error": float(f"{error:.2g}"),
            "processor_s": round(seconds, 1),
            "runs": times,
        }
    coverage = {"runs_in_which_all_intervals_hold": held, "runs": runs, "values_stated": stated}
    return {"epsilon": epsilon, "respondents": n, "ways": rows, "intervals": coverage}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--respondents", type=int, default=50_000)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    print(json.dumps([measure(options.respondents, epsilon, options.runs) for epsilon in options.epsilon], indent=1))


if __name__ == "__main__":
    main()
