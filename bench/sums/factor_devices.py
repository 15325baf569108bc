"""A matrix factorization over a thousand devices of which a fifth vanishes in each round: what noise is left.

    python -m bench.sums.factor_devices                              1,000 devices, offsets of 1,682 items
    python -m bench.sums.factor_devices --repeats 5 --draws 40
    python -m bench.sums.factor_devices --devices 200 --rank 2 --rounds 2

All members and the coordinator are the real machines of `mpc.secagg` in one process, with all masks; the devices'
vectors and noise are those of `device.factors`, and each round starts from the model that the one before it led to.
Those who vanish are drawn anew for each round; they have shared keys, and their vector never arrives.

What is left of the noise is the opened sum, surplus removed, less the sum of the survivors' vectors: integers, and
exact, as a device rounds its vector before it adds noise. Of L numbers with the variance v = 2 mu s / level of the law,
the mean square over v is 1 with a standard error of sqrt((2 + 1 / v) / L): 2 is what a normal variable has, and a
Skellam variable has an excess kurtosis of 1 / v. `--draws` repeats the noise of as many survivors, drawn and removed by
the same functions, without the masks, which takes a fraction of the time: so the error is as small as one likes.
"""

import argparse
import json
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.ratings import digest_of_items
from analyses.matrix_factorization.devices.planned import factor_round_config, rounds_of
from analyses.matrix_factorization.devices.question import NAME, FactorQuestion
from analyses.matrix_factorization.devices.record import DeclaredRatings, UsedRatings, device_vector
from analyses.matrix_factorization.devices.statistics_rounds import PRIOR
from analyses.matrix_factorization.horizontal import Estimates, HorizontalRounds
from analyses.matrix_factorization.in_process import with_noise
from analyses.sums.noise import SumNoise
from bench.machine import describe_machine
from entropy import SystemEntropy
from mpc.secagg.secret.keys import IdentityKey
from mpc.secagg.simulation import run_locally
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId

Integers = NDArray[np.int64]

N_DEVICES, N_ITEMS, PER_USER, BOUNDS = 1000, 1682, 100, (1.0, 5.0)
VANISHING, COLLUDING = 0.2, 0.1
EPSILON, DELTA = 4.0, 1e-6


def question_of(options: argparse.Namespace) -> FactorQuestion:
    """Return what is asked."""
    return FactorQuestion.model_validate(
        {
            "analysis": NAME,
            "record": "films",
            "items": options.items,
            "items_digest": digest_of_items(options.items),
            "ratings_per_user": min(PER_USER, options.items),
            "lower": BOUNDS[0],
            "upper": BOUNDS[1],
            "rank": options.rank,
            "rounds": options.rounds if options.rank else None,
            "colluding": int(COLLUDING * options.devices),
            "vanishing": int(VANISHING * options.devices),
            "privacy": {"epsilon": EPSILON, "delta": DELTA},
        }
    )


def made_up_ratings(n_devices: int, n_items: int, rng: np.random.Generator) -> list[UsedRatings]:
    """Return each device's ratings of distinct items."""
    most = min(PER_USER, n_items)
    return [
        UsedRatings(
            np.sort(rng.choice(n_items, rng.integers(1, most + 1), replace=False)).astype(np.int64), np.zeros(0)
        )
        for _ in range(n_devices)
    ]


def with_values(rated: Sequence[UsedRatings], rng: np.random.Generator) -> list[UsedRatings]:
    """Return the same with ratings."""
    lower, upper = BOUNDS
    return [UsedRatings(one.places, rng.uniform(lower, upper, len(one.places))) for one in rated]


def ratio(left: Integers, variance: float) -> dict[str, float]:
    """Return the mean square of what is left of the noise over its variance, and how far that is from 1."""
    found = float(np.mean(left.astype(np.float64) ** 2) / variance)
    error = math.sqrt((2 + 1 / variance) / len(left))
    return {"of_the_intended": found, "standard_error": error, "standard_errors_from_1": (found - 1) / error}


