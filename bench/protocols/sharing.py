"""Dealing, checking, adding and opening packed shares, one thread; the float64 sum of two arrays as the yardstick.

    python -m bench.protocols.sharing [--elements 1000000] [--primes 3] [--repeats 15] [--galois] [--format text|json]

With --galois also what a program with compiled `galois` arrays does, one per prime: a + b, a * b, and Shamir shares by
evaluating polynomials whose coefficients are drawn by `GF.Random`, which is not cryptographic.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from bench.machine import describe_machine
from bench.protocols.local_gram import medians_s
from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.opening import open_shares
from mpc.arithmetic.shamir import ShamirScheme

ROSTERS = ((3, 1), (5, 2), (7, 3))


def measure(n_elements: int, n_primes: int, repeats: int, *, with_galois: bool = False) -> list[dict[str, Any]]:
    """Measure every step; `ratio_to_float64_add` compares with `a + b` of as many float64 numbers, into a new array."""
    field = ResidueField(n_primes)
    key = InsecureTestEntropy("sharing").read(32)
    values = np.random.default_rng(1).integers(-(2**20) + 5, 2**20 - 5, n_elements)
    secret = field.encode(values)
    floats = values.astype(np.float64)
    steps: dict[str, Callable[[], object]] = {
        "float64 add": lambda: floats + floats,
        "encode": lambda: field.encode(values),
        "decode": lambda: field.decode(secret),
        "check": lambda: field.check(secret),
        "random": lambda: field.random(KeyStream(key), n_elements),
        "add": lambda: field.add(secret, secret),
        "multiply": lambda: field.multiply(secret, secret),
    }
    for n_parties, t in ROSTERS:
        scheme = ShamirScheme(field, n_parties, t)
        all_shares = deal(scheme, secret, key)
        some_shares = {number: all_shares[number] for number in range(1, t + 2)}
        name = f"N={n_parties} t={t}"
        steps[f"deal {name}"] = lambda scheme=scheme: deal(scheme, secret, key)
        steps[f"recombine {name}"] = lambda scheme=scheme, shares=some_shares: scheme.recombine(shares)
        steps[f"open and check all {name}"] = lambda t=t, shares=all_shares: open_shares(shares, t, field)
    if with_galois:
        steps |= galois_steps(field, secret)
    medians = medians_s(list(steps.values()), repeats)
    return [
        {
            "step": step,
            "elements": n_elements,
            "primes": n_primes,
            "ms": 1e3 * s,
            "ratio_to_float64_add": s / medians[0],
        }
        for step, s in zip(steps, medians, strict=True)
    ]


def deal(scheme: ShamirScheme, secret: np.ndarray, key: bytes) -> dict[int, np.ndarray]:
    """Deal as party 1, the derivation of the pairwise shares included."""
    derived = {
        receiver: scheme.field.random(KeyStream(key, receiver), secret.shape[1:])
        for receiver in scheme.derived_receivers(1)
    }
    return derived | scheme.deal(1, secret, derived)


def galois_steps(field: ResidueField, secret: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return the same with `galois` arrays, compiled."""
    import galois

    fields = [galois.GF(p) for p in field.primes]
    arrays = [gf(values) for gf, values in zip(fields, field.residues(secret), strict=True)]

    def evaluate(n_parties: int, t: int) -> list[list[Any]]:
        shares = []
        for gf, array in zip(fields, arrays, strict=True):
            coefficients = [gf.Random(array.shape) for _ in range(t)]
            of_prime = []
            for x in range(1, n_parties + 1):
                share = coefficients[-1]
                for coefficient in (*coefficients[-2::-1], array):
                    share = share * gf(x) + coefficient
                of_prime.append(share)
            shares.append(of_prime)
        return shares

    steps: dict[str, Callable[[], object]] = {
        "add, galois": lambda: [array + array for array in arrays],
        "multiply, galois": lambda: [array * array for array in arrays],
    }
    for n_parties, t in ROSTERS:
        steps[f"deal N={n_parties} t={t}, galois"] = lambda n_parties=n_parties, t=t: evaluate(n_parties, t)
    small = [array[:8] for array in arrays]
    for array in small:
        array * array + array  # compiles
    return steps


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--primes", type=int, default=3, help="1 to 6: 21 bits each")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--galois", action="store_true", help="also with galois arrays")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(argv)
    measured = measure(options.elements, options.primes, options.repeats, with_galois=options.galois)
    if options.format == "json":
        print(json.dumps({"machine": describe_machine(), "sharing": measured}, indent=2))
        return 0
    for row in measured:
        print(f"{row['step']:<30} {row['ms']:9.2f} ms  {row['ratio_to_float64_add']:7.1f} times a float64 sum")
    return 0


if __name__ == "__main__":
    sys.exit(main())
