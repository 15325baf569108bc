"""One random program on shares, and a party that runs many of them over gRPC (`bench.circuits.random_programs`).

A program draws three steps, each an operation on what was made before, and opens everything that it made. So each step
is checked by itself, against Python's integers, or against `Fraction` within the error that its docstring states.
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from bench.members import WrongResultError
from mpc.arithmetic.field import ResidueField
from mpc.protocol.computation import Computation
from mpc.protocol.operations.functions import sigmoid_of
from mpc.protocol.shared import SharedArray, stack
from transport.messages.mesh import MeshConfig, join_mesh

FIELD = ResidueField(6)
ROSTERS = [(n, t) for n in range(3, 10) for t in range(1, (n - 1) // 2 + 1)]
SHARES = np.array([n**-3.0 for n, _ in ROSTERS])
"""How often a roster is drawn, in proportion: nine parties take some twenty times as long as three."""
SIZES = range(2, 7)
LARGEST_INPUT = 40
LARGEST = 1 << 24
N_STEPS = 3
SCALE = 6
"""Bits behind the point, where a step takes integers as fractions."""


Integers = Any
"""Python's integers, an array of objects."""


@dataclass(frozen=True)
class Operation:
    """A step.

    Attributes:
        call: what all parties do.
        exact: what it comes to, integers or fractions, element by element.
        bound: of the operands' bounds, what the result does not exceed.
        slip: t to what it is off by less; 0 where it is exact.
    """

    call: Callable[[Computation, SharedArray, SharedArray], Awaitable[SharedArray]]
    exact: Callable[[Integers, Integers], Any]
    bound: Callable[[int, int], int] = lambda x, y: 3 * x + y + 7
    slip: Callable[[int], Fraction] = lambda t: Fraction(0)