def series(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return what one series of rounds came to."""
    rng, question, entropy = np.random.default_rng(seed), question_of(options), SystemEntropy()
    names = [f"device-{i:04}" for i in range(1, options.devices + 1)]
    keys = {i: IdentityKey(entropy) for i in range(1, len(names) + 1)}
    identities = {name: keys[i].public_bytes for i, name in enumerate(names, start=1)}
    rounds, declared = rounds_of(question, len(names)), DeclaredRatings(options.items, *BOUNDS, most=options.items)
    held = with_values(made_up_ratings(len(names), options.items, rng), rng)
    improved = HorizontalRounds(rounds.plan, Estimates(PRIOR))
    found: list[dict[str, Any]] = []
    for number in range(rounds.n_rounds):
        noise, model = rounds.noise(number), improved.model
        vectors: dict[int, Integers] = {}

        def values_of(member: int, number: int = number, vectors: dict[int, Integers] = vectors) -> Integers:
            vectors[member] = device_vector(rounds, number, improved.model, declared, held[member - 1])
            return vectors[member]

        vanishing = rng.choice(len(names), question.vanishing, replace=False) + 1
        begun_s, begun_processor_s = time.monotonic(), time.process_time()
        opened = run_locally(
            factor_round_config(rounds, RoundId(f"bench-{seed}", number, 0), identities),
            values_of,
            keys,
            lambda member: entropy,
            public_input=rounds.public_input(number, model),
            noise_of=lambda member, seeds, noise=noise: noise.draw(entropy, seeds),  # type: ignore[misc]
            dropouts=dict.fromkeys(map(int, vanishing), Stage.MASK),
        )
        kept = np.asarray(noise.remove_surplus(opened).integers(), dtype=np.int64)
        survivors = opened.survivors
        found.append(
            {
                "survivors": len(survivors),
                "numbers": noise.length,
                "degree": rounds.topology.degree,
                "level": max(level for level in noise.levels if level <= len(survivors)),
                "standard_deviation": math.sqrt(noise.variance(len(survivors))),
                **ratio(kept - np.sum([vectors[i] for i in survivors], axis=0), float(noise.variance(len(survivors)))),
                "seconds": time.monotonic() - begun_s,
                "processor_s": time.process_time() - begun_processor_s,
            }
        )
        improved.improve(kept)
    return {"seed": seed, "rounds": found}


def drawn(noise: SumNoise, n_survivors: int, n_draws: int) -> dict[str, Any]:
    """Return the same ratio for noise that so many survivors have drawn and removed again, without masks."""
    entropy, nothing = SystemEntropy(), np.zeros(noise.length, dtype=np.int64)
    begun_s = time.process_time()
    left = [with_noise(noise, nothing, range(n_survivors), entropy) for _ in range(n_draws)]
    spent_s = time.process_time() - begun_s
    return {
        "draws": n_draws,
        "survivors": n_survivors,
        "kept_part": float(noise.kept_part(n_survivors)),
        **ratio(np.concatenate(left), float(noise.variance(n_survivors))),
        "processor_s": spent_s,
    }


def main() -> None:
    """Measure and print the report as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.sums.factor_devices",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--devices", type=int, default=N_DEVICES)
    parser.add_argument("--items", type=int, default=N_ITEMS)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2, help="after the first one, where the rank is positive")
    parser.add_argument("--repeats", type=int, default=1, help="series, with all masks")
    parser.add_argument("--draws", type=int, default=10, help="of the noise alone")
    parser.add_argument("--seed", type=int, default=1, help="of the ratings, and of who vanishes")
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": describe_machine(), "devices": options.devices}
    report["series"] = [series(options, options.seed + i) for i in range(options.repeats)]
    rounds = rounds_of(question_of(options), options.devices)
    fewest = rounds.topology.fewest_survivors
    if options.draws:
        report["draws"] = [drawn(rounds.noise(0), n, options.draws) for n in (fewest, fewest + 1, options.devices)]
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