async def _multiply(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.multiply(x, y)


async def _local(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return 3 * x - y + 7


async def _not_less(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return 1 - await c.less(x, y)


async def _chosen(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.select(await c.less_equal(x, y), 2 * x, -y)


async def _looked_up(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.lookup(y, await c.low_bits(x, _place_bits(x.size)))


async def _grouped(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return (await c.group_sums(y, await c.low_bits(x, 1), 2))[1] + x * 0


async def _largest_place(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    place, value = await c.argmax(x)
    return value - 2 * place + y


async def _middle(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.median(x) + 3 * await c.count_distinct(y) + x


async def _bits(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return c.from_bits((await c.bits(x, 5))[1:]) - y


async def _multiplied_fractions(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.multiply_fixed(x, y, SCALE)


async def _positive(c: Computation, x: SharedArray) -> SharedArray:
    return await c.low_bits(x, 5) + 1


async def _divided(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.divide(x, await _positive(c, y), SCALE)


async def _inverted(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.reciprocal(await _positive(c, x), SCALE)


async def _root(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.sqrt(await c.low_bits(x, 7), SCALE)


async def _logarithm(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.log(await _positive(c, x), SCALE)


async def _power(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.exp(await c.low_bits(x, 7), SCALE, interval=(0, 2))


async def _odds(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.sigmoid(x, SCALE)


async def _mean(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.mean(x) + y * 0


async def _variance(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.variance(x, 2) + y * 0


def _each(function: Callable[[Decimal], Decimal]) -> Callable[[Integers], Any]:
    """Return a function of fractions of the scale, element by element, in units of the last place."""

    def of(x: int) -> Fraction:
        with localcontext() as context:
            context.prec = 50
            return Fraction(function(Decimal(x) / (1 << SCALE))) * (1 << SCALE)

    return np.frompyfunc(of, 1, 1)


def _place_bits(size: int) -> int:
    """Return of how many bits each number is a place of an array."""
    return size.bit_length() - 1


def _distinct(values: Integers) -> int:
    return len(set(values.tolist()))


def _half_of(t: int) -> Fraction:
    return 1 + Fraction(t, 2)


def _whole_of(t: int) -> Fraction:
    return Fraction(2 + t)


FRACTION = np.frompyfunc(Fraction, 2, 1)

OPERATIONS = {
    "multiply": Operation(_multiply, lambda x, y: x * y, lambda x, y: x * y),
    "local": Operation(_local, lambda x, y: 3 * x - y + 7),
    "equal": Operation(lambda c, x, y: c.equal(x, y), lambda x, y: (x == y) * 1),
    "less": Operation(_not_less, lambda x, y: 1 - (x < y)),
    "select": Operation(_chosen, lambda x, y: np.where(x <= y, 2 * x, -y)),
    "minimum": Operation(lambda c, x, y: c.minimum(x, y), np.minimum),
    "maximum": Operation(lambda c, x, y: c.maximum(x, y), np.maximum),
    "argmax": Operation(_largest_place, lambda x, y: max(x) - 2 * int(np.argmax(x)) + y),
    "floor_shift": Operation(lambda c, x, y: c.floor_shift(x, 3), lambda x, y: x >> 3),
    "low_bits": Operation(lambda c, x, y: c.low_bits(x, 4), lambda x, y: x % 16),
    "bits": Operation(_bits, lambda x, y: (x % 32 >> 1) - y),
    "sort": Operation(lambda c, x, y: c.sort(x), lambda x, y: np.sort(x)),
    "median": Operation(_middle, lambda x, y: sorted(x)[(len(x) - 1) // 2] + 3 * _distinct(y) + x),
    "lookup": Operation(_looked_up, lambda x, y: y[(x % (1 << _place_bits(len(x)))).astype(int)]),
    "group_sums": Operation(_grouped, lambda x, y: x * 0 + y[x % 2 == 1].sum(), lambda x, y: SIZES[-1] * y),
    "multiply_fixed": Operation(
        _multiplied_fractions, lambda x, y: FRACTION(x * y, 1 << SCALE), lambda x, y: x * y, _half_of
    ),
    "truncate": Operation(
        lambda c, x, y: c.truncate(x - y, 3), lambda x, y: FRACTION(x - y, 8), lambda x, y: x + y, _half_of
    ),
    "divide": Operation(
        _divided, lambda x, y: FRACTION(x * (1 << SCALE), y % 32 + 1), lambda x, y: x << SCALE, _whole_of
    ),
    "reciprocal": Operation(_inverted, lambda x, y: FRACTION(1 << 2 * SCALE, x % 32 + 1), slip=_whole_of),
    "sqrt": Operation(_root, lambda x, y: _each(Decimal.sqrt)(x % 128), slip=_whole_of),
    "log": Operation(_logarithm, lambda x, y: _each(Decimal.ln)(x % 32 + 1), slip=lambda t: Fraction(5 + t, 2)),
    "exp": Operation(_power, lambda x, y: _each(Decimal.exp)(x % 128), slip=lambda t: 2 + Fraction(t, 2)),
    "sigmoid": Operation(
        _odds, lambda x, y: _each(lambda z: sigmoid_of(max(Decimal(-200), z)))(x), slip=lambda t: Fraction(5 + t, 2)
    ),
    "mean": Operation(_mean, lambda x, y: x * 0 + Fraction(int(x.sum()), len(x)), slip=lambda t: Fraction(3 + t, 2)),
    "variance": Operation(
        _variance,
        lambda x, y: x * 0 + Fraction(int(len(x) * (x * x).sum() - x.sum() ** 2), len(x) ** 2 * 4),
        lambda x, y: x * x,
        lambda t: Fraction(3 + t, 2),
    ),
}


def roster_of(seed: int) -> tuple[int, int]:
    """Return N and t of a program."""
    return ROSTERS[np.random.default_rng([seed, 2]).choice(len(ROSTERS), p=SHARES / SHARES.sum())]


def inputs_of(seed: int) -> np.ndarray:
    """Return what parties 1 and 2 bring; all know it, to check the answers."""
    size = SIZES[seed % len(SIZES)]
    return np.random.default_rng(seed).integers(-LARGEST_INPUT, LARGEST_INPUT + 1, (2, size))


def steps_of(seed: int) -> list[tuple[str, int, int]]:
    """Return the steps of a program: an operation, and which of what has been made it takes."""
    rng = np.random.default_rng([seed, 1])
    bounds, steps = [LARGEST_INPUT, LARGEST_INPUT], []
    while len(steps) < N_STEPS:
        name = str(rng.choice(list(OPERATIONS)))
        one, other = (int(place) for place in rng.integers(0, len(bounds), 2))
        bound = OPERATIONS[name].bound(bounds[one], bounds[other])
        if bound < LARGEST:
            steps.append((name, one, other))
            bounds.append(max(bound, 1 << 2 * SCALE + 1))
    return steps


async def run(c: Computation, seed: int) -> None:
    """Run one program and check what it opened; to be called by all members.

    Raises:
        WrongResultError: a step came to something else; names it.
        ProtocolError: see the operations.
    """
    brought, steps = inputs_of(seed), steps_of(seed)
    mine = brought[c.me - 1] if c.me in (1, 2) else None
    shape = brought[0].shape
    made = list((await c.inputs({1: shape, 2: shape}, mine, bound=LARGEST_INPUT)).values())
    for name, one, other in steps:
        made.append(await c.reduce(await OPERATIONS[name].call(c, made[one], made[other])))
    opened = await c.open(stack(made), c.members)
    assert opened is not None, "everybody receives"
    values = np.asarray(opened.values).astype(object)
    if not np.array_equal(values[:2], brought):
        raise WrongResultError(f"program {seed}: the inputs came out as others")
    for (name, one, other), found in zip(steps, values[2:], strict=True):
        operation = OPERATIONS[name]
        off = max(abs(found - operation.exact(values[one], values[other])))
        if off and off >= operation.slip(c.t):
            raise WrongResultError(f"program {seed}, {steps}: {name} is off by {float(off):g}")


def counts_of(seeds: range) -> dict[str, int]:
    """Return how often each operation is in some programs."""
    counts = Counter(name for seed in seeds for name, *_ in steps_of(seed))
    return {name: counts[name] for name in OPERATIONS}


async def run_all(config: MeshConfig, first: int, last: int) -> int:
    """Run those of some programs that have as many parties as the mesh; return how many."""
    done = 0
    async with join_mesh(config, program=f"random programs {first} {last}") as session:
        for seed in range(first, last):
            n_parties, t = roster_of(seed)
            if n_parties == len(config.names):
                await run(await Computation.start(session, FIELD, n_parties, t, name=f"program {seed}"), seed)
                done += 1
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--last", type=int, required=True)
    options = parser.parse_args()
    done = asyncio.run(run_all(MeshConfig.load(options.config), options.first, options.last))
    print(json.dumps({"programs": done}))


if __name__ == "__main__":
    main()
